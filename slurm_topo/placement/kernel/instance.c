/* A graph on a machine, and the coarser instance of its groups. */
#include <stdlib.h>
#include <string.h>

#include "st_internal.h"

st_instance *st_instance_new(int32_t cores, int32_t levels, const int32_t *groups, const double *per_byte,
			     const double *per_message, int32_t ranks, int64_t pairs, const int32_t *source,
			     const int32_t *target, const double *nbytes, const double *messages)
{
	st_instance *instance = calloc(1, sizeof(*instance));

	if (!instance)
		return NULL;
	if (st_tree_build(&instance->tree, cores, levels, groups, per_byte, per_message) ||
	    st_graph_build(instance, ranks, pairs, source, target, nbytes, messages)) {
		st_instance_free(instance);
		return NULL;
	}
	return instance;
}

void st_instance_free(st_instance *instance)
{
	if (!instance)
		return;
	st_tree_free(&instance->tree);
	st_graph_free(&instance->graph);
	free(instance->shape);
	free(instance);
}

int32_t st_instance_levels(const st_instance *instance)
{
	return instance->tree.levels;
}

int32_t st_instance_vertices(const st_instance *instance)
{
	return instance->graph.vertices;
}

double st_instance_degree(const st_instance *instance)
{
	const int64_t *row = instance->graph.row;
	int32_t n = instance->graph.vertices, joined = 0;

	for (int32_t v = 0; v < n; v++)
		joined += row[v] < row[v + 1];
	return joined ? (double)row[n] / joined : 0;
}

double st_instance_cost(const st_instance *instance, const int32_t *core_of)
{
	const st_graph *graph = &instance->graph;
	const st_tree *tree = &instance->tree;
	double cost = 0;

	for (int32_t v = 0; v < graph->vertices; v++) {
		uint32_t code = tree->code[tree->slot_of_core[core_of[v]]];
		for (int64_t i = graph->row[v]; i < graph->row[v + 1]; i++) {
			int bit = st_bit(code ^ tree->code[tree->slot_of_core[core_of[graph->to[i]]]]);
			cost += graph->weight[i] * tree->byte_by_bit[bit];
			if (graph->message)
				cost += graph->message[i] * tree->message_by_bit[bit];
		}
	}
	return cost / 2;
}

/* Add up the edges between groups. group_of: vertex -> coarse vertex. */
static int contract(const st_graph *fine, st_graph *coarse, const int32_t *group_of)
{
	int rv = -1;
	int32_t n = coarse->vertices;
	int64_t kept = 0, edges = fine->row[fine->vertices];
	int32_t *start = calloc((size_t)n + 2, sizeof(*start));
	int32_t *members = malloc(((size_t)fine->vertices + 1) * sizeof(*members));
	int64_t *seen = malloc((size_t)n * sizeof(*seen));

	coarse->row = malloc(((size_t)n + 1) * sizeof(*coarse->row));
	coarse->to = malloc(((size_t)edges + 1) * sizeof(*coarse->to));
	coarse->weight = malloc(((size_t)edges + 1) * sizeof(*coarse->weight));
	coarse->message = fine->message ? malloc(((size_t)edges + 1) * sizeof(*coarse->message)) : NULL;
	if (!start || !members || !seen || !coarse->row || !coarse->to || !coarse->weight ||
	    (fine->message && !coarse->message))
		goto out;
	for (int32_t v = 0; v < fine->vertices; v++)
		start[group_of[v] + 2]++;
	for (int32_t g = 0; g < n; g++)
		start[g + 2] += start[g + 1];
	for (int32_t v = 0; v < fine->vertices; v++)
		members[start[group_of[v] + 1]++] = v;
	for (int32_t g = 0; g < n; g++)
		seen[g] = -1;
	for (int32_t g = 0; g < n; g++) {
		int64_t begin = kept;
		for (int32_t k = start[g]; k < start[g + 1]; k++)
			for (int64_t i = fine->row[members[k]]; i < fine->row[members[k] + 1]; i++) {
				int32_t to = group_of[fine->to[i]];
				if (to == g)
					continue;
				if (seen[to] < begin) {
					seen[to] = kept;
					coarse->to[kept] = (uint32_t)to;
					coarse->weight[kept] = 0;
					if (coarse->message)
						coarse->message[kept] = 0;
					kept++;
				}
				coarse->weight[seen[to]] += fine->weight[i];
				if (coarse->message)
					coarse->message[seen[to]] += fine->message[i];
			}
		coarse->row[g] = begin;
	}
	coarse->row[n] = kept;
	rv = 0;
out:
	free(start);
	free(members);
	free(seen);
	return rv;
}

st_instance *st_instance_groups(const st_instance *fine, int32_t level, const int32_t *core_of)
{
	const st_tree *tree = &fine->tree;
	st_instance *instance = calloc(1, sizeof(*instance));
	int32_t *group_of = malloc((size_t)fine->graph.vertices * sizeof(*group_of));
	int failed = 1;

	if (!instance || !group_of)
		goto out;
	for (int32_t v = 0; v < fine->graph.vertices; v++)
		group_of[v] = tree->group[level][tree->slot_of_core[core_of[v]]];
	instance->graph.vertices = tree->count[level];
	if (st_tree_above(&instance->tree, tree, level) || contract(&fine->graph, &instance->graph, group_of))
		goto out;
	for (int32_t g = 1; g < tree->count[level]; g++)
		if (tree->shape[level][g] != tree->shape[level][0] && !instance->shape) {
			instance->shape = malloc((size_t)tree->count[level] * sizeof(*instance->shape));
			if (!instance->shape)
				goto out;
			memcpy(instance->shape, tree->shape[level],
			       (size_t)tree->count[level] * sizeof(*instance->shape));
		}
	st_tree *above = &instance->tree;
	for (int b = 1; b <= ST_CODE_BITS; b++) {
		above->byte_by_bit[b] = above->per_byte[above->level_by_bit[b]];
		above->message_by_bit[b] = above->per_message[above->level_by_bit[b]];
	}
	st_graph_measure(instance);
	failed = 0;
out:
	free(group_of);
	if (failed) {
		st_instance_free(instance);
		return NULL;
	}
	return instance;
}

int st_instance_expand(const st_instance *fine, int32_t level, const int32_t *old_core_of,
		       const int32_t *core_of_group, int32_t *core_of)
{
	const st_tree *tree = &fine->tree;

	for (int32_t v = 0; v < fine->graph.vertices; v++) {
		int32_t slot = tree->slot_of_core[old_core_of[v]];
		int32_t group = tree->group[level][slot];
		int32_t offset = slot - tree->first[level][group];
		core_of[v] = tree->core_of_slot[tree->first[level][core_of_group[group]] + offset];
	}
	return 0;
}
