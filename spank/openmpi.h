/* Open MPI's mpirun (release 4): its options, and where else a user or a site tells it how to map and bind. */
#ifndef ST_OPENMPI_H
#define ST_OPENMPI_H

#include "plan.h"
#include "shape.h"

/* mpirun's next option, for st_shape_read(). */
int st_openmpi_next(struct st_cursor *cursor, struct st_option *option, struct st_why *why);

/* Whether the environment or a parameter file has a word on mapping or binding: then why. */
bool st_openmpi_wish(struct st_why *why);

/* The rank file of the plan, in OS numbers of CPUs. NULL where a rank has no CPUs or there is no memory. free() it. */
char *st_openmpi_rank_file(const struct st_plan *plan, size_t *size);

#endif
