/* The placement of one launch: what may be done, the plan, and the record of the decision. */
#ifndef ST_LAUNCH_H
#define ST_LAUNCH_H

#include <limits.h>

#include "allocation.h"
#include "args.h"

/* What became of it. A fault is what an administrator would mend: the user gets a line on it. */
enum st_outcome { ST_PLACED, ST_ADVISED, ST_NONE, ST_STOOD_DOWN, ST_FAULT };

struct st_launch {
	const struct st_args *args;
	const char *where; /* of the record: srun, mpirun */
	struct st_shape shape;
	int arm;
	uint32_t job;
	const char *graph;
	char name[96];       /* of the plan, without the folder and the ending */
	char path[PATH_MAX]; /* of the plan, without the ending */
	int plans;           /* folder, -1 while it is not open */
	struct st_allocation allocation;
	struct st_plan plan;
	enum st_outcome outcome;
	struct st_why why;
	double start;
};

/* False where this process has nothing to do: no marked job, arm off, the kill switch. Then nothing needs an end. */
bool st_launch_begin(struct st_launch *launch, const struct st_args *args, const char *where);

/*
 * Decides. `shape` and `why` must hold what st_shape_read() said, `certain` whether it was certain. `apply` is called with a
 * plan that fits, where it may be applied: 0, or -1 and why; with ST_STOOD_DOWN in `outcome` that is no fault.
 */
void st_launch_decide(struct st_launch *launch, bool certain, int (*apply)(struct st_launch *));

/* place, stand-down, trace or none. */
const char *st_launch_decision(const struct st_launch *launch);

/* Writes the record. The line for the user, empty where there is none. */
void st_launch_report(const struct st_launch *launch, struct st_why *line);

void st_launch_end(struct st_launch *launch);

#endif
