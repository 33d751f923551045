/* The shape of what srun (or mpirun) is about to launch, from its command line and its environment. */
#ifndef ST_SHAPE_H
#define ST_SHAPE_H

#include "options.h"

/* Set in jobs that were submitted with --no-kill. */
#define ST_NO_KILL "SLURM_TOPO_JOB_NO_KILL"

struct st_shape {
	uint32_t ntasks;
	uint32_t job_ntasks; /* of the job, 0: it names none */
	uint32_t cpus;       /* CPUs a task */
	uint32_t nodes;      /* nodes of the step, the first ones of the job where it has more */
	uint32_t per_node;   /* most tasks a node, 0: as many as fit */
	int program;         /* index of the program in the arguments, -1: not known */
	bool all_nodes;      /* every node must get a rank */
	bool exact;          /* gets no more CPUs than it asks for, beside other steps perhaps */
	bool overlap;        /* shares CPUs with other steps */
	bool one_thread;     /* one hardware thread of a core only */
	bool quiet;        /* the user wants no messages */
	bool info;         /* srun only prints something */
	int topo;          /* arm of --topo on the command line, -1: not given */
};

/* Reads the next option of a launcher: st_option_next() for srun. */
typedef int st_option_reader(struct st_cursor *cursor, struct st_option *option, struct st_why *why);

/*
 * 0 where the shape is certain and the user has no wish of her own, else -1 and why: "user: ..." or "shape: ...".
 * `topo`, `quiet` and `info` hold in both cases.
 */
int st_shape_read(int argc, char *const *argv, st_option_reader *next, struct st_shape *shape, struct st_why *why);

/* Whether it is a daemon of mpirun: one is started on each node, and the ranks from there. */
bool st_is_daemon(const char *program);

/* The arguments of this process. NULL where they cannot be read; free() the result. `argc` is their number. */
char **st_command_line(int *argc);

#endif
