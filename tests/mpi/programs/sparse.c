/* Conjugate gradients on an irregular matrix: each rank needs entries of a few others, and two dot products a step. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define N 500

int main(int argc, char **argv)
{
    int rank, size, steps = 30;
    double x[N], y[N], dot, all;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int *wanted = calloc((size_t)size, sizeof *wanted), *given = calloc((size_t)size, sizeof *given);
    double **in = calloc((size_t)size, sizeof *in);
    MPI_Request *r = calloc(2 * (size_t)size, sizeof *r);
    for (int i = 0; i < N; i++)
        x[i] = 1.0 / (i + rank + 1);
    for (int other = 0; other < size; other++) /* every rank knows a part of the pattern: its own rows */
        if (other != rank && (rank * 7 + other * 3) % 5 < 2)
            wanted[other] = 20 + (rank * 13 + other * 29) % 300;
    MPI_Alltoall(wanted, 1, MPI_INT, given, 1, MPI_INT, MPI_COMM_WORLD);
    for (int other = 0; other < size; other++)
        in[other] = calloc((size_t)wanted[other] + 1, sizeof(double));
    for (int step = 0; step < steps; step++) {
        int m = 0;
        for (int other = 0; other < size; other++)
            if (wanted[other])
                MPI_Irecv(in[other], wanted[other], MPI_DOUBLE, other, step, MPI_COMM_WORLD, &r[m++]);
        for (int other = 0; other < size; other++)
            if (given[other])
                MPI_Isend(x, given[other], MPI_DOUBLE, other, step, MPI_COMM_WORLD, &r[m++]);
        MPI_Waitall(m, r, MPI_STATUSES_IGNORE);
        dot = 0;
        for (int i = 0; i < N; i++) {
            y[i] = 2 * x[i];
            for (int other = 0; other < size; other++)
                if (wanted[other])
                    y[i] -= 0.01 * in[other][i % wanted[other]];
            dot += y[i] * x[i];
        }
        MPI_Allreduce(&dot, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        for (int i = 0; i < N; i++)
            x[i] = y[i] / (1 + all * all);
        MPI_Iallreduce(MPI_IN_PLACE, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &r[0]);
        MPI_Wait(&r[0], MPI_STATUS_IGNORE);
    }
    MPI_Bcast(x, N, MPI_DOUBLE, size - 1, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%a\n", x[3]);
    MPI_Finalize();
    return 0;
}
