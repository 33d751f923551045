#include "plan.h"

#include <stdlib.h>
#include <string.h>

#define MAGIC "slurm-topo-plan 1"

/* Where the reader is in the text. */
struct reader {
	char *at, *end;
	uint32_t line;
};

/* The next line, its newline replaced by a byte 0; NULL where no whole line is left. */
static char *next_line(struct reader *reader)
{
	char *line = reader->at, *newline = memchr(line, '\n', (size_t)(reader->end - line));

	if (!newline)
		return NULL;
	*newline = '\0';
	/* A byte 0 inside the line would hide the rest of it. */
	if (strlen(line) != (size_t)(newline - line))
		return NULL;
	reader->at = newline + 1;
	reader->line++;
	return line;
}

/* The value of a line "name value", NULL where the line has another name. */
static char *value_of(char *line, const char *name)
{
	size_t len = strlen(name);

	return !strncmp(line, name, len) && line[len] == ' ' && line[len + 1] ? line + len + 1 : NULL;
}

static int parse_u32(const char *text, uint32_t *number)
{
	uint64_t value;

	if (st_number(text, UINT32_MAX - 1, &value) < 0)
		return -1;
	*number = (uint32_t)value;
	return 0;
}

/* Words of printable ASCII without blanks. */
static bool is_word(const char *text)
{
	for (const char *c = text; *c; c++)
		if (*c <= ' ' || *c > '~')
			return false;
	return *text;
}

static int copy_word(const char *text, char *into, size_t size)
{
	if (!is_word(text) || strlen(text) >= size)
		return -1;
	memcpy(into, text, strlen(text) + 1);
	return 0;
}

/* strtod() also takes blanks, "inf", "nan" and the decimal comma of a locale; a plan has digits and a point. */
static int parse_cost(const char *text, double *cost)
{
	char *rest;
	char copy[64];

	if (!strcmp(text, "nan") || !strcmp(text, "inf")) {
		*cost = -1;
		return 0;
	}
	if (strspn(text, "0123456789.eE+-") != strlen(text) || strlen(text) >= sizeof(copy) || *text == '-')
		return -1;
	memcpy(copy, text, strlen(text) + 1);
	*cost = strtod(copy, &rest);
	if (rest == copy)
		return -1;
	/* In a locale with a decimal comma strtod stops at the point: the figure is for the record only. */
	return *rest && *rest != '.' ? -1 : 0;
}

static int parse_baseline(struct st_plan *plan, const char *value)
{
	const char *blank = strrchr(value, ' ');
	double cost;

	if (!blank || parse_cost(blank + 1, &cost) < 0)
		return -1;
	/* The first one is what Slurm alone would do. */
	if (cost >= 0 && plan->baseline < 0)
		plan->baseline = cost;
	return 0;
}

static int parse_memory(const char *word, enum st_memory *memory)
{
	int found = st_memory_parse(word);

	*memory = (enum st_memory)found;
	return found > ST_MEMORY_PLAN ? 0 : -1;
}

enum field { JOB, RANKS, CPUS, DECISION, REASON, GRAPH, MACHINE, SOLVER, VARIANT, MEMORY, SEARCH, COST, BASELINE, NODES, END, FIELDS };

static const char *const field_names[FIELDS] = { "job",     "ranks",  "cpus_per_task", "decision", "reason", "graph",
						 "machine", "solver", "variant",       "memory",   "search", "cost",
						 "baseline", "nodes", "end" };

static int parse_field(struct st_plan *plan, enum field field, const char *value, uint32_t *end)
{
	char machine[48];

	switch (field) {
	case JOB:
		return parse_u32(value, &plan->job);
	case RANKS:
		return parse_u32(value, &plan->ranks);
	case CPUS:
		return parse_u32(value, &plan->cpus_per_task);
	case DECISION:
		plan->place = !strcmp(value, "place");
		return plan->place || !strcmp(value, "stand-down") ? 0 : -1;
	case REASON:
		return copy_word(value, plan->reason, sizeof(plan->reason));
	case GRAPH:
		return copy_word(value, plan->graph, sizeof(plan->graph));
	case MACHINE:
		return copy_word(value, machine, sizeof(machine));
	case SOLVER:
		return copy_word(value, plan->solver, sizeof(plan->solver));
	case VARIANT:
		return copy_word(value, plan->variant, sizeof(plan->variant));
	case MEMORY:
		return parse_memory(value, &plan->memory);
	case SEARCH:
		return copy_word(value, plan->search, sizeof(plan->search));
	case COST:
		return parse_cost(value, &plan->cost);
	case BASELINE:
		return parse_baseline(plan, value);
	case NODES:
		return parse_u32(value, &plan->node_count);
	case END:
		return parse_u32(value, end);
	case FIELDS:
		break;
	}
	return -1;
}

/* The lines up to "nodes" or "end", each at most once (but for baseline). Returns the set of fields seen, 0 on error. */
static unsigned parse_head(struct st_plan *plan, struct reader *reader, uint32_t *end)
{
	unsigned seen = 0;

	while (!(seen & (1u << NODES | 1u << END))) {
		char *line = next_line(reader), *value = NULL;
		unsigned field;

		for (field = 0; line && field < FIELDS; field++)
			if ((value = value_of(line, field_names[field])))
				break;
		if (!value || (field != BASELINE && seen & 1u << field))
			return 0;
		if (parse_field(plan, (enum field)field, value, end) < 0)
			return 0;
		seen |= 1u << field;
	}
	return seen;
}

/* Cuts the next word off `*rest`. NULL where there is none. */
static char *next_word(char **rest)
{
	char *word = *rest, *blank = word ? strchr(word, ' ') : NULL;

	if (!word || !*word || word == blank)
		return NULL;
	if (blank)
		*blank = '\0';
	*rest = blank ? blank + 1 : NULL;
	return word;
}

static int parse_list(const char *word, const char *name, struct st_span *span)
{
	size_t len = strlen(name);

	if (!word || strncmp(word, name, len))
		return -1;
	word += len;
	if (!strcmp(word, "-")) {
		*span = (struct st_span){ 0 };
		return 0;
	}
	*span = (struct st_span){ word, (uint32_t)strlen(word) };
	return st_set_valid(word, span->len) ? 0 : -1;
}

static int parse_rank(struct st_plan *plan, uint32_t number, char *rest)
{
	struct st_rank *rank = &plan->rank[number];
	uint32_t value;

	if (parse_u32(next_word(&rest), &value) < 0 || value != number)
		return -1;
	if (parse_u32(next_word(&rest), &rank->node) < 0 || rank->node >= plan->node_count)
		return -1;
	if (parse_list(next_word(&rest), "cpus=", &rank->cpus) < 0)
		return -1;
	if (parse_list(next_word(&rest), "mem=", &rank->mem) < 0)
		return -1;
	if (parse_list(next_word(&rest), "gpus=", &rank->gpus) < 0)
		return -1;
	return rest ? -1 : 0;
}

static int parse_nodes(struct st_plan *plan, struct reader *reader)
{
	/* Every node needs a line of at least nine bytes: a count that cannot be true allocates nothing. */
	if (plan->node_count > (size_t)(reader->end - reader->at) / 9)
		return -1;
	plan->nodes = calloc(plan->node_count ? plan->node_count : 1, sizeof(*plan->nodes));
	if (!plan->nodes)
		return -1;
	for (uint32_t i = 0; i < plan->node_count; i++) {
		char *line = next_line(reader), *rest = line ? value_of(line, "node") : NULL;
		uint32_t number;

		if (parse_u32(next_word(&rest), &number) < 0 || number != i || !rest || !is_word(rest))
			return -1;
		plan->nodes[i] = rest;
	}
	return 0;
}

static int parse_ranks(struct st_plan *plan, struct reader *reader)
{
	/* A rank's line has at least 28 bytes. */
	if (plan->ranks > (size_t)(reader->end - reader->at) / 28)
		return -1;
	plan->rank = calloc(plan->ranks ? plan->ranks : 1, sizeof(*plan->rank));
	if (!plan->rank)
		return -1;
	for (uint32_t i = 0; i < plan->ranks; i++) {
		char *line = next_line(reader), *rest = line ? value_of(line, "rank") : NULL;

		if (!rest || parse_rank(plan, i, rest) < 0)
			return -1;
	}
	return 0;
}

/* A decision to stand down may leave nodes and ranks out, but not list half of them. */
static int parse_body(struct st_plan *plan, struct reader *reader, unsigned seen, uint32_t *end)
{
	uint32_t count = 0;

	if (seen & 1u << NODES) {
		char *line;

		if (parse_nodes(plan, reader) < 0)
			return -1;
		if (plan->place || (reader->end - reader->at > 5 && !strncmp(reader->at, "rank ", 5))) {
			if (parse_ranks(plan, reader) < 0)
				return -1;
			count = plan->ranks;
		}
		line = next_line(reader);
		if (!line || parse_u32(value_of(line, "end"), end) < 0)
			return -1;
	} else if (plan->place) {
		return -1;
	}
	return *end == count && reader->at == reader->end ? 0 : -1;
}

int st_plan_parse(struct st_plan *plan, char *text, size_t size, struct st_why *why)
{
	const unsigned needed = 1u << JOB | 1u << RANKS | 1u << CPUS | 1u << DECISION | 1u << REASON;
	struct reader reader = { text, text + size, 0 };
	unsigned seen;
	uint32_t end = 0;
	char *line;

	*plan = (struct st_plan){ .text = text, .cost = -1, .baseline = -1 };
	if (size > ST_PLAN_MAX)
		return st_why_set(why, "plan: larger than 16 MiB");
	line = next_line(&reader);
	if (!line || strcmp(line, MAGIC))
		return st_why_set(why, "plan: does not begin with \"%s\"", MAGIC);
	seen = parse_head(plan, &reader, &end);
	if ((seen & needed) != needed || parse_body(plan, &reader, seen, &end) < 0)
		return st_why_set(why, "plan: damaged at line %u", reader.line + 1);
	return 0;
}

void st_plan_free(struct st_plan *plan)
{
	free(plan->rank);
	free(plan->nodes);
	free(plan->text);
	*plan = (struct st_plan){ 0 };
}
