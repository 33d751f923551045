/* Neighbourhood collectives: one message to each destination of the virtual topology. */
#include "backend.h"

struct neighbours {
    struct st_peers *peers;
    int count;
    struct st_record *record;
};

static bool open_neighbours(struct neighbours *n, int mode, MPI_Comm comm)
{
    n->peers = st_peers_of(comm);
    n->count = n->peers ? st_neighbours(n->peers, comm) : 0;
    n->record = mode == ST_PERSISTENT ? st_record_new(ST_COLL) : NULL;
    return n->peers && (mode != ST_PERSISTENT || n->record);
}

static void send(struct neighbours *n, int i, uint64_t bytes)
{
    int to = n->peers->neighbour[i];

    if (to < 0 || st_measuring) /* beyond the edge of a grid */
        return;
    to = st_world_rank(n->peers, to);
    if (!n->record)
        st_count(ST_COLL, to, 1, bytes);
    else if (st_record_add(n->record, to, 1, bytes) != 0)
        st_counters_off("no memory for a persistent collective");
}

static void close_neighbours(struct neighbours *n, MPI_Request *request)
{
    if (!n->record)
        st_head->calls_coll++;
    else if (st_map_put(&st_requests, (uintptr_t)*request, n->record) != 0)
        st_record_free(n->record);
}

void st_neighbor_allgather(ST_CALL, long long count, MPI_Datatype type, MPI_Comm comm)
{
    struct neighbours n;

    if (!open_neighbours(&n, mode, comm))
        return;
    for (int i = 0; i < n.count; i++)
        send(&n, i, (uint64_t)count * st_type_size(type));
    close_neighbours(&n, request);
}

void st_neighbor_alltoallv(ST_CALL, struct st_counts counts, MPI_Datatype type, MPI_Comm comm)
{
    struct neighbours n;

    if (!open_neighbours(&n, mode, comm))
        return;
    for (int i = 0; i < n.count; i++)
        send(&n, i, st_at(counts, i) * st_type_size(type));
    close_neighbours(&n, request);
}

void st_neighbor_alltoallw(ST_CALL, struct st_counts counts, const MPI_Datatype types[], MPI_Comm comm)
{
    struct neighbours n;

    if (!open_neighbours(&n, mode, comm))
        return;
    for (int i = 0; i < n.count; i++)
        send(&n, i, st_at(counts, i) ? st_at(counts, i) * st_type_size(types[i]) : 0);
    close_neighbours(&n, request);
}

void st_neighbor_alltoallw_f(ST_CALL, struct st_counts counts, const MPI_Fint types[], MPI_Comm comm)
{
    struct neighbours n;

    if (!open_neighbours(&n, mode, comm))
        return;
    for (int i = 0; i < n.count; i++)
        send(&n, i, st_at(counts, i) ? st_at(counts, i) * st_type_size(st_f_type(types[i])) : 0);
    close_neighbours(&n, request);
}
