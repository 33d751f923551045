/* What the files of an ABI library share: the real MPI functions, communicators, hooks. */
#ifndef ST_BACKEND_H
#define ST_BACKEND_H

#include "abi.h"
#include "counters.h"
#include "dispatch.h"
#include "map.h"
#include "model.h"

enum {
#define ST_SYMBOL(number, name, real) ST_I_##name = number,
#include "dispatch_table.h"
#undef ST_SYMBOL
    ST_SYMBOLS
};

/* What stands behind each wrapper. */
extern void **st_real;

/* MPI functions that the tracer itself calls, by the P names of the loaded library. */
struct st_mpi {
    int (*Comm_size)(MPI_Comm, int *);
    int (*Comm_rank)(MPI_Comm, int *);
    int (*Comm_group)(MPI_Comm, MPI_Group *);
    int (*Comm_remote_group)(MPI_Comm, MPI_Group *);
    int (*Comm_remote_size)(MPI_Comm, int *);
    int (*Comm_test_inter)(MPI_Comm, int *);
    int (*Comm_get_parent)(MPI_Comm *);
    int (*Comm_create_keyval)(int (*copy)(MPI_Comm, int, void *, void *, void *, int *),
                              int (*freed)(MPI_Comm, int, void *, void *), int *, void *);
    int (*Comm_set_attr)(MPI_Comm, int, void *);
    int (*Win_create_keyval)(int (*copy)(MPI_Win, int, void *, void *, void *, int *),
                             int (*freed)(MPI_Win, int, void *, void *), int *, void *);
    int (*Win_set_attr)(MPI_Win, int, void *);
    int (*Win_get_group)(MPI_Win, MPI_Group *);
    int (*Group_size)(MPI_Group, int *);
    int (*Group_translate_ranks)(MPI_Group, int, const int *, MPI_Group, int *);
    int (*Group_free)(MPI_Group *);
    int (*Type_size_x)(MPI_Datatype, MPI_Count *);
    int (*Op_commutative)(MPI_Op, int *);
    int (*Topo_test)(MPI_Comm, int *);
    int (*Cartdim_get)(MPI_Comm, int *);
    int (*Cart_shift)(MPI_Comm, int, int, int *, int *);
    int (*Graph_neighbors_count)(MPI_Comm, int, int *);
    int (*Graph_neighbors)(MPI_Comm, int, int, int *);
    int (*Dist_graph_neighbors_count)(MPI_Comm, int *, int *, int *);
    int (*Dist_graph_neighbors)(MPI_Comm, int, int *, int *, int, int *, int *);
    int (*Initialized)(int *);
    int (*Query_thread)(int *);
    int (*Get_library_version)(char *, int *);
};
extern struct st_mpi st_mpi;

/* Communicators and windows to struct st_peers, persistent requests to struct st_record. */
extern struct st_map st_comms, st_windows, st_requests;

/* The ranks that a communicator or a window reaches, as ranks of MPI_COMM_WORLD. */
struct st_peers {
    int size, rank;       /* of the local group; rank is -1 in a window */
    int remote;           /* size of the remote group, 0 in an intra-communicator */
    int first, step;      /* world = first + step * rank, where table is NULL */
    int *table;           /* world rank of each peer, -1 in another world */
    int neighbours;       /* -1: not asked yet */
    struct st_peers *own; /* the own group of an intercommunicator, else NULL */
    int *neighbour;       /* destinations of the virtual topology, in order, -1 for none */
};

struct st_peers *st_peers_of(MPI_Comm comm);
struct st_peers *st_window_peers(MPI_Win win);
int st_peers_open(int rank, int size);
int st_neighbours(struct st_peers *peers, MPI_Comm comm);

static inline int st_world_rank(const struct st_peers *peers, int rank)
{
    int reach = peers->remote ? peers->remote : peers->size;
    if ((unsigned)rank >= (unsigned)reach)
        return -1;
    return peers->table ? peers->table[rank] : peers->first + peers->step * rank;
}

/* Of the loaded library: in abi_<library>.c. */
int st_abi_open(st_find_fn find);
const struct st_algorithms *st_algorithms_of(bool nonblocking, bool inter);

uint64_t st_type_size(MPI_Datatype type);

/* The library itself reports its messages: collectives are not modelled. */
extern bool st_measuring;

enum st_mode { ST_BLOCKING, ST_NONBLOCKING, ST_PERSISTENT };

/* Time spent waiting. */
enum st_wait { ST_WAIT_P2P, ST_WAIT_COLL };
uint64_t st_wait_begin(void);
void st_wait_end(enum st_wait kind, uint64_t begun);

/* What a persistent request sends at each start. */
struct st_record {
    enum st_kind kind;
    int count, room;
    struct st_send {
        int peer;
        uint64_t messages, bytes;
    } *sends;
};
struct st_record *st_record_new(enum st_kind kind);
int st_record_add(struct st_record *record, int peer, uint64_t messages, uint64_t bytes);
void st_record_free(struct st_record *record);

/* Hooks, named in functions.txt. */
void st_p2p(MPI_Comm comm, int dest, long long count, MPI_Datatype type);
void st_p2p_init(MPI_Request *request, MPI_Comm comm, int dest, long long count, MPI_Datatype type, int parts);
void st_start(int count, MPI_Request *requests);
void st_start_f(int count, MPI_Fint *requests);
void st_request_free(MPI_Request *request);
void st_request_free_f(MPI_Fint *request);
void st_rma(MPI_Win win, int target, long long count, MPI_Datatype type, int out, int in);
void st_get_accumulate(MPI_Win win, int target, long long count, MPI_Datatype type, long long result_count,
                       MPI_Datatype result_type, MPI_Op op);
void st_compare_and_swap(MPI_Win win, int target, MPI_Datatype type);

#define ST_CALL int mode, MPI_Request *request
void st_barrier(ST_CALL, MPI_Comm comm);
void st_bcast(ST_CALL, long long count, MPI_Datatype type, int root, MPI_Comm comm);
void st_gather(ST_CALL, const void *buffer, long long count, MPI_Datatype type, long long recvcount,
               MPI_Datatype recvtype, int root, MPI_Comm comm);
void st_gatherv(ST_CALL, const void *buffer, long long count, MPI_Datatype type, int root, MPI_Comm comm);
void st_scatter(ST_CALL, long long count, MPI_Datatype type, const void *recvbuf, long long recvcount,
                MPI_Datatype recvtype, int root, MPI_Comm comm);
void st_scatterv(ST_CALL, struct st_counts counts, MPI_Datatype type, int root, MPI_Comm comm);
void st_allgather(ST_CALL, const void *buffer, long long count, MPI_Datatype type, long long recvcount,
                  MPI_Datatype recvtype, MPI_Comm comm);
void st_allgatherv(ST_CALL, const void *buffer, long long count, MPI_Datatype type, struct st_counts recvcounts,
                   MPI_Datatype recvtype, MPI_Comm comm);
void st_alltoall(ST_CALL, const void *buffer, long long count, MPI_Datatype type, long long recvcount,
                 MPI_Datatype recvtype, MPI_Comm comm);
void st_alltoallv(ST_CALL, const void *buffer, struct st_counts counts, MPI_Datatype type, struct st_counts recvcounts,
                  MPI_Datatype recvtype, MPI_Comm comm);
void st_alltoallw(ST_CALL, const void *buffer, struct st_counts counts, const MPI_Datatype types[],
                  struct st_counts recvcounts, const MPI_Datatype recvtypes[], MPI_Comm comm);
void st_alltoallw_f(ST_CALL, const void *buffer, struct st_counts counts, const MPI_Fint types[],
                    struct st_counts recvcounts, const MPI_Fint recvtypes[], MPI_Comm comm);
void st_reduce(ST_CALL, long long count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm);
void st_allreduce(ST_CALL, const void *buffer, long long count, MPI_Datatype type, MPI_Op op, MPI_Comm comm);
void st_reduce_scatter(ST_CALL, struct st_counts counts, MPI_Datatype type, MPI_Op op, MPI_Comm comm);
void st_reduce_scatter_block(ST_CALL, long long count, MPI_Datatype type, MPI_Op op, MPI_Comm comm);
void st_scan(ST_CALL, long long count, MPI_Datatype type, MPI_Op op, MPI_Comm comm);
void st_exscan(ST_CALL, long long count, MPI_Datatype type, MPI_Op op, MPI_Comm comm);
void st_neighbor_allgather(ST_CALL, long long count, MPI_Datatype type, MPI_Comm comm);
void st_neighbor_alltoallv(ST_CALL, struct st_counts counts, MPI_Datatype type, MPI_Comm comm);
void st_neighbor_alltoallw(ST_CALL, struct st_counts counts, const MPI_Datatype types[], MPI_Comm comm);
void st_neighbor_alltoallw_f(ST_CALL, struct st_counts counts, const MPI_Fint types[], MPI_Comm comm);

#endif
