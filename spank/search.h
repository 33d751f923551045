/* Finding the plan of a launch: in the spool, or by starting `slurm-topo place`. */
#ifndef ST_SEARCH_H
#define ST_SEARCH_H

#include "launch.h"

/* Fills `name`, `path`, `plans` and `plan`. 0, or -1 and why. */
int st_search(struct st_launch *launch);

#endif
