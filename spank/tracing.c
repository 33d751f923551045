#include "tracing.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "library.h"
#include "preload.h"
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

/* Where it would be. */
static void name_library(const char *given, const char *name, char *path, size_t size)
{
	struct stat stat;

	snprintf(path, size, "%s", given);
	if (lstat(path, &stat) == 0 && S_ISDIR(stat.st_mode))
		snprintf(path, size, "%s/%s", given, name);
}

int st_library_find(const char *given, const char *name, char *path, size_t size, struct st_why *why)
{
	name_library(given, name, path, size);
	return st_library_check(path, why);
}

/* With the libraries beside it, one of which it loads into a program of that MPI. */
static int find_tracer(const struct st_args *args, char *path, size_t size, struct st_why *why)
{
	static const char *const kinds[] = { "openmpi", "mpich" };
	char other[PATH_MAX + 48];
	size_t stem;

	if (!args->tracer)
		return st_why_set(why, "tracer= is not set in plugstack.conf");
	if (st_library_find(args->tracer, ST_PRELOAD_TRACE, path, size, why) < 0)
		return -1;
	stem = strlen(path) > 3 ? strlen(path) - 3 : 0;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		snprintf(other, sizeof(other), "%.*s_%s.so", (int)stem, path, kinds[i]);
		if (access(other, F_OK) == 0 && st_library_check(other, why) < 0)
			return -1;
	}
	return 0;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* `before`: the list without the file that is to be added or dropped. */
static int read_preload(spank_t spank, const char *name, char *rest, size_t size)
{
	static char before[PRELOAD_MAX];
	spank_err_t found = spank_getenv(spank, "LD_PRELOAD", before, sizeof(before));

	rest[0] = '\0';
	if (found == ESPANK_ENV_NOEXIST)
		return 0;
	/* Longer than we keep, or than there is room for. */
	return found == ESPANK_SUCCESS && st_preload_drop(before, name, rest, size) ? 0 : -1;
}

int st_task_preload(spank_t spank, const char *path, struct st_why *why)
{
	static char rest[PRELOAD_MAX], after[PRELOAD_MAX + PATH_MAX + 64];

	if (read_preload(spank, base_name(path), rest, sizeof(rest)) < 0)
		return st_why_set(why, "tracer: LD_PRELOAD is too long");
	snprintf(after, sizeof(after), "%s%s%s", path, rest[0] ? ":" : "", rest);
	if (spank_setenv(spank, "LD_PRELOAD", after, 1) != ESPANK_SUCCESS)
		return st_why_set(why, "tracer: LD_PRELOAD cannot be set");
	return 0;
}

void st_task_unload(spank_t spank, const char *name)
{
	static char rest[PRELOAD_MAX];

	if (read_preload(spank, name, rest, sizeof(rest)) < 0)
		return;
	if (rest[0])
		spank_setenv(spank, "LD_PRELOAD", rest, 1);
	else
		spank_unsetenv(spank, "LD_PRELOAD");
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

/* A program whose address sanitizer is a shared library ends when another library comes before it, unless told not to. */
static void allow_link_order(spank_t spank)
{
	static const char option[] = "verify_asan_link_order";
	char before[1024] = "", after[sizeof(before) + sizeof(option) + 8];
	spank_err_t found = spank_getenv(spank, "ASAN_OPTIONS", before, sizeof(before));

	if ((found != ESPANK_SUCCESS && found != ESPANK_ENV_NOEXIST) || strstr(before, option))
		return;
	snprintf(after, sizeof(after), "%s%s%s=0", before, before[0] ? ":" : "", option);
	spank_setenv(spank, "ASAN_OPTIONS", after, 1);
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
	if (st_task_preload(spank, tracer, why) < 0)
		return -1;
	allow_link_order(spank);
	return 0;
}

void st_trace_leave(spank_t spank, const struct st_args *args)
{
	char tracer[PATH_MAX + 32];

	spank_unsetenv(spank, "SLURM_TOPO_JOB_COUNTERS");
	if (!args->tracer)
		return;
	/* Also where it cannot be loaded any more: all the more then. */
	name_library(args->tracer, ST_PRELOAD_TRACE, tracer, sizeof(tracer));
	st_task_unload(spank, base_name(tracer));
}
