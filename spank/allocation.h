/* The nodes of the job and how many CPUs it has on each, as Slurm's environment tells. */
#ifndef ST_ALLOCATION_H
#define ST_ALLOCATION_H

#include "plan.h"
#include "shape.h"

struct st_allocation {
	uint32_t nodes;
	char **name;
	uint32_t *cpus; /* of the job on each node */
};

/* From SLURM_JOB_NODELIST and SLURM_JOB_CPUS_PER_NODE. 0, or -1 and why. st_allocation_free() either way. */
int st_allocation_read(struct st_allocation *allocation, struct st_why *why);
void st_allocation_free(struct st_allocation *allocation);

/*
 * Whether the plan can be carried out there: every node of it is of the allocation and gets a rank, none gets more than
 * it has CPUs for (nor more than `shape->per_node`, where that is not 0), no node of the allocation is left out where
 * `shape->all_nodes`, no two ranks share a CPU. 0, or -1 and why.
 */
int st_allocation_fits(const struct st_allocation *allocation, const struct st_plan *plan, const struct st_shape *shape,
		       struct st_why *why);

/* The host file of the plan: one line a rank. NULL where there is no memory. free() the result. */
char *st_host_file(const struct st_plan *plan, size_t *size);

#endif
