/*
 * Open MPI's collectives in an intercommunicator. Blocking ones (coll/inter) gather in the own group (`m->local`),
 * exchange between the two ranks 0 and spread in the own group; non-blocking ones send directly.
 */
#include "model_openmpi.h"

static const struct st_algorithms *const own = &st_openmpi_blocking;

static void to_leader(const struct st_model *m, uint64_t bytes)
{
    if (m->rank == 0)
        send_to(m, 0, bytes);
}

/* In a group of one rank nothing is sent. */
static bool alone(const struct st_model *m)
{
    return m->size == 1;
}

static void own_bcast(const struct st_model *m, uint64_t count, uint64_t element)
{
    if (!alone(m))
        own->bcast(m->local, count, element, 0);
}

static void own_gather(const struct st_model *m, uint64_t bytes)
{
    if (!alone(m))
        own->gather(m->local, bytes, 0);
}

static void bcast(const struct st_model *m, uint64_t count, uint64_t element, int root)
{
    if (root == ST_ROOT)
        send_to(m, 0, count * element);
    else if (root != ST_BYSTANDER)
        own_bcast(m, count, element);
}

static void gather(const struct st_model *m, uint64_t bytes, int root)
{
    if (root < 0)
        return;
    own_gather(m, bytes);
    if (m->rank == 0)
        send_to(m, root, bytes * (uint64_t)m->size);
}

/* Rank 0 learns the counts first; the sum is not known here and taken as that of equal parts. */
static void gatherv(const struct st_model *m, uint64_t bytes, int root)
{
    if (root < 0)
        return;
    own_gather(m, sizeof(int));
    if (!alone(m))
        own->gatherv(m->local, bytes, 0);
    if (m->rank == 0)
        send_to(m, root, bytes * (uint64_t)m->size);
}

static void scatter(const struct st_model *m, uint64_t bytes, int root)
{
    if (root == ST_ROOT)
        send_to(m, 0, bytes * (uint64_t)m->remote);
    else if (root != ST_BYSTANDER && !alone(m))
        own->scatter(m->local, bytes, 0);
}

/* Known to the root only; what rank 0 of the other group passes on is counted as sent by the root. */
static void scatterv(const struct st_model *m, struct st_counts counts, uint64_t element, int root)
{
    if (root != ST_ROOT)
        return;
    send_to(m, 0, sizeof(int) * (uint64_t)m->remote);
    for (int i = 0; i < m->remote; i++)
        if (st_at(counts, i))
            send_to(m, i, st_at(counts, i) * element);
}

static void allgather(const struct st_model *m, uint64_t bytes, uint64_t decided)
{
    if (bytes)
        own_gather(m, bytes);
    to_leader(m, bytes * (uint64_t)m->size);
    if (decided)
        own_bcast(m, (uint64_t)m->remote, decided);
}

static void allgatherv(const struct st_model *m, struct st_counts counts, uint64_t element)
{
    own_gather(m, sizeof(int));
    if (!alone(m))
        own->gatherv(m->local, m->mine, 0);
    to_leader(m, m->mine * (uint64_t)m->size);
    own_bcast(m, 1, sum_of(counts, 0, m->remote) * element);
}

static void direct_all(const struct st_model *m, uint64_t bytes)
{
    for (int i = 0; i < m->remote; i++)
        send_to(m, i, bytes);
}

static void alltoallv(const struct st_model *m, struct st_counts counts, uint64_t element)
{
    for (int i = 0; i < m->remote; i++)
        if (st_at(counts, i))
            send_to(m, i, st_at(counts, i) * element);
}

static void alltoallw(const struct st_model *m, struct st_counts bytes)
{
    alltoallv(m, bytes, 1);
}

static void reduce(const struct st_model *m, uint64_t count, uint64_t element, int root)
{
    if (root < 0)
        return;
    if (!alone(m))
        own->reduce(m->local, count, element, 0);
    if (m->rank == 0)
        send_to(m, root, count * element);
}

static void allreduce(const struct st_model *m, uint64_t count, uint64_t element)
{
    if (!alone(m))
        own->reduce(m->local, count, element, 0);
    to_leader(m, count * element);
    own_bcast(m, count, element);
}

static void barrier(const struct st_model *m)
{
    allreduce(m, 1, sizeof(int));
}

static void reduce_scatter(const struct st_model *m, struct st_counts counts, uint64_t element)
{
    send_to(m, 0, sum_of(counts, 0, m->size) * element);
    if (!alone(m))
        own->scatterv(m->local, counts, element, 0);
}

static void reduce_scatter_block(const struct st_model *m, uint64_t count, uint64_t element)
{
    send_to(m, 0, count * (uint64_t)m->size * element);
    if (!alone(m))
        own->scatter(m->local, count * element, 0);
}

static void no_scan(const struct st_model *m, uint64_t count, uint64_t element)
{
    (void)m, (void)count, (void)element; /* not defined between two groups */
}

static void direct_barrier(const struct st_model *m)
{
    send_to(m, 0, 0);
    for (int i = 1; m->rank == 0 && i < m->remote; i++)
        send_to(m, i, 0);
}

static void direct_bcast(const struct st_model *m, uint64_t count, uint64_t element, int root)
{
    if (root == ST_ROOT)
        direct_all(m, count * element);
}

static void direct_gather(const struct st_model *m, uint64_t bytes, int root)
{
    if (root >= 0)
        send_to(m, root, bytes);
}

static void direct_scatter(const struct st_model *m, uint64_t bytes, int root)
{
    if (root == ST_ROOT)
        direct_all(m, bytes);
}

static void direct_scatterv(const struct st_model *m, struct st_counts counts, uint64_t element, int root)
{
    for (int i = 0; root == ST_ROOT && i < m->remote; i++)
        send_to(m, i, st_at(counts, i) * element);
}

static void direct_allgather(const struct st_model *m, uint64_t bytes, uint64_t decided)
{
    (void)decided;
    direct_all(m, bytes);
}

static void direct_allgatherv(const struct st_model *m, struct st_counts counts, uint64_t element)
{
    (void)counts, (void)element;
    if (m->mine)
        direct_all(m, m->mine);
}

static void direct_reduce(const struct st_model *m, uint64_t count, uint64_t element, int root)
{
    if (root >= 0)
        send_to(m, root, count * element);
}

/* Each rank gives its part to the other group's rank 0; the two swap the results and hand them out. */
static void direct_allreduce(const struct st_model *m, uint64_t count, uint64_t element)
{
    if (count == 0)
        return;
    send_to(m, 0, count * element);
    for (int i = 0; m->rank == 0 && i < m->remote; i++)
        send_to(m, i, count * element);
}

static void direct_reduce_scatter(const struct st_model *m, struct st_counts counts, uint64_t element)
{
    send_to(m, 0, sum_of(counts, 0, m->size) * element);
    for (int i = 1; m->rank == 0 && i < m->size; i++)
        send_to(m->local, i, st_at(counts, i) * element);
}

static void direct_reduce_scatter_block(const struct st_model *m, uint64_t count, uint64_t element)
{
    send_to(m, 0, count * (uint64_t)m->size * element);
    if (m->rank == 0)
        send_all(m->local, count * element);
}

const struct st_algorithms st_openmpi_inter_blocking = {
    .barrier = barrier,
    .bcast = bcast,
    .gather = gather,
    .gatherv = gatherv,
    .scatter = scatter,
    .scatterv = scatterv,
    .allgather = allgather,
    .allgatherv = allgatherv,
    .alltoall = direct_all,
    .alltoallv = alltoallv,
    .alltoallw = alltoallw,
    .reduce = reduce,
    .allreduce = allreduce,
    .reduce_scatter = reduce_scatter,
    .reduce_scatter_block = reduce_scatter_block,
    .scan = no_scan,
    .exscan = no_scan,
};

const struct st_algorithms st_openmpi_inter_nonblocking = {
    .barrier = direct_barrier,
    .bcast = direct_bcast,
    .gather = direct_gather,
    .gatherv = direct_gather,
    .scatter = direct_scatter,
    .scatterv = direct_scatterv,
    .allgather = direct_allgather,
    .allgatherv = direct_allgatherv,
    .alltoall = direct_all,
    .alltoallv = alltoallv,
    .alltoallw = alltoallw,
    .reduce = direct_reduce,
    .allreduce = direct_allreduce,
    .reduce_scatter = direct_reduce_scatter,
    .reduce_scatter_block = direct_reduce_scatter_block,
    .scan = no_scan,
    .exscan = no_scan,
};
