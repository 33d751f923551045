/* Open MPI's blocking collectives without a root, in an intra-communicator. */
#include "model_openmpi.h"

static void barrier_doubling(const struct st_model *m)
{
    int power = power_below(m->size);

    if (m->rank >= power) {
        send_to(m, m->rank - power, 0);
        return;
    }
    for (int mask = 1; mask < power; mask <<= 1)
        send_to(m, m->rank ^ mask, 0);
    if (m->rank < m->size - power)
        send_to(m, m->rank + power, 0);
}

static void barrier_tree(const struct st_model *m)
{
    int top = 1;

    while (top < m->size)
        top <<= 1;
    for (int jump = 1; jump < top; jump <<= 1) {
        int partner = m->rank ^ jump;
        if (!(partner & (jump - 1)) && partner < m->size) /* up to a lower rank, later down to a higher one */
            send_to(m, partner, 0);
    }
}

static void tuned_barrier(const struct st_model *m)
{
    switch (choose(barrier_rules, m->size, 0)) {
    case 1:
        if (m->rank)
            send_to(m, 0, 0);
        else
            send_all(m, 0);
        break;
    case 3:
        barrier_doubling(m);
        break;
    case 4:
        for (int distance = 1; distance < m->size; distance <<= 1)
            send_to(m, ring(m, distance), 0);
        break;
    default:
        barrier_tree(m);
    }
}

/* Blocks that go out in step `distance` of Bruck's allgather. */
static int bruck_width(int distance, int size)
{
    return distance <= size / 2 ? distance : size - distance;
}

static void allgather_bruck(const struct st_model *m, struct st_counts counts, uint64_t element)
{
    for (int distance = 1; distance < m->size; distance <<= 1) {
        int width = bruck_width(distance, m->size), end = m->rank + width;
        uint64_t sum = end <= m->size ? sum_of(counts, m->rank, end)
                                      : sum_of(counts, m->rank, m->size) + sum_of(counts, 0, end - m->size);
        send_to(m, ring(m, -distance), sum * element);
    }
}

static void allgather_ring(const struct st_model *m, struct st_counts counts, uint64_t element)
{
    uint64_t all = sum_of(counts, 0, m->size) - st_at(counts, ring(m, 1));

    m->send(m->context, ring(m, 1), all * element, (uint64_t)m->size - 1);
}

/* Pairs of blocks travel along the ring in both directions, by even and odd steps. */
static void allgather_neighbours(const struct st_model *m, struct st_counts counts, uint64_t element)
{
    int even = m->rank % 2 == 0, towards[2] = {ring(m, even ? 1 : -1), ring(m, even ? -1 : 1)};
    int offset[2] = {even ? 2 : -2, even ? -2 : 2};
    int from[2] = {even ? m->rank : towards[0], even ? m->rank : towards[0]}, sending = from[0];

    if (m->size % 2) {
        allgather_ring(m, counts, element);
        return;
    }
    send_to(m, towards[0], st_at(counts, m->rank) * element);
    for (int i = 1; i < m->size / 2; i++) {
        int way = i % 2;
        send_to(m, towards[way], (st_at(counts, sending) + st_at(counts, sending + 1)) * element);
        from[way] = (from[way] + offset[way] + m->size) % m->size;
        sending = from[way];
    }
}

static void allgather_linear(const struct st_model *m, uint64_t bytes)
{
    st_tuned_gather(m, bytes, 0);
    st_tuned_bcast(m, (uint64_t)m->size, bytes, 0);
}

static void tuned_allgather(const struct st_model *m, uint64_t bytes, uint64_t decided)
{
    uint32_t algorithm = choose(allgather_rules, m->size, decided);
    bool power = power_below(m->size) == m->size;

    if (bytes == 0)
        return;
    if (algorithm == 1) {
        allgather_linear(m, bytes);
    } else if (algorithm == 3 && power) {
        for (int distance = 1; distance < m->size; distance <<= 1)
            send_to(m, m->rank ^ distance, bytes * (uint64_t)distance);
    } else if (algorithm == 2 || algorithm == 3) {
        for (int distance = 1; distance < m->size; distance <<= 1)
            send_to(m, ring(m, -distance), bytes * (uint64_t)bruck_width(distance, m->size));
    } else if (algorithm == 6) {
        send_to(m, m->rank ^ 1, bytes);
    } else if (algorithm == 4 || m->size % 2) {
        m->send(m->context, ring(m, 1), bytes * (uint64_t)(m->size - 1), (uint64_t)m->size - 1);
    } else {
        uint64_t steps = (uint64_t)m->size / 2;
        int first = m->rank % 2 ? -1 : 1;
        m->send(m->context, ring(m, first), bytes * (1 + 2 * ((steps - 1) / 2)), 1 + (steps - 1) / 2);
        if (steps > 1)
            m->send(m->context, ring(m, -first), bytes * 2 * (steps / 2), steps / 2);
    }
}

static void tuned_allgatherv(const struct st_model *m, struct st_counts counts, uint64_t element)
{
    uint64_t total = sum_of(counts, 0, m->size) * element;

    switch (choose(allgatherv_rules, m->size, total / (uint64_t)m->size)) {
    case 1:
        st_tuned_gatherv(m, st_at(counts, m->rank) * element, 0);
        st_tuned_bcast(m, 1, total, 0); /* one element of a type made for it */
        break;
    case 2:
        allgather_bruck(m, counts, element);
        break;
    case 3:
        allgather_ring(m, counts, element);
        break;
    case 4:
        allgather_neighbours(m, counts, element);
        break;
    default:
        send_to(m, m->rank ^ 1, st_at(counts, m->rank) * element);
    }
}

static void tuned_alltoall(const struct st_model *m, uint64_t bytes)
{
    if (bytes == 0)
        return;
    if (m->in_place || choose(alltoall_rules, m->size, bytes) != 3) {
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

/* All algorithms send each block once; only in place are empty ones left out. */
static void tuned_alltoallv(const struct st_model *m, struct st_counts counts, uint64_t element)
{
    for (int i = 0; i < m->size; i++)
        if (i != m->rank && (!m->in_place || st_at(counts, i)))
            send_to(m, i, st_at(counts, i) * element);
}

static void basic_alltoallw(const struct st_model *m, struct st_counts bytes)
{
    for (int i = 0; i < m->size; i++)
        if (i != m->rank && st_at(bytes, i))
            send_to(m, i, st_at(bytes, i));
}

/* Pairs of a power of two of ranks; the even ones of the first ranks beyond it take part through their neighbour. */
void st_allreduce_doubling(const struct st_model *m, uint64_t bytes)
{
    int power = power_below(m->size), extra = m->size - power, rank = m->rank - extra;

    if (m->rank < 2 * extra) {
        if (m->rank % 2 == 0) {
            send_to(m, m->rank + 1, bytes);
            return;
        }
        rank = m->rank / 2;
    }
    for (int distance = 1; distance < power; distance <<= 1) {
        int other = rank ^ distance;
        send_to(m, other < extra ? 2 * other + 1 : other + extra, bytes);
    }
    if (m->rank < 2 * extra)
        send_to(m, m->rank - 1, bytes);
}

/* One round of the ring reduces, a second one spreads the result; all of it goes to the next rank. */
static void allreduce_ring(const struct st_model *m, uint64_t count, uint64_t element)
{
    uint64_t sum;

    if (count < (uint64_t)m->size) {
        st_allreduce_doubling(m, count * element);
        return;
    }
    sum = 2 * count - block_of(count, m->size, ring(m, 1)) - block_of(count, m->size, ring(m, 2));
    m->send(m->context, ring(m, 1), sum * element, 2 * (uint64_t)(m->size - 1));
}

void st_allreduce_halving(const struct st_model *m, uint64_t count, uint64_t element)
{
    struct st_halving h;

    st_halving_run(m, count, element, &h);
    if (h.virtual_rank < 0)
        return;
    for (int step = h.steps - 1; step >= 0; step--)
        send_to(m, st_halving_peer(&h, h.virtual_rank ^ (1 << step)), h.kept[step] * element);
    if (m->rank < 2 * h.extra)
        send_to(m, m->rank + 1, count * element);
}

static void allreduce_linear(const struct st_model *m, uint64_t bytes)
{
    st_reduce_linear(m, bytes, 0);
    if (m->rank == 0)
        send_all(m, bytes);
}

static void tuned_allreduce(const struct st_model *m, uint64_t count, uint64_t element)
{
    uint64_t bytes = count * element;

    if (count == 0)
        return;
    switch (m->ordered ? choose(allreduce_ordered_rules, m->size, bytes) : choose(allreduce_rules, m->size, bytes)) {
    case 1:
        allreduce_linear(m, bytes);
        break;
    case 2:
        st_tuned_reduce(m, count, element, 0);
        st_tuned_bcast(m, count, element, 0);
        break;
    case 3:
        st_allreduce_doubling(m, bytes);
        break;
    case 4:
    case 5:
        allreduce_ring(m, count, element);
        break;
    default:
        if (count < (uint64_t)power_below(m->size) || m->ordered)
            allreduce_linear(m, bytes);
        else
            st_allreduce_halving(m, count, element);
    }
}

void st_linear_scan(const struct st_model *m, uint64_t count, uint64_t element)
{
    if (count && m->rank + 1 < m->size)
        send_to(m, m->rank + 1, count * element);
}


const struct st_algorithms st_openmpi_blocking = {
    .barrier = tuned_barrier,
    .bcast = st_tuned_bcast,
    .gather = st_tuned_gather,
    .gatherv = st_tuned_gatherv,
    .scatter = st_tuned_scatter,
    .scatterv = st_tuned_scatterv,
    .allgather = tuned_allgather,
    .allgatherv = tuned_allgatherv,
    .alltoall = tuned_alltoall,
    .alltoallv = tuned_alltoallv,
    .alltoallw = basic_alltoallw,
    .reduce = st_tuned_reduce,
    .allreduce = tuned_allreduce,
    .reduce_scatter = st_tuned_reduce_scatter,
    .reduce_scatter_block = st_tuned_reduce_scatter_block,
    .scan = st_linear_scan,
    .exscan = st_linear_scan,
};
