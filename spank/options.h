/* srun's command line options: which there are, which of them take an argument, what they mean to us. */
#ifndef ST_OPTIONS_H
#define ST_OPTIONS_H

#include "base.h"

enum st_effect {
	ST_NOTHING,   /* changes neither the shape nor the binding of the step */
	ST_USER,      /* the user's own word on distribution or binding */
	ST_SHAPE,     /* makes the shape of the step uncertain */
	ST_EXACT,     /* the step gets no more CPUs than it asks for */
	ST_OVERLAP,   /* the step shares CPUs with others */
	ST_NTASKS,
	ST_CPUS,
	ST_NODES,
	ST_PER_NODE,
	ST_CPU_BIND,
	ST_HINT,
	ST_THREADS,
	ST_JOBID,
	ST_QUIET,
	ST_TOPO,
	ST_INFO,      /* srun prints something and launches nothing, or starts the shell of salloc */
};

struct st_option {
	const char *name;  /* long name as the table has it */
	const char *value; /* NULL where there is none */
	enum st_effect effect;
};

/* Where the reader is in the command line. */
struct st_cursor {
	char *const *argv;
	int argc;
	int at;           /* next argument */
	const char *more; /* rest of a bundle of short options */
};

/* 1 and the next option; 0 at the first argument that is none (`at` is there); -1 and why where the option is not known. */
int st_option_next(struct st_cursor *cursor, struct st_option *option, struct st_why *why);

#endif
