/* The plan of a step: which rank runs on which CPUs of which node (docs/formats.md). */
#ifndef ST_PLAN_H
#define ST_PLAN_H

#include "base.h"

#define ST_PLAN_MAX (16u << 20)

/* A piece of the plan's text; NULL stands for "-" (not known). */
struct st_span {
	const char *text;
	uint32_t len;
};

struct st_rank {
	uint32_t node; /* index into `nodes` */
	struct st_span cpus, mem, gpus;
};

struct st_plan {
	char *text; /* what the spans and names point into */
	uint32_t job, ranks, cpus_per_task;
	bool place;
	char reason[48], graph[48], solver[64];
	char variant[16];       /* spread, packed; empty: the ranks could lie in one way only */
	enum st_memory memory;  /* ST_MEMORY_PLAN where the plan says nothing */
	char search[16]; /* how the search ended, empty: not told */
	double cost, baseline; /* baseline: the first that the plan names; both -1 where none */
	uint32_t node_count;
	const char **nodes;
	struct st_rank *rank; /* `ranks` of them where `place` */
};

/*
 * Reads `size` bytes of `text`, which must be allocated with a byte 0 behind them and which the plan takes over
 * (also on failure). 0, or -1 and why. st_plan_free() either way.
 */
int st_plan_parse(struct st_plan *plan, char *text, size_t size, struct st_why *why);
void st_plan_free(struct st_plan *plan);

#endif
