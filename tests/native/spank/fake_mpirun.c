/* In place of mpirun: the library of spank/mpirun.c is linked into it; shows what that left in the environment. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern char **environ;

int main(void)
{
	for (size_t i = 0; environ[i]; i++)
		if (!strncmp(environ[i], "OMPI_", 5) || !strncmp(environ[i], "LD_PRELOAD", 10) ||
		    !strncmp(environ[i], "SLURM_TASKS_PER_NODE", 20) ||
		    !strncmp(environ[i], "SLURM_TOPO_JOB_LAUNCH", 21))
			puts(environ[i]);
	if (getenv("OMPI_MCA_rmaps_rank_file_path")) {
		FILE *ranks = fopen(getenv("OMPI_MCA_rmaps_rank_file_path"), "r");
		char line[256];

		for (int i = 0; ranks && fgets(line, sizeof(line), ranks); i++)
			printf("line %d=%s", i, line);
		if (ranks)
			fclose(ranks);
	}
	return 0;
}
