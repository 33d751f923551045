/* srun: places the step, before srun reads its environment and options. */
#include <stdio.h>
#include <stdlib.h>

#include "context.h"
#include "launch.h"
#include "options.h"
#include "spool.h"

/* Makes the host file, which srun reads soon, and tells srun and its tasks. Slurm's binding stays as it is: the tasks change it. */
static int apply(struct st_launch *launch)
{
	char hosts_path[32], plan_path[PATH_MAX + 16];
	size_t size;
	char *hosts = st_host_file(&launch->plan, &size);
	int rc;

	if (!hosts)
		return st_why_set(&launch->why, "host file: no memory");
	rc = st_memory_file(hosts, size, hosts_path, sizeof(hosts_path), &launch->why);
	free(hosts);
	if (rc < 0)
		return -1;
	snprintf(plan_path, sizeof(plan_path), "%s.plan", launch->path);
	setenv("SLURM_HOSTFILE", hosts_path, 1);
	setenv("SLURM_DISTRIBUTION", "arbitrary", 1);
	setenv("SLURM_TOPO_JOB_PLAN", plan_path, 1);
	return 0;
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

void st_srun_init(const struct st_args *args)
{
	struct st_launch launch;
	bool begun = st_launch_begin(&launch, args, "srun"), certain;
	int argc = 0;
	char **argv;

	/* A plan that an outer srun left there is not for this step. */
	unsetenv("SLURM_TOPO_JOB_PLAN");
	if (!begun)
		return;
	argv = st_command_line(&argc);
	if (!argv)
		return;
	certain = st_shape_read(argc, argv, st_option_next, &launch.shape, &launch.why) == 0;
	if (!launch.shape.info) {
		st_launch_decide(&launch, certain, apply);
		report(&launch);
	}
	st_launch_end(&launch);
	free(argv);
}
