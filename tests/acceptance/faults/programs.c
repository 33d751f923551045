/* Built twice: `tell` says where a task is; `pairs` (with -DPAIRS) is an MPI program whose partners are half the ranks apart. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef PAIRS
#include <mpi.h>
#endif

static void tell(int rank, const char *word)
{
	cpu_set_t set;
	const char *node = getenv("SLURMD_NODENAME");

	sched_getaffinity(0, sizeof(set), &set);
	printf("rank %d %s cpus", rank, node ? node : "?");
	for (int cpu = 0, n = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &set))
			printf("%c%d", n++ ? ',' : ' ', cpu);
	printf(" %s\n", word);
	fflush(stdout);
}

#ifdef PAIRS
enum { BYTES = 65536, ROUNDS = 20 };

int main(int argc, char **argv)
{
	static char sent[BYTES], received[BYTES];
	int rank, size, wrong = 0;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	for (int i = 0; i < ROUNDS; i++) {
		int partner = (rank + size / 2) % size;

		memset(sent, rank + i, BYTES);
		MPI_Sendrecv(sent, BYTES, MPI_CHAR, partner, 0, received, BYTES, MPI_CHAR, partner, 0, MPI_COMM_WORLD,
			     MPI_STATUS_IGNORE);
		wrong += received[BYTES - 1] != (char)(partner + i);
	}
	tell(rank, wrong ? "wrong" : "right");
	MPI_Finalize();
	return wrong != 0;
}
#else
int main(int argc, char **argv)
{
	const char *rank = getenv("SLURM_PROCID");

	if (argc > 1)
		sleep((unsigned)atoi(argv[1]));
	tell(rank ? atoi(rank) : -1, "right");
	return 0;
}
#endif
