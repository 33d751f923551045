/* The plugin's arguments in plugstack.conf. */
#ifndef ST_ARGS_H
#define ST_ARGS_H

#include "base.h"

enum st_gpus { ST_GPUS_ORDER, ST_GPUS_ISOLATE, ST_GPUS_NONE };

struct st_args {
	const char *spool;
	const char *local_dir;
	const char *tracer;      /* NULL: nothing is traced */
	const char *place;       /* NULL: nothing is placed */
	const char *kill_switch;
	const char *config;      /* NULL: the default of `slurm-topo` */
	int deadline_ms;
	int collect_ms; /* what the collector of a traced step may take on each node */
	enum st_memory memory;
	enum st_gpus gpus;
	bool mpirun; /* place what mpirun starts in batch scripts */
	bool openmp; /* set OMP_* of placed ranks */
};

/* 0, or -1 with the argument that is wrong. The values point into `argv`. */
int st_args_parse(int argc, char **argv, struct st_args *args, struct st_why *why);

#endif
