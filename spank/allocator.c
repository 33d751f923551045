/* sbatch, salloc and srun: the option --topo. */
#include <stdlib.h>

#include "context.h"

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
