/* What each context of Slurm does; plugin.c calls these. */
#ifndef ST_CONTEXT_H
#define ST_CONTEXT_H

#include <stdint.h>

#include <slurm/spank.h>

#include "args.h"

/* sbatch, salloc and srun: registers --topo. */
void st_option_register(spank_t spank);

/* sbatch and salloc. */
void st_allocator_init(void);

/* srun, before it reads its environment and options. */
void st_srun_init(const struct st_args *args);

/* srun, when the step exists and its tasks do not yet. */
void st_srun_started(const struct st_args *args);

/* slurmstepd, in the task, as the user. */
void st_task_init(spank_t spank, const struct st_args *args);

/* slurmstepd, before the first task and after the last, as root. */
void st_step_begin(void);
void st_step_exit(spank_t spank, const struct st_args *args);

#endif
