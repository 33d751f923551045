/* A strict fake of the functions of spank.h: it ends the program where the plugin asks for what Slurm would not give. */
#ifndef FAKE_SPANK_H
#define FAKE_SPANK_H

#include <stdint.h>
#include <sys/types.h>

#include <slurm/spank.h>

/* The context and the step that the plugin sees. */
struct fake {
	spank_context_t context;
	const char *phase; /* init, task_init, exit */
	uint32_t job, step, rank, total;
	uid_t uid;
	gid_t gid;
	char *environment[256]; /* of the job, NULL at the end */
	struct spank_option *option;
};

extern struct fake fake;

/* Takes FAKE_* from the environment and the rest of it as the job's. */
void fake_load(const char *phase);
/* Prints the job's environment, one variable a line. */
void fake_print(void);

#endif
