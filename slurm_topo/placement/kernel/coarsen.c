/* Coarsening of a graph that is to be cut: pairs or clusters of its vertices become one. */
#include <math.h>
#include <string.h>

#include "st_internal.h"

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

/* Coarse vertices for all of `graph` into coarse_of; their number, or -1 when memory is short. */
int32_t st_cluster(st_arena *arena, const st_cut_graph *graph, int32_t limit, const uint8_t *side,
		   const st_section_style *style, uint64_t flavour, st_random *random, int32_t *coarse_of)
{
	int32_t *order = st_take(arena, (size_t)graph->n, sizeof(*order)), count;

	if (!order)
		return -1;
	st_shuffle(order, graph->n, random);
	if (style->join) {
		int32_t *load = st_take(arena, (size_t)graph->n, sizeof(*load));
		if (!load)
			return -1;
		count = join(graph, limit, side, order, style, flavour, load, coarse_of);
	} else {
		count = match(graph, limit, side, order, style, flavour, coarse_of);
	}
	if (count > graph->n * 2 / 3)
		count = match_leaves(arena, graph, limit, side, order, coarse_of, count);
	return count;
}

int st_cut_contract(st_arena *arena, const st_cut_graph *fine, const int32_t *coarse_of, st_cut_graph *coarse)
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
