/* Open MPI's blocking collectives with a root, in an intra-communicator. */
#include "model_openmpi.h"

static void down_tree(const struct st_model *m, enum st_tree tree, int root, uint64_t bytes)
{
    int children[64], n = st_tree_children(tree, from_root(m, root), m->size, children);

    for (int i = 0; i < n; i++)
        send_to(m, absolute(m, root, children[i]), bytes);
}

static void bcast_linear(const struct st_model *m, uint64_t bytes, int root)
{
    if (m->rank == root)
        send_all(m, bytes);
}

/* Two halves go down the two sides of a binary tree; then every rank swaps with one of the other side. */
static void bcast_split(const struct st_model *m, uint64_t count, uint64_t element, int root)
{
    int children[2], rank = from_root(m, root), side = (rank + 1) % 2;
    int n = st_tree_children(ST_BINARY, rank, m->size, children);
    uint64_t half[2] = {(count + 1) / 2 * element, count / 2 * element};
    bool last = m->size % 2 == 0 && m->rank == ring(m, root - 1 - m->rank);

    if (count < 2) {
        down_tree(m, ST_CHAIN, root, count * element);
        return;
    }
    for (int i = 0; i < n; i++)
        send_to(m, absolute(m, root, children[i]), half[rank == 0 ? i : side]);
    if (rank == 0 && m->size % 2 == 0)
        send_to(m, ring(m, -1), half[1]);
    else if (rank != 0 && !last)
        send_to(m, ring(m, side == 0 ? 1 : -1), half[side]);
}

/* Elements in the blocks first .. first + width - 1 of `block` elements each. */
static uint64_t held(uint64_t count, uint64_t block, int first, int width)
{
    return clamp_to((int64_t)count - (int64_t)block * first, block * (uint64_t)width);
}

/* In a number of ranks that is no power of two, those who got a whole subtree hand it to the others of theirs. */
static void hand_on(const struct st_model *m, int root, int rank, int mask, uint64_t bytes)
{
    int mine = rank & ~(mask - 1), complete = m->size - mine - mask;

    for (int half = mask >> 1; half > 0; half >>= 1) {
        int other = rank ^ half, subtree = rank & ~(2 * half - 1);
        if (other > rank && rank < subtree + complete && other >= subtree + complete)
            send_to(m, absolute(m, root, other), bytes);
    }
}

static void bcast_scatter_allgather(const struct st_model *m, uint64_t count, uint64_t element, int root)
{
    int rank = from_root(m, root), mask = 1;
    uint64_t block = (count + (uint64_t)m->size - 1) / (uint64_t)m->size, rest;

    if (count < (uint64_t)m->size) {
        bcast_linear(m, count * element, root);
        return;
    }
    while (mask < m->size && !(rank & mask))
        mask <<= 1;
    rest = held(count, block, rank, mask);
    for (int half = mask >> 1; half > 0; half >>= 1) {
        uint64_t kept = block * (uint64_t)half;
        if (rank + half < m->size && rest > kept) {
            send_to(m, absolute(m, root, rank + half), (rest - kept) * element);
            rest = kept;
        }
    }
    for (mask = 1; mask < m->size; mask <<= 1) {
        int other = rank ^ mask, theirs = other & ~(mask - 1);
        if (other < m->size)
            send_to(m, absolute(m, root, other), held(count, block, rank & ~(mask - 1), mask) * element);
        if (theirs + mask > m->size)
            hand_on(m, root, rank, mask, held(count, block, theirs, mask) * element);
    }
}

void st_tuned_bcast(const struct st_model *m, uint64_t count, uint64_t element, int root)
{
    uint64_t bytes = count * element;

    if (count == 0)
        return;
    switch (choose(bcast_rules, m->size, bytes)) {
    case 1:
        bcast_linear(m, bytes, root);
        break;
    case 2:
    case 3:
        down_tree(m, ST_CHAIN, root, bytes);
        break;
    case 4:
        bcast_split(m, count, element, root);
        break;
    case 5:
        down_tree(m, ST_BINARY, root, bytes);
        break;
    case 6:
        down_tree(m, ST_BINOMIAL, root, bytes);
        break;
    case 7:
        down_tree(m, ST_KNOMIAL, root, bytes);
        break;
    default:
        bcast_scatter_allgather(m, count, element, root);
    }
}

void st_tuned_gather(const struct st_model *m, uint64_t bytes, int root)
{
    int rank = from_root(m, root), subtree = rank & -rank;

    if (bytes == 0)
        return;
    switch (choose(gather_rules, m->size, bytes)) {
    case 1:
        if (rank)
            send_to(m, root, bytes);
        break;
    case 2:
        if (subtree > m->size - rank)
            subtree = m->size - rank;
        if (rank)
            send_to(m, absolute(m, root, rank & (rank - 1)), bytes * (uint64_t)subtree);
        break;
    default: /* the root asks each rank with an empty message; the block comes in a full and an empty part */
        if (rank) {
            send_to(m, root, bytes);
            send_to(m, root, 0);
        } else {
            send_all(m, 0);
        }
    }
}

void st_tuned_gatherv(const struct st_model *m, uint64_t bytes, int root)
{
    if (m->rank != root && bytes)
        send_to(m, root, bytes);
}

void st_tuned_scatter(const struct st_model *m, uint64_t bytes, int root)
{
    int children[64], n, rank = from_root(m, root);

    if (bytes == 0)
        return;
    if (choose(scatter_rules, m->size, bytes) != 2) {
        bcast_linear(m, bytes, root);
        return;
    }
    n = st_tree_children(ST_BINOMIAL_IN_ORDER, rank, m->size, children);
    for (int i = 0; i < n; i++) {
        int width = children[i] - rank, left = m->size - children[i];
        send_to(m, absolute(m, root, children[i]), bytes * (uint64_t)(width < left ? width : left));
    }
}

void st_tuned_scatterv(const struct st_model *m, struct st_counts counts, uint64_t element, int root)
{
    for (int i = 0; m->rank == root && i < m->size; i++)
        if (i != root && st_at(counts, i))
            send_to(m, i, st_at(counts, i) * element);
}

static void up_tree(const struct st_model *m, enum st_tree tree, int root, uint64_t bytes)
{
    int parent = st_tree_parent(tree, from_root(m, root), m->size);

    if (parent >= 0)
        send_to(m, absolute(m, root, parent), bytes);
}

void st_reduce_linear(const struct st_model *m, uint64_t bytes, int root)
{
    if (m->rank != root)
        send_to(m, root, bytes);
}

/* The tree in order ends at the last rank, which passes the result on. */
static void reduce_in_order(const struct st_model *m, uint64_t bytes, int root)
{
    int parent = st_tree_parent(ST_BINARY_IN_ORDER, m->rank, m->size);

    if (parent >= 0)
        send_to(m, parent, bytes);
    else if (m->rank != root)
        send_to(m, root, bytes);
}

/* Halving of the vector, then a gather of the parts at the root. */
void st_reduce_halving(const struct st_model *m, uint64_t count, uint64_t element, int root)
{
    struct st_halving h;
    bool root_gave = false; /* the root is one of those without a part */
    int virtual_root;

    st_halving_run(m, count, element, &h);
    virtual_root = root - h.extra;
    if (root < 2 * h.extra) {
        root_gave = root % 2 != 0;
        virtual_root = root_gave ? 0 : root / 2;
    }
    if (root_gave && m->rank == root) {
        h.virtual_rank = 0;
    } else if (root_gave && h.virtual_rank == 0) {
        send_to(m, root, h.kept[h.steps - 1] * element);
        h.virtual_rank = -1;
    }
    /* The root itself never sends: at each step it shares no subtree with its peer, but the last. */
    for (int step = h.steps - 1; h.virtual_rank >= 0 && step >= 0; step--) {
        int other = h.virtual_rank ^ (1 << step), peer = st_halving_peer(&h, other);
        if (other >> step != virtual_root >> step)
            continue;
        send_to(m, other == 0 && root_gave ? root : peer, h.kept[step] * element);
        break;
    }
}

void st_tuned_reduce(const struct st_model *m, uint64_t count, uint64_t element, int root)
{
    uint64_t bytes = count * element;

    if (count == 0)
        return;
    switch (m->ordered ? choose(reduce_ordered_rules, m->size, bytes) : choose(reduce_rules, m->size, bytes)) {
    case 1:
        st_reduce_linear(m, bytes, root);
        break;
    case 2:
    case 3:
        up_tree(m, ST_CHAIN, root, bytes);
        break;
    case 4:
        up_tree(m, ST_BINARY, root, bytes);
        break;
    case 5:
        up_tree(m, ST_BINOMIAL_IN_ORDER, root, bytes);
        break;
    case 6:
        reduce_in_order(m, bytes, root);
        break;
    default:
        if (m->size < 2 || count < (uint64_t)power_below(m->size) || m->ordered)
            st_reduce_linear(m, bytes, root);
        else
            st_reduce_halving(m, count, element, root);
    }
}
