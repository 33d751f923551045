/* Multilevel bisection with exact sizes: matching, greedy growth, Fiduccia-Mattheyses with heaps. */
#include <math.h>
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

static void shuffle(int32_t *order, int32_t n, st_random *random)
{
	for (int32_t i = 0; i < n; i++)
		order[i] = i;
	for (int32_t i = n - 1; i > 0; i--) {
		int32_t j = (int32_t)st_below(random, (uint32_t)i + 1), kept = order[i];
		order[i] = order[j];
		order[j] = kept;
	}
}

/* What the edges of one weight are worth to a coarsening: 1 without taste. */
static double liking(float weight, const st_section_style *style, uint64_t flavour)
{
	uint32_t bits;

	if (style->taste <= 0)
		return 1;
	memcpy(&bits, &weight, sizeof(bits));
	/* Weights within some per cent of one another are one kind. */
	st_random draw = {flavour ^ ((uint64_t)(bits >> 19) * 0x9e3779b97f4a7c15u)};
	return exp2(style->taste * ((double)(st_next(&draw) >> 11) * 0x1p-52 - 1));
}

/*
 * Clusters by first choice: each vertex joins its best neighbour, alone or in a cluster that has room. Vertices of
 * different sides stay apart when `side` is given.
 */
static int32_t join(const st_cut_graph *graph, int32_t limit, const uint8_t *side, const int32_t *order,
		    const st_section_style *style, uint64_t flavour, int32_t *load, int32_t *coarse_of)
{
	int32_t count = 0, left = graph->n, enough = graph->n * 2 / 5;

	for (int32_t v = 0; v < graph->n; v++)
		coarse_of[v] = -1;
	for (int32_t k = 0; k < graph->n; k++) {
		int32_t v = order[k], partner = -1;
		double best = 0;
		if (coarse_of[v] >= 0)
			continue;
		for (int64_t i = graph->row[v]; i < graph->row[v + 1] && left > enough; i++) {
			int32_t u = graph->to[i];
			int32_t there = coarse_of[u] >= 0 ? load[coarse_of[u]] : graph->load[u];
			if (there + graph->load[v] > limit || (side && side[u] != side[v]))
				continue;
			double rating = graph->weight[i] * liking(graph->weight[i], style, flavour) / (double)there;
			if (rating > best) {
				best = rating;
				partner = u;
			}
		}
		if (partner >= 0 && coarse_of[partner] >= 0) {
			coarse_of[v] = coarse_of[partner];
			load[coarse_of[v]] += graph->load[v];
			left--;
			continue;
		}
		load[count] = graph->load[v];
		coarse_of[v] = count;
		if (partner >= 0) {
			coarse_of[partner] = count;
			load[count] += graph->load[partner];
			left--;
		}
		count++;
	}
	return count;
}

/* Heavy edges first; vertices of different sides are never matched when `side` is given. */
static int32_t match(const st_cut_graph *graph, int32_t limit, const uint8_t *side, const int32_t *order,
		     const st_section_style *style, uint64_t flavour, int32_t *coarse_of)
{
	int32_t count = 0, lonely[2] = {-1, -1};

	for (int32_t v = 0; v < graph->n; v++)
		coarse_of[v] = -1;
	for (int32_t k = 0; k < graph->n; k++) {
		int32_t v = order[k], partner = -1;
		double best = 0;
		if (coarse_of[v] >= 0)
			continue;
		for (int64_t i = graph->row[v]; i < graph->row[v + 1]; i++) {
			int32_t u = graph->to[i];
			if (coarse_of[u] >= 0 || graph->load[u] + graph->load[v] > limit ||
			    (side && side[u] != side[v]))
				continue;
			double rating =
				graph->weight[i] * liking(graph->weight[i], style, flavour) / (double)graph->load[u];
			if (rating > best) {
				best = rating;
				partner = u;
			}
		}
		if (graph->row[v] == graph->row[v + 1]) {
			/* Free cores: any two go together. */
			int32_t *other = &lonely[side ? side[v] : 0];
			if (*other >= 0 && graph->load[*other] + graph->load[v] <= limit) {
				coarse_of[v] = coarse_of[*other];
				*other = -1;
				continue;
			}
			*other = v;
		}
		coarse_of[v] = count;
		if (partner >= 0)
			coarse_of[partner] = count;
		count++;
	}
	return count;
}

/* Vertices left over (the leaves of a star, say) go in pairs that share their heaviest neighbour. */
static int32_t match_leaves(st_arena *arena, const st_cut_graph *graph, int32_t limit, const uint8_t *side,
			    const int32_t *order, int32_t *coarse_of, int32_t count)
{
	st_mark mark = st_arena_mark(arena);
	int32_t *size = st_take(arena, (size_t)count, sizeof(*size));
	int32_t *waiting = st_take(arena, (size_t)graph->n, sizeof(*waiting));
	int32_t *number = st_take(arena, (size_t)count, sizeof(*number));
	int32_t kept = 0;

	if (!size || !waiting || !number)
		return -1;
	memset(size, 0, (size_t)count * sizeof(*size));
	for (int32_t v = 0; v < graph->n; v++) {
		size[coarse_of[v]]++;
		waiting[v] = -1;
	}
	for (int32_t k = 0; k < graph->n; k++) {
		int32_t v = order[k], hub = -1;
		float best = 0;
		if (size[coarse_of[v]] != 1)
			continue;
		for (int64_t i = graph->row[v]; i < graph->row[v + 1]; i++)
			if (graph->weight[i] > best) {
				best = graph->weight[i];
				hub = graph->to[i];
			}
		if (hub < 0)
			continue;
		int32_t u = waiting[hub];
		if (u >= 0 && graph->load[u] + graph->load[v] <= limit && (!side || side[u] == side[v])) {
			size[coarse_of[v]] = 0;
			coarse_of[v] = coarse_of[u];
			size[coarse_of[u]] = 2;
			waiting[hub] = -1;
		} else {
			waiting[hub] = v;
		}
	}
	for (int32_t c = 0; c < count; c++)
		number[c] = size[c] ? kept++ : -1;
	for (int32_t v = 0; v < graph->n; v++)
		coarse_of[v] = number[coarse_of[v]];
	st_arena_release(arena, mark);
	return kept;
}

static int contract(st_arena *arena, const st_cut_graph *fine, const int32_t *coarse_of, st_cut_graph *coarse)
{
	int32_t n = coarse->n;
	int64_t kept = 0;

	coarse->row = st_take(arena, (size_t)n + 1, sizeof(*coarse->row));
	coarse->load = st_take(arena, (size_t)n, sizeof(*coarse->load));
	coarse->to = st_take(arena, (size_t)fine->row[fine->n], sizeof(*coarse->to));
	coarse->weight = st_take(arena, (size_t)fine->row[fine->n], sizeof(*coarse->weight));
	int32_t *start = st_take(arena, (size_t)n + 2, sizeof(*start));
	int32_t *members = st_take(arena, (size_t)fine->n, sizeof(*members));
	int64_t *seen = st_take(arena, (size_t)n, sizeof(*seen));
	if (!coarse->row || !coarse->load || !coarse->to || !coarse->weight || !start || !members || !seen)
		return -1;
	memset(start, 0, ((size_t)n + 2) * sizeof(*start));
	memset(seen, 0xff, (size_t)n * sizeof(*seen));
	for (int32_t v = 0; v < fine->n; v++)
		start[coarse_of[v] + 2]++;
	for (int32_t c = 0; c < n; c++)
		start[c + 2] += start[c + 1];
	for (int32_t v = 0; v < fine->n; v++)
		members[start[coarse_of[v] + 1]++] = v;
	coarse->total = fine->total;
	coarse->heaviest = 1;
	for (int32_t c = 0; c < n; c++) {
		int64_t begin = kept;
		coarse->load[c] = 0;
		for (int32_t k = start[c]; k < start[c + 1]; k++) {
			int32_t v = members[k];
			coarse->load[c] += fine->load[v];
			for (int64_t i = fine->row[v]; i < fine->row[v + 1]; i++) {
				int32_t to = coarse_of[fine->to[i]];
				if (to == c)
					continue;
				if (seen[to] < begin) {
					seen[to] = kept;
					coarse->to[kept] = to;
					coarse->weight[kept++] = 0;
				}
				coarse->weight[seen[to]] += fine->weight[i];
			}
		}
		coarse->row[c] = begin;
		if (coarse->load[c] > coarse->heaviest)
			coarse->heaviest = coarse->load[c];
	}
	coarse->row[n] = kept;
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
	shuffle(order, graph->n, random);
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
	int32_t *order = st_take(arena, (size_t)graph->n, sizeof(*order));
	if (!coarse_of || !order)
		return -1;
	shuffle(order, graph->n, random);
	if (style->join) {
		int32_t *load = st_take(arena, (size_t)graph->n, sizeof(*load));
		if (!load)
			return -1;
		coarse.n = join(graph, limit, keep ? side : NULL, order, style, flavour, load, coarse_of);
	} else {
		coarse.n = match(graph, limit, keep ? side : NULL, order, style, flavour, coarse_of);
	}
	if (coarse.n > graph->n * 2 / 3) {
		coarse.n = match_leaves(arena, graph, limit, keep ? side : NULL, order, coarse_of, coarse.n);
		if (coarse.n < 0)
			return -1;
	}
	if (coarse.n > graph->n * 19 / 20) {
		st_arena_release(arena, mark);
		return keep ? refine(arena, graph, target, side, cut)
			    : cut_small(arena, graph, target, style->growths, random, side, cut);
	}
	uint8_t *coarse_side = st_take(arena, (size_t)coarse.n, 1);
	if (!coarse_side || contract(arena, graph, coarse_of, &coarse))
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
