/* slurmstepd, after the last task: one file of all counters of this node, made with the rights of the user. */
#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "collect.h"
#include "context.h"
#include "spool.h"
#include "tracing.h"

struct step {
	uid_t uid;
	gid_t gid;
	uint32_t job, nodes;
	char name[16];
	char node[256];
	char keys[128];
	char plan[1024];
	gid_t *groups;
	int group_count;
	pid_t child; /* that works for it, or has */
};

static int64_t started_ns;

void st_step_begin(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	started_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static bool is_traced(spank_t spank)
{
	char traced[8] = "";

	return spank_getenv(spank, "SLURM_TOPO_JOB_TRACE", traced, sizeof(traced)) == ESPANK_SUCCESS &&
	       !strcmp(traced, "1");
}

static void read_text(spank_t spank, const char *name, char *text, size_t size)
{
	if (spank_getenv(spank, name, text, (int)size) != ESPANK_SUCCESS)
		text[0] = '\0';
}

static bool read_step(spank_t spank, struct step *step)
{
	uint32_t number;

	if (spank_get_item(spank, S_JOB_ID, &step->job) != ESPANK_SUCCESS ||
	    spank_get_item(spank, S_JOB_STEPID, &number) != ESPANK_SUCCESS ||
	    spank_get_item(spank, S_JOB_UID, &step->uid) != ESPANK_SUCCESS ||
	    spank_get_item(spank, S_JOB_GID, &step->gid) != ESPANK_SUCCESS ||
	    spank_get_item(spank, S_JOB_NNODES, &step->nodes) != ESPANK_SUCCESS)
		return false;
	read_text(spank, "SLURM_TOPO_JOB_KEYS", step->keys, sizeof(step->keys));
	read_text(spank, "SLURM_TOPO_JOB_PLAN", step->plan, sizeof(step->plan));
	read_text(spank, "SLURMD_NODENAME", step->node, sizeof(step->node));
	if (!step->node[0]) {
		gethostname(step->node, sizeof(step->node) - 1);
		step->node[strcspn(step->node, ".")] = '\0';
	}
	if (spank_get_item(spank, S_JOB_SUPPLEMENTARY_GIDS, &step->groups, &step->group_count) != ESPANK_SUCCESS)
		step->group_count = 0;
	return st_step_name(number, step->name, sizeof(step->name)) && step->node[0] != '.' &&
	       !strchr(step->node, '/');
}

/* For good: the saved ids go too, so there is no way back. */
static int give_up_rights(const struct step *step)
{
	size_t count = step->group_count > 0 ? (size_t)step->group_count : 0;

	if (geteuid() == 0 && setgroups(count, step->groups) < 0)
		return -1;
	if (setresgid(step->gid, step->gid, step->gid) < 0 || setresuid(step->uid, step->uid, step->uid) < 0)
		return -1;
	if (step->uid != 0 && setuid(0) == 0)
		return -1;
	return geteuid() == step->uid && getegid() == step->gid ? 0 : -1;
}

/* The folder of the counters, opened by the same rules by which it was made. -1 where there is none. */
static int open_counters(const struct st_args *args, const struct step *step, char *path, size_t size)
{
	char user[48], name[48];
	struct st_why ignored;
	int top = open(args->local_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), mine = -1, folder = -1;

	snprintf(user, sizeof(user), "slurm-topo-%lu", (unsigned long)step->uid);
	snprintf(name, sizeof(name), "%u.%s", step->job, step->name);
	snprintf(path, size, "%s/%s/%s", args->local_dir, user, name);
	if (top >= 0)
		mine = st_folder_open(top, user, false, &ignored);
	if (mine >= 0)
		folder = st_folder_open(mine, name, false, &ignored);
	if (mine >= 0)
		close(mine);
	if (top >= 0)
		close(top);
	return folder;
}

/* Where the trace of this node and step goes. */
static int trace_path(const struct st_args *args, const struct step *step, char *path, size_t size)
{
	int n = snprintf(path, size, "%s/%lu/traces/%u.%s.%s.trace", args->spool, (unsigned long)step->uid, step->job,
			 step->name, step->node);

	return n < 0 || (size_t)n >= size ? -1 : 0;
}

/* In the child, as the user. 0 where the counters are safe or there are none. */
static int collect(const struct st_args *args, const struct step *step)
{
	char from[PATH_MAX], to[PATH_MAX], job[16], reason[256] = "";
	struct st_collect_meta meta = { .job = job, .step = step->name, .node = step->node, .keys = step->keys,
					.plan = step->plan, .nodes = step->nodes, .start_ns = started_ns };
	struct st_why why;
	int counters = open_counters(args, step, from, sizeof(from)), folder;

	if (counters < 0)
		return 0;
	close(counters);
	folder = st_spool_open(args->spool, "traces", true, &why);
	if (folder < 0) {
		slurm_info("slurm-topo: job %u.%s: no trace: %s", step->job, step->name, why.text);
		return 1;
	}
	close(folder);
	snprintf(job, sizeof(job), "%u", step->job);
	if (trace_path(args, step, to, sizeof(to)) < 0)
		return 1;
	if (st_collect(from, to, &meta, reason, sizeof(reason)) < 0) {
		slurm_info("slurm-topo: job %u.%s: no trace: %s", step->job, step->name, reason);
		return 1;
	}
	return 0;
}

/* In the child, as the user: counters that could not be collected must not fill the memory of the node. */
static int discard(const struct st_args *args, const struct step *step)
{
	char path[PATH_MAX], trace[PATH_MAX], half[PATH_MAX + 32];
	int folder = open_counters(args, step, path, sizeof(path));
	DIR *entries = folder < 0 ? NULL : fdopendir(folder);
	struct dirent *entry;

	/* What a collector that was killed had begun. */
	if (trace_path(args, step, trace, sizeof(trace)) == 0) {
		snprintf(half, sizeof(half), "%s.%ld.tmp", trace, (long)step->child);
		unlink(half);
	}
	while (entries && (entry = readdir(entries)))
		unlinkat(folder, entry->d_name, 0);
	return rmdir(path) < 0;
}

/* Runs `work` as the user in a child. Kills it where it takes too long: a step must not wait for a file server. */
static bool run_as_user(int (*work)(const struct st_args *, const struct step *), const struct st_args *args,
			struct step *step)
{
	const struct timespec pause = { .tv_nsec = 2000000 };
	double deadline = st_clock() + args->collect_ms / 1000.0;
	int status = 0;
	pid_t child = fork();

	if (child == 0) {
		sigset_t none;

		/* slurmstepd blocks and handles signals that must end this child. */
		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, NULL);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		_exit(give_up_rights(step) < 0 ? 1 : work(args, step));
	}
	step->child = child;
	while (child > 0 && waitpid(child, &status, WNOHANG) == 0) {
		if (st_clock() > deadline) {
			kill(child, SIGKILL);
			nanosleep(&pause, NULL);
			waitpid(child, &status, WNOHANG);
			return false;
		}
		nanosleep(&pause, NULL);
	}
	return child > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

void st_step_exit(spank_t spank, const struct st_args *args)
{
	struct step step = { .group_count = 0 };

	if (!args->tracer || !is_traced(spank) || !read_step(spank, &step))
		return;
	if (!run_as_user(collect, args, &step))
		run_as_user(discard, args, &step);
}
