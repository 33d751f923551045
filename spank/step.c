/* slurmstepd, after the last task: one file of all counters of this node, made with the rights of the user. */
#include <errno.h>
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

#define COLLECT_SECONDS 2.0

struct step {
	uid_t uid;
	gid_t gid;
	uint32_t job;
	char name[16];
	char node[256];
	gid_t *groups;
	int group_count;
};

static bool read_step(spank_t spank, struct step *step)
{
	uint32_t number;
	char traced[8] = "";

	if (spank_getenv(spank, "SLURM_TOPO_JOB_TRACE", traced, sizeof(traced)) != ESPANK_SUCCESS || strcmp(traced, "1"))
		return false;
	if (spank_get_item(spank, S_JOB_ID, &step->job) != ESPANK_SUCCESS ||
	    spank_get_item(spank, S_JOB_STEPID, &number) != ESPANK_SUCCESS ||
	    spank_get_item(spank, S_JOB_UID, &step->uid) != ESPANK_SUCCESS ||
	    spank_get_item(spank, S_JOB_GID, &step->gid) != ESPANK_SUCCESS)
		return false;
	if (spank_getenv(spank, "SLURMD_NODENAME", step->node, sizeof(step->node)) != ESPANK_SUCCESS) {
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

/* The folder of the counters, opened by the same rules by which it was made. */
static int check_counters(const struct st_args *args, const struct step *step, char *path, size_t size)
{
	char user[48], name[48];
	struct st_why ignored;
	int top = open(args->local_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), mine = -1, folder = -1;

	snprintf(user, sizeof(user), "slurm-topo-%lu", (unsigned long)step->uid);
	snprintf(name, sizeof(name), "%u.%s", step->job, step->name);
	if (top >= 0)
		mine = st_folder_open(top, user, false, &ignored);
	if (mine >= 0)
		folder = st_folder_open(mine, name, false, &ignored);
	snprintf(path, size, "%s/%s/%s", args->local_dir, user, name);
	if (folder >= 0)
		close(folder);
	if (mine >= 0)
		close(mine);
	if (top >= 0)
		close(top);
	return folder < 0 ? -1 : 0;
}

/* In the child, as the user. */
static int collect(const struct st_args *args, const struct step *step)
{
	char from[PATH_MAX], to[PATH_MAX], meta[512], reason[256] = "";
	struct st_why why;
	int folder;

	if (check_counters(args, step, from, sizeof(from)) < 0)
		return 0;
	folder = st_spool_open(args->spool, "traces", true, &why);
	if (folder < 0)
		return 1;
	close(folder);
	if ((size_t)snprintf(to, sizeof(to), "%s/%lu/traces/%u.%s.%s.trace", args->spool, (unsigned long)step->uid,
			     step->job, step->name, step->node) >= sizeof(to))
		return 1;
	snprintf(meta, sizeof(meta), "{\"job\": %u, \"step\": \"%s\", \"node\": \"%s\"}", step->job, step->name,
		 step->node);
	return st_collect(from, to, meta, reason, sizeof(reason)) < 0 ? 1 : 0;
}

/* Kills the child where it takes too long: the end of a step must not wait for a file server. */
static void attend(pid_t child)
{
	const struct timespec pause = { .tv_nsec = 2000000 };
	double deadline = st_clock() + COLLECT_SECONDS;
	int status;

	while (waitpid(child, &status, WNOHANG) == 0) {
		if (st_clock() > deadline) {
			kill(child, SIGKILL);
			nanosleep(&pause, NULL);
			waitpid(child, &status, WNOHANG);
			return;
		}
		nanosleep(&pause, NULL);
	}
}

void st_step_exit(spank_t spank, const struct st_args *args)
{
	struct step step = { .group_count = 0 };
	pid_t child;

	if (!args->tracer || !read_step(spank, &step))
		return;
	child = fork();
	if (child == 0) {
		sigset_t none;

		/* slurmstepd blocks and handles signals that must end this child. */
		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, NULL);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		_exit(give_up_rights(&step) < 0 ? 1 : collect(args, &step));
	}
	if (child > 0)
		attend(child);
}
