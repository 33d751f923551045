/* Each rank in a line: rank, host, CPUs and memory policy that are in force inside MPI; all have met before. */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void value(const char *path, const char *before, char *into)
{
	char line[512];
	FILE *file = fopen(path, "r");

	strcpy(into, "-");
	while (file && fgets(line, sizeof line, file))
		if (!strncmp(line, before, strlen(before))) {
			sscanf(line + strlen(before), "%255s", into);
			break;
		}
	if (file)
		fclose(file);
}

int main(int argc, char **argv)
{
	char host[256] = "", cpus[256], line[512] = "", policy[256] = "-";
	int rank, ranks, sum;
	FILE *maps;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	gethostname(host, sizeof host);
	value("/proc/self/status", "Cpus_allowed_list:", cpus);
	maps = fopen("/proc/self/numa_maps", "r");
	if (maps && fgets(line, sizeof line, maps))
		sscanf(line, "%*s %255s", policy);
	printf("%d %s %s %s %d/%d %s\n", rank, host, cpus, policy, sum, ranks, getenv("SLURM_TOPO_JOB_RANKS") ? "told" : "-");
	fflush(stdout);
	MPI_Finalize();
	return 0;
}
