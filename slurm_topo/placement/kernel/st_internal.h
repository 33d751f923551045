/* What the files of the kernel share. */
#ifndef ST_INTERNAL_H
#define ST_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "st_kernel.h"

enum { ST_MAX_LEVELS = 32, ST_CODE_BITS = 32 };

/* The cores as a tree. A slot is a core in depth-first order, so that a group is a range of slots. */
typedef struct {
	int32_t slots;
	int32_t levels;
	int32_t *core_of_slot;
	int32_t *slot_of_core;
	/* One field of bits a level: two slots meet at the level of the highest bit in which their codes differ. */
	uint32_t *code;
	int32_t *group[ST_MAX_LEVELS]; /* slot -> group of that level */
	int32_t *first[ST_MAX_LEVELS]; /* group -> its first slot; one more entry at the end */
	uint64_t *shape[ST_MAX_LEVELS]; /* group -> hash of the shape of its sub-tree */
	int32_t count[ST_MAX_LEVELS];
	double per_byte[ST_MAX_LEVELS];
	double per_message[ST_MAX_LEVELS];
	/* By st_bit(code ^ code): cost of a unit of weight, and the level. */
	double byte_by_bit[ST_CODE_BITS + 1];
	double message_by_bit[ST_CODE_BITS + 1];
	int8_t level_by_bit[ST_CODE_BITS + 1];
} st_tree;

/* Undirected graph in compressed rows, both directions stored. `message` is NULL with one weight component. */
typedef struct {
	int32_t vertices;
	int64_t *row;
	uint32_t *to;
	float *weight;
	float *message;
} st_graph;

struct st_instance {
	st_tree tree;
	st_graph graph;
	uint64_t *shape; /* slot -> shape; NULL when all slots are alike */
	/* Weight of the edge that a typical byte or message belongs to. */
	double typical_weight;
	double typical_message;
};

static inline int st_bit(uint32_t difference)
{
	/* 0 for equal codes, else one more than the highest bit. */
	return 63 - __builtin_clzll(((uint64_t)difference << 1) | 1u);
}

/* Random numbers: splitmix64, the same on every machine. */
typedef struct {
	uint64_t state;
} st_random;

static inline uint64_t st_next(st_random *random)
{
	uint64_t z = (random->state += 0x9e3779b97f4a7c15u);
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static inline uint32_t st_below(st_random *random, uint32_t bound)
{
	return (uint32_t)(((st_next(random) >> 32) * bound) >> 32);
}

/* Memory that is released as a whole, in the order of a stack. */
typedef struct st_block st_block;
typedef struct {
	st_block *top;
} st_arena;
typedef struct {
	st_block *block;
	size_t used;
} st_mark;

void *st_take(st_arena *arena, size_t count, size_t size);
st_mark st_arena_mark(const st_arena *arena);
void st_arena_release(st_arena *arena, st_mark mark);
void st_arena_free(st_arena *arena);

int st_tree_build(st_tree *tree, int32_t cores, int32_t levels, const int32_t *groups, const double *per_byte,
		  const double *per_message);
int st_tree_above(st_tree *tree, const st_tree *fine, int32_t level);
void st_tree_free(st_tree *tree);
int st_graph_build(st_instance *instance, int32_t ranks, int64_t pairs, const int32_t *source, const int32_t *target,
		   const double *nbytes, const double *messages);
void st_graph_free(st_graph *graph);
void st_graph_measure(st_instance *instance);

/* Compressed rows; of each neighbour the bytes to it, the bytes from it, and the messages both ways. */
typedef struct {
	int32_t vertices;
	int64_t *row;
	int32_t *to;
	double *out;
	double *in;
	double *messages;
} st_rows;

/* From pairs in any order, each at most once. 0, or -1 when memory is short; st_rows_free() in both cases. */
int st_rows_build(st_rows *rows, int32_t vertices, int64_t pairs, const int32_t *source, const int32_t *target,
		  const double *nbytes, const double *messages);
void st_rows_free(st_rows *rows);
/* Mean number of neighbours of the vertices that have any. */
double st_rows_degree(const st_rows *rows);

/* A graph to be cut in two, with vertex weights. */
typedef struct {
	int32_t n;
	int32_t heaviest;
	int64_t total;
	int64_t *row;
	int32_t *to;
	float *weight;
	int32_t *load;
} st_cut_graph;

/* 0..n-1 in random order. */
void st_shuffle(int32_t *order, int32_t n, st_random *random);

/* Coarse vertices of at most `limit` load, each on one side when `side` is given: their number, -1 without memory. */
int32_t st_cluster(st_arena *arena, const st_cut_graph *graph, int32_t limit, const uint8_t *side,
		   const st_section_style *style, uint64_t flavour, st_random *random, int32_t *coarse_of);
/* The graph of the coarse vertices; coarse->n is set by the caller. 0, or -1 without memory. */
int st_cut_contract(st_arena *arena, const st_cut_graph *fine, const int32_t *coarse_of, st_cut_graph *coarse);

/*
 * Cut `graph` in two: side[v] becomes 0 or 1 with exactly `target` of the load on side 0 (loads of 1 allow that).
 * Returns 0, or -1 when memory is short.
 */
int st_bisect(st_arena *arena, const st_cut_graph *graph, int64_t target, const st_section_style *style,
	      st_random *random, const st_control *control, uint8_t *side);

#endif
