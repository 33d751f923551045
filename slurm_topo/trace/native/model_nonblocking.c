/* Open MPI's non-blocking and persistent collectives (coll/libnbc), in an intra-communicator. */
#include "model_openmpi.h"

#define REDUCE_FRAGMENT 8192
#define LONG_MESSAGE 65536

static void barrier(const struct st_model *m)
{
    for (int distance = 1; distance < m->size; distance <<= 1)
        send_to(m, ring(m, distance), 0);
}

/* Trees here have rank 0 and the root change places; the swap is its own inverse. */
static int swapped(int rank, int root)
{
    return rank == 0 ? root : rank == root ? 0 : rank;
}

static void down(const struct st_model *m, uint64_t bytes, int root)
{
    int children[64], n = st_tree_children(ST_BINOMIAL, swapped(m->rank, root), m->size, children);

    for (int i = 0; i < n; i++)
        send_to(m, swapped(children[i], root), bytes);
}

static void up(const struct st_model *m, uint64_t bytes, int root)
{
    int rank = swapped(m->rank, root);

    if (rank)
        send_to(m, swapped(rank & (rank - 1), root), bytes);
}

static void bcast(const struct st_model *m, uint64_t count, uint64_t element, int root)
{
    if (m->size > 4)
        down(m, count * element, root);
    else if (m->rank == root)
        send_all(m, count * element);
}

static void gather(const struct st_model *m, uint64_t bytes, int root)
{
    if (m->rank != root)
        send_to(m, root, bytes);
}

static void scatter(const struct st_model *m, uint64_t bytes, int root)
{
    if (m->rank == root)
        send_all(m, bytes);
}

static void scatterv(const struct st_model *m, struct st_counts counts, uint64_t element, int root)
{
    for (int i = 0; m->rank == root && i < m->size; i++)
        if (i != root)
            send_to(m, i, st_at(counts, i) * element);
}

static void allgather(const struct st_model *m, uint64_t bytes, uint64_t decided)
{
    (void)decided;
    send_all(m, bytes);
}

static void allgatherv(const struct st_model *m, struct st_counts counts, uint64_t element)
{
    send_all(m, st_at(counts, m->rank) * element);
}

static void alltoallv(const struct st_model *m, struct st_counts counts, uint64_t element)
{
    for (int i = 0; i < m->size; i++)
        if (i != m->rank && st_at(counts, i))
            send_to(m, i, st_at(counts, i) * element);
}

static void alltoallw(const struct st_model *m, struct st_counts bytes)
{
    alltoallv(m, bytes, 1);
}

static void reduce_chain(const struct st_model *m, uint64_t bytes, int root)
{
    int rank = swapped(m->rank, root);

    if (rank)
        m->send(m->context, swapped(rank - 1, root), bytes, (bytes + REDUCE_FRAGMENT - 1) / REDUCE_FRAGMENT);
}

static void reduce(const struct st_model *m, uint64_t count, uint64_t element, int root)
{
    uint64_t bytes = count * element;

    if (count == 0)
        return;
    if (!m->ordered && m->size > 2 && count >= (uint64_t)power_below(m->size)) {
        st_reduce_halving(m, count, element, root);
    } else if (m->size > 4 || bytes < LONG_MESSAGE || m->ordered) {
        up(m, bytes, m->ordered ? 0 : root);
        if (m->ordered && m->rank == 0 && root != 0)
            send_to(m, root, bytes);
    } else {
        reduce_chain(m, bytes, root);
    }
}

static void allreduce(const struct st_model *m, uint64_t count, uint64_t element)
{
    uint64_t bytes = count * element;

    if (count == 0)
        return;
    if (m->size < 4 || bytes < LONG_MESSAGE || m->ordered || m->in_place) {
        up(m, bytes, 0);
        down(m, bytes, 0);
    } else if (count >= (uint64_t)power_below(m->size)) {
        st_allreduce_halving(m, count, element);
    } else { /* few but long elements: a ring of blocks, of which some are empty */
        uint64_t sum = 2 * count - block_of(count, m->size, ring(m, 1)) - block_of(count, m->size, ring(m, 2));
        m->send(m->context, ring(m, 1), sum * element, 2 * (uint64_t)(m->size - 1));
    }
}

static void reduce_scatter(const struct st_model *m, struct st_counts counts, uint64_t element)
{
    uint64_t total = sum_of(counts, 0, m->size);

    if (total == 0)
        return;
    up(m, total * element, 0);
    scatterv(m, counts, element, 0);
}

static void reduce_scatter_block(const struct st_model *m, uint64_t count, uint64_t element)
{
    if (count == 0)
        return;
    up(m, count * element * (uint64_t)m->size, 0);
    scatter(m, count * element, 0);
}

const struct st_algorithms st_openmpi_nonblocking = {
    .barrier = barrier,
    .bcast = bcast,
    .gather = gather,
    .gatherv = gather,
    .scatter = scatter,
    .scatterv = scatterv,
    .allgather = allgather,
    .allgatherv = allgatherv,
    .alltoall = send_all,
    .alltoallv = alltoallv,
    .alltoallw = alltoallw,
    .reduce = reduce,
    .allreduce = allreduce,
    .reduce_scatter = reduce_scatter,
    .reduce_scatter_block = reduce_scatter_block,
    .scan = st_linear_scan,
    .exscan = st_linear_scan,
};
