/* Swap descent: each vertex tries the innermost groups of its neighbours. */
#include <stdlib.h>
#include <string.h>

#include "swap.h"

/* Large innermost groups are not tried core by core. */
enum { MOST_SLOTS = 32 };

typedef struct {
	st_layout layout;
	const uint8_t *fixed;
	int32_t *tried; /* innermost group -> vertex that tried it last */
	double least;   /* changes smaller than this are noise */
} st_descent;

/* The best partner for u, or -1. */
static inline __attribute__((always_inline)) int32_t best_partner(st_descent *descent, int32_t u, double *best,
								  const bool two)
{
	const st_layout *layout = &descent->layout;
	const st_instance *instance = layout->instance;
	const st_tree *tree = &instance->tree;
	int32_t partner = -1, home = tree->group[0][layout->slot_of[u]];

	*best = -descent->least;
	for (int64_t i = instance->graph.row[u]; i < instance->graph.row[u + 1]; i++) {
		int32_t group = tree->group[0][layout->slot_of[instance->graph.to[i]]];
		if (group == home || descent->tried[group] == u)
			continue;
		descent->tried[group] = u;
		int32_t first = tree->first[0][group], last = tree->first[0][group + 1];
		last = last - first > MOST_SLOTS ? first + MOST_SLOTS : last;
		for (int32_t s = first; s < last; s++) {
			int32_t w = layout->vertex_at[s];
			if ((descent->fixed && descent->fixed[w]) ||
			    (instance->shape && instance->shape[s] != instance->shape[layout->slot_of[u]]))
				continue;
			double change = st_swap_change(layout, u, w, two);
			if (change < *best) {
				*best = change;
				partner = w;
			}
		}
	}
	return partner;
}

static double noise(const st_instance *instance)
{
	const st_tree *tree = &instance->tree;
	double most = 0;

	for (int32_t l = 0; l < tree->levels; l++) {
		double cost = tree->per_byte[l] * instance->typical_weight +
			      tree->per_message[l] * instance->typical_message;
		most = cost > most ? cost : most;
	}
	return 1e-6 * most;
}

int64_t st_descend(const st_instance *instance, const uint8_t *fixed, int32_t sweeps, const st_control *control,
		   int32_t *core_of)
{
	const st_graph *graph = &instance->graph;
	st_descent descent = {.fixed = fixed, .least = noise(instance)};
	int32_t groups = instance->tree.count[0], n = graph->vertices;
	uint8_t *dirty = malloc((size_t)n);
	int64_t swaps = -1, before;

	descent.tried = malloc((size_t)groups * sizeof(int32_t));
	if (!dirty || !descent.tried || st_layout_open(&descent.layout, instance, core_of))
		goto out;
	memset(dirty, 1, (size_t)n);
	swaps = 0;
	for (int32_t sweep = 0; sweep < sweeps; sweep++) {
		before = swaps;
		memset(descent.tried, 0xff, (size_t)groups * sizeof(int32_t));
		for (int32_t u = 0; u < n; u++) {
			double change;
			if (!dirty[u] || (fixed && fixed[u]))
				continue;
			if ((u & 63) == 0 && st_expired(control))
				goto store;
			dirty[u] = 0;
			int32_t w = graph->message ? best_partner(&descent, u, &change, true)
						   : best_partner(&descent, u, &change, false);
			if (w < 0)
				continue;
			st_swap(&descent.layout, u, w);
			swaps++;
			dirty[u] = dirty[w] = 1;
			for (int64_t i = graph->row[u]; i < graph->row[u + 1]; i++)
				dirty[graph->to[i]] = 1;
			for (int64_t i = graph->row[w]; i < graph->row[w + 1]; i++)
				dirty[graph->to[i]] = 1;
		}
		if (swaps == before)
			break;
	}
store:
	st_layout_store(&descent.layout, core_of);
out:
	free(dirty);
	free(descent.tried);
	st_layout_close(&descent.layout);
	return swaps;
}
