/* srun: decides on the placement of the step, before srun reads its environment and options. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <fcntl.h>
#include <unistd.h>

#include "allocation.h"
#include "child.h"
#include "context.h"
#include "record.h"
#include "shape.h"
#include "spool.h"

/* What became of the step. A fault is what an administrator would mend: the user gets a line on it. */
enum outcome { ST_PLACED, ST_ADVISED, ST_NONE, ST_STOOD_DOWN, ST_FAULT };

struct launch {
	const struct st_args *args;
	struct st_shape shape;
	int arm;
	uint32_t job;
	const char *graph;
	char name[96];       /* of the plan, without the folder and the ending */
	char path[PATH_MAX]; /* of the plan, without the ending */
	int plans;           /* folder, -1 while it is not open */
	struct st_plan plan;
	enum outcome outcome;
	struct st_why why;
	double start;
};

static uint64_t hash_text(uint64_t hash, const char *text)
{
	/* FNV-1a, the byte 0 included, so that two texts never read as one. */
	do
		hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
	while (*text++);
	return hash;
}

/* A plan is for one allocation and one shape: all of it goes into the name. */
static void name_plan(struct launch *launch)
{
	static const char *const parts[] = { "SLURM_JOB_ID", "SLURM_JOB_NODELIST", "SLURM_JOB_CPUS_PER_NODE",
					     "SLURM_RESTART_COUNT", "SLURM_NTASKS_PER_NODE" };
	const struct st_shape *shape = &launch->shape;
	uint64_t hash = hash_text(UINT64_C(0xcbf29ce484222325), launch->graph);
	char numbers[48];

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		hash = hash_text(hash, getenv(parts[i]) ? getenv(parts[i]) : "");
	snprintf(numbers, sizeof(numbers), "%ux%ux%u", shape->ntasks, shape->cpus, shape->per_node);
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

static int fault(struct launch *launch)
{
	launch->outcome = ST_FAULT;
	return -1;
}

/* -1 where the file is no plan of this step; the caller frees the plan. */
static int load_plan(struct launch *launch)
{
	char file[128];
	size_t size;
	char *text;

	snprintf(file, sizeof(file), "%s.plan", launch->name);
	text = st_file_read(launch->plans, file, ST_PLAN_MAX, &size, &launch->why);
	if (!text)
		return launch->why.text[0] ? -1 : st_why_set(&launch->why, "plan: missing");
	if (st_plan_parse(&launch->plan, text, size, &launch->why) < 0)
		return -1;
	if (launch->plan.job != launch->job || launch->plan.ranks != launch->shape.ntasks ||
	    launch->plan.cpus_per_task != launch->shape.cpus || strcmp(launch->plan.graph, launch->graph))
		return st_why_set(&launch->why, "plan: belongs to another step");
	return 0;
}

/* Remembers for the further steps of this job that the search failed, so that they do not wait for it again. */
static void remember_failure(struct launch *launch, const char *reason)
{
	char file[128], text[512];
	struct st_why ignored;
	int n = snprintf(text, sizeof(text),
			 "slurm-topo-plan 1\njob %u\nranks %u\ncpus_per_task %u\ndecision stand-down\nreason %s\ngraph %s\nend 0\n",
			 launch->job, launch->shape.ntasks, launch->shape.cpus, reason, launch->graph);

	snprintf(file, sizeof(file), "%s.plan", launch->name);
	st_file_write(launch->plans, file, text, (size_t)n, &ignored);
}

static int find_graph(struct launch *launch, char *path, size_t size)
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
static int compute_plan(struct launch *launch)
{
	static char command[] = "place", allocation[] = "--allocation", slurm[] = "slurm", graph[] = "--graph",
		    ntasks[] = "--ntasks", cpus[] = "--cpus-per-task", output[] = "--plan", config[] = "--config";
	char graph_path[PATH_MAX], plan_path[PATH_MAX + 8], ranks[16], threads[16], per_node[48];
	char *argv[16];
	/* The search reads the allocation from Slurm's variables; an option of this step is not among them. */
	char *extra[] = { per_node, NULL };
	size_t n = 0;
	enum st_child_end end;

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
	argv[n + sizeof(rest) / sizeof(rest[0])] = NULL;
	end = st_child_run(argv, extra, launch->args->deadline_ms, &launch->why);
	if (end != ST_CHILD_DONE) {
		remember_failure(launch, end == ST_CHILD_LATE ? "place-late" : "place-failed");
		return -1;
	}
	if (load_plan(launch) == 0)
		return 0;
	return launch->plan.text ? -1 : st_why_set(&launch->why, "place: wrote no plan");
}

/* Writes the host file and tells srun and its tasks. */
static int apply_plan(struct launch *launch)
{
	char file[128], path[PATH_MAX + 8];
	size_t size;
	char *hosts = st_host_file(&launch->plan, &size);
	int rc;

	if (!hosts)
		return st_why_set(&launch->why, "host file: no memory");
	snprintf(file, sizeof(file), "%s.hosts", launch->name);
	rc = st_file_write(launch->plans, file, hosts, size, &launch->why);
	free(hosts);
	if (rc < 0)
		return -1;
	snprintf(path, sizeof(path), "%s.hosts", launch->path);
	setenv("SLURM_HOSTFILE", path, 1);
	setenv("SLURM_DISTRIBUTION", "arbitrary", 1);
	snprintf(path, sizeof(path), "%s.plan", launch->path);
	setenv("SLURM_TOPO_JOB_PLAN", path, 1);
	return 0;
}

/* Steps that share a job by --exact would all be placed on the same best CPUs, unless one of them takes all. */
static int check_room(struct launch *launch, const struct st_allocation *allocation)
{
	uint64_t cpus = 0;

	for (uint32_t n = 0; n < allocation->nodes; n++)
		cpus += allocation->cpus[n];
	if (launch->shape.exact && (uint64_t)launch->shape.ntasks * launch->shape.cpus < cpus)
		return st_why_set(&launch->why, "shape: exact");
	return 0;
}

/* The plan of this step, from the spool or computed now, and what follows from it. */
static int place_step(struct launch *launch, const struct st_allocation *allocation)
{
	launch->plans = st_spool_open(launch->args->spool, "plans", true, &launch->why);
	if (launch->plans < 0)
		return fault(launch);
	name_plan(launch);
	if (load_plan(launch) < 0) {
		st_plan_free(&launch->plan);
		if (compute_plan(launch) < 0)
			return fault(launch);
	}
	if (!launch->plan.place) {
		st_why_set(&launch->why, "%s", launch->plan.reason);
		launch->outcome = strncmp(launch->plan.reason, "place-", 6) ? ST_STOOD_DOWN : ST_FAULT;
		return -1;
	}
	if (st_allocation_fits(allocation, &launch->plan, &launch->shape, &launch->why) < 0)
		return fault(launch);
	launch->outcome = ST_ADVISED;
	st_why_set(&launch->why, "advise");
	if (launch->arm < ST_ENFORCE)
		return 0;
	if (apply_plan(launch) < 0)
		return fault(launch);
	launch->outcome = ST_PLACED;
	st_why_set(&launch->why, "%s", launch->plan.reason);
	return 0;
}

static void place(struct launch *launch)
{
	struct st_allocation allocation;

	if (st_allocation_read(&allocation, &launch->why) == 0 && check_room(launch, &allocation) == 0)
		place_step(launch, &allocation);
	st_allocation_free(&allocation);
}

static bool is_traced(void)
{
	const char *trace = getenv("SLURM_TOPO_JOB_TRACE");

	return trace && !strcmp(trace, "1");
}

/* Everything up to the question whether there is something to place: true where there is. */
static bool decide(struct launch *launch, int site)
{
	const char *word = getenv("SLURM_TOPO");
	int user = launch->shape.topo >= 0 ? launch->shape.topo : word ? st_arm_parse(word) : ST_ENFORCE;

	launch->arm = user < site ? user : site;
	launch->outcome = ST_STOOD_DOWN;
	if (user < 0) {
		launch->arm = ST_OFF;
		launch->outcome = ST_FAULT;
		st_why_set(&launch->why, "SLURM_TOPO=%.40s is none of off, observe, advise, enforce", word);
	} else if (launch->arm == ST_OFF) {
		st_why_set(&launch->why, "user: topo off");
	} else if (launch->arm == ST_OBSERVE) {
		launch->outcome = ST_NONE;
		st_why_set(&launch->why, "arm");
	} else if (!launch->graph) {
		launch->outcome = ST_NONE;
		st_why_set(&launch->why, "graph unknown");
	} else {
		return true;
	}
	return false;
}

static const char *decision_name(const struct launch *launch)
{
	switch (launch->outcome) {
	case ST_PLACED:
		return "place";
	case ST_ADVISED:
		return "none";
	case ST_NONE:
		return is_traced() ? "trace" : "none";
	case ST_STOOD_DOWN:
	case ST_FAULT:
		break;
	}
	return "stand-down";
}

/* 0, or -1 and why. */
static int write_record(const struct launch *launch, struct st_why *why)
{
	struct st_record record;
	char host[65] = "", file[128], plan[PATH_MAX + 8];
	int folder = st_spool_open(launch->args->spool, "records", true, why), rc;

	if (folder < 0)
		return -1;
	gethostname(host, sizeof(host) - 1);
	host[strcspn(host, "./")] = '\0';
	snprintf(file, sizeof(file), "%u.%ld.%s.rec", launch->job, (long)getpid(), host);
	snprintf(plan, sizeof(plan), "%s.plan", launch->path);
	st_record_begin(&record, "srun");
	st_record_count(&record, "job", launch->job);
	st_record_count(&record, "ranks", launch->shape.ntasks);
	st_record_text(&record, "arm", st_arm_name(launch->arm));
	st_record_text(&record, "decision", decision_name(launch));
	st_record_text(&record, "reason", launch->why.text);
	st_record_text(&record, "graph", launch->graph);
	st_record_text(&record, "plan", launch->plan.text ? plan : NULL);
	if (launch->plan.text && launch->outcome != ST_FAULT) {
		st_record_real(&record, "cost", launch->plan.cost);
		st_record_real(&record, "baseline", launch->plan.baseline);
	}
	st_record_real(&record, "seconds", st_clock() - launch->start);
	rc = st_file_append(folder, file, record.text, st_record_end(&record), why);
	close(folder);
	return rc;
}

/* At most one line for the user, and only where an administrator should look. */
static void report(const struct launch *launch)
{
	struct st_why why;
	int rc = write_record(launch, &why);

	if (launch->shape.quiet)
		return;
	if (launch->outcome == ST_FAULT)
		slurm_info("slurm-topo: stood down: %s", launch->why.text);
	else if (rc < 0)
		slurm_info("slurm-topo: not recorded: %s", why.text);
	else
		slurm_verbose("slurm-topo: %s: %s", decision_name(launch), launch->why.text);
}

void st_srun_init(const struct st_args *args)
{
	struct launch launch = { .args = args, .plans = -1, .start = st_clock() };
	int site = st_arm_parse(getenv("SLURM_TOPO_JOB_ARM")), argc = 0;
	uint64_t job;
	char **argv;
	bool certain;

	if (site <= ST_OFF)
		return;
	/* A plan that an outer srun left there is not for this step. */
	unsetenv("SLURM_TOPO_JOB_PLAN");
	if (st_number(getenv("SLURM_JOB_ID"), UINT32_MAX, &job) < 0 || access(args->kill_switch, F_OK) == 0)
		return;
	argv = st_command_line(&argc);
	if (!argv)
		return;
	certain = st_shape_read(argc, argv, &launch.shape, &launch.why) == 0;
	launch.job = (uint32_t)job;
	launch.graph = getenv("SLURM_TOPO_JOB_GRAPH");
	if (!launch.shape.info) {
		/* decide() speaks only where it says no: else the reason of an uncertain shape stands. */
		if (decide(&launch, site) && certain)
			place(&launch);
		report(&launch);
	}
	if (launch.plans >= 0)
		close(launch.plans);
	st_plan_free(&launch.plan);
	free(argv);
}
