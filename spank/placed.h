/* A rank that a plan has a place for: its CPU mask, its memory policy, its record. In tasks of srun and in ranks of mpirun. */
#ifndef ST_PLACED_H
#define ST_PLACED_H

#include <limits.h>

#include "bind.h"

struct st_placed {
	const struct st_args *args;
	uint32_t job, rank, ranks; /* ranks: of the whole launch */
	char step[16];
	char node[256];
	char plan_path[PATH_MAX];
	char *neighbours; /* the ranks on this node, "0,4", NULL: not known; is cut */
	struct st_plan plan;
	struct st_set cpus, mem;
	bool cpus_set, mem_set;
	char gpus[256]; /* order in which this rank sees them, where it was set */
	struct st_why why;
	double start;
};

/* The environment of the rank. */
struct st_variables {
	bool (*has)(void *where, const char *name);
	void (*set)(void *where, const char *name, const char *value);
	void *where;
};

/* Reads the plan and binds this process to the place of its rank. 0, or -1 and why; then the mask is as it was. */
int st_placed_bind(struct st_placed *placed);

/* OpenMP's threads on the CPUs of the rank, where the user has no wish of her own. */
void st_placed_openmp(const struct st_placed *placed, const struct st_variables *variables);

/* Writes the record of what became of the rank. */
void st_placed_record(struct st_placed *placed);

#endif
