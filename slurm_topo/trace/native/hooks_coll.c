/* Collectives: what this rank sends in them, by the model of the library's algorithms. */
#include "backend.h"

#include <stdlib.h>

struct call {
    struct st_model model, local;
    const struct st_algorithms *does;
    const struct st_peers *peers;
    struct st_record *record; /* of a persistent request, else NULL */
    MPI_Request *request;
};

static void count(struct call *call, int world, uint64_t bytes, uint64_t messages)
{
    if (st_measuring)
        return;
    if (!call->record)
        st_count(ST_COLL, world, messages, bytes);
    else if (st_record_add(call->record, world, messages, bytes) != 0)
        st_counters_off("no memory for a persistent collective");
}

static void send(void *context, int peer, uint64_t bytes, uint64_t messages)
{
    struct call *call = context;
    count(call, st_world_rank(call->peers, peer), bytes, messages);
}

static void send_own(void *context, int peer, uint64_t bytes, uint64_t messages)
{
    struct call *call = context;
    count(call, st_world_rank(call->peers->own, peer), bytes, messages);
}

/* False where nothing is sent: a communicator of one rank. `op` is MPI_OP_NULL where nothing is reduced. */
static bool open_call(struct call *call, int mode, MPI_Request *request, MPI_Comm comm)
{
    const struct st_peers *peers = st_peers_of(comm);

    if (!peers || (peers->size == 1 && !peers->remote))
        return false;
    *call = (struct call){
        .model = {.rank = peers->rank, .size = peers->size, .remote = peers->remote, .send = send},
        .does = st_algorithms_of(mode != ST_BLOCKING, peers->remote != 0),
        .peers = peers,
        .request = request,
    };
    call->model.context = call;
    if (peers->remote) {
        call->local = (struct st_model){.rank = peers->rank, .size = peers->size, .send = send_own, .context = call};
        call->model.local = &call->local;
    }
    if (mode == ST_PERSISTENT && !(call->record = st_record_new(ST_COLL)))
        return false;
    return true;
}

static void close_call(struct call *call)
{
    if (!call->record)
        st_head->calls_coll++;
    else if (st_map_put(&st_requests, (uintptr_t)*call->request, call->record) != 0)
        st_record_free(call->record);
}

static void reduces(struct call *call, MPI_Op op)
{
    int commutes = 1;

    if (st_mpi.Op_commutative(op, &commutes) == MPI_SUCCESS)
        call->model.ordered = call->local.ordered = !commutes;
}

/* The root as the model names it. */
static int root_of(const struct call *call, int root)
{
    if (!call->model.remote)
        return root;
    return root == MPI_ROOT ? ST_ROOT : root == MPI_PROC_NULL ? ST_BYSTANDER : root;
}

/* Is this rank the one whose buffer describes the whole? */
static bool is_root(const struct call *call, int root)
{
    return root == (call->model.remote ? ST_ROOT : call->model.rank);
}

void st_barrier(ST_CALL, MPI_Comm comm)
{
    struct call call;

    if (!open_call(&call, mode, request, comm))
        return;
    call.does->barrier(&call.model);
    close_call(&call);
}

void st_bcast(ST_CALL, long long count, MPI_Datatype type, int root, MPI_Comm comm)
{
    struct call call;

    if (!open_call(&call, mode, request, comm))
        return;
    call.does->bcast(&call.model, (uint64_t)count, st_type_size(type), root_of(&call, root));
    close_call(&call);
}

void st_gather(ST_CALL, const void *buffer, long long count, MPI_Datatype type, long long recvcount,
               MPI_Datatype recvtype, int root, MPI_Comm comm)
{
    struct call call;
    bool receiving;

    (void)buffer;
    if (!open_call(&call, mode, request, comm))
        return;
    root = root_of(&call, root);
    receiving = is_root(&call, root);
    if (root != ST_BYSTANDER)
        call.does->gather(&call.model,
                          receiving ? (uint64_t)recvcount * st_type_size(recvtype) : (uint64_t)count * st_type_size(type),
                          root);
    close_call(&call);
}

void st_gatherv(ST_CALL, const void *buffer, long long count, MPI_Datatype type, int root, MPI_Comm comm)
{
    struct call call;

    (void)buffer;
    if (!open_call(&call, mode, request, comm))
        return;
    root = root_of(&call, root);
    if (!is_root(&call, root) && root != ST_BYSTANDER)
        call.does->gatherv(&call.model, (uint64_t)count * st_type_size(type), root);
    close_call(&call);
}

void st_scatter(ST_CALL, long long count, MPI_Datatype type, const void *recvbuf, long long recvcount,
                MPI_Datatype recvtype, int root, MPI_Comm comm)
{
    struct call call;

    (void)recvbuf;
    if (!open_call(&call, mode, request, comm))
        return;
    root = root_of(&call, root);
    if (root != ST_BYSTANDER)
        call.does->scatter(&call.model,
                           is_root(&call, root) ? (uint64_t)count * st_type_size(type)
                                                : (uint64_t)recvcount * st_type_size(recvtype),
                           root);
    close_call(&call);
}

void st_scatterv(ST_CALL, struct st_counts counts, MPI_Datatype type, int root, MPI_Comm comm)
{
    struct call call;

    if (!open_call(&call, mode, request, comm))
        return;
    root = root_of(&call, root);
    if (is_root(&call, root))
        call.does->scatterv(&call.model, counts, st_type_size(type), root);
    close_call(&call);
}

void st_allgather(ST_CALL, const void *buffer, long long count, MPI_Datatype type, long long recvcount,
                  MPI_Datatype recvtype, MPI_Comm comm)
{
    struct call call;
    uint64_t bytes, decided;

    if (!open_call(&call, mode, request, comm))
        return;
    call.model.in_place = buffer == MPI_IN_PLACE;
    if (call.model.in_place) {
        /* Open MPI multiplies the send count, which is without meaning here, by the size of the receive type. */
        bytes = (uint64_t)recvcount * st_type_size(recvtype);
        decided = (uint64_t)count * st_type_size(recvtype);
    } else {
        bytes = decided = (uint64_t)count * st_type_size(type);
    }
    call.does->allgather(&call.model, bytes, decided);
    close_call(&call);
}

void st_allgatherv(ST_CALL, const void *buffer, long long count, MPI_Datatype type, struct st_counts recvcounts,
                   MPI_Datatype recvtype, MPI_Comm comm)
{
    struct call call;

    if (!open_call(&call, mode, request, comm))
        return;
    call.model.in_place = buffer == MPI_IN_PLACE;
    if (call.model.remote)
        call.model.mine = (uint64_t)count * st_type_size(type);
    call.does->allgatherv(&call.model, recvcounts, st_type_size(recvtype));
    close_call(&call);
}

void st_alltoall(ST_CALL, const void *buffer, long long count, MPI_Datatype type, long long recvcount,
                 MPI_Datatype recvtype, MPI_Comm comm)
{
    struct call call;

    if (!open_call(&call, mode, request, comm))
        return;
    call.model.in_place = buffer == MPI_IN_PLACE;
    call.does->alltoall(&call.model, call.model.in_place ? (uint64_t)recvcount * st_type_size(recvtype)
                                                         : (uint64_t)count * st_type_size(type));
    close_call(&call);
}

void st_alltoallv(ST_CALL, const void *buffer, struct st_counts counts, MPI_Datatype type, struct st_counts recvcounts,
                  MPI_Datatype recvtype, MPI_Comm comm)
{
    struct call call;

    if (!open_call(&call, mode, request, comm))
        return;
    call.model.in_place = buffer == MPI_IN_PLACE;
    if (call.model.in_place)
        call.does->alltoallv(&call.model, recvcounts, st_type_size(recvtype));
    else
        call.does->alltoallv(&call.model, counts, st_type_size(type));
    close_call(&call);
}

/* Every rank has a type of its own: the counts become bytes. Types are C handles or Fortran's integers. */
static void alltoallw(ST_CALL, bool in_place, struct st_counts counts, const MPI_Datatype *types,
                      const MPI_Fint *fortran, MPI_Comm comm)
{
    struct call call;
    uint64_t *bytes;
    int n;

    if (!open_call(&call, mode, request, comm))
        return;
    n = call.model.remote ? call.model.remote : call.model.size;
    call.model.in_place = in_place;
    bytes = malloc((size_t)n * sizeof *bytes);
    for (int i = 0; bytes && i < n; i++)
        bytes[i] = st_at(counts, i) ? st_at(counts, i) * st_type_size(types ? types[i] : st_f_type(fortran[i])) : 0;
    if (bytes)
        call.does->alltoallw(&call.model, (struct st_counts){.wide = bytes});
    free(bytes);
    close_call(&call);
}

void st_alltoallw(ST_CALL, const void *buffer, struct st_counts counts, const MPI_Datatype types[],
                  struct st_counts recvcounts, const MPI_Datatype recvtypes[], MPI_Comm comm)
{
    bool in_place = buffer == MPI_IN_PLACE;
    alltoallw(mode, request, in_place, in_place ? recvcounts : counts, in_place ? recvtypes : types, NULL, comm);
}

void st_alltoallw_f(ST_CALL, const void *buffer, struct st_counts counts, const MPI_Fint types[],
                    struct st_counts recvcounts, const MPI_Fint recvtypes[], MPI_Comm comm)
{
    bool in_place = buffer == MPI_IN_PLACE;
    alltoallw(mode, request, in_place, in_place ? recvcounts : counts, NULL, in_place ? recvtypes : types, comm);
}

void st_reduce(ST_CALL, long long count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm)
{
    struct call call;

    if (!open_call(&call, mode, request, comm))
        return;
    reduces(&call, op);
    call.does->reduce(&call.model, (uint64_t)count, st_type_size(type), root_of(&call, root));
    close_call(&call);
}

void st_allreduce(ST_CALL, const void *buffer, long long count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    struct call call;

    if (!open_call(&call, mode, request, comm))
        return;
    reduces(&call, op);
    call.model.in_place = buffer == MPI_IN_PLACE;
    call.does->allreduce(&call.model, (uint64_t)count, st_type_size(type));
    close_call(&call);
}

void st_reduce_scatter(ST_CALL, struct st_counts counts, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    struct call call;

    if (!open_call(&call, mode, request, comm))
        return;
    reduces(&call, op);
    call.does->reduce_scatter(&call.model, counts, st_type_size(type));
    close_call(&call);
}

void st_reduce_scatter_block(ST_CALL, long long count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    struct call call;

    if (!open_call(&call, mode, request, comm))
        return;
    reduces(&call, op);
    call.does->reduce_scatter_block(&call.model, (uint64_t)count, st_type_size(type));
    close_call(&call);
}

void st_scan(ST_CALL, long long count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    struct call call;

    if (!open_call(&call, mode, request, comm))
        return;
    reduces(&call, op);
    call.does->scan(&call.model, (uint64_t)count, st_type_size(type));
    close_call(&call);
}

void st_exscan(ST_CALL, long long count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    struct call call;

    if (!open_call(&call, mode, request, comm))
        return;
    reduces(&call, op);
    call.does->exscan(&call.model, (uint64_t)count, st_type_size(type));
    close_call(&call);
}
