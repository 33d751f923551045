#include "placed.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "record.h"
#include "spool.h"

/* The plan by its name in this user's own spool, wherever the variable points to. */
static int load_plan(struct st_placed *placed)
{
	const char *slash = strrchr(placed->plan_path, '/'), *name = slash ? slash + 1 : placed->plan_path;
	int folder = st_spool_open(placed->args->spool, "plans", false, &placed->why);
	char *text = NULL;
	size_t size;

	if (folder < 0)
		return -1;
	text = st_file_read(folder, name, ST_PLAN_MAX, &size, &placed->why);
	close(folder);
	if (!text)
		return placed->why.text[0] ? -1 : st_why_set(&placed->why, "plan: missing");
	return st_plan_parse(&placed->plan, text, size, &placed->why);
}

/* The ranks of this node must be the plan's: one that is not would keep a mask that the plan gives to another. */
static int check_neighbours(struct st_placed *placed)
{
	uint32_t node = placed->plan.rank[placed->rank].node, planned = 0, here = 0;
	char *rest = NULL;

	if (!placed->neighbours)
		return 0;
	for (uint32_t r = 0; r < placed->plan.ranks; r++)
		planned += placed->plan.rank[r].node == node;
	for (char *word = strtok_r(placed->neighbours, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
		uint64_t rank;

		if (st_number(word, UINT32_MAX, &rank) < 0 || rank >= placed->plan.ranks || placed->plan.rank[rank].node != node)
			return st_why_set(&placed->why, "plan: has other ranks on this node");
		here++;
	}
	return here == planned ? 0 : st_why_set(&placed->why, "plan: has other ranks on this node");
}

static int check_plan(struct st_placed *placed)
{
	const struct st_plan *plan = &placed->plan;

	if (!plan->place || plan->job != placed->job)
		return st_why_set(&placed->why, "plan: belongs to another job");
	if (placed->ranks != plan->ranks || placed->rank >= plan->ranks)
		return st_why_set(&placed->why, "plan: is for %u ranks, the step has %u", plan->ranks, placed->ranks);
	if (strcmp(plan->nodes[plan->rank[placed->rank].node], placed->node))
		return st_why_set(&placed->why, "plan: has rank %u on another node", placed->rank);
	return check_neighbours(placed);
}

/* The site's argument counts before the plan. Where the plan knows no NUMA nodes (a node that nobody captured), the kernel does. */
static void bind_memory(struct st_placed *placed, const struct st_set *allowed)
{
	enum st_memory memory = placed->args->memory != ST_MEMORY_PLAN ? placed->args->memory : placed->plan.memory;

	if (memory == ST_MEMORY_PLAN)
		memory = ST_MEMORY_PREFERRED;
	if (memory == ST_MEMORY_NONE)
		return;
	st_memory_of_rank(&placed->plan, placed->rank, &placed->mem);
	if (st_set_empty(&placed->mem))
		st_memory_near(memory == ST_MEMORY_INTERLEAVE ? allowed : &placed->cpus, &placed->mem);
	placed->mem_set = st_memory_bind(&placed->mem, memory) == 0;
}

int st_placed_bind(struct st_placed *placed)
{
	struct st_set allowed;

	if (load_plan(placed) < 0 || check_plan(placed) < 0)
		return -1;
	if (st_cpus_allowed(&allowed) < 0)
		return st_why_set(&placed->why, "cpus: the mask of this task cannot be read");
	if (st_cpus_of_rank(&placed->plan, placed->rank, &allowed, &placed->cpus, &placed->why) < 0)
		return -1;
	if (st_cpus_bind(&placed->cpus) < 0)
		return st_why_set(&placed->why, "cpus: the kernel refuses the mask");
	placed->cpus_set = true;
	bind_memory(placed, &allowed);
	st_why_set(&placed->why, "%s", placed->plan.reason);
	return 0;
}

void st_placed_openmp(const struct st_placed *placed, const struct st_variables *variables)
{
	static const char *const wishes[] = { "OMP_PLACES", "OMP_PROC_BIND", "GOMP_CPU_AFFINITY", "KMP_AFFINITY" };
	char text[1024];

	/* Without -c the run-time library takes what the mask grants, as it does without us. */
	if (!variables->has(variables->where, "OMP_NUM_THREADS") &&
	    variables->has(variables->where, "SLURM_CPUS_PER_TASK")) {
		snprintf(text, sizeof(text), "%u", placed->plan.cpus_per_task ? placed->plan.cpus_per_task : 1);
		variables->set(variables->where, "OMP_NUM_THREADS", text);
	}
	for (size_t i = 0; i < sizeof(wishes) / sizeof(wishes[0]); i++)
		if (variables->has(variables->where, wishes[i]))
			return;
	/* One thread a core, inside the mask. One CPU needs no places. */
	if (st_set_count(&placed->cpus) < 2)
		return;
	variables->set(variables->where, "OMP_PLACES", "cores");
	st_set_format(&placed->cpus, text, sizeof(text));
	variables->set(variables->where, "GOMP_CPU_AFFINITY", text);
}

void st_placed_record(struct st_placed *placed)
{
	struct st_record record;
	struct st_set now;
	struct st_why ignored;
	char file[320], list[240];
	int folder = st_spool_open(placed->args->spool, "records", true, &ignored);

	if (folder < 0)
		return;
	snprintf(file, sizeof(file), "%u.%s.%.240s.rec", placed->job, placed->step, placed->node);
	st_record_begin(&record, "task");
	st_record_count(&record, "job", placed->job);
	st_record_text(&record, "step", placed->step);
	st_record_text(&record, "node", placed->node);
	st_record_count(&record, "rank", placed->rank);
	st_record_text(&record, "decision", placed->cpus_set ? "place" : "stand-down");
	st_record_text(&record, "reason", placed->why.text);
	if (st_cpus_now(&now) == 0) {
		st_set_format(&now, list, sizeof(list));
		st_record_text(&record, "cpus", list);
	}
	if (placed->mem_set) {
		st_set_format(&placed->mem, list, sizeof(list));
		st_record_text(&record, "mem", list);
	}
	st_record_text(&record, "gpus", placed->gpus[0] ? placed->gpus : NULL);
	st_record_real(&record, "seconds", st_clock() - placed->start);
	st_file_append(folder, file, record.text, st_record_end(&record), &ignored);
	close(folder);
}
