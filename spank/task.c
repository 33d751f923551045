/* slurmstepd, in every task, as the user: the tracer, the CPU mask and the memory policy of the rank. */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "context.h"
#include "devices.h"
#include "placed.h"
#include "preload.h"
#include "tracing.h"

struct task {
	spank_t spank;
	struct st_placed placed;
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

	return spank_get_item(task->spank, S_JOB_ID, &task->placed.job) == ESPANK_SUCCESS &&
	       spank_get_item(task->spank, S_JOB_STEPID, &step) == ESPANK_SUCCESS &&
	       spank_get_item(task->spank, S_TASK_GLOBAL_ID, &task->placed.rank) == ESPANK_SUCCESS &&
	       st_step_name(step, task->placed.step, sizeof(task->placed.step));
}

static bool has_variable(spank_t spank, const char *name)
{
	char value[2];

	return spank_getenv(spank, name, value, sizeof(value)) != ESPANK_ENV_NOEXIST;
}

/* The GPUs near the rank's CPUs come first; all of the step's stay visible, or CUDA IPC and NCCL would break. */
static void set_gpus(struct task *task)
{
	static const char *const lists[] = { "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES",
					     "GPU_DEVICE_ORDINAL", "ZE_AFFINITY_MASK" };
	struct st_placed *placed = &task->placed;
	const struct st_span *gpus = &placed->plan.rank[placed->rank].gpus;
	char visible[1024], known[1024], list[1024];
	bool named = job_variable(task->spank, "SLURM_STEP_GPUS", known, sizeof(known)) ||
		     job_variable(task->spank, "SLURM_JOB_GPUS", known, sizeof(known));

	for (size_t i = 0; gpus->text && i < sizeof(lists) / sizeof(lists[0]); i++) {
		if (!job_variable(task->spank, lists[i], visible, sizeof(visible)))
			continue;
		if (st_devices_order(visible, named ? known : NULL, gpus, placed->args->gpus == ST_GPUS_ISOLATE, list,
				     sizeof(list)) < 0)
			continue;
		spank_setenv(task->spank, lists[i], list, 1);
		snprintf(placed->gpus, sizeof(placed->gpus), "%.255s", list);
	}
}

/*
 * A nested srun must inherit neither our host file nor a binding that is not in force any more. SLURM_DISTRIBUTION stays:
 * Intel MPI under PMI2 takes the nodes of the ranks from it, and ends where it is wrong; srun.c keeps it from a nested one.
 */
static void clean_environment(const struct task *task)
{
	static const char *const binding[] = { "SLURM_CPU_BIND", "SLURM_CPU_BIND_TYPE", "SLURM_CPU_BIND_LIST",
					       "SLURM_CPU_BIND_VERBOSE" };

	spank_unsetenv(task->spank, "SLURM_HOSTFILE");
	for (size_t i = 0; task->placed.cpus_set && i < sizeof(binding) / sizeof(binding[0]); i++)
		spank_unsetenv(task->spank, binding[i]);
}

static bool task_has(void *task, const char *name)
{
	return has_variable(((struct task *)task)->spank, name);
}

static void task_set(void *task, const char *name, const char *value)
{
	spank_setenv(((struct task *)task)->spank, name, value, 0);
}

static void read_node(struct task *task)
{
	struct st_placed *placed = &task->placed;

	job_variable(task->spank, "SLURMD_NODENAME", placed->node, sizeof(placed->node));
	if (placed->node[0] == '.' || strchr(placed->node, '/'))
		placed->node[0] = '\0';
}

static void place_task(struct task *task)
{
	const struct st_variables variables = { task_has, task_set, task };
	struct st_placed *placed = &task->placed;
	char neighbours[32768];

	read_node(task);
	if (spank_get_item(task->spank, S_JOB_TOTAL_TASK_COUNT, &placed->ranks) != ESPANK_SUCCESS)
		placed->ranks = 0;
	if (job_variable(task->spank, "SLURM_GTIDS", neighbours, sizeof(neighbours)))
		placed->neighbours = neighbours;
	if (st_placed_bind(placed) < 0)
		slurm_verbose("slurm-topo: rank %u: stood down: %s", placed->rank, placed->why.text);
	if (placed->cpus_set && placed->args->openmp)
		st_placed_openmp(placed, &variables);
	if (placed->cpus_set && placed->args->gpus != ST_GPUS_NONE)
		set_gpus(task);
	clean_environment(task);
	st_placed_record(placed);
	st_plan_free(&placed->plan);
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
	if ((size_t)snprintf(text, sizeof(text), "spool=%s place=%s kill_switch=%s deadline_ms=%d memory=%s openmp=%s%s%s",
			     args->spool, args->place, args->kill_switch, args->deadline_ms, st_memory_name(args->memory),
			     args->openmp ? "set" : "none", args->config ? " config=" : "",
			     args->config ? args->config : "") >= sizeof(text))
		return -1;
	if (spank_setenv(spank, "SLURM_TOPO_JOB_LAUNCH", text, 1) != ESPANK_SUCCESS)
		return -1;
	return st_task_preload(spank, path, &why);
}

/* Not in the daemons by which a placed mpirun starts its ranks: those need it. */
static void leave_batch(spank_t spank)
{
	if (!has_variable(spank, "SLURM_TOPO_JOB_LAUNCH") || has_variable(spank, ST_RANKS))
		return;
	spank_unsetenv(spank, "SLURM_TOPO_JOB_LAUNCH");
	st_task_unload(spank, ST_PRELOAD_LAUNCH);
}

void st_task_init(spank_t spank, const struct st_args *args)
{
	struct task task = { .spank = spank, .placed = { .args = args, .start = st_clock() } };
	struct st_placed *placed = &task.placed;
	char traced[8];
	bool has_plan = job_variable(spank, "SLURM_TOPO_JOB_PLAN", placed->plan_path, sizeof(placed->plan_path));
	bool has_trace = job_variable(spank, "SLURM_TOPO_JOB_TRACE", traced, sizeof(traced)) && !strcmp(traced, "1");
	bool has_arm = has_variable(spank, "SLURM_TOPO_JOB_ARM");
	int arm;

	/* Every job that was marked has an arm; counters can be left by a batch step. */
	if ((!has_arm && !has_variable(spank, "SLURM_TOPO_JOB_COUNTERS")) || !read_identity(&task))
		return;
	arm = access(args->kill_switch, F_OK) == 0 ? ST_OFF : task_arm(spank);
	if (!has_trace || arm < ST_OBSERVE || st_trace_enter(spank, args, placed->job, placed->step, &placed->why) < 0) {
		if (placed->why.text[0]) {
			slurm_verbose("slurm-topo: rank %u: not traced: %s", placed->rank, placed->why.text);
			read_node(&task);
			st_placed_record(placed);
		}
		if (has_variable(spank, "SLURM_TOPO_JOB_COUNTERS"))
			st_trace_leave(spank, args);
	}
	if (strcmp(placed->step, "batch") || arm < ST_ADVISE || enter_batch(spank, args) < 0)
		leave_batch(spank);
	if (has_plan && arm == ST_ENFORCE)
		place_task(&task);
	else if (has_plan)
		clean_environment(&task);
}
