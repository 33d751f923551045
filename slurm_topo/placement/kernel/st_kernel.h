/* Interface of the placement kernel: everything that Python calls. */
#ifndef ST_KERNEL_H
#define ST_KERNEL_H

#include <stdbool.h>
#include <stdint.h>

/* How a search is told to end: by a flag set from another thread or by the monotonic clock. */
typedef struct {
	volatile int32_t stop;
	double deadline; /* seconds of CLOCK_MONOTONIC, 0 for none */
} st_control;

/* Whether the search is to end now. A NULL control never ends it. */
bool st_expired(const st_control *control);

typedef struct st_instance st_instance;

/*
 * Annealing of swaps, from `hot` to `hot / fall`: temperatures in units of a typical edge at the level of the swap.
 * With `rise` > 0 the placement is first heated, from `hot` on, until the cost of what may move has risen by that share.
 */
typedef struct {
	int64_t moves;
	double hot;
	double fall;
	double rise;
	uint64_t seed;
} st_schedule;

/*
 * A graph on a machine. groups[l * cores + i] is the group of core i at level l (innermost first, nested, one group
 * at the last level); a byte costs per_byte[l], a message per_message[l]. Vertices from `ranks` to `cores` - 1 are
 * free cores. Returns NULL when memory is short or the groups are not nested.
 */
st_instance *st_instance_new(int32_t cores, int32_t levels, const int32_t *groups, const double *per_byte,
			     const double *per_message, int32_t ranks, int64_t pairs, const int32_t *source,
			     const int32_t *target, const double *nbytes, const double *messages);
/*
 * The instance of the groups of `level`: its vertices are the groups, as `core_of` (vertex -> core, all vertices of
 * the finer instance) fills them. NULL when memory is short.
 */
st_instance *st_instance_groups(const st_instance *fine, int32_t level, const int32_t *core_of);
void st_instance_free(st_instance *instance);
int32_t st_instance_levels(const st_instance *instance);
int32_t st_instance_vertices(const st_instance *instance);
/* Mean number of neighbours of the vertices that have any. */
double st_instance_degree(const st_instance *instance);
double st_instance_cost(const st_instance *instance, const int32_t *core_of);

/* Write a placement of a coarse instance back: the vertices of each group move to the core range of its new place. */
int st_instance_expand(const st_instance *fine, int32_t level, const int32_t *old_core_of,
		       const int32_t *core_of_group, int32_t *core_of);

/*
 * How a graph is coarsened before it is cut: in pairs or in clusters (`join`), and whether edges of some weights are
 * preferred at random (`taste`, in powers of two; graphs with few distinct weights have structure in them).
 */
typedef struct {
	int32_t tries;  /* cuts to choose from, for parts of at least 1 / `deep` of the whole; 1 for smaller ones */
	int32_t deep;
	int32_t cycles; /* improvements of each */
	int32_t growths; /* first cuts of the coarsest graph to choose from: few for variety */
	int32_t join;
	int32_t shuffle; /* the vertices in random order: cuts that are equal fall out otherwise */
	double taste;
	uint64_t seed;
} st_section_style;

/* Recursive multisection along the tree into core_of (all vertices). 0, or -1 when memory is short. */
int st_multisect(const st_instance *instance, const st_section_style *style, const st_control *control,
		 int32_t *core_of);
/* Swap vertices while that lowers the cost; returns the number of swaps or -1. */
int64_t st_descend(const st_instance *instance, const uint8_t *fixed, int32_t sweeps, const st_control *control,
		   int32_t *core_of);
/* Anneal swaps from core_of, in place; returns the number of accepted swaps or -1. */
int64_t st_anneal(const st_instance *instance, const uint8_t *fixed, const st_schedule *schedule,
		  const st_control *control, int32_t *core_of);

/*
 * The links of a machine and what a graph puts on them (load.c). Slots are cores in an order in which each group of
 * each level is a range. link_of[l * slots + s] is the link above the group of level l that slot s is in (levels - 1
 * rows, links numbered from 0 over all levels); a byte takes seconds[link] on it. Vertices are as in an instance:
 * ranks, then free cores. NULL when memory is short.
 */
typedef struct st_load st_load;
st_load *st_load_new(int32_t slots, int32_t levels, int32_t links, const int32_t *link_of, const double *seconds,
		     const double *per_byte, const double *per_message, int64_t pairs, const int32_t *source,
		     const int32_t *target, const double *nbytes, const double *messages);
void st_load_free(st_load *load);
/* Mean number of neighbours of the vertices that have any. */
double st_load_degree(const st_load *load);
/* Seconds of the most loaded direction of a link, and the cost; -1 when memory is short. */
double st_load_most(const st_load *load, const int32_t *slot_of, double *cost);

/* Annealing from `hot` to `hot / fall` in units of a typical change; the last quarter of the moves only descends. */
typedef struct {
	int64_t moves;
	double hot;
	double fall;
	double share_of_sum;
	double share_of_most;
	uint64_t seed;
} st_relief_schedule;

/*
 * Swap vertices until share_of_sum * cost + share_of_most * most is low, in place: slot_of becomes the best that was
 * seen, never worse than what it was. The number of swaps, or -1. `drift` gets by what share, at most, the sums that
 * the swaps changed were off from such that were made anew.
 */
int64_t st_load_relieve(const st_load *load, const uint8_t *fixed, const st_relief_schedule *schedule,
			const st_control *control, int32_t *slot_of, double *drift);

/*
 * Distances that are no tree (distance.c): between cores of different rows a byte costs matrix[row * rows + row], which
 * is symmetric; within a row, and for messages, the levels count as in an instance. NULL when memory is short.
 */
typedef struct st_distance st_distance;
st_distance *st_distance_new(int32_t cores, int32_t matrix_rows, const int32_t *row_of, const double *matrix,
			     int32_t levels, const int32_t *groups, const double *per_byte, const double *per_message,
			     int64_t pairs, const int32_t *source, const int32_t *target, const double *nbytes,
			     const double *messages);
void st_distance_free(st_distance *distance);
double st_distance_degree(const st_distance *distance);
double st_distance_cost(const st_distance *distance, const int32_t *core_of);
/*
 * Anneal swaps in place from `hot` to `hot / fall` in units of a typical change (`rise` has no meaning here), then
 * descend; core_of is never worse than it was. The number of swaps of the annealing, or -1.
 */
int64_t st_distance_anneal(const st_distance *distance, const uint8_t *fixed, const st_schedule *schedule,
			   const st_control *control, int32_t *core_of);

#endif
