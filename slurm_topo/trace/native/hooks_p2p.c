/* Point-to-point and one-sided communication: one message, its true bytes. */
#include "backend.h"

void st_p2p(MPI_Comm comm, int dest, long long count, MPI_Datatype type)
{
    const struct st_peers *peers;

    if (dest < 0) /* MPI_PROC_NULL */
        return;
    peers = st_peers_of(comm);
    if (peers)
        st_count(ST_P2P, st_world_rank(peers, dest), 1, (uint64_t)count * st_type_size(type));
}

void st_p2p_init(MPI_Request *request, MPI_Comm comm, int dest, long long count, MPI_Datatype type, int parts)
{
    const struct st_peers *peers;
    struct st_record *record;

    if (dest < 0)
        return;
    peers = st_peers_of(comm);
    record = peers ? st_record_new(ST_P2P) : NULL;
    if (!record)
        return;
    if (st_record_add(record, st_world_rank(peers, dest), (uint64_t)parts,
                      (uint64_t)parts * (uint64_t)count * st_type_size(type)) != 0 ||
        st_map_put(&st_requests, (uintptr_t)*request, record) != 0)
        st_record_free(record);
}

static void one_sided(MPI_Win win, int target, uint64_t out, uint64_t in)
{
    const struct st_peers *peers = st_window_peers(win);

    if (!peers)
        return;
    target = st_world_rank(peers, target);
    if (out)
        st_count(ST_OUT, target, 1, out);
    if (in)
        st_count(ST_IN, target, 1, in);
}

void st_rma(MPI_Win win, int target, long long count, MPI_Datatype type, int out, int in)
{
    uint64_t bytes;

    if (target < 0)
        return;
    bytes = (uint64_t)count * st_type_size(type);
    one_sided(win, target, out ? bytes : 0, in ? bytes : 0);
}

void st_get_accumulate(MPI_Win win, int target, long long count, MPI_Datatype type, long long result_count,
                       MPI_Datatype result_type, MPI_Op op)
{
    if (target < 0)
        return;
    /* With MPI_NO_OP nothing travels to the target, and its origin count and type need not be valid. */
    one_sided(win, target, op == MPI_NO_OP ? 0 : (uint64_t)count * st_type_size(type),
              (uint64_t)result_count * st_type_size(result_type));
}

void st_compare_and_swap(MPI_Win win, int target, MPI_Datatype type)
{
    if (target >= 0)
        one_sided(win, target, 2 * st_type_size(type), st_type_size(type));
}
