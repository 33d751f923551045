/* Patterns that several algorithms share. */
#ifndef ST_MODEL_PARTS_H
#define ST_MODEL_PARTS_H

#include "model.h"

static inline void send_to(const struct st_model *m, int peer, uint64_t bytes)
{
    m->send(m->context, peer, bytes, 1);
}

/* The rank at distance `shift` up the ring. */
static inline int ring(const struct st_model *m, int shift)
{
    int rank = (m->rank + shift) % m->size;
    return rank < 0 ? rank + m->size : rank;
}

/* Rank counted from the root, and back. */
static inline int from_root(const struct st_model *m, int root)
{
    return (m->rank - root + m->size) % m->size;
}

static inline int absolute(const struct st_model *m, int root, int rank)
{
    return (rank + root) % m->size;
}

/* Largest power of two that is not above n (n >= 1). */
static inline int power_below(int n)
{
    return 1 << (31 - __builtin_clz((unsigned)n));
}

static inline uint64_t clamp_to(int64_t value, uint64_t top)
{
    return value < 0 ? 0 : (uint64_t)value > top ? top : (uint64_t)value;
}

/* Elements of block i when `count` are dealt out to `blocks`, the first ones getting one more. */
static inline uint64_t block_of(uint64_t count, int blocks, int i)
{
    return count / (uint64_t)blocks + ((uint64_t)i < count % (uint64_t)blocks ? 1 : 0);
}

static inline uint64_t sum_of(struct st_counts counts, int from, int to)
{
    uint64_t sum = 0;
    for (int i = from; i < to; i++)
        sum += st_at(counts, i);
    return sum;
}

/* Every other rank gets `bytes`. */
static inline void send_all(const struct st_model *m, uint64_t bytes)
{
    for (int i = 0; i < m->size; i++)
        if (i != m->rank)
            send_to(m, i, bytes);
}

enum st_tree { ST_CHAIN, ST_BINARY, ST_BINOMIAL, ST_BINOMIAL_IN_ORDER, ST_KNOMIAL, ST_BINARY_IN_ORDER };

/* Calls `child` for the children of this rank (counted from the root) in a tree, in order. */
int st_tree_children(enum st_tree tree, int rank, int size, int *children);

/* The parent, -1 at the root. ST_BINARY_IN_ORDER is rooted at the last rank. */
int st_tree_parent(enum st_tree tree, int rank, int size);

/* Halving of a vector over the largest power of two of ranks, as in Rabenseifner's algorithms. */
struct st_halving {
    int virtual_rank; /* -1: this rank gave its data to its neighbour */
    int extra;        /* ranks beyond the power of two */
    int steps;
    uint64_t sent[32], kept[32];
};
void st_halving_run(const struct st_model *m, uint64_t count, uint64_t element, struct st_halving *h);

static inline int st_halving_peer(const struct st_halving *h, int rank)
{
    return rank < h->extra ? 2 * rank : rank + h->extra;
}


#endif
