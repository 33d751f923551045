/*
 * The messages that this rank sends in a collective, by the algorithm that the MPI library chooses for it. Pure: no MPI,
 * no state. Ranks are those of the communicator; `send` is called with each peer, its bytes and its messages.
 */
#ifndef ST_MODEL_H
#define ST_MODEL_H

#include <stdbool.h>
#include <stdint.h>

/* One number for each rank, 4 or 8 bytes wide. */
struct st_counts {
    const int *narrow;
    const void *wide;
};

static inline uint64_t st_at(struct st_counts counts, int i)
{
    return counts.narrow ? (uint64_t)counts.narrow[i] : ((const uint64_t *)counts.wide)[i];
}

struct st_model {
    int rank, size;
    int remote;    /* size of the other group of an intercommunicator, else 0 */
    bool ordered;  /* the reduction does not commute */
    const struct st_model *local; /* the own group of an intercommunicator as a communicator of its own */
    uint64_t mine; /* bytes that this rank gives to an allgatherv of an intercommunicator */
    bool in_place; /* MPI_IN_PLACE was given by this rank */
    void (*send)(void *context, int peer, uint64_t bytes, uint64_t messages);
    void *context;
};

/*
 * `count` elements of `element` bytes; `bytes` of one rank's block. In an intercommunicator `root` is a rank of the
 * other group, ST_ROOT (this rank is it) or ST_BYSTANDER.
 */
enum { ST_ROOT = -10, ST_BYSTANDER = -11 };

struct st_algorithms {
    void (*barrier)(const struct st_model *m);
    void (*bcast)(const struct st_model *m, uint64_t count, uint64_t element, int root);
    void (*gather)(const struct st_model *m, uint64_t bytes, int root);
    void (*gatherv)(const struct st_model *m, uint64_t bytes, int root);
    void (*scatter)(const struct st_model *m, uint64_t bytes, int root);
    void (*scatterv)(const struct st_model *m, struct st_counts counts, uint64_t element, int root);
    /* `decided`: the bytes that the library decides on, which differ from the block's where it was given in place. */
    void (*allgather)(const struct st_model *m, uint64_t bytes, uint64_t decided);
    void (*allgatherv)(const struct st_model *m, struct st_counts counts, uint64_t element);
    void (*alltoall)(const struct st_model *m, uint64_t bytes);
    void (*alltoallv)(const struct st_model *m, struct st_counts counts, uint64_t element);
    void (*alltoallw)(const struct st_model *m, struct st_counts bytes);
    void (*reduce)(const struct st_model *m, uint64_t count, uint64_t element, int root);
    void (*allreduce)(const struct st_model *m, uint64_t count, uint64_t element);
    void (*reduce_scatter)(const struct st_model *m, struct st_counts counts, uint64_t element);
    void (*reduce_scatter_block)(const struct st_model *m, uint64_t count, uint64_t element);
    void (*scan)(const struct st_model *m, uint64_t count, uint64_t element);
    void (*exscan)(const struct st_model *m, uint64_t count, uint64_t element);
};

/* Open MPI 4.1: coll/tuned and coll/basic, coll/libnbc, coll/inter. */
extern const struct st_algorithms st_openmpi_blocking, st_openmpi_nonblocking;
extern const struct st_algorithms st_openmpi_inter_blocking, st_openmpi_inter_nonblocking;

/* MPICH 4: the same for blocking and non-blocking ones; between two groups as Open MPI. */
extern const struct st_algorithms st_mpich;

#endif
