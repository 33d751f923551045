/* The data movement of a 3-D FFT on a 2-D grid of ranks: transposes in rows and in columns, forth and back. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    int rank, size, dims[2] = {0, 0}, n = 3000, rows, columns;
    double *in, *out, sum = 0, all;
    MPI_Comm row, column;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Dims_create(size, 2, dims);
    MPI_Comm_split(MPI_COMM_WORLD, rank / dims[1], rank, &row);
    MPI_Comm_split(MPI_COMM_WORLD, rank % dims[1], rank, &column);
    MPI_Comm_size(row, &columns);
    MPI_Comm_size(column, &rows);
    in = calloc((size_t)n * size, sizeof *in);
    out = calloc((size_t)n * size, sizeof *out);
    for (int i = 0; i < n * size; i++)
        in[i] = i + rank;
    for (int step = 0; step < 5; step++) {
        MPI_Alltoall(in, n / columns, MPI_DOUBLE, out, n / columns, MPI_DOUBLE, row);
        MPI_Alltoall(out, n / rows, MPI_DOUBLE, in, n / rows, MPI_DOUBLE, column);
        MPI_Request r;
        MPI_Ialltoall(in, n / rows, MPI_DOUBLE, out, n / rows, MPI_DOUBLE, column, &r);
        MPI_Wait(&r, MPI_STATUS_IGNORE);
        MPI_Alltoall(out, n / columns, MPI_DOUBLE, in, n / columns, MPI_DOUBLE, row);
        sum += in[step];
    }
    MPI_Reduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%a\n", all);
    MPI_Finalize();
    return 0;
}
