/* Open MPI's blocking reduce_scatter and reduce_scatter_block, in an intra-communicator. */
#include "model_openmpi.h"

/* Elements of each rank's block: `counts`, or `each` where all are the same. */
struct blocks {
    struct st_counts counts;
    bool regular;
    uint64_t each;
};

static uint64_t block_at(const struct blocks *b, int i)
{
    return b->regular ? b->each : st_at(b->counts, i);
}

static uint64_t blocks_between(const struct blocks *b, int from, int to)
{
    return b->regular ? b->each * (uint64_t)(to > from ? to - from : 0) : sum_of(b->counts, from, to);
}

/* Real ranks whose blocks the virtual ranks first .. last - 1 stand for: the first `extra` stand for two each. */
static uint64_t virtual_blocks(const struct blocks *b, int extra, int first, int last)
{
    int from = first < extra ? 2 * first : first + extra, to = last < extra ? 2 * last : last + extra;
    return blocks_between(b, from, to);
}

static int odd_peer(int rank, int extra)
{
    return rank < extra ? 2 * rank + 1 : rank + extra;
}

/* The even ones of the first 2 * extra ranks give their data away; -1 for them, else the virtual rank. */
static int fold(const struct st_model *m, int extra, uint64_t total)
{
    if (m->rank >= 2 * extra)
        return m->rank - extra;
    if (m->rank % 2)
        return m->rank / 2;
    send_to(m, m->rank + 1, total);
    return -1;
}

static void halving(const struct st_model *m, const struct blocks *b, uint64_t element)
{
    int power = power_below(m->size), extra = m->size - power, first = 0, last = power;
    uint64_t total = blocks_between(b, 0, m->size);
    int rank;

    if (total == 0)
        return;
    rank = fold(m, extra, total * element);
    for (int mask = power >> 1; rank >= 0 && mask > 0; mask >>= 1) {
        bool lower = !(rank & mask);
        uint64_t out = lower ? virtual_blocks(b, extra, first + mask, last) : virtual_blocks(b, extra, first, first + mask);
        if (out)
            send_to(m, odd_peer(rank ^ mask, extra), out * element);
        first += lower ? 0 : mask;
        last = first + mask;
    }
    if (m->rank < 2 * extra && m->rank % 2 && block_at(b, m->rank - 1))
        send_to(m, m->rank - 1, block_at(b, m->rank - 1) * element);
}

static int mirrored(int value, int bits)
{
    int mirror = 0;
    for (int i = 0; i < bits; i++)
        mirror |= ((value >> i) & 1) << (bits - 1 - i);
    return mirror;
}

static void butterfly(const struct st_model *m, const struct blocks *b, uint64_t element)
{
    int power = power_below(m->size), extra = m->size - power, first = 0, width = power, bits = 0;
    int rank = fold(m, extra, blocks_between(b, 0, m->size) * element), other, block;

    if (rank < 0)
        return;
    for (int mask = 1; mask < power; mask <<= 1, bits++) {
        int out;
        width /= 2;
        out = rank & mask ? first : first + width;
        send_to(m, odd_peer(rank ^ mask, extra), virtual_blocks(b, extra, out, out + width) * element);
        first += rank & mask ? width : 0;
    }
    if (b->regular && extra == 0) /* equal blocks were put in the right order beforehand */
        return;
    /* What is left here belongs to the rank with the bits reversed, and to its folded neighbour. */
    other = mirrored(rank, bits);
    block = first < extra ? 2 * first : first + extra;
    if (other < extra)
        send_to(m, odd_peer(other, extra) - 1, block_at(b, block++) * element);
    if (other != rank)
        send_to(m, odd_peer(other, extra), block_at(b, block) * element);
}

static void reduce_scatter_ring(const struct st_model *m, struct st_counts counts, uint64_t element)
{
    uint64_t all = sum_of(counts, 0, m->size) - st_at(counts, m->rank);
    m->send(m->context, ring(m, 1), all * element, (uint64_t)m->size - 1);
}

void st_tuned_reduce_scatter(const struct st_model *m, struct st_counts counts, uint64_t element)
{
    uint64_t total = sum_of(counts, 0, m->size);
    struct blocks blocks = {.counts = counts};
    uint32_t algorithm = m->ordered ? 1 : choose(reduce_scatter_rules, m->size, total * element);

    if (total == 0)
        return;
    if (algorithm == 1) {
        st_tuned_reduce(m, total, element, 0);
        st_tuned_scatterv(m, counts, element, 0);
    } else if (algorithm == 2) {
        halving(m, &blocks, element);
    } else if (algorithm == 3) {
        reduce_scatter_ring(m, counts, element);
    } else {
        butterfly(m, &blocks, element);
    }
}

/* Recursive doubling: everything but the blocks of the ranks that the peer's tree does not need. */
static void block_doubling(const struct st_model *m, uint64_t bytes)
{
    for (int mask = 1; mask < m->size; mask <<= 1) {
        int mine = m->rank & ~(mask - 1), other = m->rank ^ mask, theirs = other & ~(mask - 1);
        int beyond = m->size - mine - mask, complete = beyond;
        int beyond_theirs = m->size - theirs - mask;
        if (other < m->size)
            send_to(m, other, bytes * (uint64_t)(mine + (beyond > 0 ? beyond : 0)));
        if (theirs + mask <= m->size)
            continue;
        for (int half = mask >> 1; half > 0; half >>= 1) {
            int to = m->rank ^ half, subtree = m->rank & ~(2 * half - 1);
            if (to > m->rank && m->rank < subtree + complete && to >= subtree + complete)
                send_to(m, to, bytes * (uint64_t)(theirs + (beyond_theirs > 0 ? beyond_theirs : 0)));
        }
    }
}

void st_tuned_reduce_scatter_block(const struct st_model *m, uint64_t count, uint64_t element)
{
    struct blocks blocks = {.regular = true, .each = count};
    uint32_t algorithm = m->ordered ? 1 : choose(reduce_scatter_block_rules, m->size, count * element);

    if (count == 0)
        return;
    if (algorithm == 1) {
        st_tuned_reduce(m, count * (uint64_t)m->size, element, 0);
        st_tuned_scatter(m, count * element, 0);
    } else if (algorithm == 2) {
        block_doubling(m, count * element);
    } else if (algorithm == 3) {
        halving(m, &blocks, element);
    } else {
        butterfly(m, &blocks, element);
    }
}
