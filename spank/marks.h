/* What the submit hook decided on a job whose environment could not be written at submission: of salloc and of srun. */
#ifndef ST_MARKS_H
#define ST_MARKS_H

#include "base.h"

struct st_marks {
	bool found;
	int arm;
	char keys[128];    /* joined by colons, empty: none */
	char program[16]; /* empty: not known */
};

/* Reads the last item of ours in what `scontrol --oneliner show job` printed. */
void st_marks_parse(const char *text, struct st_marks *marks);

/* Asks slurmctld, by way of the scontrol beside srun or in PATH. 0, or -1 and why. */
int st_marks_ask(uint32_t job, int deadline_ms, struct st_marks *marks, struct st_why *why);

#endif
