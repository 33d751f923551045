/* Annealing of swaps: a vertex to a slot near one of its neighbours. */
#include <math.h>
#include <stdlib.h>

#include "swap.h"

/* One build of the hot loops for every x86-64 and one for those that count leading zeros in one cycle. */
#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__clang__) && __GNUC__ >= 12 && !defined(ST_PLAIN)
#define ST_CLONES __attribute__((target_clones("default", "arch=x86-64-v3")))
#else
#define ST_CLONES
#endif

enum { LOGARITHMS = 4096, CLOCK_EVERY = 4096, CANDIDATES = 3 };

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
	double *cost_of;  /* vertex -> cost of its edges */
	double *least_of; /* vertex -> what they cost at best */
} st_annealer;

static inline bool allowed(const st_annealer *annealer, int32_t u, int32_t w)
{
	const st_layout *layout = &annealer->layout;
	const uint64_t *shape = layout->instance->shape;

	if (annealer->fixed && annealer->fixed[w])
		return false;
	/* Groups change places with groups of their shape only. */
	return u != w && (!shape || shape[layout->slot_of[u]] == shape[layout->slot_of[w]]);
}

/* What v pays more than at its best: a vertex without edges would go anywhere. */
static inline double unrest(const st_annealer *annealer, int32_t v)
{
	double excess = annealer->cost_of[v] - annealer->least_of[v];

	return annealer->least_of[v] > 0 || excess > 0 ? excess : HUGE_VAL;
}

/* Of some vertices in `size` slots from `first` on the one that is worst off where it is. */
static inline int32_t candidate(st_annealer *annealer, int32_t first, uint32_t size)
{
	const int32_t *vertex_at = annealer->layout.vertex_at;
	int32_t w = vertex_at[first + (int32_t)st_below(&annealer->random, size)];
	double most = unrest(annealer, w);

	for (int k = 1; k < CANDIDATES && size > 1; k++) {
		int32_t other = vertex_at[first + (int32_t)st_below(&annealer->random, size)];
		double now = unrest(annealer, other);
		if (now > most) {
			most = now;
			w = other;
		}
	}
	return w;
}

/* The farther one of two random neighbours: most of what can be gained is there. */
static inline int32_t neighbour(st_annealer *annealer, int32_t u, int *bit)
{
	const st_layout *layout = &annealer->layout;
	const st_graph *graph = &layout->instance->graph;
	const uint32_t *to = graph->to + graph->row[u];
	uint32_t degree = (uint32_t)(graph->row[u + 1] - graph->row[u]), code = layout->code_of[u];
	uint64_t bits = st_next(&annealer->random);
	uint32_t v = to[((bits & 0xffffffffu) * degree) >> 32], x = to[((bits >> 32) * degree) >> 32];
	int there = st_bit(code ^ layout->code_of[v]), elsewhere = st_bit(code ^ layout->code_of[x]);

	*bit = elsewhere > there ? elsewhere : there;
	return (int32_t)(elsewhere > there ? x : v);
}

/* A vertex near a random neighbour of u and not near u itself, rarely any vertex; or -1. */
static inline int32_t propose(st_annealer *annealer, int32_t u)
{
	const st_layout *layout = &annealer->layout;
	const st_tree *tree = &layout->instance->tree;
	uint64_t bits = st_next(&annealer->random);
	int32_t w;
	int bit;

	if (bits >> 58 == 0) {
		w = (int32_t)st_below(&annealer->random, (uint32_t)tree->slots);
		return allowed(annealer, u, w) ? w : -1;
	}
	int32_t v = neighbour(annealer, u, &bit);
	int32_t level = tree->level_by_bit[bit];

	if (level == 0)
		return -1;
	int32_t near = (int32_t)(((bits >> 32 & 0xffffu) * (uint32_t)level) >> 16);
	int32_t group = tree->group[near][layout->slot_of[v]];
	int32_t first = tree->first[near][group];
	uint32_t size = (uint32_t)(tree->first[near][group + 1] - first);
	w = candidate(annealer, first, size);
	return allowed(annealer, u, w) ? w : -1;
}

/* Cost of the edges of u if it were at `code`; `tie` gets the cost at `from` of an edge to the vertex that is there. */
static inline __attribute__((always_inline)) double cost_at(const st_layout *layout, int32_t u, uint32_t code,
							    uint32_t from, double *tie, const bool two)
{
	const st_graph *graph = &layout->instance->graph;
	const double *byte = layout->instance->tree.byte_by_bit, *message = layout->instance->tree.message_by_bit;
	double cost = 0;

	for (int64_t i = graph->row[u]; i < graph->row[u + 1]; i++) {
		int bit = st_bit(layout->code_of[graph->to[i]] ^ code);
		double weight = graph->weight[i];
		cost += weight * byte[bit];
		if (two)
			cost += (double)graph->message[i] * message[bit];
		if (bit == 0) {
			int apart = st_bit(code ^ from);
			*tie = weight * byte[apart];
			if (two)
				*tie += (double)graph->message[i] * message[apart];
		}
	}
	return cost;
}

/* u goes from one code to another: the costs of its neighbours follow. */
static inline __attribute__((always_inline)) void tell_neighbours(st_annealer *annealer, int32_t u, uint32_t from,
								  uint32_t to, const bool two)
{
	const st_layout *layout = &annealer->layout;
	const st_graph *graph = &layout->instance->graph;
	const double *byte = layout->instance->tree.byte_by_bit, *message = layout->instance->tree.message_by_bit;

	for (int64_t i = graph->row[u]; i < graph->row[u + 1]; i++) {
		uint32_t x = graph->to[i], code = layout->code_of[x];
		int there = st_bit(code ^ to), here = st_bit(code ^ from);
		double change = (double)graph->weight[i] * (byte[there] - byte[here]);
		if (two)
			change += (double)graph->message[i] * (message[there] - message[here]);
		annealer->cost_of[x] += change;
	}
}

static void measure_costs(st_annealer *annealer)
{
	const st_layout *layout = &annealer->layout;
	const st_graph *graph = &layout->instance->graph;
	const st_tree *tree = &layout->instance->tree;
	double byte = tree->per_byte[0], message = tree->per_message[0], tie;

	for (int32_t l = 1; l < tree->levels; l++) {
		byte = fmin(byte, tree->per_byte[l]);
		message = fmin(message, tree->per_message[l]);
	}
	for (int32_t v = 0; v < graph->vertices; v++) {
		uint32_t code = layout->code_of[v];
		annealer->least_of[v] = 0;
		for (int64_t i = graph->row[v]; i < graph->row[v + 1]; i++)
			annealer->least_of[v] +=
				graph->weight[i] * byte + (graph->message ? graph->message[i] * message : 0);
		annealer->cost_of[v] = cost_at(layout, v, code, code, &tie, graph->message != NULL);
	}
}

static int open_annealer(st_annealer *annealer, const st_instance *instance, const uint8_t *fixed, uint64_t seed,
			 const int32_t *core_of)
{
	const st_graph *graph = &instance->graph;
	const st_tree *tree = &instance->tree;

	annealer->fixed = fixed;
	annealer->random.state = seed;
	annealer->active = malloc((size_t)graph->vertices * sizeof(int32_t));
	annealer->cost_of = malloc((size_t)graph->vertices * sizeof(double));
	annealer->least_of = malloc((size_t)graph->vertices * sizeof(double));
	if (!annealer->active || !annealer->cost_of || !annealer->least_of ||
	    st_layout_open(&annealer->layout, instance, core_of))
		return -1;
	for (int32_t v = 0; v < graph->vertices; v++)
		if (graph->row[v] < graph->row[v + 1] && !(fixed && fixed[v]))
			annealer->active[annealer->active_count++] = v;
	for (int b = 0; b <= ST_CODE_BITS; b++)
		annealer->temperature[b] = tree->byte_by_bit[b] * instance->typical_weight +
					   tree->message_by_bit[b] * instance->typical_message;
	for (int i = 0; i < LOGARITHMS; i++)
		annealer->logarithm[i] = -log((i + 0.5) / LOGARITHMS);
	measure_costs(annealer);
	return 0;
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
		uint32_t s = layout->code_of[u], t = layout->code_of[w], draw = st_below(&annealer->random, LOGARITHMS);
		double limit = heat * annealer->temperature[st_bit(s ^ t)] * annealer->logarithm[draw];
		double tie = 0, before = annealer->cost_of[u] + annealer->cost_of[w];
		double cost_u = cost_at(layout, u, t, s, &tie, two);
		/* Not even the best place for w would pay for this one of u. */
		if (cost_u + annealer->least_of[w] - before > limit)
			continue;
		double cost_w = cost_at(layout, w, s, t, &tie, two);
		double change = cost_u + cost_w + 2 * tie - before;
		if (change > limit)
			continue;
		tell_neighbours(annealer, u, s, t, two);
		tell_neighbours(annealer, w, t, s, two);
		st_swap(layout, u, w);
		annealer->cost_of[u] = cost_u + tie;
		annealer->cost_of[w] = cost_w + tie;
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
	double share = 0;

	for (int32_t i = 0; i < annealer->active_count; i++)
		share += annealer->cost_of[annealer->active[i]] / 2;
	double limit = annealer->cost + schedule->rise * share;

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
	free(annealer.cost_of);
	free(annealer.least_of);
	st_layout_close(&annealer.layout);
	return accepted;
}
