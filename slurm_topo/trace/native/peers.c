/* Which ranks of MPI_COMM_WORLD a communicator or a window reaches; asked once, forgotten when it is freed. */
#include "backend.h"

#include <pthread.h>
#include <stdlib.h>

struct st_map st_comms = ST_MAP_EMPTY;
struct st_map st_windows = ST_MAP_EMPTY;

static struct st_peers world;
static MPI_Group world_group;
static int comm_key, window_key;

static void peers_free(struct st_peers *peers)
{
    if (!peers)
        return;
    free(peers->table);
    free(peers->neighbour);
    if (peers->own)
        free(peers->own->table);
    free(peers->own);
    free(peers);
}

static int comm_freed(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)key, (void)value, (void)extra;
    peers_free(st_map_take(&st_comms, (uintptr_t)comm));
    return MPI_SUCCESS;
}

static int window_freed(MPI_Win window, int key, void *value, void *extra)
{
    (void)key, (void)value, (void)extra;
    peers_free(st_map_take(&st_windows, (uintptr_t)window));
    return MPI_SUCCESS;
}

/* A duplicate asks for itself. (MPI_COMM_NULL_COPY_FN would be a symbol of the library.) */
static int comm_copied(MPI_Comm comm, int key, void *extra, void *in, void *out, int *flag)
{
    (void)comm, (void)key, (void)extra, (void)in, (void)out;
    *flag = 0;
    return MPI_SUCCESS;
}

static int window_copied(MPI_Win window, int key, void *extra, void *in, void *out, int *flag)
{
    (void)window, (void)key, (void)extra, (void)in, (void)out;
    *flag = 0;
    return MPI_SUCCESS;
}

int st_peers_open(int rank, int size)
{
    world = (struct st_peers){.size = size, .rank = rank, .step = 1, .neighbours = -1};
    if (st_mpi.Comm_group(MPI_COMM_WORLD, &world_group) != MPI_SUCCESS)
        return -1;
    if (st_mpi.Comm_create_keyval(comm_copied, comm_freed, &comm_key, NULL) != MPI_SUCCESS ||
        st_mpi.Win_create_keyval(window_copied, window_freed, &window_key, NULL) != MPI_SUCCESS)
        return -1;
    return 0;
}

/* Most communicators are a range of the world: they need no table. */
static void shorten(struct st_peers *peers, int n)
{
    int step = n > 1 ? peers->table[1] - peers->table[0] : 1;

    if (n == 0 || peers->table[0] < 0)
        return;
    for (int i = 1; i < n; i++)
        if (peers->table[i] != peers->table[0] + i * step || peers->table[i] < 0)
            return;
    peers->first = peers->table[0];
    peers->step = step;
    free(peers->table);
    peers->table = NULL;
}

static int translate(struct st_peers *peers, MPI_Group group, int n)
{
    int rv = -1, *ranks = calloc((size_t)n + 1, sizeof *ranks);

    peers->table = malloc(((size_t)n + 1) * sizeof *peers->table);
    if (!ranks || !peers->table)
        goto out;
    for (int i = 0; i < n; i++)
        ranks[i] = i;
    if (st_mpi.Group_translate_ranks(group, n, ranks, world_group, peers->table) != MPI_SUCCESS)
        goto out;
    for (int i = 0; i < n; i++)
        if (peers->table[i] == MPI_UNDEFINED)
            peers->table[i] = -1;
    shorten(peers, n);
    rv = 0;
out:
    free(ranks);
    return rv;
}

static int learn_own_group(struct st_peers *peers, MPI_Comm comm)
{
    MPI_Group group;
    int fault;

    peers->own = calloc(1, sizeof *peers->own);
    if (!peers->own || st_mpi.Comm_group(comm, &group) != MPI_SUCCESS)
        return -1;
    *peers->own = (struct st_peers){.size = peers->size, .rank = peers->rank};
    fault = translate(peers->own, group, peers->size);
    st_mpi.Group_free(&group);
    return fault;
}

static struct st_peers *learn_comm(MPI_Comm comm)
{
    struct st_peers *peers = calloc(1, sizeof *peers);
    MPI_Group group;
    int inter = 0, fault;

    if (!peers)
        return NULL;
    peers->neighbours = -1;
    if (st_mpi.Comm_size(comm, &peers->size) != MPI_SUCCESS || st_mpi.Comm_rank(comm, &peers->rank) != MPI_SUCCESS ||
        st_mpi.Comm_test_inter(comm, &inter) != MPI_SUCCESS ||
        (inter && st_mpi.Comm_remote_size(comm, &peers->remote) != MPI_SUCCESS) ||
        (inter ? st_mpi.Comm_remote_group : st_mpi.Comm_group)(comm, &group) != MPI_SUCCESS)
        goto fail;
    fault = translate(peers, group, inter ? peers->remote : peers->size);
    st_mpi.Group_free(&group);
    if (fault || (inter && learn_own_group(peers, comm) != 0) || st_map_put(&st_comms, (uintptr_t)comm, peers) != 0)
        goto fail;
    /* Should the attribute be refused, a later communicator under this handle would be mistaken for this one. */
    if (st_mpi.Comm_set_attr(comm, comm_key, peers) != MPI_SUCCESS) {
        st_map_take(&st_comms, (uintptr_t)comm);
        goto fail;
    }
    return peers;
fail:
    peers_free(peers);
    return NULL;
}

/* Two threads must not learn the same: setting the attribute again would forget what the first one uses. */
static pthread_mutex_t learning = PTHREAD_MUTEX_INITIALIZER;

struct st_peers *st_peers_of(MPI_Comm comm)
{
    struct st_peers *peers;

    if (comm == MPI_COMM_WORLD)
        return &world;
    peers = st_map_get(&st_comms, (uintptr_t)comm);
    if (peers)
        return peers;
    pthread_mutex_lock(&learning);
    peers = st_map_get(&st_comms, (uintptr_t)comm);
    if (!peers)
        peers = learn_comm(comm);
    pthread_mutex_unlock(&learning);
    if (!peers)
        st_counters_off("a communicator could not be read");
    return peers;
}

static struct st_peers *learn_window(MPI_Win window)
{
    struct st_peers *peers = calloc(1, sizeof *peers);
    MPI_Group group;
    int fault;

    if (!peers || st_mpi.Win_get_group(window, &group) != MPI_SUCCESS)
        goto fail;
    peers->rank = peers->neighbours = -1;
    fault = st_mpi.Group_size(group, &peers->size) != MPI_SUCCESS || translate(peers, group, peers->size) != 0;
    st_mpi.Group_free(&group);
    if (fault || st_map_put(&st_windows, (uintptr_t)window, peers) != 0)
        goto fail;
    if (st_mpi.Win_set_attr(window, window_key, peers) != MPI_SUCCESS) {
        st_map_take(&st_windows, (uintptr_t)window);
        goto fail;
    }
    return peers;
fail:
    peers_free(peers);
    return NULL;
}

struct st_peers *st_window_peers(MPI_Win window)
{
    struct st_peers *peers = st_map_get(&st_windows, (uintptr_t)window);

    if (peers)
        return peers;
    pthread_mutex_lock(&learning);
    peers = st_map_get(&st_windows, (uintptr_t)window);
    if (!peers)
        peers = learn_window(window);
    pthread_mutex_unlock(&learning);
    if (!peers)
        st_counters_off("a window could not be read");
    return peers;
}

static int cart_neighbours(struct st_peers *peers, MPI_Comm comm)
{
    int dims;

    if (st_mpi.Cartdim_get(comm, &dims) != MPI_SUCCESS ||
        !(peers->neighbour = malloc(((size_t)dims * 2 + 1) * sizeof(int))))
        return -1;
    for (int d = 0; d < dims; d++)
        if (st_mpi.Cart_shift(comm, d, 1, &peers->neighbour[2 * d], &peers->neighbour[2 * d + 1]) != MPI_SUCCESS)
            return -1;
    return 2 * dims;
}

static int graph_neighbours(struct st_peers *peers, MPI_Comm comm)
{
    int n;

    if (st_mpi.Graph_neighbors_count(comm, peers->rank, &n) != MPI_SUCCESS ||
        !(peers->neighbour = malloc(((size_t)n + 1) * sizeof(int))) ||
        st_mpi.Graph_neighbors(comm, peers->rank, n, peers->neighbour) != MPI_SUCCESS)
        return -1;
    return n;
}

static int dist_graph_neighbours(struct st_peers *peers, MPI_Comm comm)
{
    int in, out, weighted, rv = -1, *scratch = NULL;

    if (st_mpi.Dist_graph_neighbors_count(comm, &in, &out, &weighted) != MPI_SUCCESS)
        return -1;
    scratch = malloc(((size_t)in * 2 + (size_t)out + 1) * sizeof(int));
    peers->neighbour = malloc(((size_t)out + 1) * sizeof(int));
    if (scratch && peers->neighbour &&
        st_mpi.Dist_graph_neighbors(comm, in, scratch, scratch + in, out, peers->neighbour, scratch + 2 * in) ==
            MPI_SUCCESS)
        rv = out;
    free(scratch);
    return rv;
}

int st_neighbours(struct st_peers *peers, MPI_Comm comm)
{
    int kind;

    if (peers->neighbours >= 0)
        return peers->neighbours;
    if (st_mpi.Topo_test(comm, &kind) != MPI_SUCCESS)
        return 0;
    peers->neighbours = kind == MPI_CART         ? cart_neighbours(peers, comm)
                        : kind == MPI_GRAPH      ? graph_neighbours(peers, comm)
                        : kind == MPI_DIST_GRAPH ? dist_graph_neighbours(peers, comm)
                                                 : 0;
    if (peers->neighbours < 0)
        peers->neighbours = 0;
    return peers->neighbours;
}
