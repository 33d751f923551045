/*
 * MPICH's collectives, by the choices of its generic tuning (4.0; those of Thakur, Rabenseifner and Gropp, doi:
 * 10.1177/1094342005051521). Libraries that share its ABI often have algorithms of their own: this is an estimate then.
 */
#include "model_parts.h"

#define BCAST_SHORT 12288
#define BCAST_LONG 524288
#define FEW_RANKS 8
#define REDUCE_SHORT 2048
#define ALLGATHER_SHORT 81920
#define ALLGATHER_LONG 524288
#define ALLTOALL_SHORT 256
#define REDUCE_SCATTER_LONG 524288

static bool is_power(int n)
{
    return power_below(n) == n;
}

static void barrier(const struct st_model *m)
{
    for (int distance = 1; distance < m->size; distance <<= 1)
        send_to(m, ring(m, distance), 0);
}

static void down(const struct st_model *m, uint64_t bytes, int root)
{
    int children[64], n = st_tree_children(ST_BINOMIAL_IN_ORDER, from_root(m, root), m->size, children);

    for (int i = 0; i < n; i++)
        send_to(m, absolute(m, root, children[i]), bytes);
}

static void up(const struct st_model *m, uint64_t bytes, int root)
{
    int parent = st_tree_parent(ST_BINOMIAL_IN_ORDER, from_root(m, root), m->size);

    if (parent >= 0)
        send_to(m, absolute(m, root, parent), bytes);
}

/* Ranks in the subtree below `rank` that begins at `mask`. */
static uint64_t subtree(int rank, int mask, int size)
{
    return (uint64_t)(rank + mask > size ? size - rank : mask);
}

static uint64_t held(uint64_t bytes, uint64_t block, int first, int width)
{
    return clamp_to((int64_t)bytes - (int64_t)block * first, block * (uint64_t)width);
}

/* The blocks of the buffer go down a binomial tree, then everybody gathers all of them. */
static void bcast_scatter(const struct st_model *m, uint64_t bytes, int root, bool doubling)
{
    int children[64], rank = from_root(m, root);
    int n = st_tree_children(ST_BINOMIAL_IN_ORDER, rank, m->size, children);
    uint64_t block = (bytes + (uint64_t)m->size - 1) / (uint64_t)m->size;

    for (int i = 0; i < n; i++) {
        uint64_t part = held(bytes, block, children[i], children[i] - rank);
        if (part)
            send_to(m, absolute(m, root, children[i]), part);
    }
    for (int mask = 1; doubling && mask < m->size; mask <<= 1)
        if ((rank ^ mask) < m->size)
            send_to(m, absolute(m, root, rank ^ mask), held(bytes, block, rank & ~(mask - 1), mask));
    if (!doubling) {
        uint64_t all = bytes - held(bytes, block, (rank + 1) % m->size, 1);
        m->send(m->context, ring(m, 1), all, (uint64_t)m->size - 1);
    }
}

static void bcast(const struct st_model *m, uint64_t count, uint64_t element, int root)
{
    uint64_t bytes = count * element;

    if (bytes == 0)
        return;
    if (bytes < BCAST_SHORT || m->size < FEW_RANKS)
        down(m, bytes, root);
    else
        bcast_scatter(m, bytes, root, bytes < BCAST_LONG && is_power(m->size));
}

static void gather(const struct st_model *m, uint64_t bytes, int root)
{
    int rank = from_root(m, root);

    if (rank && bytes)
        send_to(m, absolute(m, root, rank & (rank - 1)), bytes * subtree(rank, rank & -rank, m->size));
}

static void gatherv(const struct st_model *m, uint64_t bytes, int root)
{
    if (m->rank != root && bytes)
        send_to(m, root, bytes);
}

static void scatter(const struct st_model *m, uint64_t bytes, int root)
{
    int children[64], rank = from_root(m, root);
    int n = st_tree_children(ST_BINOMIAL_IN_ORDER, rank, m->size, children);

    for (int i = 0; bytes && i < n; i++)
        send_to(m, absolute(m, root, children[i]), bytes * subtree(children[i], children[i] - rank, m->size));
}

static void scatterv(const struct st_model *m, struct st_counts counts, uint64_t element, int root)
{
    for (int i = 0; m->rank == root && i < m->size; i++)
        if (i != root && st_at(counts, i))
            send_to(m, i, st_at(counts, i) * element);
}

static uint64_t range(struct st_counts counts, int from, int width, int size)
{
    int end = from + width;
    return end <= size ? sum_of(counts, from, end) : sum_of(counts, from, size) + sum_of(counts, 0, end - size);
}

static void allgatherv(const struct st_model *m, struct st_counts counts, uint64_t element)
{
    uint64_t total = sum_of(counts, 0, m->size) * element;

    if (total == 0)
        return;
    if (total < ALLGATHER_LONG && is_power(m->size)) {
        for (int mask = 1; mask < m->size; mask <<= 1)
            send_to(m, m->rank ^ mask, range(counts, m->rank & ~(mask - 1), mask, m->size) * element);
    } else if (total < ALLGATHER_SHORT) {
        for (int distance = 1; distance < m->size; distance <<= 1) {
            int width = distance <= m->size / 2 ? distance : m->size - distance;
            send_to(m, ring(m, -distance), range(counts, m->rank, width, m->size) * element);
        }
    } else {
        m->send(m->context, ring(m, 1), total - st_at(counts, ring(m, 1)) * element, (uint64_t)m->size - 1);
    }
}

static void allgather(const struct st_model *m, uint64_t bytes, uint64_t decided)
{
    uint64_t total = bytes * (uint64_t)m->size;

    (void)decided;
    if (total == 0)
        return;
    if (total < ALLGATHER_LONG && is_power(m->size)) {
        for (int mask = 1; mask < m->size; mask <<= 1)
            send_to(m, m->rank ^ mask, bytes * (uint64_t)mask);
    } else if (total < ALLGATHER_SHORT) {
        for (int distance = 1; distance < m->size; distance <<= 1)
            send_to(m, ring(m, -distance),
                    bytes * (uint64_t)(distance <= m->size / 2 ? distance : m->size - distance));
    } else {
        m->send(m->context, ring(m, 1), total - bytes, (uint64_t)m->size - 1);
    }
}

static void alltoall(const struct st_model *m, uint64_t bytes)
{
    if (bytes == 0)
        return;
    if (m->in_place || bytes > ALLTOALL_SHORT || m->size < FEW_RANKS) {
        send_all(m, bytes);
        return;
    }
    for (int distance = 1; distance < m->size; distance <<= 1) {
        uint64_t blocks = 0;
        for (int i = 1; i < m->size; i++)
            blocks += (i & distance) != 0;
        send_to(m, ring(m, distance), bytes * blocks);
    }
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

/* As in Rabenseifner's reduction: halves to a power of two of ranks, then a gather of the parts at the root. */
static void reduce_long(const struct st_model *m, uint64_t count, uint64_t element, int root)
{
    struct st_halving h;
    int target;

    st_halving_run(m, count, element, &h);
    target = root < 2 * h.extra ? root / 2 : root - h.extra;
    for (int step = h.steps - 1; h.virtual_rank >= 0 && step >= 0; step--) {
        int other = h.virtual_rank ^ (1 << step);
        if (other >> step != target >> step)
            continue;
        send_to(m, st_halving_peer(&h, other), h.kept[step] * element);
        break;
    }
}

static void reduce(const struct st_model *m, uint64_t count, uint64_t element, int root)
{
    if (count == 0)
        return;
    if (count * element <= REDUCE_SHORT || count < (uint64_t)power_below(m->size) || m->ordered)
        up(m, count * element, root);
    else
        reduce_long(m, count, element, root);
}

static void doubling(const struct st_model *m, uint64_t bytes)
{
    int power = power_below(m->size), extra = m->size - power, rank = m->rank - extra;

    if (m->rank < 2 * extra) {
        if (m->rank % 2 == 0) {
            send_to(m, m->rank + 1, bytes);
            return;
        }
        rank = m->rank / 2;
    }
    for (int mask = 1; mask < power; mask <<= 1) {
        int other = rank ^ mask;
        send_to(m, other < extra ? 2 * other + 1 : other + extra, bytes);
    }
    if (m->rank < 2 * extra)
        send_to(m, m->rank - 1, bytes);
}

static void allreduce(const struct st_model *m, uint64_t count, uint64_t element)
{
    struct st_halving h;

    if (count == 0)
        return;
    if (count * element <= REDUCE_SHORT || count < (uint64_t)power_below(m->size) || m->ordered) {
        doubling(m, count * element);
        return;
    }
    st_halving_run(m, count, element, &h);
    for (int step = h.steps - 1; h.virtual_rank >= 0 && step >= 0; step--)
        send_to(m, st_halving_peer(&h, h.virtual_rank ^ (1 << step)), h.kept[step] * element);
    if (h.virtual_rank >= 0 && m->rank < 2 * h.extra)
        send_to(m, m->rank + 1, count * element);
}

/* Halving for shorter data; else each rank sends every other one its block. */
static void reduce_scatter_of(const struct st_model *m, struct st_counts counts, uint64_t each, uint64_t total,
                              uint64_t element)
{
    int power = power_below(m->size), extra = m->size - power, rank = m->rank - extra;

    if (total == 0)
        return;
    if (m->ordered || total * element >= REDUCE_SCATTER_LONG) {
        for (int i = 0; i < m->size; i++)
            if (i != m->rank)
                send_to(m, i, (each ? each : st_at(counts, i)) * element);
        return;
    }
    if (m->rank < 2 * extra) {
        if (m->rank % 2 == 0) {
            send_to(m, m->rank + 1, total * element);
            return;
        }
        rank = m->rank / 2;
    }
    for (int mask = power >> 1; mask > 0; mask >>= 1) {
        int other = rank ^ mask;
        send_to(m, other < extra ? 2 * other + 1 : other + extra, total * element * (uint64_t)mask / (uint64_t)power);
    }
    if (m->rank < 2 * extra)
        send_to(m, m->rank - 1, (each ? each : st_at(counts, m->rank - 1)) * element);
}

static void reduce_scatter(const struct st_model *m, struct st_counts counts, uint64_t element)
{
    reduce_scatter_of(m, counts, 0, sum_of(counts, 0, m->size), element);
}

static void reduce_scatter_block(const struct st_model *m, uint64_t count, uint64_t element)
{
    reduce_scatter_of(m, (struct st_counts){0}, count, count * (uint64_t)m->size, element);
}

static void scan(const struct st_model *m, uint64_t count, uint64_t element)
{
    for (int mask = 1; count && mask < m->size; mask <<= 1)
        if ((m->rank ^ mask) < m->size)
            send_to(m, m->rank ^ mask, count * element);
}

const struct st_algorithms st_mpich = {
    .barrier = barrier,
    .bcast = bcast,
    .gather = gather,
    .gatherv = gatherv,
    .scatter = scatter,
    .scatterv = scatterv,
    .allgather = allgather,
    .allgatherv = allgatherv,
    .alltoall = alltoall,
    .alltoallv = alltoallv,
    .alltoallw = alltoallw,
    .reduce = reduce,
    .allreduce = allreduce,
    .reduce_scatter = reduce_scatter,
    .reduce_scatter_block = reduce_scatter_block,
    .scan = scan,
    .exscan = scan,
};
