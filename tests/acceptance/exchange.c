/* usage: exchange PATTERN BYTES ITERATIONS: one pattern over and over; rank 0 prints the seconds. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 64 };

static int rank, size, out[MOST], outs, in[MOST], ins;

static int sends(const char *pattern, int u, int v)
{
	int half = size / 2, rows = 2, columns = size / rows;

	if (u == v)
		return 0;
	if (!strcmp(pattern, "mesh")) /* partners half of the ranks apart, and a ring */
		return u % half == v % half || v == (u + 1) % size;
	if (!strcmp(pattern, "ring"))
		return v == (u + 1) % size;
	if (!strcmp(pattern, "transpose")) /* in rows that are dealt out over the ranks */
		return u % columns == v % columns || (u / columns == v / columns && (u % 2 == v % 2));
	if (!strcmp(pattern, "gather")) /* two roots, each with the ranks of its parity */
		return v < 2 && u % 2 == v;
	return 0;
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	int bytes = argc > 3 ? atoi(argv[2]) : 0, iterations = argc > 3 ? atoi(argv[3]) : 0;
	for (int k = 1; k < size && argc > 3; k++) {
		int to = (rank + k) % size, from = (rank - k + size) % size;
		if (sends(argv[1], rank, to))
			out[outs++] = to;
		if (sends(argv[1], from, rank))
			in[ins++] = from;
	}
	char *data = malloc((size_t)bytes * MOST * 2 + 1);
	MPI_Request request[2 * MOST];
	MPI_Barrier(MPI_COMM_WORLD);
	double start = MPI_Wtime();
	for (int i = 0; i < iterations; i++) {
		int n = 0;
		for (int k = 0; k < ins; k++)
			MPI_Irecv(data + (size_t)bytes * k, bytes, MPI_BYTE, in[k], 0, MPI_COMM_WORLD, &request[n++]);
		for (int k = 0; k < outs; k++)
			MPI_Isend(data + (size_t)bytes * (MOST + k), bytes, MPI_BYTE, out[k], 0, MPI_COMM_WORLD,
				  &request[n++]);
		MPI_Waitall(n, request, MPI_STATUSES_IGNORE);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 0)
		printf("seconds %.6f\n", MPI_Wtime() - start);
	free(data);
	MPI_Finalize();
	return 0;
}
