#include "search.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "child.h"
#include "spool.h"

#define MISSING "plan: missing"

static uint64_t hash_text(uint64_t hash, const char *text)
{
	/* FNV-1a, the byte 0 included, so that two texts never read as one. */
	do
		hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
	while (*text++);
	return hash;
}

/* A plan is for one allocation and one shape: all of it goes into the name. */
static void name_plan(struct st_launch *launch)
{
	static const char *const parts[] = { "SLURM_JOB_ID", "SLURM_JOB_NODELIST", "SLURM_JOB_CPUS_PER_NODE",
					     "SLURM_RESTART_COUNT", "SLURM_NTASKS_PER_NODE",
					     "SLURM_TOPO_JOB_VARIANT" };
	const struct st_shape *shape = &launch->shape;
	uint64_t hash = hash_text(UINT64_C(0xcbf29ce484222325), launch->graph);
	char numbers[64];

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		hash = hash_text(hash, getenv(parts[i]) ? getenv(parts[i]) : "");
	snprintf(numbers, sizeof(numbers), "%ux%ux%ux%ux%d%d%d", shape->ntasks, shape->cpus, shape->per_node, shape->nodes,
		 shape->exact, shape->one_thread, launch->fixed_nodes);
	hash = hash_text(hash, numbers);
	snprintf(launch->name, sizeof(launch->name), "%u-%ux%u-%016llx", launch->job, shape->ntasks, shape->cpus,
		 (unsigned long long)hash);
	snprintf(launch->path, sizeof(launch->path), "%s/%lu/plans/%s", launch->args->spool,
		 (unsigned long)geteuid(), launch->name);
}

static bool is_digest(const char *text)
{
	size_t len = strspn(text, "0123456789abcdef");

	return len > 0 && len <= 40 && !text[len];
}

static int load_plan(struct st_launch *launch)
{
	char file[128];
	size_t size;
	char *text;

	snprintf(file, sizeof(file), "%s.plan", launch->name);
	text = st_file_read(launch->plans, file, ST_PLAN_MAX, &size, &launch->why);
	if (!text)
		return launch->why.text[0] ? -1 : st_why_set(&launch->why, "%s", MISSING);
	if (st_plan_parse(&launch->plan, text, size, &launch->why) < 0)
		return -1;
	if (launch->plan.job != launch->job || launch->plan.ranks != launch->shape.ntasks ||
	    launch->plan.cpus_per_task != launch->shape.cpus || strcmp(launch->plan.graph, launch->graph))
		return st_why_set(&launch->why, "plan: belongs to another step");
	return 0;
}

/* Remembers for the further steps of this job that the search failed, so that they do not wait for it again. */
static void remember_failure(struct st_launch *launch, const char *reason)
{
	char file[128], text[512];
	struct st_why ignored;
	int n = snprintf(text, sizeof(text),
			 "slurm-topo-plan 1\njob %u\nranks %u\ncpus_per_task %u\ndecision stand-down\nreason %s\ngraph %s\nend 0\n",
			 launch->job, launch->shape.ntasks, launch->shape.cpus, reason, launch->graph);

	snprintf(file, sizeof(file), "%s.plan", launch->name);
	st_file_write(launch->plans, file, text, (size_t)n, &ignored);
}

static int find_graph(struct st_launch *launch, char *path, size_t size)
{
	char file[64];
	struct stat stat;
	int folder, rc;

	if (!is_digest(launch->graph))
		return st_why_set(&launch->why, "graph: %.40s is no digest", launch->graph);
	snprintf(file, sizeof(file), "%s.npz", launch->graph);
	folder = st_spool_open(launch->args->spool, "graphs", false, &launch->why);
	if (folder < 0)
		return -1;
	rc = fstatat(folder, file, &stat, AT_SYMLINK_NOFOLLOW);
	close(folder);
	if (rc < 0 || !S_ISREG(stat.st_mode))
		return st_why_set(&launch->why, "graph: %s is missing", file);
	if ((size_t)snprintf(path, size, "%s/%lu/graphs/%s", launch->args->spool, (unsigned long)geteuid(), file) >= size)
		return st_why_set(&launch->why, "graph: its path is too long");
	return 0;
}

/* Starts `slurm-topo place` for this allocation and reads what it decided. */
static int compute_plan(struct st_launch *launch)
{
	static char command[] = "place", allocation[] = "--allocation", slurm[] = "slurm", graph[] = "--graph",
		    ntasks[] = "--ntasks", cpus[] = "--cpus-per-task", output[] = "--plan", config[] = "--config",
		    nodes[] = "--nodes", exact[] = "--exact", one_thread[] = "--one-thread", keep_nodes[] = "--keep-nodes";
	char graph_path[PATH_MAX], plan_path[PATH_MAX + 8], ranks[16], threads[16], per_node[48], count[16];
	char *argv[24];
	/* The search reads the allocation from Slurm's variables; an option of this step is not among them. */
	char *extra[] = { per_node, NULL };
	size_t n = 0;
	enum st_child_end end;
	struct st_why failure;

	if (!launch->args->place)
		return st_why_set(&launch->why, "place: place= is not set in plugstack.conf");
	if (find_graph(launch, graph_path, sizeof(graph_path)) < 0)
		return -1;
	snprintf(plan_path, sizeof(plan_path), "%s.plan", launch->path);
	snprintf(ranks, sizeof(ranks), "%u", launch->shape.ntasks);
	snprintf(threads, sizeof(threads), "%u", launch->shape.cpus);
	snprintf(per_node, sizeof(per_node), "SLURM_NTASKS_PER_NODE=%u", launch->shape.per_node);
	if (!launch->shape.per_node)
		extra[0] = NULL;
	argv[n++] = (char *)launch->args->place;
	if (launch->args->config) {
		argv[n++] = config;
		argv[n++] = (char *)launch->args->config;
	}
	char *const rest[] = { command, graph, graph_path, allocation, slurm, ntasks, ranks, cpus, threads, output, plan_path };
	memcpy(argv + n, rest, sizeof(rest));
	n += sizeof(rest) / sizeof(rest[0]);
	if (launch->shape.nodes && launch->shape.nodes < launch->allocation.nodes) {
		snprintf(count, sizeof(count), "%u", launch->shape.nodes);
		argv[n++] = nodes;
		argv[n++] = count;
	}
	if (launch->shape.exact)
		argv[n++] = exact;
	if (launch->shape.one_thread)
		argv[n++] = one_thread;
	if (launch->fixed_nodes)
		argv[n++] = keep_nodes;
	argv[n] = NULL;
	end = st_child_run(argv, extra, launch->args->deadline_ms, &failure);
	if (end != ST_CHILD_DONE) {
		st_why_set(&launch->why, "place: %.200s", failure.text);
		remember_failure(launch, end == ST_CHILD_LATE ? "place-late" : "place-failed");
		return -1;
	}
	if (load_plan(launch) == 0)
		return 0;
	if (!strcmp(launch->why.text, MISSING))
		st_why_set(&launch->why, "place: wrote no plan");
	/* A search that writes what this plugin cannot read (of another release) would do so again in each step. */
	remember_failure(launch, "place-failed");
	return -1;
}

int st_search(struct st_launch *launch)
{
	launch->plans = st_spool_open(launch->args->spool, "plans", true, &launch->why);
	if (launch->plans < 0)
		return -1;
	name_plan(launch);
	if (load_plan(launch) == 0)
		return 0;
	st_plan_free(&launch->plan);
	return compute_plan(launch);
}
