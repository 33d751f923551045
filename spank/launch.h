/* The placement of one launch: what may be done, the plan, and the record of the decision. */
#ifndef ST_LAUNCH_H
#define ST_LAUNCH_H

#include <limits.h>

#include "advice.h"
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
	bool interactive; /* the hook's marks are not in the environment: of salloc, or of srun on the command line */
	bool fixed_nodes; /* the step exists: its ranks stay on their nodes */
	bool traced;
	bool held_out;    /* stays in observe, so that the effect can be measured */
	char keys[128];   /* fingerprint keys of the job and of the step */
	char program[16]; /* of the history, empty: not known */
	const char *graph;
	struct st_advice advice; /* what `graph` points into where the step has advice of its own */
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
 * The same for a job whose environment the hook could not write: asks slurmctld what it decided. False where it left the
 * job alone, or has not seen it. Where slurmctld does not answer `why` says so and the launch cannot be certain.
 */
bool st_launch_ask(struct st_launch *launch, const struct st_args *args, const char *where);

/*
 * Which graph the step is placed with, and whether it is to be traced: by what the job was told, else by the step's own
 * command (`words`, NULL: not known) and number of ranks. `shape` must be known; a step that is never placed is not traced.
 */
void st_launch_learn(struct st_launch *launch, bool certain, char *const *words);

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
