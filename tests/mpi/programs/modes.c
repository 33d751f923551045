/*
 * One way of communication a run: modes NAME. Rank r sends to (r + 1) % n, by each mode a number of messages and bytes
 * that follows from its text (tests/mpi/test_modes.py states them).
 */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size, right, left;
static int box[4096], got[4096];
static MPI_Comm world;

static void blocking(int (*send)(const void *, int, MPI_Datatype, int, int, MPI_Comm))
{
    MPI_Request r;
    MPI_Irecv(got, 4096, MPI_INT, left, 7, world, &r);
    MPI_Barrier(world); /* a ready send needs its receive to be there */
    send(box, 100, MPI_INT, right, 7, world);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
}

static void immediate(int (*send)(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *))
{
    MPI_Request r[2];
    MPI_Irecv(got, 4096, MPI_INT, left, 7, world, &r[0]);
    MPI_Barrier(world);
    send(box, 100, MPI_INT, right, 7, world, &r[1]);
    MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
}

static void persistent(int (*init)(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *))
{
    MPI_Request r[2];
    MPI_Recv_init(got, 4096, MPI_INT, left, 7, world, &r[0]);
    init(box, 100, MPI_INT, right, 7, world, &r[1]);
    for (int i = 0; i < 2; i++) {
        MPI_Start(&r[0]);
        MPI_Barrier(world);
        MPI_Start(&r[1]);
        MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
    }
    MPI_Barrier(world);
    if (init != MPI_Rsend_init) { /* a ready send cannot be started together with its receive */
        MPI_Startall(2, r);
        MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
    } else {
        MPI_Start(&r[0]);
        MPI_Barrier(world);
        MPI_Start(&r[1]);
        MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
    }
    MPI_Request_free(&r[0]);
    MPI_Request_free(&r[1]);
}

static void exchange(MPI_Comm comm, int to, int from, int count, MPI_Datatype type)
{
    MPI_Sendrecv(box, count, type, to, 1, got, 4096, MPI_INT, from, 1, comm, MPI_STATUS_IGNORE);
}

static void derived(void)
{
    MPI_Datatype type; /* 5 blocks of 3 int, 7 apart: 60 bytes of data in an extent of 124 */
    MPI_Type_vector(5, 3, 7, MPI_INT, &type);
    MPI_Type_commit(&type);
    exchange(world, right, left, 2, type);
    MPI_Type_free(&type);
}

static void split(void)
{
    MPI_Comm half; /* the ranks of one parity, backwards */
    int me, n;
    MPI_Comm_split(world, rank % 2, -rank, &half);
    MPI_Comm_rank(half, &me);
    MPI_Comm_size(half, &n);
    exchange(half, (me + 1) % n, (me + n - 1) % n, 10, MPI_INT);
    MPI_Comm_free(&half);
}

static void grid(void)
{
    int dims[1] = {size}, open_[1] = {0}, from, to;
    MPI_Comm cart;
    MPI_Cart_create(world, 1, dims, open_, 0, &cart);
    MPI_Cart_shift(cart, 0, 1, &from, &to); /* MPI_PROC_NULL at the ends */
    exchange(cart, to, from, 10, MPI_INT);
    MPI_Comm_free(&cart);
}

static void inter(void)
{
    MPI_Comm half, other;
    MPI_Comm_split(world, rank % 2, rank, &half);
    MPI_Intercomm_create(half, 0, world, 1 - rank % 2, 5, &other);
    exchange(other, rank / 2, rank / 2, 10, MPI_INT); /* with the neighbour of the other parity */
    MPI_Comm_free(&other);
    MPI_Comm_free(&half);
}

static void reuse(void)
{
    /* Communicators come and go, and their handles are used again for others. */
    for (int i = 0; i < 200; i++) {
        MPI_Comm some;
        int me, n, turned = i % 2 ? -rank : rank;
        MPI_Comm_split(world, 0, turned, &some);
        MPI_Comm_rank(some, &me);
        MPI_Comm_size(some, &n);
        exchange(some, (me + 1) % n, (me + n - 1) % n, 1, MPI_INT);
        MPI_Comm_free(&some);
    }
}

static void *thread(void *number)
{
    int tag = (int)(long)number;
    for (int i = 0; i < 100; i++) {
        int out = i, in;
        MPI_Sendrecv(&out, 1, MPI_INT, right, tag, &in, 1, MPI_INT, left, tag, world, MPI_STATUS_IGNORE);
    }
    return NULL;
}

static void threads(void)
{
    pthread_t t[4];
    for (long i = 0; i < 4; i++)
        pthread_create(&t[i], NULL, thread, (void *)i);
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
}

static void one_sided(const char *mode)
{
    MPI_Win win;
    int one = 1, result;
    MPI_Win_create(got, sizeof got, 4, MPI_INFO_NULL, world, &win);
    MPI_Win_fence(0, win);
    if (!strcmp(mode, "put"))
        MPI_Put(box, 10, MPI_INT, right, 0, 10, MPI_INT, win);
    else if (!strcmp(mode, "get"))
        MPI_Get(box, 10, MPI_INT, right, 0, 10, MPI_INT, win);
    else if (!strcmp(mode, "accumulate"))
        MPI_Accumulate(box, 10, MPI_INT, right, 0, 10, MPI_INT, MPI_SUM, win);
    else if (!strcmp(mode, "get_accumulate"))
        MPI_Get_accumulate(box, 10, MPI_INT, box + 100, 10, MPI_INT, right, 0, 10, MPI_INT, MPI_SUM, win);
    else if (!strcmp(mode, "no_op"))
        MPI_Get_accumulate(NULL, 0, MPI_DATATYPE_NULL, box + 100, 10, MPI_INT, right, 0, 10, MPI_INT, MPI_NO_OP, win);
    else if (!strcmp(mode, "fetch_and_op"))
        MPI_Fetch_and_op(&one, &result, MPI_INT, right, 0, MPI_SUM, win);
    else if (!strcmp(mode, "compare_and_swap"))
        MPI_Compare_and_swap(&one, box, &result, MPI_INT, right, 0, win);
    MPI_Win_fence(0, win);
    if (!strcmp(mode, "rput")) {
        MPI_Request r;
        MPI_Win_lock(MPI_LOCK_SHARED, right, 0, win);
        MPI_Rput(box, 10, MPI_INT, right, 0, 10, MPI_INT, win, &r);
        MPI_Wait(&r, MPI_STATUS_IGNORE);
        MPI_Win_unlock(right, win);
    }
    MPI_Win_free(&win);
}

static void neighbours(const char *mode)
{
    int dims[1] = {size}, closed[1] = {1}, counts[2] = {10, 20}, displs[2] = {0, 100};
    MPI_Comm cart;
    MPI_Request r;
    MPI_Cart_create(world, 1, dims, closed, 0, &cart);
    if (!strcmp(mode, "neighbor_allgather"))
        MPI_Neighbor_allgather(box, 10, MPI_INT, got, 10, MPI_INT, cart);
    else if (!strcmp(mode, "neighbor_alltoall"))
        MPI_Neighbor_alltoall(box, 10, MPI_INT, got, 10, MPI_INT, cart);
    else if (!strcmp(mode, "ineighbor_alltoallv")) {
        int back[2] = {20, 10};
        MPI_Ineighbor_alltoallv(box, counts, displs, MPI_INT, got, back, displs, MPI_INT, cart, &r);
        MPI_Wait(&r, MPI_STATUS_IGNORE);
    } else if (!strcmp(mode, "neighbor_alltoallw")) {
        MPI_Datatype types[2] = {MPI_INT, MPI_SHORT}, back_types[2] = {MPI_SHORT, MPI_INT};
        MPI_Aint at[2] = {0, 400};
        int same[2] = {10, 10};
        MPI_Neighbor_alltoallw(box, same, at, types, got, same, at, back_types, cart);
    }
    MPI_Comm_free(&cart);
}

static void directed(void)
{
    MPI_Comm graph; /* a ring with arrows */
    MPI_Dist_graph_create_adjacent(world, 1, &left, MPI_UNWEIGHTED, 1, &right, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &graph);
    MPI_Neighbor_alltoall(box, 10, MPI_INT, got, 10, MPI_INT, graph);
    MPI_Comm_free(&graph);
}

static void ring_of_types(void)
{
    MPI_Datatype *types = malloc((size_t)size * sizeof *types);
    int *counts = calloc((size_t)size, sizeof *counts), *back = calloc((size_t)size, sizeof *counts);
    int *displs = calloc((size_t)size, sizeof *displs);
    for (int i = 0; i < size; i++)
        types[i] = i % 2 ? MPI_INT : MPI_DOUBLE;
    counts[right] = 8 / (right % 2 ? 4 : 8) * 5; /* 40 bytes of the receiver's type */
    types[right] = right % 2 ? MPI_INT : MPI_DOUBLE;
    back[left] = 8 / (left % 2 ? 4 : 8) * 5;
    MPI_Alltoallw(box, counts, displs, types, got, back, displs, types, world);
    free(types), free(counts), free(back), free(displs);
}

static int buffered(const char *mode)
{
    static char space[1 << 16];
    return strstr(mode, "bsend") ? MPI_Buffer_attach(space, sizeof space) : 0;
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    int provided;

    MPI_Init_thread(&argc, &argv, strcmp(mode, "threads") ? MPI_THREAD_SINGLE : MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_dup(MPI_COMM_WORLD, &world);
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &size);
    right = (rank + 1) % size;
    left = (rank + size - 1) % size;
    buffered(mode);
#define MODE(name, call)                                                                                               \
    if (!strcmp(mode, name))                                                                                           \
    call
    MODE("send", blocking(MPI_Send));
    MODE("bsend", blocking(MPI_Bsend));
    MODE("ssend", blocking(MPI_Ssend));
    MODE("rsend", blocking(MPI_Rsend));
    MODE("isend", immediate(MPI_Isend));
    MODE("ibsend", immediate(MPI_Ibsend));
    MODE("issend", immediate(MPI_Issend));
    MODE("irsend", immediate(MPI_Irsend));
    MODE("send_init", persistent(MPI_Send_init));
    MODE("bsend_init", persistent(MPI_Bsend_init));
    MODE("ssend_init", persistent(MPI_Ssend_init));
    MODE("rsend_init", persistent(MPI_Rsend_init));
    MODE("sendrecv", exchange(world, right, left, 10, MPI_INT));
    MODE("sendrecv_replace", MPI_Sendrecv_replace(box, 10, MPI_INT, right, 1, left, 1, world, MPI_STATUS_IGNORE));
    MODE("empty", exchange(world, right, left, 0, MPI_INT));
    MODE("proc_null", MPI_Send(box, 10, MPI_INT, MPI_PROC_NULL, 1, world));
    MODE("self", exchange(world, rank, rank, 10, MPI_INT));
    MODE("derived", derived());
    MODE("split", split());
    MODE("cart", grid());
    MODE("inter", inter());
    MODE("reuse", reuse());
    MODE("threads", threads());
    MODE("dist_graph", directed());
    MODE("alltoallw", ring_of_types());
    if (strstr("put get accumulate get_accumulate no_op fetch_and_op compare_and_swap rput", mode))
        one_sided(mode);
    if (strstr(mode, "neighbor"))
        neighbours(mode);
    MPI_Comm_free(&world);
    MPI_Finalize();
    return 0;
}
