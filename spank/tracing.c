#include "tracing.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "spool.h"

#define PRELOAD_MAX 32768

/* Step numbers that mean something else, the same in all releases since 20.11. */
#define STEP_BATCH UINT32_C(0xfffffffb)
#define STEP_LAST_PLAIN UINT32_C(0xfffffff0)

bool st_step_name(uint32_t step, char *name, size_t size)
{
	if (step == STEP_BATCH)
		snprintf(name, size, "batch");
	else if (step < STEP_LAST_PLAIN)
		snprintf(name, size, "%u", step);
	else
		return false;
	return true;
}

/* The tracer's file: the argument itself, or the library in the folder that it names. */
static int find_tracer(const struct st_args *args, char *path, size_t size, struct st_why *why)
{
	struct stat stat;

	if (!args->tracer)
		return st_why_set(why, "tracer= is not set in plugstack.conf");
	snprintf(path, size, "%s", args->tracer);
	if (lstat(path, &stat) == 0 && S_ISDIR(stat.st_mode))
		snprintf(path, size, "%s/libslurm_topo_trace.so", args->tracer);
	/* ld.so complains on the user's terminal about what it cannot preload. */
	if (access(path, R_OK) < 0)
		return st_why_set(why, "tracer: %.120s cannot be read", path);
	return 0;
}

/* Copies a list of LD_PRELOAD without the tracer, whatever separates its items; false where it has no room. */
static bool copy_without(const char *list, const char *tracer, char *into, size_t size)
{
	size_t used = 0;

	into[0] = '\0';
	while (*list) {
		size_t len = strcspn(list, ": ");

		if (len && (len != strlen(tracer) || strncmp(list, tracer, len))) {
			if (used + len + 2 > size)
				return false;
			if (used)
				into[used++] = ':';
			memcpy(into + used, list, len);
			used += len;
			into[used] = '\0';
		}
		list += len + (list[len] != '\0');
	}
	return true;
}

/* LD_PRELOAD with the tracer in front of what the user has there; without it where `add` is false. */
static int set_preload(spank_t spank, const char *tracer, bool add, struct st_why *why)
{
	static char before[PRELOAD_MAX], rest[PRELOAD_MAX], after[PRELOAD_MAX + PATH_MAX];
	spank_err_t found = spank_getenv(spank, "LD_PRELOAD", before, sizeof(before));

	if (found == ESPANK_ENV_NOEXIST)
		before[0] = '\0';
	else if (found != ESPANK_SUCCESS)
		return st_why_set(why, "tracer: LD_PRELOAD is too long");
	if (!copy_without(before, tracer, rest, sizeof(rest)))
		return st_why_set(why, "tracer: LD_PRELOAD is too long");
	if (!add && !rest[0])
		return spank_unsetenv(spank, "LD_PRELOAD") == ESPANK_SUCCESS ? 0 : -1;
	snprintf(after, sizeof(after), "%s%s%s", add ? tracer : "", add && rest[0] ? ":" : "", rest);
	if (spank_setenv(spank, "LD_PRELOAD", after, 1) != ESPANK_SUCCESS)
		return st_why_set(why, "tracer: LD_PRELOAD cannot be set");
	return 0;
}

/* The folder <local_dir>/slurm-topo-<uid>/<job>.<step>, its path in `path`. */
static int make_folder(const struct st_args *args, const char *name, char *path, size_t size, struct st_why *why)
{
	char user[48];
	struct st_why inner;
	int top = open(args->local_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), mine = -1, step = -1;

	if (top < 0)
		return st_why_set(why, "tracer: %.120s cannot be opened", args->local_dir);
	snprintf(user, sizeof(user), "slurm-topo-%lu", (unsigned long)geteuid());
	mine = st_folder_open(top, user, true, &inner);
	if (mine >= 0)
		step = st_folder_open(mine, name, true, &inner);
	if (step < 0)
		st_why_set(why, "tracer: %.50s/%.80s", args->local_dir, inner.text);
	else
		close(step);
	if (mine >= 0)
		close(mine);
	close(top);
	snprintf(path, size, "%s/%s/%s", args->local_dir, user, name);
	return step < 0 ? -1 : 0;
}

int st_trace_enter(spank_t spank, const struct st_args *args, uint32_t job, const char *step, struct st_why *why)
{
	char tracer[PATH_MAX + 32], name[48], path[PATH_MAX + 128];

	if (find_tracer(args, tracer, sizeof(tracer), why) < 0)
		return -1;
	snprintf(name, sizeof(name), "%u.%s", job, step);
	if (make_folder(args, name, path, sizeof(path), why) < 0)
		return -1;
	if (spank_setenv(spank, "SLURM_TOPO_JOB_COUNTERS", path, 1) != ESPANK_SUCCESS)
		return st_why_set(why, "tracer: its variables cannot be set");
	return set_preload(spank, tracer, true, why);
}

void st_trace_leave(spank_t spank, const struct st_args *args)
{
	char tracer[PATH_MAX + 32];
	struct st_why ignored;

	spank_unsetenv(spank, "SLURM_TOPO_JOB_COUNTERS");
	if (args->tracer && find_tracer(args, tracer, sizeof(tracer), &ignored) == 0)
		set_preload(spank, tracer, false, &ignored);
}
