#include "shape.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COMMAND_MAX (4u << 20)

/* Variables by which a user tells srun what an option would. */
static const char *const user_words[] = {
	"SLURM_HOSTFILE", "SLURM_DISTRIBUTION", "SLURM_DIST_PLANESIZE", "SLURM_CPU_BIND",  "SLURM_MEM_BIND",
	"SLURM_GPU_BIND", "SLURM_TRES_BIND",    "SLURM_ACCEL_BIND",     "SLURM_CORE_SPEC", "SLURM_THREAD_SPEC",
};

static const char *const shape_words[] = {
	"SLURM_HET_SIZE",         "SLURM_OVERCOMMIT",      "SLURM_NO_KILL",          "SLURM_SPREAD_JOB",
	"SLURM_USE_MIN_NODES",    "SLURM_NTASKS_PER_CORE", "SLURM_NTASKS_PER_GPU",   "SLURM_NTASKS_PER_SOCKET",
	"SLURM_NTASKS_PER_TRES",  "SLURM_GPUS",            "SLURM_GPUS_PER_TASK",   "SLURM_GPUS_PER_SOCKET",  "SLURM_CPUS_PER_GPU",
};

/* What the job has, and what the options of the step say (0: nothing). */
struct reading {
	struct st_shape *shape;
	struct st_why *why;
	bool stood_down;
	uint64_t ntasks, cpus, nodes, per_node;
};

/* The first reason is the one that is kept; the reading goes on for --topo and --quiet. */
static void stand_down(struct reading *reading, const char *kind, const char *what)
{
	if (!reading->stood_down)
		st_why_set(reading->why, "%s: %s", kind, what);
	reading->stood_down = true;
}

static uint64_t environment_number(const char *name)
{
	uint64_t number;

	return st_number(getenv(name), UINT32_MAX, &number) < 0 ? 0 : number;
}

static void read_count(struct reading *reading, const struct st_option *option, uint64_t *count)
{
	if (st_number(option->value, UINT32_MAX, count) < 0 || *count == 0)
		stand_down(reading, "shape", option->name);
}

static void apply(struct reading *reading, const struct st_option *option)
{
	switch (option->effect) {
	case ST_NOTHING:
		break;
	case ST_USER:
		stand_down(reading, "user", option->name);
		break;
	case ST_SHAPE:
		stand_down(reading, "shape", option->name);
		break;
	case ST_EXACT:
		reading->shape->exact = true;
		break;
	case ST_OVERLAP:
		reading->shape->overlap = true;
		break;
	case ST_NTASKS:
		read_count(reading, option, &reading->ntasks);
		break;
	case ST_CPUS:
		read_count(reading, option, &reading->cpus);
		/* From 22.05 on. */
		reading->shape->exact = true;
		break;
	case ST_NODES:
		read_count(reading, option, &reading->nodes);
		break;
	case ST_PER_NODE:
		read_count(reading, option, &reading->per_node);
		break;
	case ST_CPU_BIND:
		/* To hear of the binding is no wish for another. */
		if (strcmp(option->value, "verbose") && strcmp(option->value, "v") && strcmp(option->value, "quiet"))
			stand_down(reading, "user", option->name);
		break;
	case ST_HINT:
		if (strcmp(option->value, "nomultithread"))
			stand_down(reading, "user", option->name);
		reading->shape->one_thread = true;
		break;
	case ST_THREADS:
		if (strcmp(option->value, "1"))
			stand_down(reading, "user", option->name);
		reading->shape->one_thread = true;
		break;
	case ST_JOBID:
		if (!getenv("SLURM_JOB_ID") || strcmp(option->value, getenv("SLURM_JOB_ID")))
			stand_down(reading, "shape", option->name);
		break;
	case ST_QUIET:
		reading->shape->quiet = true;
		break;
	case ST_TOPO:
		reading->shape->topo = st_arm_parse(option->value);
		/* srun will reject it. */
		reading->shape->info |= reading->shape->topo < 0;
		break;
	case ST_INFO:
		reading->shape->info = true;
		break;
	}
}

bool st_is_daemon(const char *program)
{
	static const char *const names[] = { "orted", "prted", "hydra_pmi_proxy", "hydra_bstrap_proxy", "pmi_proxy" };
	const char *slash = strrchr(program, '/');
	const char *base = slash ? slash + 1 : program;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(base, names[i]))
			return true;
	return false;
}

static void read_command(struct reading *reading, int argc, char *const *argv, st_option_reader *next)
{
	struct st_cursor cursor = { .argv = argv, .argc = argc, .at = 1 };
	struct st_option option;
	struct st_why unknown;
	int rc;

	while ((rc = next(&cursor, &option, &unknown)) > 0)
		apply(reading, &option);
	if (rc < 0)
		stand_down(reading, "shape", unknown.text);
	reading->shape->program = rc == 0 && cursor.at < argc ? cursor.at : -1;
	if (reading->shape->program > 0 && st_is_daemon(argv[cursor.at])) {
		/* The options are mpirun's then, not the user's word. */
		reading->stood_down = false;
		stand_down(reading, "launcher", argv[cursor.at]);
		reading->shape->program = -1;
	}
	for (int i = 1; i < argc; i++)
		if (!strcmp(argv[i], ":"))
			stand_down(reading, "shape", "heterogeneous step");
}

/* The steps of batch scripts and interactive shells have numbers above all others; what is in them is not nested. */
static bool is_nested(void)
{
	const char *step = getenv("SLURM_STEP_ID") ? getenv("SLURM_STEP_ID") : getenv("SLURM_STEPID");
	uint64_t number;

	return step && (st_number(step, UINT32_MAX, &number) < 0 || number < UINT32_C(0xfffffff0));
}

static void read_environment(struct reading *reading)
{
	const char *hint = getenv("SLURM_HINT"), *threads = getenv("SLURM_THREADS_PER_CORE"),
		   *tres = getenv("SLURM_TRES_PER_TASK");

	if (getenv(ST_NO_KILL))
		stand_down(reading, "shape", "a job with --no-kill");
	if (is_nested())
		stand_down(reading, "shape", "inside another step");
	/* From 23.11 on -c is written there, too. */
	if (tres && (strncmp(tres, "cpu", 3) || strchr(tres, ',')))
		stand_down(reading, "shape", "SLURM_TRES_PER_TASK");
	for (size_t i = 0; i < sizeof(user_words) / sizeof(user_words[0]); i++)
		if (getenv(user_words[i]))
			stand_down(reading, "user", user_words[i]);
	for (size_t i = 0; i < sizeof(shape_words) / sizeof(shape_words[0]); i++)
		if (getenv(shape_words[i]))
			stand_down(reading, "shape", shape_words[i]);
	if (hint && strcmp(hint, "nomultithread"))
		stand_down(reading, "user", "SLURM_HINT");
	if (threads && strcmp(threads, "1"))
		stand_down(reading, "user", "SLURM_THREADS_PER_CORE");
	if (hint || threads)
		reading->shape->one_thread = true;
	if (getenv("SLURM_EXACT") || getenv("SLURM_EXCLUSIVE") || getenv("SRUN_CPUS_PER_TASK"))
		reading->shape->exact = true;
	if (getenv("SLURM_OVERLAP"))
		reading->shape->overlap = true;
}

static uint64_t first_number(const char *name, const char *other)
{
	uint64_t number = environment_number(name);

	return number ? number : environment_number(other);
}

/* As srun itself: what it is not told it takes from the job, and one task a node where that says nothing either. */
static uint64_t count_tasks(struct reading *reading, uint64_t nodes, uint64_t per_node)
{
	if (reading->ntasks)
		return reading->ntasks;
	if (reading->shape->job_ntasks)
		return reading->shape->job_ntasks;
	if (reading->cpus && !per_node)
		stand_down(reading, "shape", "cpus-per-task without a number of tasks");
	return nodes * (per_node ? per_node : 1);
}

/* Which nodes a step on a part of the job gets is known when it is created only, unless it takes no notice of other steps. */
static uint64_t count_nodes(struct reading *reading, uint64_t nodes, uint64_t ntasks)
{
	uint64_t step = reading->nodes ? reading->nodes : nodes;

	if (ntasks < step)
		step = ntasks;
	if (step > nodes)
		stand_down(reading, "shape", "more nodes than the job has");
	else if (step < nodes && !reading->shape->overlap)
		stand_down(reading, "shape", "fewer nodes than the job has");
	return step;
}

/* The shape of the step: its own numbers where it gives some, else the job's. */
static void compare(struct reading *reading)
{
	struct st_shape *shape = reading->shape;
	uint64_t nodes = first_number("SLURM_JOB_NUM_NODES", "SLURM_NNODES");
	uint64_t cpus = first_number("SRUN_CPUS_PER_TASK", "SLURM_CPUS_PER_TASK");
	uint64_t ntasks;

	cpus = reading->cpus ? reading->cpus : cpus;
	shape->cpus = cpus ? (uint32_t)cpus : 1;
	shape->per_node =
		(uint32_t)(reading->per_node ? reading->per_node : environment_number("SLURM_NTASKS_PER_NODE"));
	/* srun warns where a number of nodes or of tasks a node was asked for and the host file has another. */
	shape->all_nodes = reading->nodes || shape->per_node;
	/* The numbers are those of a job that does not exist yet. */
	if (!getenv("SLURM_JOB_ID"))
		return;
	shape->job_ntasks = (uint32_t)first_number("SLURM_NTASKS", "SLURM_NPROCS");
	if (!nodes)
		stand_down(reading, "shape", "the job names no number of nodes");
	ntasks = count_tasks(reading, reading->nodes ? reading->nodes : nodes, shape->per_node);
	shape->ntasks = ntasks > UINT32_MAX ? UINT32_MAX : (uint32_t)ntasks;
	shape->nodes = (uint32_t)count_nodes(reading, nodes, shape->ntasks);
	if (shape->ntasks == 1)
		stand_down(reading, "shape", "one task");
}

int st_shape_read(int argc, char *const *argv, st_option_reader *next, struct st_shape *shape, struct st_why *why)
{
	struct reading reading = { .shape = shape, .why = why };

	*shape = (struct st_shape){ .topo = -1, .program = -1 };
	read_command(&reading, argc, argv, next);
	read_environment(&reading);
	compare(&reading);
	/* mpirun fills node by node: where fewer ranks would be is not what a plan spreads. */
	if (next != st_option_next && shape->ntasks != shape->job_ntasks)
		stand_down(&reading, "shape", "ntasks differs from the job's");
	return reading.stood_down ? -1 : 0;
}

/* All of /proc/self/cmdline, a byte 0 behind it. NULL where it cannot be read or is too long. */
static char *read_cmdline(size_t *size)
{
	size_t room = 4096, used = 0;
	char *text = malloc(room + 1);
	int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
	ssize_t n = -1;

	while (text && fd >= 0 && (n = read(fd, text + used, room - used)) > 0) {
		char *larger;

		used += (size_t)n;
		if (used < room)
			continue;
		room *= 2;
		larger = room <= COMMAND_MAX ? realloc(text, room + 1) : NULL;
		if (!larger) {
			n = -1;
			break;
		}
		text = larger;
	}
	if (fd >= 0)
		close(fd);
	if (!text || n < 0 || !used) {
		free(text);
		return NULL;
	}
	text[used] = '\0';
	*size = used;
	return text;
}

char **st_command_line(int *argc)
{
	size_t size, count = 0;
	char *text = read_cmdline(&size), **argv;

	if (!text)
		return NULL;
	for (size_t at = 0; at < size; at += strlen(text + at) + 1)
		count++;
	/* One block: the pointers, then the text, so that one free() is enough. */
	argv = malloc((count + 1) * sizeof(char *) + size + 1);
	if (argv) {
		char *copy = (char *)(argv + count + 1);
		size_t i = 0;

		memcpy(copy, text, size + 1);
		for (size_t at = 0; at < size; at += strlen(copy + at) + 1)
			argv[i++] = copy + at;
		argv[count] = NULL;
		*argc = (int)count;
	}
	free(text);
	return argv;
}
