/*
 * Runs collectives over sizes, roots and communicators, and after each of them compares what the tracer counted with
 * what Open MPI's monitoring component saw. Prints every difference, and at the end the number of cases and failures.
 */
#include "counters.h"

#define MOST (1 << 21)

static const struct st_header *own;
static char *in, *out;
static int *counts, *displs, *types_n;
static int cases, failures, rank, world;

static void check(const char *what, long long size, int root, const struct traffic *own_before,
                  const struct traffic *seen_before, MPI_Comm comm)
{
    static struct traffic now, seen;
    int bad = 0, sum = 0, n;

    read_own(own, &now);
    read_monitoring(&seen);
    for (int i = 0; i < world; i++) {
        long long messages = (long long)(now.messages[i] - own_before->messages[i]);
        long long bytes = (long long)(now.bytes[i] - own_before->bytes[i]);
        long long messages_seen = (long long)(seen.messages[i] - seen_before->messages[i]);
        long long bytes_seen = (long long)(seen.bytes[i] - seen_before->bytes[i]);
        if (i != rank && (messages != messages_seen || bytes != bytes_seen)) {
            bad = 1;
            fprintf(stderr, "%s size=%lld root=%d: %d -> %d traced %lld/%lld seen %lld/%lld\n", what, size, root, rank,
                    i, messages, bytes, messages_seen, bytes_seen);
        }
    }
    MPI_Comm_size(comm, &n);
    PMPI_Allreduce(&bad, &sum, 1, MPI_INT, MPI_SUM, comm);
    cases++;
    failures += sum != 0;
}

#define TRY(what, size, root, call)                                                                                    \
    do {                                                                                                               \
        static struct traffic own_before, seen_before;                                                                 \
        PMPI_Barrier(comm);                                                                                            \
        read_own(own, &own_before);                                                                                    \
        read_monitoring(&seen_before);                                                                                 \
        call;                                                                                                          \
        check(what, size, root, &own_before, &seen_before, comm);                                                      \
    } while (0)

static void wait_for(MPI_Request *request)
{
    MPI_Wait(request, MPI_STATUS_IGNORE);
}

static void last_of(int *v, void *w, int *n, MPI_Datatype *type)
{
    (void)v, (void)w, (void)n, (void)type;
}

static void blocking(MPI_Comm comm, int n, int size, int root, MPI_Op ordered)
{
    int me, total = 0;

    MPI_Comm_rank(comm, &me);
    for (int i = 0; i < n; i++) {
        counts[i] = size + i;
        displs[i] = total;
        total += counts[i];
    }
    TRY("bcast", size, root, MPI_Bcast(in, size, MPI_BYTE, root, comm));
    TRY("bcast of int", size, root, MPI_Bcast(in, size / 4, MPI_INT, root, comm));
    TRY("gather", size, root, MPI_Gather(in, size, MPI_BYTE, out, size, MPI_BYTE, root, comm));
    TRY("gatherv", size, root, MPI_Gatherv(in, counts[me], MPI_BYTE, out, counts, displs, MPI_BYTE, root, comm));
    TRY("scatter", size, root, MPI_Scatter(in, size, MPI_BYTE, out, size, MPI_BYTE, root, comm));
    TRY("scatterv", size, root, MPI_Scatterv(in, counts, displs, MPI_BYTE, out, counts[me], MPI_BYTE, root, comm));
    TRY("reduce", size, root, MPI_Reduce(in, out, size, MPI_BYTE, MPI_BOR, root, comm));
    TRY("reduce of int", size, root, MPI_Reduce(in, out, size / 4, MPI_INT, MPI_SUM, root, comm));
    TRY("reduce in order", size, root, MPI_Reduce(in, out, size / 4, MPI_INT, ordered, root, comm));
    if (root)
        return;
    TRY("barrier", 0, 0, MPI_Barrier(comm));
    TRY("allgather", size, 0, MPI_Allgather(in, size, MPI_BYTE, out, size, MPI_BYTE, comm));
    TRY("allgather in place", size, 0, MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, out, size, MPI_BYTE, comm));
    TRY("allgatherv", size, 0, MPI_Allgatherv(in, counts[me], MPI_BYTE, out, counts, displs, MPI_BYTE, comm));
    TRY("allreduce", size, 0, MPI_Allreduce(in, out, size, MPI_BYTE, MPI_BOR, comm));
    TRY("allreduce of int", size, 0, MPI_Allreduce(in, out, size / 4, MPI_INT, MPI_SUM, comm));
    TRY("allreduce in place", size, 0, MPI_Allreduce(MPI_IN_PLACE, out, size / 4, MPI_INT, MPI_SUM, comm));
    TRY("allreduce in order", size, 0, MPI_Allreduce(in, out, size / 4, MPI_INT, ordered, comm));
    TRY("reduce_scatter", size, 0, MPI_Reduce_scatter(in, out, counts, MPI_BYTE, MPI_BOR, comm));
    TRY("reduce_scatter in order", size, 0,
        (types_n[0] = 0, MPI_Reduce_scatter(in, out, counts, MPI_BYTE, ordered, comm)));
    TRY("reduce_scatter_block", size, 0, MPI_Reduce_scatter_block(in, out, size, MPI_BYTE, MPI_BOR, comm));
    TRY("scan", size, 0, MPI_Scan(in, out, size, MPI_BYTE, MPI_BOR, comm));
    TRY("exscan", size, 0, MPI_Exscan(in, out, size, MPI_BYTE, MPI_BOR, comm));
    TRY("alltoall", size, 0, MPI_Alltoall(in, size, MPI_BYTE, out, size, MPI_BYTE, comm));
    TRY("alltoall in place", size, 0,
        MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, out, size, MPI_BYTE, comm));
    for (int i = 0; i < n; i++)
        counts[i] = (i + me) % 3 ? size : 0; /* symmetric, with empty blocks */
    TRY("alltoallv", size, 0,
        MPI_Alltoallv(in, counts, displs, MPI_BYTE, out, counts, displs, MPI_BYTE, comm));
}

static void nonblocking(MPI_Comm comm, int n, int size, int root, MPI_Op ordered)
{
    MPI_Request r;
    int me, total = 0;

    MPI_Comm_rank(comm, &me);
    for (int i = 0; i < n; i++) {
        counts[i] = size + i;
        displs[i] = total;
        total += counts[i];
    }
    TRY("ibcast", size, root, (MPI_Ibcast(in, size, MPI_BYTE, root, comm, &r), wait_for(&r)));
    TRY("igather", size, root, (MPI_Igather(in, size, MPI_BYTE, out, size, MPI_BYTE, root, comm, &r), wait_for(&r)));
    TRY("igatherv", size, root,
        (MPI_Igatherv(in, counts[me], MPI_BYTE, out, counts, displs, MPI_BYTE, root, comm, &r), wait_for(&r)));
    TRY("iscatter", size, root, (MPI_Iscatter(in, size, MPI_BYTE, out, size, MPI_BYTE, root, comm, &r), wait_for(&r)));
    TRY("iscatterv", size, root,
        (MPI_Iscatterv(in, counts, displs, MPI_BYTE, out, counts[me], MPI_BYTE, root, comm, &r), wait_for(&r)));
    TRY("ireduce", size, root, (MPI_Ireduce(in, out, size, MPI_BYTE, MPI_BOR, root, comm, &r), wait_for(&r)));
    TRY("ireduce in order", size, root,
        (MPI_Ireduce(in, out, size / 4, MPI_INT, ordered, root, comm, &r), wait_for(&r)));
    if (root)
        return;
    TRY("ibarrier", 0, 0, (MPI_Ibarrier(comm, &r), wait_for(&r)));
    TRY("iallgather", size, 0, (MPI_Iallgather(in, size, MPI_BYTE, out, size, MPI_BYTE, comm, &r), wait_for(&r)));
    TRY("iallgatherv", size, 0,
        (MPI_Iallgatherv(in, counts[me], MPI_BYTE, out, counts, displs, MPI_BYTE, comm, &r), wait_for(&r)));
    TRY("iallreduce", size, 0, (MPI_Iallreduce(in, out, size, MPI_BYTE, MPI_BOR, comm, &r), wait_for(&r)));
    TRY("iallreduce in place", size, 0,
        (MPI_Iallreduce(MPI_IN_PLACE, out, size, MPI_BYTE, MPI_BOR, comm, &r), wait_for(&r)));
    TRY("ireduce_scatter", size, 0,
        (MPI_Ireduce_scatter(in, out, counts, MPI_BYTE, MPI_BOR, comm, &r), wait_for(&r)));
    TRY("ireduce_scatter_block", size, 0,
        (MPI_Ireduce_scatter_block(in, out, size, MPI_BYTE, MPI_BOR, comm, &r), wait_for(&r)));
    TRY("iscan", size, 0, (MPI_Iscan(in, out, size, MPI_BYTE, MPI_BOR, comm, &r), wait_for(&r)));
    TRY("iexscan", size, 0, (MPI_Iexscan(in, out, size, MPI_BYTE, MPI_BOR, comm, &r), wait_for(&r)));
    TRY("ialltoall", size, 0, (MPI_Ialltoall(in, size, MPI_BYTE, out, size, MPI_BYTE, comm, &r), wait_for(&r)));
    for (int i = 0; i < n; i++)
        counts[i] = (i + me) % 3 ? size : 0;
    TRY("ialltoallv", size, 0,
        (MPI_Ialltoallv(in, counts, displs, MPI_BYTE, out, counts, displs, MPI_BYTE, comm, &r), wait_for(&r)));
}

/* Between the even and the odd ranks; `comm` is all of them, for the bookkeeping. */
static void between(MPI_Comm comm, int size, MPI_Op ordered)
{
    static MPI_Comm half, other; /* never freed: the monitoring component fails at that */
    MPI_Request r;
    int me, n, far, odd = rank % 2, root, total = 0;

    if (!half) {
        PMPI_Comm_split(MPI_COMM_WORLD, odd, rank, &half);
        PMPI_Intercomm_create(half, 0, MPI_COMM_WORLD, !odd, 5, &other);
    }
    MPI_Comm_rank(other, &me);
    MPI_Comm_size(other, &n);
    MPI_Comm_remote_size(other, &far);
    /* the last of the odd ranks is the root */
    root = odd ? (me == n - 1 ? MPI_ROOT : MPI_PROC_NULL) : far - 1;
    for (int i = 0; i < world; i++) {
        counts[i] = size; /* equal: the sum of unequal ones is not known to the rank that passes it on */
        displs[i] = total;
        total += size;
    }
    TRY("inter bcast", size, 0, MPI_Bcast(in, size, MPI_BYTE, root, other));
    TRY("inter gather", size, 0, MPI_Gather(in, size, MPI_BYTE, out, size, MPI_BYTE, root, other));
    TRY("inter gatherv", size, 0, MPI_Gatherv(in, size, MPI_BYTE, out, counts, displs, MPI_BYTE, root, other));
    TRY("inter scatter", size, 0, MPI_Scatter(in, size, MPI_BYTE, out, size, MPI_BYTE, root, other));
    TRY("inter reduce", size, 0, MPI_Reduce(in, out, size / 4, MPI_INT, MPI_SUM, root, other));
    TRY("inter barrier", 0, 0, MPI_Barrier(other));
    TRY("inter allgather", size, 0, MPI_Allgather(in, size, MPI_BYTE, out, size, MPI_BYTE, other));
    TRY("inter allgatherv", size, 0, MPI_Allgatherv(in, size, MPI_BYTE, out, counts, displs, MPI_BYTE, other));
    TRY("inter allreduce", size, 0, MPI_Allreduce(in, out, size / 4, MPI_INT, MPI_SUM, other));
    TRY("inter allreduce in order", size, 0, MPI_Allreduce(in, out, size / 4, MPI_INT, ordered, other));
    TRY("inter alltoall", size, 0, MPI_Alltoall(in, size, MPI_BYTE, out, size, MPI_BYTE, other));
    TRY("inter alltoallv", size, 0,
        MPI_Alltoallv(in, counts, displs, MPI_BYTE, out, counts, displs, MPI_BYTE, other));
    TRY("inter ibcast", size, 0, (MPI_Ibcast(in, size, MPI_BYTE, root, other, &r), wait_for(&r)));
    TRY("inter igather", size, 0,
        (MPI_Igather(in, size, MPI_BYTE, out, size, MPI_BYTE, root, other, &r), wait_for(&r)));
    TRY("inter iscatterv", size, 0,
        (MPI_Iscatterv(in, counts, displs, MPI_BYTE, out, size, MPI_BYTE, root, other, &r), wait_for(&r)));
    TRY("inter iallgather", size, 0,
        (MPI_Iallgather(in, size, MPI_BYTE, out, size, MPI_BYTE, other, &r), wait_for(&r)));
    TRY("inter iallreduce", size, 0, (MPI_Iallreduce(in, out, size, MPI_BYTE, MPI_BOR, other, &r), wait_for(&r)));
    TRY("inter ireduce", size, 0, (MPI_Ireduce(in, out, size, MPI_BYTE, MPI_BOR, root, other, &r), wait_for(&r)));
    TRY("inter ialltoall", size, 0,
        (MPI_Ialltoall(in, size, MPI_BYTE, out, size, MPI_BYTE, other, &r), wait_for(&r)));
    TRY("inter ibarrier", size, 0, (MPI_Ibarrier(other, &r), wait_for(&r)));
}

int main(int argc, char **argv)
{
    MPI_Comm comm;
    MPI_Op ordered;
    int n;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world);
    own = own_counters();
    PMPI_Barrier(MPI_COMM_WORLD);
    if (!own || !monitoring_calls) {
        fprintf(stderr, "no counters or no monitoring\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Op_create((MPI_User_function *)last_of, 0, &ordered);
    in = calloc((size_t)world + 1, MOST + 4096);
    out = calloc((size_t)world + 1, MOST + 4096);
    counts = calloc((size_t)world, sizeof(int));
    displs = calloc((size_t)world, sizeof(int));
    types_n = calloc((size_t)world, sizeof(int));
    PMPI_Comm_split(MPI_COMM_WORLD, 0, world - rank, &comm); /* the world backwards */
    MPI_Comm_size(comm, &n);
    for (int i = 2; argv[1][0] == 'i' && i < argc; i++)
        between(comm, atoi(argv[i]), ordered);
    for (int i = 2; argv[1][0] != 'i' && i < argc; i++)
        for (int root = 0; root < n; root += n > 3 ? n - 2 : 1) {
            int size = atoi(argv[i]);
            if (size > MOST)
                size = MOST;
            if (argv[1][0] == 'b')
                blocking(comm, n, size, root, ordered);
            else
                nonblocking(comm, n, size, root, ordered);
        }
    if (rank == 0)
        printf("cases %d failures %d\n", cases, failures);
    MPI_Finalize();
    return 0;
}
