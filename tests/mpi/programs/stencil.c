/* Jacobi iterations on a 3-D grid: halos with the six neighbours, a global residual at each tenth step. */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int n = 24, steps = 40;
#define AT(a, i, j, k) a[((size_t)(i) * (n + 2) + (j)) * (n + 2) + (k)]

static void faces(const double *a, double *buffer, int axis, int at, double *target)
{
    for (int p = 1; p <= n; p++)
        for (int q = 1; q <= n; q++) {
            size_t i = axis == 0 ? at : p, j = axis == 1 ? at : axis == 0 ? p : q, k = axis == 2 ? at : q;
            if (target)
                AT(target, i, j, k) = buffer[(p - 1) * n + q - 1];
            else
                buffer[(p - 1) * n + q - 1] = AT(a, i, j, k);
        }
}

static void halo(double *a, MPI_Comm grid)
{
    static double *out[6], *in[6];
    MPI_Request r[12];

    for (int f = 0; f < 6; f++)
        if (!out[f]) {
            out[f] = calloc((size_t)n * n, sizeof(double));
            in[f] = calloc((size_t)n * n, sizeof(double));
        }
    for (int axis = 0, m = 0; axis < 3; axis++) {
        int low, high;
        MPI_Cart_shift(grid, axis, 1, &low, &high);
        MPI_Irecv(in[2 * axis], n * n, MPI_DOUBLE, low, axis, grid, &r[m++]);
        MPI_Irecv(in[2 * axis + 1], n * n, MPI_DOUBLE, high, axis, grid, &r[m++]);
        faces(a, out[2 * axis], axis, 1, NULL);
        faces(a, out[2 * axis + 1], axis, n, NULL);
        MPI_Isend(out[2 * axis], n * n, MPI_DOUBLE, low, axis, grid, &r[m++]);
        MPI_Isend(out[2 * axis + 1], n * n, MPI_DOUBLE, high, axis, grid, &r[m++]);
    }
    MPI_Waitall(12, r, MPI_STATUSES_IGNORE);
    for (int axis = 0; axis < 3; axis++) {
        int low, high;
        MPI_Cart_shift(grid, axis, 1, &low, &high);
        if (low != MPI_PROC_NULL)
            faces(a, in[2 * axis], axis, 0, a);
        if (high != MPI_PROC_NULL)
            faces(a, in[2 * axis + 1], axis, n + 1, a);
    }
}

int main(int argc, char **argv)
{
    int rank, size, dims[3] = {0, 0, 0}, open_[3] = {0, 0, 1};
    double *a, *b, residual = 0, all = 0, begun;
    MPI_Comm grid;

    MPI_Init(&argc, &argv);
    if (argc > 2) {
        n = atoi(argv[1]);
        steps = atoi(argv[2]);
    }
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Dims_create(size, 3, dims);
    MPI_Cart_create(MPI_COMM_WORLD, 3, dims, open_, 1, &grid);
    MPI_Comm_rank(grid, &rank);
    a = calloc((size_t)(n + 2) * (n + 2) * (n + 2), sizeof *a);
    b = calloc((size_t)(n + 2) * (n + 2) * (n + 2), sizeof *b);
    for (int i = 1; i <= n; i++)
        AT(a, i, i, i) = 1.0 + rank;
    MPI_Barrier(MPI_COMM_WORLD);
    begun = MPI_Wtime();
    for (int step = 0; step < steps; step++) {
        halo(a, grid);
        residual = 0;
        for (int i = 1; i <= n; i++)
            for (int j = 1; j <= n; j++)
                for (int k = 1; k <= n; k++) {
                    double v = (AT(a, i - 1, j, k) + AT(a, i + 1, j, k) + AT(a, i, j - 1, k) + AT(a, i, j + 1, k) +
                                AT(a, i, j, k - 1) + AT(a, i, j, k + 1)) / 6.0;
                    residual += fabs(v - AT(a, i, j, k));
                    AT(b, i, j, k) = v;
                }
        double *t = a;
        a = b;
        b = t;
        if (step % 10 == 9)
            MPI_Allreduce(&residual, &all, 1, MPI_DOUBLE, MPI_SUM, grid);
    }
    if (rank == 0 && argc > 3)
        printf("%.6f\n", MPI_Wtime() - begun);
    else if (rank == 0)
        printf("%a\n", all);
    MPI_Finalize();
    return 0;
}
