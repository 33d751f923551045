/*
 * What must hold of any decomposition, over many sizes: ranks stay in the group, nobody sends to itself, and every rank
 * gets at least what it ends up with (exactly that in the algorithms that send nothing twice).
 */
#include "model.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 4100

static uint64_t got[MOST], gave[MOST], messages;
static int size, sender;

static void take(void *context, int peer, uint64_t bytes, uint64_t n)
{
    (void)context;
    if (peer < 0 || peer >= size || peer == sender) {
        fprintf(stderr, "rank %d of %d sends to %d\n", sender, size, peer);
        abort();
    }
    got[peer] += bytes;
    gave[sender] += bytes;
    messages += n;
}

#define EACH(ordered_, call)                                                                                           \
    do {                                                                                                               \
        memset(got, 0, sizeof got);                                                                                    \
        memset(gave, 0, sizeof gave);                                                                                  \
        messages = 0;                                                                                                  \
        for (sender = 0; sender < size; sender++) {                                                                    \
            struct st_model m_ = {.rank = sender, .size = size, .ordered = ordered_, .send = take};                    \
            const struct st_model *m = &m_;                                                                            \
            call;                                                                                                      \
        }                                                                                                              \
    } while (0)

static void expect_each(const char *what, uint64_t least, int but, uint64_t bytes)
{
    for (int i = 0; i < size; i++)
        if (i != but && got[i] < least) {
            fprintf(stderr, "%s of %llu bytes: rank %d of %d gets %llu instead of %llu\n", what,
                    (unsigned long long)bytes, i, size, (unsigned long long)got[i], (unsigned long long)least);
            abort();
        }
}

static void try_all(const struct st_algorithms *a, uint64_t bytes, int root)
{
    static int counts[MOST];
    struct st_counts v = {.narrow = counts};
    uint64_t n = (uint64_t)size;

    for (int i = 0; i < size; i++)
        counts[i] = (int)bytes;
    EACH(false, a->barrier(m));
    assert(messages >= n);
    EACH(false, a->bcast(m, bytes, 1, root));
    expect_each("bcast", bytes, root, bytes);
    EACH(false, a->gather(m, bytes, root));
    assert(got[root] >= (n - 1) * bytes);
    EACH(false, a->scatter(m, bytes, root));
    expect_each("scatter", bytes, root, bytes);
    EACH(false, a->scatterv(m, v, 1, root));
    expect_each("scatterv", bytes, root, bytes);
    EACH(false, a->allgather(m, bytes, bytes));
    expect_each("allgather", (n - 1) * bytes, -1, bytes);
    EACH(false, a->allgatherv(m, v, 1));
    expect_each("allgatherv", (n - 1) * bytes, -1, bytes);
    EACH(false, a->alltoall(m, bytes));
    expect_each("alltoall", (n - 1) * bytes, -1, bytes);
    EACH(false, a->alltoallv(m, v, 1));
    expect_each("alltoallv", (n - 1) * bytes, -1, bytes);
    for (int ordered = 0; ordered < 2; ordered++) {
        EACH(ordered, a->reduce(m, bytes, 1, root));
        assert(got[root] >= (bytes < n ? 1 : bytes / 2));
        EACH(ordered, a->allreduce(m, bytes, 1));
        expect_each("allreduce", bytes > 1 ? bytes / 2 : bytes, -1, bytes);
        EACH(ordered, a->reduce_scatter(m, v, 1));
        expect_each("reduce_scatter", bytes ? 1 : 0, 0, bytes);
        EACH(ordered, a->reduce_scatter_block(m, bytes, 1));
        expect_each("reduce_scatter_block", bytes ? 1 : 0, 0, bytes);
    }
    EACH(false, a->scan(m, bytes, 1));
    expect_each("scan", bytes, 0, bytes);
}

int main(void)
{
    static const int sizes[] = {2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 127, 128, 200};
    static const int large[] = {256, 300, 511, 512, 1000, 1024, 2047, 2048, 3000, 4096};
    static const uint64_t bytes[] = {1, 2, 7, 8, 31, 64, 200, 512, 1000, 4000, 9000, 20000, 40000, 100000, 200000,
                                     400000, 600000, 2000000};

    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (size_t b = 0; b < sizeof bytes / sizeof *bytes; b++) {
            size = sizes[s];
            try_all(&st_openmpi_blocking, bytes[b], 0);
            try_all(&st_openmpi_blocking, bytes[b], size - 1);
            try_all(&st_openmpi_nonblocking, bytes[b], size / 2);
            try_all(&st_mpich, bytes[b], size / 3);
        }
    for (size_t s = 0; s < sizeof large / sizeof *large; s++)
        for (size_t b = 0; b < sizeof bytes / sizeof *bytes; b += 3) {
            size = large[s];
            EACH(false, st_openmpi_blocking.bcast(m, bytes[b], 1, 1));
            expect_each("bcast", bytes[b], 1, bytes[b]);
            EACH(false, st_openmpi_blocking.allreduce(m, bytes[b], 1));
            expect_each("allreduce", bytes[b] > 1 ? bytes[b] / 2 : 1, -1, bytes[b]);
            EACH(false, st_openmpi_blocking.reduce(m, bytes[b], 1, 3));
            EACH(false, st_openmpi_blocking.reduce_scatter_block(m, bytes[b], 1));
            EACH(false, st_openmpi_blocking.allgather(m, bytes[b], bytes[b]));
            expect_each("allgather", ((uint64_t)size - 1) * bytes[b], -1, bytes[b]);
            EACH(false, st_openmpi_blocking.barrier(m));
        }
    puts("ok");
    return 0;
}
