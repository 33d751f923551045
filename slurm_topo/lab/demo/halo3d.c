/* Heat conduction in a flat slab: explicit 7-point stencil on a 3-D block decomposition.
 *
 * The process grid is MPI_Dims_create's, its ranks are numbered as MPI_Cart_create numbers them (last dimension
 * fastest). The slab is thin in x, so the x faces are the large ones, and x neighbours are the ranks that
 * are farthest apart in rank order: what a solver gets that splits a layer or a channel in all three dimensions.
 *
 * usage: halo3d [STEPS [NX NY NZ [FIELDS]]]
 */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { X, Y, Z, DIMS };

struct grid {
    MPI_Comm cart;
    int rank, size;
    int procs[DIMS], coords[DIMS];
    int global[DIMS], local[DIMS];
    int low[DIMS], high[DIMS]; /* neighbours, MPI_PROC_NULL at the border */
    int fields;
    double *now, *next;            /* fields x (local + 2 ghost layers) */
    double *out[DIMS][2], *in[DIMS][2];
};

static size_t at(const struct grid *g, int f, int x, int y, int z)
{
    size_t ny = (size_t)g->local[Y] + 2, nz = (size_t)g->local[Z] + 2, nx = (size_t)g->local[X] + 2;
    return (((size_t)f * nx + (size_t)x) * ny + (size_t)y) * nz + (size_t)z;
}

static int face_cells(const struct grid *g, int dim)
{
    int cells = g->fields;
    for (int d = 0; d < DIMS; d++)
        if (d != dim)
            cells *= g->local[d];
    return cells;
}

/* Copies one layer of cells between the field and a contiguous buffer. */
static void copy_face(struct grid *g, int dim, int layer, double *buffer, int pack)
{
    int from[DIMS] = {1, 1, 1}, to[DIMS] = {g->local[X], g->local[Y], g->local[Z]};
    from[dim] = to[dim] = layer;
    for (int f = 0; f < g->fields; f++)
        for (int x = from[X]; x <= to[X]; x++)
            for (int y = from[Y]; y <= to[Y]; y++)
                for (int z = from[Z]; z <= to[Z]; z++) {
                    double *cell = &g->now[at(g, f, x, y, z)];
                    if (pack)
                        *buffer++ = *cell;
                    else
                        *cell = *buffer++;
                }
}

static void exchange(struct grid *g)
{
    MPI_Request requests[DIMS * 4];
    int n = 0;
    for (int d = 0; d < DIMS; d++) {
        int cells = face_cells(g, d);
        MPI_Irecv(g->in[d][0], cells, MPI_DOUBLE, g->low[d], d * 2, g->cart, &requests[n++]);
        MPI_Irecv(g->in[d][1], cells, MPI_DOUBLE, g->high[d], d * 2 + 1, g->cart, &requests[n++]);
    }
    for (int d = 0; d < DIMS; d++) {
        int cells = face_cells(g, d);
        copy_face(g, d, 1, g->out[d][0], 1);
        copy_face(g, d, g->local[d], g->out[d][1], 1);
        MPI_Isend(g->out[d][1], cells, MPI_DOUBLE, g->high[d], d * 2, g->cart, &requests[n++]);
        MPI_Isend(g->out[d][0], cells, MPI_DOUBLE, g->low[d], d * 2 + 1, g->cart, &requests[n++]);
    }
    MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
    for (int d = 0; d < DIMS; d++) {
        if (g->low[d] != MPI_PROC_NULL)
            copy_face(g, d, 0, g->in[d][0], 0);
        if (g->high[d] != MPI_PROC_NULL)
            copy_face(g, d, g->local[d] + 1, g->in[d][1], 0);
    }
}

/* One explicit step; returns the sum of squared changes of this rank. */
static double step(struct grid *g)
{
    double change = 0;
    for (int f = 0; f < g->fields; f++)
        for (int x = 1; x <= g->local[X]; x++)
            for (int y = 1; y <= g->local[Y]; y++)
                for (int z = 1; z <= g->local[Z]; z++) {
                    size_t i = at(g, f, x, y, z);
                    double u = g->now[i];
                    double around = g->now[at(g, f, x - 1, y, z)] + g->now[at(g, f, x + 1, y, z)] +
                                    g->now[at(g, f, x, y - 1, z)] + g->now[at(g, f, x, y + 1, z)] +
                                    g->now[i - 1] + g->now[i + 1];
                    double difference = 0.125 * (around - 6 * u);
                    g->next[i] = u + difference;
                    change += difference * difference;
                }
    double *swap = g->now;
    g->now = g->next;
    g->next = swap;
    return change;
}

static int setup(struct grid *g)
{
    int periods[DIMS] = {0, 0, 0};
    MPI_Comm_size(MPI_COMM_WORLD, &g->size);
    memset(g->procs, 0, sizeof g->procs);
    MPI_Dims_create(g->size, DIMS, g->procs);
    MPI_Cart_create(MPI_COMM_WORLD, DIMS, g->procs, periods, 0, &g->cart);
    MPI_Comm_rank(g->cart, &g->rank);
    MPI_Cart_coords(g->cart, g->rank, DIMS, g->coords);
    for (int d = 0; d < DIMS; d++) {
        if (g->global[d] % g->procs[d]) {
            if (g->rank == 0)
                fprintf(stderr, "halo3d: %d cells cannot be split evenly over %d ranks\n", g->global[d], g->procs[d]);
            return -1;
        }
        g->local[d] = g->global[d] / g->procs[d];
        MPI_Cart_shift(g->cart, d, 1, &g->low[d], &g->high[d]);
    }
    size_t cells = at(g, g->fields, 0, 0, 0);
    g->now = calloc(cells, sizeof *g->now);
    g->next = calloc(cells, sizeof *g->next);
    int ok = g->now && g->next;
    for (int d = 0; d < DIMS; d++)
        for (int side = 0; side < 2; side++) {
            g->out[d][side] = malloc((size_t)face_cells(g, d) * sizeof(double));
            g->in[d][side] = malloc((size_t)face_cells(g, d) * sizeof(double));
            ok = ok && g->out[d][side] && g->in[d][side];
        }
    return ok ? 0 : -1;
}

static void fill(struct grid *g)
{
    for (int f = 0; f < g->fields; f++)
        for (int x = 1; x <= g->local[X]; x++)
            for (int y = 1; y <= g->local[Y]; y++)
                for (int z = 1; z <= g->local[Z]; z++) {
                    int i = x + g->coords[X] * g->local[X], j = y + g->coords[Y] * g->local[Y],
                        k = z + g->coords[Z] * g->local[Z];
                    g->now[at(g, f, x, y, z)] = sin(0.1 * i * (f + 1)) + cos(0.05 * j) + sin(0.02 * k);
                }
}

int main(int argc, char **argv)
{
    struct grid g = {.global = {16, 128, 256}, .fields = 4};
    int steps = argc > 1 ? atoi(argv[1]) : 400;
    for (int d = 0; d < DIMS && argc > 4; d++)
        g.global[d] = atoi(argv[2 + d]);
    if (argc > 5)
        g.fields = atoi(argv[5]);
    MPI_Init(&argc, &argv);
    if (setup(&g))
        MPI_Abort(MPI_COMM_WORLD, 2);
    fill(&g);
    MPI_Barrier(g.cart);
    double start = MPI_Wtime();
    for (int i = 1; i <= steps; i++) {
        exchange(&g);
        double change = step(&g), total = 0;
        if (i % 50 == 0 || i == steps) {
            MPI_Reduce(&change, &total, 1, MPI_DOUBLE, MPI_SUM, 0, g.cart);
            if (g.rank == 0)
                printf("step %4d  change %.12e\n", i, sqrt(total));
        }
    }
    MPI_Barrier(g.cart);
    if (g.rank == 0)
        printf("halo3d: %d ranks as %d x %d x %d, %d steps, %.2f s\n", g.size, g.procs[X], g.procs[Y], g.procs[Z],
               steps, MPI_Wtime() - start);
    MPI_Finalize();
    return 0;
}
