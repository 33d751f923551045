/* slurmstepd, in every task, as the user: the tracer, the CPU mask and the memory policy of the rank. */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bind.h"
#include "context.h"
#include "devices.h"
#include "preload.h"
#include "record.h"
#include "spool.h"
#include "tracing.h"

struct task {
	spank_t spank;
	const struct st_args *args;
	uint32_t job, rank;
	char step[16];
	char node[256];
	char plan_path[PATH_MAX];
	struct st_plan plan;
	struct st_set cpus, mem;
	bool cpus_set, mem_set;
	char gpus[256]; /* order in which this rank sees them, where it was set */
	struct st_why why;
	double start;
};

static bool job_variable(spank_t spank, const char *name, char *value, size_t size)
{
	value[0] = '\0';
	return spank_getenv(spank, name, value, (int)size) == ESPANK_SUCCESS;
}

/* The arm of this task: the site's, or less where the user says so. */
static int task_arm(spank_t spank)
{
	char site[16], user[16];
	int arm, word;

	job_variable(spank, "SLURM_TOPO_JOB_ARM", site, sizeof(site));
	arm = st_arm_parse(site);
	if (!job_variable(spank, "SLURM_TOPO", user, sizeof(user)))
		return arm;
	word = st_arm_parse(user);
	return word < arm ? word : arm;
}

static bool read_identity(struct task *task)
{
	uint32_t step;

	return spank_get_item(task->spank, S_JOB_ID, &task->job) == ESPANK_SUCCESS &&
	       spank_get_item(task->spank, S_JOB_STEPID, &step) == ESPANK_SUCCESS &&
	       spank_get_item(task->spank, S_TASK_GLOBAL_ID, &task->rank) == ESPANK_SUCCESS &&
	       st_step_name(step, task->step, sizeof(task->step));
}

/* The plan by its name in this user's own spool, wherever the variable points to. */
static int load_plan(struct task *task)
{
	const char *slash = strrchr(task->plan_path, '/'), *name = slash ? slash + 1 : task->plan_path;
	int folder = st_spool_open(task->args->spool, "plans", false, &task->why);
	char *text = NULL;
	size_t size;

	if (folder < 0)
		return -1;
	text = st_file_read(folder, name, ST_PLAN_MAX, &size, &task->why);
	close(folder);
	if (!text)
		return task->why.text[0] ? -1 : st_why_set(&task->why, "plan: missing");
	return st_plan_parse(&task->plan, text, size, &task->why);
}

/* The ranks of this node must be the plan's: one that is not would keep a mask that the plan gives to another. */
static int check_neighbours(struct task *task)
{
	uint32_t node = task->plan.rank[task->rank].node, planned = 0, here = 0;
	char list[32768];

	if (!job_variable(task->spank, "SLURM_GTIDS", list, sizeof(list)))
		return 0;
	for (uint32_t r = 0; r < task->plan.ranks; r++)
		planned += task->plan.rank[r].node == node;
	for (char *rest = NULL, *word = strtok_r(list, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
		uint64_t rank;

		if (st_number(word, UINT32_MAX, &rank) < 0 || rank >= task->plan.ranks || task->plan.rank[rank].node != node)
			return st_why_set(&task->why, "plan: has other ranks on this node");
		here++;
	}
	return here == planned ? 0 : st_why_set(&task->why, "plan: has other ranks on this node");
}

static int check_plan(struct task *task)
{
	const struct st_plan *plan = &task->plan;
	uint32_t total = 0;

	if (!plan->place || plan->job != task->job)
		return st_why_set(&task->why, "plan: belongs to another job");
	if (spank_get_item(task->spank, S_JOB_TOTAL_TASK_COUNT, &total) != ESPANK_SUCCESS || total != plan->ranks ||
	    task->rank >= plan->ranks)
		return st_why_set(&task->why, "plan: is for %u ranks, the step has %u", plan->ranks, total);
	if (strcmp(plan->nodes[plan->rank[task->rank].node], task->node))
		return st_why_set(&task->why, "plan: has rank %u on another node", task->rank);
	return check_neighbours(task);
}

/* The site's argument counts before the plan. Where the plan knows no NUMA nodes (a node that nobody captured), the kernel does. */
static void bind_memory(struct task *task, const struct st_set *allowed)
{
	enum st_memory memory = task->args->memory != ST_MEMORY_PLAN ? task->args->memory : task->plan.memory;

	if (memory == ST_MEMORY_PLAN)
		memory = ST_MEMORY_PREFERRED;
	if (memory == ST_MEMORY_NONE)
		return;
	st_memory_of_rank(&task->plan, task->rank, &task->mem);
	if (st_set_empty(&task->mem))
		st_memory_near(memory == ST_MEMORY_INTERLEAVE ? allowed : &task->cpus, &task->mem);
	task->mem_set = st_memory_bind(&task->mem, memory) == 0;
}

static int bind_task(struct task *task)
{
	struct st_set allowed;

	if (load_plan(task) < 0 || check_plan(task) < 0)
		return -1;
	if (st_cpus_allowed(&allowed) < 0)
		return st_why_set(&task->why, "cpus: the mask of this task cannot be read");
	if (st_cpus_of_rank(&task->plan, task->rank, &allowed, &task->cpus, &task->why) < 0)
		return -1;
	if (st_cpus_bind(&task->cpus) < 0)
		return st_why_set(&task->why, "cpus: the kernel refuses the mask");
	task->cpus_set = true;
	bind_memory(task, &allowed);
	st_why_set(&task->why, "%s", task->plan.reason);
	return 0;
}

static bool has_variable(spank_t spank, const char *name)
{
	char value[2];

	return spank_getenv(spank, name, value, sizeof(value)) != ESPANK_ENV_NOEXIST;
}

/* OpenMP's threads on the CPUs of the rank, where the user has no wish of her own. */
static void set_openmp(const struct task *task)
{
	static const char *const wishes[] = { "OMP_PLACES", "OMP_PROC_BIND", "GOMP_CPU_AFFINITY", "KMP_AFFINITY" };
	char text[1024];

	/* Without -c the run-time library takes what the mask grants, as it does without us. */
	if (!has_variable(task->spank, "OMP_NUM_THREADS") && has_variable(task->spank, "SLURM_CPUS_PER_TASK")) {
		snprintf(text, sizeof(text), "%u", task->plan.cpus_per_task ? task->plan.cpus_per_task : 1);
		spank_setenv(task->spank, "OMP_NUM_THREADS", text, 0);
	}
	for (size_t i = 0; i < sizeof(wishes) / sizeof(wishes[0]); i++)
		if (has_variable(task->spank, wishes[i]))
			return;
	/* One thread a core, inside the mask. One CPU needs no places. */
	if (st_set_count(&task->cpus) < 2)
		return;
	spank_setenv(task->spank, "OMP_PLACES", "cores", 0);
	st_set_format(&task->cpus, text, sizeof(text));
	spank_setenv(task->spank, "GOMP_CPU_AFFINITY", text, 0);
}

/* The GPUs near the rank's CPUs come first; all of the step's stay visible, or CUDA IPC and NCCL would break. */
static void set_gpus(struct task *task)
{
	static const char *const lists[] = { "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES",
					     "GPU_DEVICE_ORDINAL", "ZE_AFFINITY_MASK" };
	const struct st_span *gpus = &task->plan.rank[task->rank].gpus;
	char visible[1024], known[1024], list[1024];
	bool named = job_variable(task->spank, "SLURM_STEP_GPUS", known, sizeof(known)) ||
		     job_variable(task->spank, "SLURM_JOB_GPUS", known, sizeof(known));

	for (size_t i = 0; gpus->text && i < sizeof(lists) / sizeof(lists[0]); i++) {
		if (!job_variable(task->spank, lists[i], visible, sizeof(visible)))
			continue;
		if (st_devices_order(visible, named ? known : NULL, gpus, task->args->gpus == ST_GPUS_ISOLATE, list,
				     sizeof(list)) < 0)
			continue;
		spank_setenv(task->spank, lists[i], list, 1);
		snprintf(task->gpus, sizeof(task->gpus), "%.255s", list);
	}
}

/* A nested srun must inherit neither our host file nor a binding that is not in force any more. */
static void clean_environment(const struct task *task)
{
	static const char *const ours[] = { "SLURM_TOPO_JOB_PLAN", "SLURM_HOSTFILE", "SLURM_DISTRIBUTION" };
	static const char *const binding[] = { "SLURM_CPU_BIND", "SLURM_CPU_BIND_TYPE", "SLURM_CPU_BIND_LIST",
					       "SLURM_CPU_BIND_VERBOSE" };

	for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
		spank_unsetenv(task->spank, ours[i]);
	for (size_t i = 0; task->cpus_set && i < sizeof(binding) / sizeof(binding[0]); i++)
		spank_unsetenv(task->spank, binding[i]);
}

static void write_record(struct task *task)
{
	struct st_record record;
	struct st_set now;
	struct st_why ignored;
	char file[320], list[240];
	int folder = st_spool_open(task->args->spool, "records", true, &ignored);

	if (folder < 0)
		return;
	snprintf(file, sizeof(file), "%u.%s.%.240s.rec", task->job, task->step, task->node);
	st_record_begin(&record, "task");
	st_record_count(&record, "job", task->job);
	st_record_text(&record, "step", task->step);
	st_record_text(&record, "node", task->node);
	st_record_count(&record, "rank", task->rank);
	st_record_text(&record, "decision", task->cpus_set ? "place" : "stand-down");
	st_record_text(&record, "reason", task->why.text);
	if (st_cpus_now(&now) == 0) {
		st_set_format(&now, list, sizeof(list));
		st_record_text(&record, "cpus", list);
	}
	if (task->mem_set) {
		st_set_format(&task->mem, list, sizeof(list));
		st_record_text(&record, "mem", list);
	}
	st_record_text(&record, "gpus", task->gpus[0] ? task->gpus : NULL);
	st_record_real(&record, "seconds", st_clock() - task->start);
	st_file_append(folder, file, record.text, st_record_end(&record), &ignored);
	close(folder);
}

static void read_node(struct task *task)
{
	job_variable(task->spank, "SLURMD_NODENAME", task->node, sizeof(task->node));
	if (task->node[0] == '.' || strchr(task->node, '/'))
		task->node[0] = '\0';
}

static void place_task(struct task *task)
{
	read_node(task);
	if (bind_task(task) < 0)
		slurm_verbose("slurm-topo: rank %u: stood down: %s", task->rank, task->why.text);
	if (task->cpus_set && task->args->openmp)
		set_openmp(task);
	if (task->cpus_set && task->args->gpus != ST_GPUS_NONE)
		set_gpus(task);
	clean_environment(task);
	write_record(task);
	st_plan_free(&task->plan);
}

/* Lets mpirun in a batch script find its placement, with the arguments that it needs for that. */
static int enter_batch(spank_t spank, const struct st_args *args)
{
	char path[PATH_MAX + 32], folder[PATH_MAX], text[3 * PATH_MAX];
	struct st_why why;
	char *slash;

	if (!args->mpirun || !args->tracer || !args->place || !has_variable(spank, "SLURM_TOPO_JOB_GRAPH"))
		return -1;
	/* The library is beside the tracer. */
	if (st_library_find(args->tracer, ST_PRELOAD_TRACE, folder, sizeof(folder), &why) < 0)
		return -1;
	slash = strrchr(folder, '/');
	if (slash)
		*slash = '\0';
	if (st_library_find(folder, ST_PRELOAD_LAUNCH, path, sizeof(path), &why) < 0)
		return -1;
	if ((size_t)snprintf(text, sizeof(text), "spool=%s place=%s kill_switch=%s deadline_ms=%d%s%s", args->spool,
			     args->place, args->kill_switch, args->deadline_ms, args->config ? " config=" : "",
			     args->config ? args->config : "") >= sizeof(text))
		return -1;
	if (spank_setenv(spank, "SLURM_TOPO_JOB_LAUNCH", text, 1) != ESPANK_SUCCESS)
		return -1;
	return st_task_preload(spank, path, &why);
}

static void leave_batch(spank_t spank)
{
	if (!has_variable(spank, "SLURM_TOPO_JOB_LAUNCH"))
		return;
	spank_unsetenv(spank, "SLURM_TOPO_JOB_LAUNCH");
	st_task_unload(spank, ST_PRELOAD_LAUNCH);
}

void st_task_init(spank_t spank, const struct st_args *args)
{
	struct task task = { .spank = spank, .args = args, .start = st_clock() };
	char traced[8];
	bool has_plan = job_variable(spank, "SLURM_TOPO_JOB_PLAN", task.plan_path, sizeof(task.plan_path));
	bool has_trace = job_variable(spank, "SLURM_TOPO_JOB_TRACE", traced, sizeof(traced)) && !strcmp(traced, "1");
	bool has_arm = has_variable(spank, "SLURM_TOPO_JOB_ARM");
	int arm;

	/* Every job that was marked has an arm; counters can be left by a batch step. */
	if ((!has_arm && !has_variable(spank, "SLURM_TOPO_JOB_COUNTERS")) || !read_identity(&task))
		return;
	arm = access(args->kill_switch, F_OK) == 0 ? ST_OFF : task_arm(spank);
	if (!has_trace || arm < ST_OBSERVE || st_trace_enter(spank, args, task.job, task.step, &task.why) < 0) {
		if (task.why.text[0]) {
			slurm_verbose("slurm-topo: rank %u: not traced: %s", task.rank, task.why.text);
			read_node(&task);
			write_record(&task);
		}
		if (has_variable(spank, "SLURM_TOPO_JOB_COUNTERS"))
			st_trace_leave(spank, args);
	}
	if (strcmp(task.step, "batch") || arm < ST_ADVISE || enter_batch(spank, args) < 0)
		leave_batch(spank);
	if (has_plan && arm == ST_ENFORCE)
		place_task(&task);
	else if (has_plan)
		clean_environment(&task);
}
