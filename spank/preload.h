/* Lists of LD_PRELOAD. */
#ifndef ST_PRELOAD_H
#define ST_PRELOAD_H

#include "base.h"

#define ST_PRELOAD_TRACE "libslurm_topo_trace.so"
#define ST_PRELOAD_LAUNCH "libslurm_topo_launch.so"

/* What a placed mpirun leaves its ranks: "PREFIX:PLAN", PREFIX of the variables PREFIX_RANK and PREFIX_SIZE. */
#define ST_RANKS "SLURM_TOPO_JOB_RANKS"

/* Copies a list without the items whose file name is `name`, whatever separates them. False where there is no room. */
bool st_preload_drop(const char *list, const char *name, char *into, size_t size);

#endif
