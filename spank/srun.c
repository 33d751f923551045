/* srun: places the step, before srun reads its environment and options. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "context.h"
#include "launch.h"
#include "options.h"
#include "spool.h"

/*
 * What was read of the command line where srun makes the allocation itself, at a time when its environment was the user's:
 * placed inside the nodes, or traced, when the step exists.
 */
static struct {
	bool waiting, certain;
	struct st_shape shape;
	struct st_why why;
	char **argv; /* of the process, as long as it lives */
} later;

/* Makes the host file, which srun reads soon, and tells srun and its tasks. Slurm's binding stays as it is: the tasks change it. */
static int apply(struct st_launch *launch)
{
	char hosts_path[32], plan_path[PATH_MAX + 16];
	size_t size;
	char *hosts;
	int rc;

	snprintf(plan_path, sizeof(plan_path), "%s.plan", launch->path);
	if (!launch->fixed_nodes) {
		hosts = st_host_file(&launch->plan, &size);
		if (!hosts)
			return st_why_set(&launch->why, "host file: no memory");
		rc = st_memory_file(hosts, size, hosts_path, sizeof(hosts_path), &launch->why);
		free(hosts);
		if (rc < 0)
			return -1;
		setenv("SLURM_HOSTFILE", hosts_path, 1);
		setenv("SLURM_DISTRIBUTION", "arbitrary", 1);
	}
	setenv("SLURM_TOPO_JOB_PLAN", plan_path, 1);
	return 0;
}

/* What the tasks and the end of the step have to know. */
static void tell_tasks(const struct st_launch *launch)
{
	if (launch->arm < ST_OBSERVE)
		return;
	if (launch->keys[0])
		setenv("SLURM_TOPO_JOB_KEYS", launch->keys, 1);
	if (launch->traced)
		setenv("SLURM_TOPO_JOB_TRACE", "1", 1);
	if (launch->interactive)
		setenv("SLURM_TOPO_JOB_ARM", st_arm_name(launch->arm), 1);
}

static void report(const struct st_launch *launch)
{
	struct st_why line;

	st_launch_report(launch, &line);
	if (line.text[0])
		slurm_info("%s", line.text);
	else
		slurm_verbose("slurm-topo: %s: %s", st_launch_decision(launch), launch->why.text);
}

/* `words`: the program and its arguments, NULL where they are not known. */
static void decide(struct st_launch *launch, bool certain, char *const *words)
{
	st_launch_learn(launch, certain, words);
	st_launch_decide(launch, certain, apply);
	tell_tasks(launch);
	report(launch);
}

static bool has_number(const char *name, uint64_t at_least)
{
	uint64_t number;

	return st_number(getenv(name), UINT32_MAX, &number) == 0 && number >= at_least;
}

/* In a batch script the hook's marks are in the environment, where it has marked the job at all. */
static bool is_batch(void)
{
	const char *word = getenv("ENVIRONMENT");

	return (word && !strcmp(word, "BATCH")) || has_number("SLURM_STEP_ID", UINT32_C(0xfffffffb)) ||
	       has_number("SLURM_STEPID", UINT32_C(0xfffffffb));
}

/* A step in an allocation of salloc: the marks are asked for. Steps of steps are the outer step's affair. */
static bool begin_unmarked(struct st_launch *launch, const struct st_args *args)
{
	bool inside = getenv("SLURM_STEP_ID") || getenv("SLURM_STEPID");

	if (getenv("SLURM_TOPO_JOB_ARM") || is_batch() || (inside && !has_number("SLURM_STEP_ID", UINT32_C(0xfffffff0))))
		return false;
	return st_launch_ask(launch, args, "srun");
}

/* A plan that an outer srun left there is not for this step, nor is the distribution that came with it. */
static void forget_outer(void)
{
	const char *distribution = getenv("SLURM_DISTRIBUTION");

	if (getenv("SLURM_TOPO_JOB_PLAN") && distribution && !strcmp(distribution, "arbitrary"))
		unsetenv("SLURM_DISTRIBUTION");
	unsetenv("SLURM_TOPO_JOB_PLAN");
}

void st_srun_init(const struct st_args *args)
{
	struct st_launch launch = { .plans = -1 };
	struct st_shape shape;
	struct st_why why = { "" };
	int argc = 0;
	char **argv;
	bool certain;

	forget_outer();
	argv = st_command_line(&argc);
	if (!argv)
		return;
	certain = st_shape_read(argc, argv, st_option_next, &shape, &why) == 0;
	if (shape.info) {
		free(argv);
		return;
	}
	if (!getenv("SLURM_JOB_ID")) {
		later.waiting = true;
		later.certain = certain;
		later.shape = shape;
		later.why = why;
		later.argv = argv;
		return;
	}
	if (st_launch_begin(&launch, args, "srun") || begin_unmarked(&launch, args)) {
		launch.shape = shape;
		if (launch.arm >= 0)
			launch.why = why;
		decide(&launch, certain, shape.program > 0 ? argv + shape.program : NULL);
		st_launch_end(&launch);
	}
	free(argv);
}

/* The step of an srun that made its own allocation: what could not be known before it was there. */
static bool complete(struct st_shape *shape, struct st_why *why)
{
	uint64_t ntasks, nodes;

	if (st_number(getenv("SLURM_NTASKS"), UINT32_MAX, &ntasks) < 0 ||
	    st_number(getenv("SLURM_NNODES"), UINT32_MAX, &nodes) < 0) {
		st_why_set(why, "shape: srun names no number of tasks or nodes");
		return false;
	}
	shape->ntasks = shape->job_ntasks = (uint32_t)ntasks;
	shape->nodes = (uint32_t)nodes;
	if (ntasks == 1)
		st_why_set(why, "shape: one task");
	return ntasks > 1;
}

void st_srun_started(const struct st_args *args)
{
	struct st_launch launch;

	/* Once: srun calls for each component of a heterogeneous step. */
	if (!later.waiting)
		return;
	later.waiting = false;
	if (st_launch_ask(&launch, args, "srun")) {
		bool counted;

		if (launch.arm >= 0)
			launch.why = later.why;
		launch.shape = later.shape;
		launch.fixed_nodes = true;
		counted = complete(&launch.shape, later.certain ? &launch.why : &later.why);
		decide(&launch, later.certain && counted,
		       launch.shape.program > 0 ? later.argv + launch.shape.program : NULL);
		st_launch_end(&launch);
	}
	free(later.argv);
	later.argv = NULL;
}
