/* Recursive multisection: the vertices are cut in parts along the tree, each as large as its sub-tree. */
#include <stdlib.h>
#include <string.h>

#include "st_internal.h"

typedef struct {
	const st_instance *instance;
	const st_control *control;
	st_arena arena;
	st_random random;
	const st_section_style *style;
	int32_t *local;  /* vertex -> its number in the part at hand */
	int32_t *vertex; /* the vertices in the order of their slots */
	uint8_t *side;
	int32_t *spare;
} st_section;

/* The graph inside vertex[first..last), weighted by what an edge costs more at `level` than below it. */
static int extract(st_section *section, int32_t first, int32_t last, int32_t level, st_cut_graph *part)
{
	const st_graph *graph = &section->instance->graph;
	const st_tree *tree = &section->instance->tree;
	double per_byte = tree->per_byte[level], per_message = tree->per_message[level];
	int64_t edges = 0, kept = 0;

	if (level > 0) {
		per_byte -= tree->per_byte[level - 1];
		per_message -= tree->per_message[level - 1];
	}
	if (per_byte <= 0 && (per_message <= 0 || !graph->message)) {
		per_byte = 1;
		per_message = 1;
	}
	double byte_share = per_byte * section->instance->typical_weight;
	byte_share = byte_share > 0 ? per_byte / byte_share : per_byte;
	double message_share = per_byte > 0 ? byte_share * per_message / per_byte : per_message;
	part->n = last - first;
	part->total = part->n;
	part->heaviest = 1;
	for (int32_t k = first; k < last; k++) {
		int32_t v = section->vertex[k];
		section->local[v] = k - first;
		edges += graph->row[v + 1] - graph->row[v];
	}
	part->row = st_take(&section->arena, (size_t)part->n + 1, sizeof(*part->row));
	part->load = st_take(&section->arena, (size_t)part->n, sizeof(*part->load));
	part->to = st_take(&section->arena, (size_t)edges, sizeof(*part->to));
	part->weight = st_take(&section->arena, (size_t)edges, sizeof(*part->weight));
	if (!part->row || !part->load || !part->to || !part->weight)
		return -1;
	for (int32_t k = first; k < last; k++) {
		int32_t v = section->vertex[k];
		part->row[k - first] = kept;
		part->load[k - first] = 1;
		for (int64_t i = graph->row[v]; i < graph->row[v + 1]; i++) {
			int32_t u = section->local[graph->to[i]];
			/* `local` of vertices elsewhere is stale: check that the number belongs to this part. */
			if (u >= part->n || section->vertex[first + u] != (int32_t)graph->to[i])
				continue;
			double weight = byte_share * graph->weight[i];
			if (graph->message)
				weight += message_share * graph->message[i];
			if (weight <= 0)
				continue;
			part->to[kept] = u;
			part->weight[kept++] = (float)weight;
		}
	}
	part->row[part->n] = kept;
	return 0;
}

/* Cut vertex[first..last) so that the first `target` of them form the left part. */
static int split(st_section *section, int32_t first, int32_t last, int32_t target, int32_t level)
{
	st_mark mark = st_arena_mark(&section->arena);
	st_cut_graph part;
	int32_t left = first, right = first + target;
	st_section_style style = *section->style;

	/* When time is up any order will do: a better placement is known by then. */
	if (st_expired(section->control))
		return 0;
	/* Swaps repair small parts better than large ones. */
	if ((int64_t)(last - first) * style.deep < section->instance->graph.vertices)
		style.tries = 1;

	if (extract(section, first, last, level, &part) ||
	    st_bisect(&section->arena, &part, target, &style, &section->random, section->control,
		      section->side))
		return -1;
	for (int32_t k = first; k < last; k++)
		section->spare[section->side[k - first] ? right++ : left++] = section->vertex[k];
	memcpy(section->vertex + first, section->spare + first, (size_t)(last - first) * sizeof(int32_t));
	st_arena_release(&section->arena, mark);
	return 0;
}

/* Number of the first slot of child `c` of `level` (children are groups of the level below, slots at level 0). */
static int32_t child_slot(const st_tree *tree, int32_t level, int32_t child)
{
	return tree->first[level - 1][child];
}

/* Place the vertices of the slots of children a..b-1 of a group of `level`. */
static int section_children(st_section *section, int32_t level, int32_t a, int32_t b)
{
	const st_tree *tree = &section->instance->tree;

	/* Inside the innermost groups every slot is as good as any other. */
	while (b - a == 1) {
		level--;
		if (level == 0)
			return 0;
		int32_t first = tree->first[level][a], last = tree->first[level][a + 1] - 1;
		a = tree->group[level - 1][first];
		b = tree->group[level - 1][last] + 1;
	}
	int32_t first = child_slot(tree, level, a), last = child_slot(tree, level, b);
	int32_t middle = a + 1;
	while (middle + 1 < b && child_slot(tree, level, middle + 1) - first <= last - child_slot(tree, level, middle))
		middle++;
	if (split(section, first, last, child_slot(tree, level, middle) - first, level))
		return -1;
	return section_children(section, level, a, middle) || section_children(section, level, middle, b) ? -1 : 0;
}

int st_multisect(const st_instance *instance, const st_section_style *style, const st_control *control,
		 int32_t *core_of)
{
	const st_tree *tree = &instance->tree;
	size_t n = (size_t)instance->graph.vertices;
	st_section section = {
		.instance = instance, .control = control, .style = style, .random = {style->seed}};
	int rv = -1;

	section.local = calloc(n, sizeof(int32_t));
	section.vertex = malloc(n * sizeof(int32_t));
	section.spare = malloc(n * sizeof(int32_t));
	section.side = malloc(n);
	if (!section.local || !section.vertex || !section.spare || !section.side)
		goto out;
	/* Where cuts are equal the order of the vertices decides: the numbers of the ranks, or none. */
	if (style->shuffle)
		st_shuffle(section.vertex, instance->graph.vertices, &section.random);
	for (int32_t v = 0; v < instance->graph.vertices && !style->shuffle; v++)
		section.vertex[v] = v;
	if (tree->levels > 1 && section_children(&section, tree->levels, 0, 1))
		goto out;
	for (int32_t s = 0; s < tree->slots; s++)
		core_of[section.vertex[s]] = tree->core_of_slot[s];
	rv = 0;
out:
	st_arena_free(&section.arena);
	free(section.local);
	free(section.vertex);
	free(section.spare);
	free(section.side);
	return rv;
}
