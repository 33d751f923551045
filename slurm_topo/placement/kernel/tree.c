/* The machine as a tree of slots with codes. */
#include <stdlib.h>
#include <string.h>

#include "st_internal.h"

/* Give the groups of one level numbers 0, 1, ... by first appearance. Returns their number or -1. */
static int32_t number_groups(int32_t cores, const int32_t *groups, int32_t *number)
{
	size_t size = 16;
	int32_t *keys, *values, count = -1;

	while (size < 2 * (size_t)cores)
		size *= 2;
	keys = malloc(size * sizeof(*keys));
	values = malloc(size * sizeof(*values));
	if (!keys || !values)
		goto out;
	memset(values, 0xff, size * sizeof(*values));
	count = 0;
	for (int32_t i = 0; i < cores; i++) {
		size_t at = ((uint32_t)groups[i] * 2654435761u) & (size - 1);
		while (values[at] >= 0 && keys[at] != groups[i])
			at = (at + 1) & (size - 1);
		if (values[at] < 0) {
			keys[at] = groups[i];
			values[at] = count++;
		}
		number[i] = values[at];
	}
out:
	free(keys);
	free(values);
	return count;
}

/* One stable counting sort of `order` by key[order[i]] < keys. */
static int sort_by(int32_t cores, const int32_t *key, int32_t keys, int32_t *order, int32_t *spare)
{
	int32_t *start = calloc((size_t)keys + 1, sizeof(*start));

	if (!start)
		return -1;
	for (int32_t i = 0; i < cores; i++)
		start[key[i] + 1]++;
	for (int32_t k = 0; k < keys; k++)
		start[k + 1] += start[k];
	for (int32_t i = 0; i < cores; i++)
		spare[start[key[order[i]]]++] = order[i];
	memcpy(order, spare, (size_t)cores * sizeof(*order));
	free(start);
	return 0;
}

static int add_level(st_tree *tree, const int32_t *number, double per_byte, double per_message)
{
	int32_t level = tree->levels, groups = 0;
	int32_t *group = malloc((size_t)tree->slots * sizeof(*group));
	int32_t *first = malloc(((size_t)tree->slots + 1) * sizeof(*first));

	tree->group[level] = group;
	tree->first[level] = first;
	tree->levels++;
	if (!group || !first)
		return -1;
	for (int32_t s = 0; s < tree->slots; s++) {
		if (s == 0 || number[tree->core_of_slot[s]] != number[tree->core_of_slot[s - 1]])
			first[groups++] = s;
		group[s] = groups - 1;
	}
	first[groups] = tree->slots;
	tree->count[level] = groups;
	tree->per_byte[level] = per_byte;
	tree->per_message[level] = per_message;
	return 0;
}

static void drop_level(st_tree *tree, int32_t level)
{
	free(tree->group[level]);
	free(tree->first[level]);
	for (int32_t l = level; l + 1 < tree->levels; l++) {
		tree->group[l] = tree->group[l + 1];
		tree->first[l] = tree->first[l + 1];
		tree->count[l] = tree->count[l + 1];
		tree->per_byte[l] = tree->per_byte[l + 1];
		tree->per_message[l] = tree->per_message[l + 1];
	}
	tree->levels--;
	tree->group[tree->levels] = NULL;
	tree->first[tree->levels] = NULL;
}

/* Levels at which no pair meets, or that cost what the next one costs, say nothing. */
static void drop_idle_levels(st_tree *tree)
{
	for (int32_t l = tree->levels - 1; l >= 0 && tree->levels > 1; l--) {
		bool alone = tree->count[l] == tree->slots;
		bool repeated = l > 0 && tree->count[l] == tree->count[l - 1];
		bool same_cost = l + 1 < tree->levels && tree->per_byte[l] == tree->per_byte[l + 1] &&
				 tree->per_message[l] == tree->per_message[l + 1];
		if (repeated && l + 1 == tree->levels) {
			/* The root must stay: give it the cost of the level below it. */
			tree->per_byte[l] = tree->per_byte[l - 1];
			tree->per_message[l] = tree->per_message[l - 1];
			drop_level(tree, l - 1);
		} else if ((alone && l + 1 < tree->levels) || repeated || same_cost) {
			drop_level(tree, l);
		}
	}
}

static int bits_for(int32_t values)
{
	int bits = 0;

	while (values > (int64_t)1 << bits)
		bits++;
	return bits;
}

/* Widest number of children of a group of `level`. */
static int32_t widest(const st_tree *tree, int32_t level)
{
	int32_t most = 1;

	for (int32_t g = 0; g < tree->count[level]; g++) {
		int32_t a = tree->first[level][g], b = tree->first[level][g + 1] - 1;
		int32_t children = level ? tree->group[level - 1][b] - tree->group[level - 1][a] + 1 : b - a + 1;
		most = children > most ? children : most;
	}
	return most;
}

static int code_bits(const st_tree *tree)
{
	int bits = 0;

	for (int32_t l = 0; l < tree->levels; l++)
		bits += bits_for(widest(tree, l));
	return bits;
}

static int encode(st_tree *tree)
{
	int at = 0;

	tree->code = calloc((size_t)tree->slots, sizeof(*tree->code));
	if (!tree->code)
		return -1;
	for (int32_t l = 0; l < tree->levels; l++) {
		int width = bits_for(widest(tree, l));
		for (int32_t s = 0; s < tree->slots; s++) {
			int32_t a = tree->first[l][tree->group[l][s]];
			int32_t child = l ? tree->group[l - 1][s] - tree->group[l - 1][a] : s - a;
			if (width)
				tree->code[s] |= (uint32_t)child << at;
		}
		for (int b = at; b < at + width; b++) {
			tree->byte_by_bit[b + 1] = tree->per_byte[l];
			tree->message_by_bit[b + 1] = tree->per_message[l];
			tree->level_by_bit[b + 1] = (int8_t)l;
		}
		at += width;
	}
	return 0;
}

static int find_shapes(st_tree *tree)
{
	for (int32_t l = 0; l < tree->levels; l++) {
		tree->shape[l] = malloc((size_t)tree->count[l] * sizeof(**tree->shape));
		if (!tree->shape[l])
			return -1;
		for (int32_t g = 0; g < tree->count[l]; g++) {
			int32_t a = tree->first[l][g], b = tree->first[l][g + 1];
			uint64_t hash = (uint64_t)(b - a) + 1;
			if (l)
				for (int32_t c = tree->group[l - 1][a]; c <= tree->group[l - 1][b - 1]; c++)
					hash = hash * 0x9e3779b97f4a7c15u + tree->shape[l - 1][c];
			st_random mixed = {hash};
			tree->shape[l][g] = st_next(&mixed);
		}
	}
	return 0;
}

int st_tree_build(st_tree *tree, int32_t cores, int32_t levels, const int32_t *groups, const double *per_byte,
		  const double *per_message)
{
	int rv = -1;
	int32_t *numbers = malloc((size_t)cores * (size_t)levels * sizeof(*numbers));
	int32_t *spare = malloc((size_t)cores * sizeof(*spare));

	memset(tree, 0, sizeof(*tree));
	tree->slots = cores;
	tree->core_of_slot = malloc((size_t)cores * sizeof(int32_t));
	tree->slot_of_core = malloc((size_t)cores * sizeof(int32_t));
	if (!numbers || !spare || !tree->core_of_slot || !tree->slot_of_core || levels > ST_MAX_LEVELS)
		goto out;
	for (int32_t i = 0; i < cores; i++)
		tree->core_of_slot[i] = i;
	for (int32_t l = 0; l < levels; l++) {
		int32_t *number = numbers + (size_t)l * (size_t)cores;
		int32_t count = number_groups(cores, groups + (size_t)l * (size_t)cores, number);
		if (count < 0 || sort_by(cores, number, count, tree->core_of_slot, spare))
			goto out;
	}
	for (int32_t l = 0; l < levels; l++)
		if (add_level(tree, numbers + (size_t)l * (size_t)cores, per_byte[l], per_message[l]))
			goto out;
	drop_idle_levels(tree);
	/* Very irregular machines may need more bits than a code has: the innermost levels become one. */
	while (tree->levels > 1 && code_bits(tree) > ST_CODE_BITS)
		drop_level(tree, 0);
	for (int32_t s = 0; s < cores; s++)
		tree->slot_of_core[tree->core_of_slot[s]] = s;
	if (encode(tree) || find_shapes(tree))
		goto out;
	rv = 0;
out:
	free(numbers);
	free(spare);
	return rv;
}

/* The tree whose slots are the groups of `level` of another one. */
int st_tree_above(st_tree *tree, const st_tree *fine, int32_t level)
{
	int32_t count = fine->count[level];

	memset(tree, 0, sizeof(*tree));
	tree->slots = count;
	tree->core_of_slot = malloc((size_t)count * sizeof(int32_t));
	tree->slot_of_core = malloc((size_t)count * sizeof(int32_t));
	if (!tree->core_of_slot || !tree->slot_of_core)
		return -1;
	for (int32_t g = 0; g < count; g++)
		tree->core_of_slot[g] = tree->slot_of_core[g] = g;
	for (int32_t l = level + 1; l < fine->levels; l++) {
		int32_t *number = malloc((size_t)count * sizeof(*number));
		if (!number)
			return -1;
		for (int32_t g = 0; g < count; g++)
			number[g] = fine->group[l][fine->first[level][g]];
		int failed = add_level(tree, number, fine->per_byte[l], fine->per_message[l]);
		free(number);
		if (failed)
			return -1;
	}
	return encode(tree) || find_shapes(tree) ? -1 : 0;
}

void st_tree_free(st_tree *tree)
{
	for (int32_t l = 0; l < ST_MAX_LEVELS; l++) {
		free(tree->group[l]);
		free(tree->first[l]);
		free(tree->shape[l]);
	}
	free(tree->core_of_slot);
	free(tree->slot_of_core);
	free(tree->code);
}
