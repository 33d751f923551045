/* CPU masks and memory policy of this process. */
#ifndef ST_BIND_H
#define ST_BIND_H

#include "args.h"
#include "plan.h"

/* The mask that is in force. 0 or -1. */
int st_cpus_now(struct st_set *cpus);
int st_cpus_bind(const struct st_set *cpus);

/* The widest mask that the kernel grants this process (its cpuset); the mask that was in force is back afterwards. */
int st_cpus_allowed(struct st_set *cpus);

/*
 * The mask of rank `rank` of the plan, cut to `allowed`. -1 and why where some rank of the same node would be left
 * with nothing: then the whole node must stay as Slurm has it, or ranks that were moved would sit on others that were not.
 */
int st_cpus_of_rank(const struct st_plan *plan, uint32_t rank, const struct st_set *allowed, struct st_set *cpus,
		    struct st_why *why);

/* The NUMA nodes of the rank that this process may use; empty where none is known. */
void st_memory_of_rank(const struct st_plan *plan, uint32_t rank, struct st_set *nodes);
/* The NUMA nodes that the kernel has next to these CPUs and that this process may use; empty where it tells none. */
void st_memory_near(const struct st_set *cpus, struct st_set *nodes);
/* Sets the policy. 0, or -1 where the kernel refuses. */
int st_memory_bind(const struct st_set *nodes, enum st_memory memory);

#endif
