/* Multilevel bisection with exact sizes: matching, greedy growth, Fiduccia-Mattheyses with heaps. */
#include <string.h>

#include "st_internal.h"

enum { COARSE_ENOUGH = 48, PASSES = 6 };

/* Vertices of one side, ordered by gain. */
typedef struct {
	int32_t count;
	int32_t *item;
} st_heap;

typedef struct {
	const st_cut_graph *graph;
	uint8_t *side;
	double *gain; /* by how much the cut falls when the vertex changes its side */
	int32_t *at;  /* place in its heap, -1 when locked */
	int32_t *moved;
	st_heap heap[2];
	int64_t load; /* on side 0 */
	int64_t target;
	int64_t slack;
	double cut;
} st_state;

static void heap_put(st_state *state, st_heap *heap, int32_t place, int32_t v)
{
	heap->item[place] = v;
	state->at[v] = place;
}

static void heap_rise(st_state *state, st_heap *heap, int32_t place)
{
	int32_t v = heap->item[place];
	double gain = state->gain[v];

	while (place > 0) {
		int32_t parent = (place - 1) / 2;
		if (state->gain[heap->item[parent]] >= gain)
			break;
		heap_put(state, heap, place, heap->item[parent]);
		place = parent;
	}
	heap_put(state, heap, place, v);
}

static void heap_sink(st_state *state, st_heap *heap, int32_t place)
{
	int32_t v = heap->item[place];
	double gain = state->gain[v];

	for (;;) {
		int32_t child = 2 * place + 1;
		if (child >= heap->count)
			break;
		if (child + 1 < heap->count &&
		    state->gain[heap->item[child + 1]] > state->gain[heap->item[child]])
			child++;
		if (state->gain[heap->item[child]] <= gain)
			break;
		heap_put(state, heap, place, heap->item[child]);
		place = child;
	}
	heap_put(state, heap, place, v);
}

static void heap_remove(st_state *state, st_heap *heap, int32_t v)
{
	int32_t place = state->at[v];
	int32_t last = heap->item[--heap->count];

	state->at[v] = -1;
	if (last == v)
		return;
	heap_put(state, heap, place, last);
	heap_rise(state, heap, place);
	heap_sink(state, heap, state->at[last]);
}

static void measure(st_state *state)
{
	const st_cut_graph *graph = state->graph;

	state->load = 0;
	state->cut = 0;
	for (int32_t v = 0; v < graph->n; v++) {
		double gain = 0;
		for (int64_t i = graph->row[v]; i < graph->row[v + 1]; i++) {
			if (state->side[graph->to[i]] != state->side[v]) {
				gain += graph->weight[i];
				state->cut += graph->weight[i];
			} else {
				gain -= graph->weight[i];
			}
		}
		state->gain[v] = gain;
		if (!state->side[v])
			state->load += graph->load[v];
	}
	state->cut /= 2;
}

/* Move v to the other side and bring the gains (and heaps) of its neighbours up to date. */
static void move(st_state *state, int32_t v, bool in_heaps)
{
	const st_cut_graph *graph = state->graph;
	uint8_t now = state->side[v] ^ 1;

	state->cut -= state->gain[v];
	state->gain[v] = -state->gain[v];
	state->side[v] = now;
	state->load += now ? -graph->load[v] : graph->load[v];
	for (int64_t i = graph->row[v]; i < graph->row[v + 1]; i++) {
		int32_t u = graph->to[i];
		double change = 2.0 * graph->weight[i];
		state->gain[u] += state->side[u] == now ? -change : change;
		if (!in_heaps || state->at[u] < 0)
			continue;
		st_heap *heap = &state->heap[state->side[u]];
		if (state->side[u] == now)
			heap_sink(state, heap, state->at[u]);
		else
			heap_rise(state, heap, state->at[u]);
	}
}

static int64_t excess(const st_state *state)
{
	int64_t off = state->load > state->target ? state->load - state->target : state->target - state->load;

	return off > state->slack ? off - state->slack : 0;
}

static int pick_side(const st_state *state)
{
	const st_heap *heap = state->heap;

	if (!heap[0].count || !heap[1].count)
		return heap[0].count ? 0 : 1;
	if (state->load > state->target + state->slack)
		return 0;
	if (state->load < state->target - state->slack)
		return 1;
	double first = state->gain[heap[0].item[0]], second = state->gain[heap[1].item[0]];
	if (first == second)
		return state->load >= state->target ? 0 : 1;
	return first > second ? 0 : 1;
}

/* One pass; true when the cut or the balance became better. */
static bool pass(st_state *state, int32_t patience)
{
	const st_cut_graph *graph = state->graph;
	int64_t best_excess = excess(state), first_excess = best_excess;
	double best_cut = state->cut, first_cut = state->cut, least = 1e-9 * state->cut;
	int32_t moves = 0, best = 0;

	for (int s = 0; s < 2; s++)
		state->heap[s].count = 0;
	for (int32_t v = 0; v < graph->n; v++) {
		st_heap *heap = &state->heap[state->side[v]];
		heap_put(state, heap, heap->count++, v);
	}
	for (int s = 0; s < 2; s++)
		for (int32_t place = state->heap[s].count / 2 - 1; place >= 0; place--)
			heap_sink(state, &state->heap[s], place);
	while (moves - best < patience && moves < graph->n) {
		int side = pick_side(state);
		if (!state->heap[side].count)
			break;
		int32_t v = state->heap[side].item[0];
		heap_remove(state, &state->heap[side], v);
		move(state, v, true);
		state->moved[moves++] = v;
		int64_t now = excess(state);
		if (now < best_excess || (now == best_excess && state->cut < best_cut - least)) {
			best_excess = now;
			best_cut = state->cut;
			best = moves;
		}
	}
	while (moves > best)
		move(state, state->moved[--moves], false);
	return best_excess < first_excess || best_cut < first_cut - least;
}

static int refine(st_arena *arena, const st_cut_graph *graph, int64_t target, uint8_t *side, double *cut)
{
	st_mark mark = st_arena_mark(arena);
	size_t n = (size_t)graph->n;
	st_state state = {.graph = graph, .side = side, .target = target, .slack = graph->heaviest - 1};
	int32_t patience = 40 + graph->n / 12;

	state.gain = st_take(arena, n, sizeof(double));
	state.at = st_take(arena, n, sizeof(int32_t));
	state.moved = st_take(arena, n, sizeof(int32_t));
	state.heap[0].item = st_take(arena, n, sizeof(int32_t));
	state.heap[1].item = st_take(arena, n, sizeof(int32_t));
	if (!state.gain || !state.at || !state.moved || !state.heap[0].item || !state.heap[1].item)
		return -1;
	measure(&state);
	for (int k = 0; k < PASSES && pass(&state, patience); k++)
		;
	*cut = state.cut + (excess(&state) ? 1e300 : 0);
	st_arena_release(arena, mark);
	return 0;
}

/* Grow side 0 from a random vertex: always the vertex that costs the cut least. */
static int grow(st_arena *arena, const st_cut_graph *graph, int64_t target, st_random *random, uint8_t *side)
{
	st_mark mark = st_arena_mark(arena);
	size_t n = (size_t)graph->n;
	st_state state = {.graph = graph, .side = side};
	int32_t *order = st_take(arena, n, sizeof(int32_t)), next = 0;
	int64_t load = 0;

	state.gain = st_take(arena, n, sizeof(double));
	state.at = st_take(arena, n, sizeof(int32_t));
	state.heap[0].item = st_take(arena, n, sizeof(int32_t));
	if (!order || !state.gain || !state.at || !state.heap[0].item)
		return -1;
	st_shuffle(order, graph->n, random);
	memset(side, 1, n);
	for (int32_t v = 0; v < graph->n; v++) {
		state.at[v] = -1;
		state.gain[v] = 0;
		for (int64_t i = graph->row[v]; i < graph->row[v + 1]; i++)
			state.gain[v] -= graph->weight[i];
	}
	while (load < target) {
		int32_t v;
		if (state.heap[0].count) {
			v = state.heap[0].item[0];
			heap_remove(&state, &state.heap[0], v);
		} else {
			/* A new component; free cores (without edges) come last. */
			int32_t k = next;
			while (k < graph->n && (!side[order[k]] || graph->row[order[k]] == graph->row[order[k] + 1]))
				k++;
			if (k < graph->n) {
				next = k;
			} else {
				for (k = 0; k < graph->n && !side[order[k]]; k++)
					;
			}
			if (k == graph->n)
				break;
			v = order[k];
		}
		/* Stop on the nearer side of the target. */
		if (load + graph->load[v] - target > target - load)
			break;
		side[v] = 0;
		load += graph->load[v];
		for (int64_t i = graph->row[v]; i < graph->row[v + 1]; i++) {
			int32_t u = graph->to[i];
			state.gain[u] += 2.0 * graph->weight[i];
			if (!side[u])
				continue;
			if (state.at[u] < 0)
				heap_put(&state, &state.heap[0], state.heap[0].count++, u);
			heap_rise(&state, &state.heap[0], state.at[u]);
		}
	}
	st_arena_release(arena, mark);
	return 0;
}

static int cut_small(st_arena *arena, const st_cut_graph *graph, int64_t target, int32_t growths, st_random *random,
		     uint8_t *side, double *cut)
{
	st_mark mark = st_arena_mark(arena);
	uint8_t *trial = st_take(arena, (size_t)graph->n, 1);
	double trial_cut;

	if (!trial)
		return -1;
	*cut = -1;
	for (int k = 0; k < growths; k++) {
		if (grow(arena, graph, target, random, trial) ||
		    refine(arena, graph, target, trial, &trial_cut))
			return -1;
		if (*cut < 0 || trial_cut < *cut) {
			*cut = trial_cut;
			memcpy(side, trial, (size_t)graph->n);
		}
	}
	st_arena_release(arena, mark);
	return 0;
}

/* With `keep` the side that is given is coarsened along and made better, never worse. */
static int multilevel(st_arena *arena, const st_cut_graph *graph, int64_t target, bool keep,
		      const st_section_style *style, uint64_t flavour, st_random *random, uint8_t *side, double *cut)
{
	st_mark mark = st_arena_mark(arena);
	st_cut_graph coarse;
	int32_t limit = (int32_t)(graph->total * 3 / (2 * COARSE_ENOUGH)) + 1;

	if (graph->n <= COARSE_ENOUGH)
		return keep ? refine(arena, graph, target, side, cut)
			    : cut_small(arena, graph, target, style->growths, random, side, cut);
	int32_t *coarse_of = st_take(arena, (size_t)graph->n, sizeof(*coarse_of));
	if (!coarse_of)
		return -1;
	coarse.n = st_cluster(arena, graph, limit, keep ? side : NULL, style, flavour, random, coarse_of);
	if (coarse.n < 0)
		return -1;
	if (coarse.n > graph->n * 19 / 20) {
		st_arena_release(arena, mark);
		return keep ? refine(arena, graph, target, side, cut)
			    : cut_small(arena, graph, target, style->growths, random, side, cut);
	}
	uint8_t *coarse_side = st_take(arena, (size_t)coarse.n, 1);
	if (!coarse_side || st_cut_contract(arena, graph, coarse_of, &coarse))
		return -1;
	if (keep)
		for (int32_t v = 0; v < graph->n; v++)
			coarse_side[coarse_of[v]] = side[v];
	if (multilevel(arena, &coarse, target, keep, style, flavour, random, coarse_side, cut))
		return -1;
	for (int32_t v = 0; v < graph->n; v++)
		side[v] = coarse_side[coarse_of[v]];
	st_arena_release(arena, mark);
	return refine(arena, graph, target, side, cut);
}

/* Loads of 1: whatever the passes left unbalanced is moved one by one, the cheapest first. */
static void repair(const st_cut_graph *graph, int64_t target, uint8_t *side)
{
	int64_t load = 0;

	for (int32_t v = 0; v < graph->n; v++)
		load += !side[v];
	while (load != target) {
		uint8_t from = load > target ? 0 : 1;
		int32_t best = -1;
		double best_gain = 0;
		for (int32_t v = 0; v < graph->n; v++) {
			double gain = 0;
			if (side[v] != from)
				continue;
			for (int64_t i = graph->row[v]; i < graph->row[v + 1]; i++)
				gain += side[graph->to[i]] != from ? graph->weight[i] : -graph->weight[i];
			if (best < 0 || gain > best_gain) {
				best = v;
				best_gain = gain;
			}
		}
		side[best] ^= 1;
		load += from ? 1 : -1;
	}
}

int st_bisect(st_arena *arena, const st_cut_graph *graph, int64_t target, const st_section_style *style,
	      st_random *random, const st_control *control, uint8_t *side)
{
	st_mark mark = st_arena_mark(arena);
	uint8_t *trial = st_take(arena, (size_t)graph->n, 1);
	double best = -1, cut;

	if (!trial)
		return -1;
	for (int32_t t = 0; t < style->tries; t++) {
		if (t > 0 && st_expired(control))
			break;
		uint64_t flavour = st_next(random);
		if (multilevel(arena, graph, target, false, style, flavour, random, trial, &cut))
			return -1;
		for (int32_t c = 0; c < style->cycles && cut > 0; c++)
			if (multilevel(arena, graph, target, true, style, st_next(random), random, trial, &cut))
				return -1;
		if (best < 0 || cut < best) {
			best = cut;
			memcpy(side, trial, (size_t)graph->n);
		}
		if (best == 0)
			break;
	}
	repair(graph, target, side);
	st_arena_release(arena, mark);
	return 0;
}
