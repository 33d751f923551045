/* sbatch, salloc and srun: the option --topo. */
#include <stdlib.h>
#include <string.h>

#include "context.h"
#include "shape.h"

/*
 * What the user allows travels as SLURM_TOPO: job_submit sees it, the job keeps it (also with --export=NONE, which
 * keeps what begins with SLURM_), and srun hands it to its tasks.
 */
static int topo_given(int value, const char *argument, int remote)
{
	(void)value;
	if (remote)
		return 0;
	if (st_arm_parse(argument) < 0) {
		slurm_error("--topo=%s is unknown; it is one of off, observe, advise, enforce", argument ? argument : "");
		return -1;
	}
	setenv("SLURM_TOPO", argument, 1);
	return 0;
}

void st_option_register(spank_t spank)
{
	struct spank_option option = {
		.name = "topo",
		.arginfo = "off|observe|advise|enforce",
		.usage = "what slurm_topo may do to this job at most: nothing, trace it, compute a placement, apply it",
		.has_arg = 1,
		.cb = topo_given,
	};

	if (spank_option_register(spank, &option) != ESPANK_SUCCESS)
		slurm_verbose("slurm-topo: the option --topo cannot be registered");
}

/*
 * sbatch and salloc: with --no-kill a job goes on without a node that went down, but its variables name that node still. srun
 * cannot see this, so it is told. A word that only looks like the option costs a placement and nothing else.
 */
void st_allocator_init(void)
{
	int argc = 0;
	char **argv = st_command_line(&argc);
	bool no_kill = getenv("SBATCH_NO_KILL") || getenv("SALLOC_NO_KILL");

	for (int i = 1; argv && i < argc; i++)
		no_kill |= !strcmp(argv[i], "-k") || !strncmp(argv[i], "--no-k", 6);
	free(argv);
	if (no_kill)
		setenv(ST_NO_KILL, "1", 1);
	else
		unsetenv(ST_NO_KILL);
}
