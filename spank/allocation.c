#include "allocation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NODES_MAX 65536u
#define NAME_MAX_LEN 255

/* Names that are being collected. */
struct names {
	char **name;
	uint32_t count, room;
};

static int names_add(struct names *names, const char *name)
{
	if (names->count >= NODES_MAX)
		return -1;
	if (names->count == names->room) {
		uint32_t room = names->room ? names->room * 2 : 64;
		char **larger = realloc(names->name, room * sizeof(*larger));

		if (!larger)
			return -1;
		names->name = larger;
		names->room = room;
	}
	names->name[names->count] = strdup(name);
	return names->name[names->count] ? (names->count++, 0) : -1;
}

static int expand(struct names *names, char *prefix, size_t used, const char *rest, const char *end);

/* One range of a bracket: every number of it, with its leading zeros, followed by what stands behind the bracket. */
static int expand_range(struct names *names, char *prefix, size_t used, const char *range, size_t len,
			const char *behind, const char *end)
{
	const char *dash = memchr(range, '-', len);
	size_t width = dash ? (size_t)(dash - range) : len;
	char number[24];
	uint64_t low, high;

	if (!width || width >= 20 || len - width >= 20)
		return -1;
	snprintf(number, sizeof(number), "%.*s", (int)width, range);
	if (st_number(number, UINT32_MAX, &low) < 0)
		return -1;
	snprintf(number, sizeof(number), "%.*s", dash ? (int)(len - width - 1) : (int)len, dash ? dash + 1 : range);
	if (st_number(number, UINT32_MAX, &high) < 0 || high < low || high - low >= NODES_MAX)
		return -1;
	for (uint64_t i = low; i <= high; i++) {
		int n = snprintf(prefix + used, NAME_MAX_LEN + 1 - used, "%0*llu", (int)width, (unsigned long long)i);

		if (n < 0 || (size_t)n > NAME_MAX_LEN - used)
			return -1;
		if (expand(names, prefix, used + (size_t)n, behind, end) < 0)
			return -1;
	}
	return 0;
}

/* Expands "rest" .. "end" (one item of a hostlist) behind the prefix. */
static int expand(struct names *names, char *prefix, size_t used, const char *rest, const char *end)
{
	const char *open = memchr(rest, '[', (size_t)(end - rest));
	size_t plain = (size_t)((open ? open : end) - rest);
	const char *close;

	if (used + plain > NAME_MAX_LEN)
		return -1;
	memcpy(prefix + used, rest, plain);
	used += plain;
	prefix[used] = '\0';
	if (!open)
		return used ? names_add(names, prefix) : -1;
	close = memchr(open, ']', (size_t)(end - open));
	if (!close)
		return -1;
	for (const char *range = open + 1; range < close;) {
		const char *comma = memchr(range, ',', (size_t)(close - range));
		size_t len = (size_t)((comma ? comma : close) - range);

		if (expand_range(names, prefix, used, range, len, close + 1, end) < 0)
			return -1;
		range += len + 1;
	}
	return 0;
}

static int expand_list(struct names *names, const char *list)
{
	char prefix[NAME_MAX_LEN + 1];

	while (*list) {
		const char *end = list;
		int depth = 0;

		for (; *end && (*end != ',' || depth); end++)
			depth += (*end == '[') - (*end == ']');
		if (depth || expand(names, prefix, 0, list, end) < 0)
			return -1;
		list = *end ? end + 1 : end;
	}
	return names->count ? 0 : -1;
}

/* "4(x2),2": repetitions of Slurm, one number a node. */
static int expand_counts(const char *text, uint32_t *count, uint32_t nodes)
{
	uint32_t filled = 0;

	while (*text) {
		char *rest;
		unsigned long value = strtoul(text, &rest, 10), times = 1;

		if (rest == text || value > UINT32_MAX)
			return -1;
		if (!strncmp(rest, "(x", 2)) {
			times = strtoul(rest + 2, &rest, 10);
			if (*rest++ != ')')
				return -1;
		}
		if (times > nodes - filled || (*rest && *rest != ','))
			return -1;
		while (times--)
			count[filled++] = (uint32_t)value;
		text = *rest ? rest + 1 : rest;
	}
	return filled == nodes ? 0 : -1;
}

int st_allocation_read(struct st_allocation *allocation, struct st_why *why)
{
	const char *list = getenv("SLURM_JOB_NODELIST"), *counts = getenv("SLURM_JOB_CPUS_PER_NODE");
	struct names names = { 0 };
	int rc;

	*allocation = (struct st_allocation){ 0 };
	/* srun itself has the old name only. */
	list = list ? list : getenv("SLURM_NODELIST");
	if (!list || !counts)
		return st_why_set(why, "shape: no allocation in the environment");
	rc = expand_list(&names, list);
	allocation->name = names.name;
	allocation->nodes = names.count;
	if (rc < 0)
		return st_why_set(why, "shape: SLURM_JOB_NODELIST %.100s is not understood", list);
	allocation->cpus = calloc(names.count, sizeof(*allocation->cpus));
	if (!allocation->cpus || expand_counts(counts, allocation->cpus, names.count) < 0)
		return st_why_set(why, "shape: SLURM_JOB_CPUS_PER_NODE %.100s is not understood", counts);
	return 0;
}

void st_allocation_free(struct st_allocation *allocation)
{
	for (uint32_t i = 0; i < allocation->nodes; i++)
		free(allocation->name[i]);
	free(allocation->name);
	free(allocation->cpus);
	*allocation = (struct st_allocation){ 0 };
}

/* Plans name nodes in Slurm's order mostly, so the search starts behind the last find. */
static uint32_t find_node(const struct st_allocation *allocation, const char *name, uint32_t start)
{
	for (uint32_t i = 0; i < allocation->nodes; i++) {
		uint32_t at = (start + i) % allocation->nodes;

		if (!strcmp(allocation->name[at], name))
			return at;
	}
	return UINT32_MAX;
}

/* Marks the CPUs of every rank in the set of its node. -1 where one is taken already. */
static int mark_cpus(const struct st_plan *plan, struct st_set *taken)
{
	for (uint32_t r = 0; r < plan->ranks; r++) {
		const struct st_rank *rank = &plan->rank[r];
		struct st_set cpus;

		if (!rank->cpus.text)
			continue;
		if (st_set_parse(rank->cpus.text, rank->cpus.len, &cpus) < 0 || st_set_meets(&taken[rank->node], &cpus))
			return -1;
		st_set_join(&taken[rank->node], &cpus);
	}
	return 0;
}

static int check_counts(const struct st_allocation *allocation, const struct st_plan *plan, uint32_t per_node,
			uint32_t *tasks, bool *seen, struct st_why *why)
{
	uint32_t at = UINT32_MAX;

	for (uint32_t r = 0; r < plan->ranks; r++)
		tasks[plan->rank[r].node]++;
	for (uint32_t n = 0; n < plan->node_count; n++) {
		uint64_t cpus = plan->cpus_per_task ? plan->cpus_per_task : 1;

		at = find_node(allocation, plan->nodes[n], at + 1);
		if (at == UINT32_MAX)
			return st_why_set(why, "plan: node %.80s is not of this job", plan->nodes[n]);
		if (!tasks[n])
			return st_why_set(why, "plan: node %.80s gets no rank", plan->nodes[n]);
		if (tasks[n] * cpus > allocation->cpus[at])
			return st_why_set(why, "plan: node %.80s gets %u ranks, more than its CPUs", plan->nodes[n],
					  tasks[n]);
		if (per_node && tasks[n] > per_node)
			return st_why_set(why, "plan: node %.80s gets %u ranks, more than --ntasks-per-node",
					  plan->nodes[n], tasks[n]);
		if (seen[at])
			return st_why_set(why, "plan: node %.80s is named twice", plan->nodes[n]);
		seen[at] = true;
	}
	return 0;
}

int st_allocation_fits(const struct st_allocation *allocation, const struct st_plan *plan, const struct st_shape *shape,
		       struct st_why *why)
{
	uint32_t *tasks = NULL;
	struct st_set *taken = NULL;
	bool *seen = NULL;
	uint32_t nodes = shape->nodes ? shape->nodes : allocation->nodes;
	int rv = -1;

	if (plan->node_count > allocation->nodes || (shape->all_nodes && plan->node_count != nodes)) {
		st_why_set(why, "plan: has %u nodes, the job %u", plan->node_count, allocation->nodes);
		goto out;
	}
	tasks = calloc(plan->node_count, sizeof(*tasks));
	taken = calloc(plan->node_count, sizeof(*taken));
	seen = calloc(plan->node_count, sizeof(*seen));
	if (!tasks || !taken || !seen) {
		st_why_set(why, "plan: no memory");
		goto out;
	}
	if (check_counts(allocation, plan, shape->per_node, tasks, seen, why) < 0)
		goto out;
	if (mark_cpus(plan, taken) < 0)
		st_why_set(why, "plan: two ranks share a CPU");
	else
		rv = 0;
out:
	free(tasks);
	free(taken);
	free(seen);
	return rv;
}

char *st_host_file(const struct st_plan *plan, size_t *size)
{
	size_t needed = 0, used = 0;
	char *text;

	for (uint32_t r = 0; r < plan->ranks; r++)
		needed += strlen(plan->nodes[plan->rank[r].node]) + 1;
	text = malloc(needed + 1);
	for (uint32_t r = 0; text && r < plan->ranks; r++) {
		const char *name = plan->nodes[plan->rank[r].node];
		size_t len = strlen(name);

		memcpy(text + used, name, len);
		text[used + len] = '\n';
		used += len + 1;
	}
	*size = used;
	return text;
}
