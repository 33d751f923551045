#include "model_parts.h"

#define RADIX 4
#define MAX_CHILDREN 64

static int binary_level(int rank)
{
    return 31 - __builtin_clz((unsigned)rank + 1);
}

static int binary_children(int rank, int size, int *children)
{
    int n = 0, width = 1 << binary_level(rank);

    for (int i = 1; i <= 2 && rank + i * width < size; i++)
        children[n++] = rank + i * width;
    return n;
}

static int binary_parent(int rank)
{
    int level = binary_level(rank), parent = rank;

    if (rank < 2)
        return 0;
    while (parent >= (1 << level) - 1)
        parent -= 1 << (level - 1);
    return parent;
}

static int knomial_children(int rank, int size, int *children)
{
    int n = 0, mask = 1;

    while (mask < size && rank % (RADIX * mask) == 0)
        mask *= RADIX;
    for (mask /= RADIX; mask > 0; mask /= RADIX)
        for (int r = 1; r < RADIX; r++)
            if (rank + mask * r < size)
                children[n++] = rank + mask * r;
    return n;
}

/* Both binomial trees: the plain one adds bits above the highest set bit, the one in order those below the lowest. */
static int binomial_children(int rank, int size, bool in_order, int *children)
{
    int n = 0, mask = 1;

    if (!in_order)
        while (mask <= rank)
            mask <<= 1;
    for (; mask < size && !(in_order && (rank & mask)); mask <<= 1) {
        if (rank + mask < size)
            children[n++] = rank + mask;
        else if (!in_order)
            break;
    }
    return n;
}

/* Subtrees hold consecutive ranks; the root of each is its last rank, as the whole tree's is the last of all. */
static int in_order_parent(int rank, int size)
{
    int first = 0, parent = -1;

    for (;;) {
        int root = size - 1, right = size / 2;
        if (rank == root)
            return parent < 0 ? -1 : parent;
        parent = first + root;
        if (rank >= right) { /* in the left subtree, whose root is the rank before this one */
            first += right;
            rank -= right;
            size -= right + 1;
        } else {
            size = right;
        }
    }
}

int st_tree_children(enum st_tree tree, int rank, int size, int *children)
{
    switch (tree) {
    case ST_BINARY:
        return binary_children(rank, size, children);
    case ST_BINOMIAL:
        return binomial_children(rank, size, false, children);
    case ST_BINOMIAL_IN_ORDER:
        return binomial_children(rank, size, true, children);
    case ST_KNOMIAL:
        return knomial_children(rank, size, children);
    default:
        children[0] = rank + 1;
        return rank + 1 < size;
    }
}

int st_tree_parent(enum st_tree tree, int rank, int size)
{
    if (tree == ST_BINARY_IN_ORDER)
        return in_order_parent(rank, size);
    if (rank == 0)
        return -1;
    switch (tree) {
    case ST_BINARY:
        return binary_parent(rank);
    case ST_BINOMIAL:
        return rank - power_below(rank);
    case ST_BINOMIAL_IN_ORDER:
        return rank & (rank - 1);
    default:
        return rank - 1;
    }
}

void st_halving_run(const struct st_model *m, uint64_t count, uint64_t element, struct st_halving *h)
{
    int power = power_below(m->size);
    uint64_t left = count / 2, window = count;

    h->extra = m->size - power;
    h->steps = 0;
    h->virtual_rank = m->rank - h->extra;
    if (m->rank < 2 * h->extra) {
        if (m->rank % 2) { /* gets the right half to reduce, gives it back, and has no part in what follows */
            send_to(m, m->rank - 1, left * element);
            send_to(m, m->rank - 1, (count - left) * element);
            h->virtual_rank = -1;
        } else {
            send_to(m, m->rank + 1, (count - left) * element);
            h->virtual_rank = m->rank / 2;
        }
    }
    for (int mask = 1; h->virtual_rank >= 0 && mask < power; mask <<= 1) {
        int peer = st_halving_peer(h, h->virtual_rank ^ mask);
        uint64_t half = window / 2;
        h->kept[h->steps] = m->rank < peer ? half : window - half;
        h->sent[h->steps] = window - h->kept[h->steps];
        send_to(m, peer, h->sent[h->steps] * element);
        window = h->kept[h->steps++];
    }
}
