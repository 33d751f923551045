/* Annealing of swaps: a vertex to a slot near one of its neighbours. */
#include <math.h>
#include <stdlib.h>

#include "swap.h"

/* One build of the hot loops for every x86-64 and one for those that count leading zeros in one cycle. */
#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(ST_PLAIN)
#define ST_CLONES __attribute__((target_clones("default", "arch=haswell")))
#else
#define ST_CLONES
#endif

enum { LOGARITHMS = 4096, CLOCK_EVERY = 4096 };

static const double HEATING = 1.15;

typedef struct {
	st_layout layout;
	const st_control *control;
	int32_t *active; /* vertices that may move and have neighbours */
	int32_t active_count;
	const uint8_t *fixed;
	st_random random;
	double temperature[ST_CODE_BITS + 1]; /* by bit, at heat 1 */
	double logarithm[LOGARITHMS];         /* -log of evenly spread numbers in (0, 1) */
	double cost;
} st_annealer;

static int open_annealer(st_annealer *annealer, const st_instance *instance, const uint8_t *fixed, uint64_t seed,
			 const int32_t *core_of)
{
	const st_graph *graph = &instance->graph;
	const st_tree *tree = &instance->tree;

	annealer->fixed = fixed;
	annealer->random.state = seed;
	annealer->active = malloc((size_t)graph->vertices * sizeof(int32_t));
	if (!annealer->active || st_layout_open(&annealer->layout, instance, core_of))
		return -1;
	for (int32_t v = 0; v < graph->vertices; v++)
		if (graph->row[v] < graph->row[v + 1] && !(fixed && fixed[v]))
			annealer->active[annealer->active_count++] = v;
	for (int b = 0; b <= ST_CODE_BITS; b++)
		annealer->temperature[b] = tree->byte_by_bit[b] * instance->typical_weight +
					   tree->message_by_bit[b] * instance->typical_message;
	for (int i = 0; i < LOGARITHMS; i++)
		annealer->logarithm[i] = -log((i + 0.5) / LOGARITHMS);
	return 0;
}

/* A vertex near a random neighbour of u and not near u itself, or -1. */
static inline int32_t propose(st_annealer *annealer, int32_t u)
{
	const st_layout *layout = &annealer->layout;
	const st_graph *graph = &layout->instance->graph;
	const st_tree *tree = &layout->instance->tree;
	int64_t begin = graph->row[u];
	uint64_t bits = st_next(&annealer->random);
	uint32_t degree = (uint32_t)(graph->row[u + 1] - begin);
	int32_t v = (int32_t)graph->to[begin + (int64_t)(((bits & 0xffffffffu) * degree) >> 32)];
	int32_t level = tree->level_by_bit[st_bit(layout->code_of[u] ^ layout->code_of[v])];

	if (level == 0)
		return -1;
	int32_t near = (int32_t)(((bits >> 32 & 0xffffu) * (uint32_t)level) >> 16);
	int32_t group = tree->group[near][layout->slot_of[v]];
	int32_t first = tree->first[near][group];
	uint32_t size = (uint32_t)(tree->first[near][group + 1] - first);
	int32_t w = layout->vertex_at[first + (int32_t)st_below(&annealer->random, size)];

	if (annealer->fixed && annealer->fixed[w])
		return -1;
	const uint64_t *shape = layout->instance->shape;
	if (shape && shape[layout->slot_of[u]] != shape[layout->slot_of[w]])
		return -1;
	return w;
}

static inline __attribute__((always_inline)) int64_t run(st_annealer *annealer, int64_t moves, double heat,
							 const bool two)
{
	st_layout *layout = &annealer->layout;
	int64_t accepted = 0;

	for (int64_t k = 0; k < moves; k++) {
		int32_t u = annealer->active[st_below(&annealer->random, (uint32_t)annealer->active_count)];
		int32_t w = propose(annealer, u);
		if (w < 0)
			continue;
		double change = st_swap_change(layout, u, w, two);
		if (change > 0) {
			int bit = st_bit(layout->code_of[u] ^ layout->code_of[w]);
			uint32_t draw = st_below(&annealer->random, LOGARITHMS);
			if (change >= heat * annealer->temperature[bit] * annealer->logarithm[draw])
				continue;
		}
		st_swap(layout, u, w);
		annealer->cost += change;
		accepted++;
	}
	return accepted;
}

ST_CLONES static int64_t run_one(st_annealer *annealer, int64_t moves, double heat)
{
	return run(annealer, moves, heat, false);
}

ST_CLONES static int64_t run_two(st_annealer *annealer, int64_t moves, double heat)
{
	return run(annealer, moves, heat, true);
}

static int64_t run_some(st_annealer *annealer, int64_t moves, double heat)
{
	return annealer->layout.instance->graph.message ? run_two(annealer, moves, heat)
							: run_one(annealer, moves, heat);
}

/* Raise the temperature until the cost has risen by the share that the schedule names; half the moves at most. */
static int64_t heat_up(st_annealer *annealer, const st_schedule *schedule, double *hot, int64_t *left)
{
	int64_t step = 8 * (int64_t)annealer->active_count, accepted = 0, least = schedule->moves / 2;
	double limit = annealer->cost * (1 + schedule->rise);

	if (schedule->rise <= 0)
		return 0;
	while (annealer->cost < limit && *left - step > least && !st_expired(annealer->control)) {
		accepted += run_some(annealer, step, *hot);
		*left -= step;
		if (annealer->cost < limit)
			*hot *= HEATING;
	}
	return accepted;
}

int64_t st_anneal(const st_instance *instance, const uint8_t *fixed, const st_schedule *schedule,
		  const st_control *control, int32_t *core_of)
{
	st_annealer annealer = {.control = control};
	int64_t accepted = -1;

	if (open_annealer(&annealer, instance, fixed, schedule->seed, core_of))
		goto out;
	accepted = 0;
	if (!annealer.active_count || instance->tree.levels < 2)
		goto out;
	annealer.cost = st_instance_cost(instance, core_of);
	double hot = schedule->hot;
	int64_t left = schedule->moves;
	accepted += heat_up(&annealer, schedule, &hot, &left);
	/* Steps of equal length: the clock is read, and the temperature falls, between them. */
	int64_t steps = left / CLOCK_EVERY + 1;
	for (int64_t step = 0; step < steps && !st_expired(control); step++)
		accepted += run_some(&annealer, left / steps,
				     hot * pow(schedule->fall, -((double)step + 0.5) / (double)steps));
	st_layout_store(&annealer.layout, core_of);
out:
	free(annealer.active);
	st_layout_close(&annealer.layout);
	return accepted;
}
