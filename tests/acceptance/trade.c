/*
 * A program that runs faster where its ranks are packed: trade MEGABYTES-OF-PARTNERS MEGABYTES-OF-NEIGHBOURS
 *
 * Rank r exchanges with rank r + n/2, its partner. Ranks that do not sit on the first two CPUs of their nodes then send to the next
 * rank what packed ones have from their neighbour's cache. Time is what the links between the nodes take for that.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

enum { PIECE = 1 << 20 };

static int is_packed(void)
{
	cpu_set_t mask;
	int mine, all;

	CPU_ZERO(&mask);
	sched_getaffinity(0, sizeof(mask), &mask);
	mine = CPU_COUNT(&mask) == 1 && (CPU_ISSET(0, &mask) || CPU_ISSET(1, &mask));
	MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
	return all;
}

static void exchange(int to, int from, int megabytes)
{
	static char out[PIECE], in[PIECE];

	for (int i = 0; i < megabytes; i++)
		MPI_Sendrecv(out, PIECE, MPI_BYTE, to, 0, in, PIECE, MPI_BYTE, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
	int rank, size, packed;
	double start;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	if (argc != 3)
		MPI_Abort(MPI_COMM_WORLD, 2);
	packed = is_packed();
	start = MPI_Wtime();
	exchange((rank + size / 2) % size, (rank + size / 2) % size, atoi(argv[1]));
	if (!packed)
		exchange((rank + 1) % size, (rank + size - 1) % size, atoi(argv[2]));
	if (rank == 0)
		printf("packed %d seconds %.2f\n", packed, MPI_Wtime() - start);
	MPI_Finalize();
	return 0;
}
