/*
 * Preloaded into the batch script of a job that may be placed: does for the mpirun of an MPI library what the plugin does
 * for srun, and binds the ranks where that mpirun cannot. In every other program, and where anything is uncertain, it
 * does nothing.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "family.h"
#include "placed.h"
#include "preload.h"

#define ARGUMENTS "SLURM_TOPO_JOB_LAUNCH"

static const struct st_family *const families[] = { &st_openmpi, &st_prrte, &st_intel, &st_hydra };

static const struct st_family *family;

static bool is_mpirun(void)
{
	static const char *const names[] = { "mpirun", "mpiexec", "orterun", "prterun" };
	static const char *const endings[] = { "", ".openmpi", ".mpich", ".hydra" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		size_t len = strlen(names[i]);

		if (strncmp(program_invocation_short_name, names[i], len))
			continue;
		for (size_t e = 0; e < sizeof(endings) / sizeof(endings[0]); e++)
			if (!strcmp(program_invocation_short_name + len, endings[e]))
				return true;
	}
	return false;
}

/* The mpirun of Open MPI 5 only starts prterun, with its own arguments and environment. */
static bool is_forerunner(void)
{
	return st_program_has("OMPI_PRTERUN") || st_program_has("OPAL_PREFIX");
}

/* The plugin's arguments, as it handed them on. `text` is cut into words. */
static int read_arguments(char *text, struct st_args *args)
{
	char *words[16], *rest = NULL;
	struct st_why ignored;
	int count = 0;

	for (char *word = strtok_r(text, " ", &rest); word && count < 16; word = strtok_r(NULL, " ", &rest))
		words[count++] = word;
	return st_args_parse(count, words, args, &ignored);
}

static int apply(struct st_launch *launch)
{
	char *tasks = st_tasks_per_node(launch), value[PATH_MAX + 64];

	launch->outcome = ST_STOOD_DOWN;
	if (!tasks)
		return st_why_set(&launch->why, "shape: the plan leaves a node out");
	if (family->apply(launch) < 0) {
		free(tasks);
		return -1;
	}
	/* All of them read from it how many ranks a node may have. */
	setenv("SLURM_TASKS_PER_NODE", tasks, 1);
	free(tasks);
	if (!family->ranks)
		return 0;
	snprintf(value, sizeof(value), "%s:%s.plan", family->ranks, launch->path);
	setenv(ST_RANKS, value, 1);
	return 0;
}

static void place_mpirun(const struct st_args *args)
{
	struct st_launch launch = { .plans = -1 };
	struct st_why line;
	bool certain;
	int argc = 0;
	char **argv;

	if (!st_launch_begin(&launch, args, "mpirun"))
		return;
	argv = st_command_line(&argc);
	if (!argv)
		return;
	/* Of a launcher that is not known no option is certain. */
	certain = st_shape_read(argc, argv, (family ? family : &st_openmpi)->next, &launch.shape, &launch.why) == 0;
	if (!family) {
		st_why_set(&launch.why, "launcher: %.60s is of no family that is known", program_invocation_short_name);
		certain = false;
	}
	certain = certain && !family->wish(&launch.why);
	if (!launch.shape.info) {
		st_launch_learn(&launch, certain, NULL);
		st_launch_decide(&launch, certain, apply);
		st_launch_report(&launch, &line);
		if (line.text[0])
			dprintf(STDERR_FILENO, "mpirun: %s\n", line.text);
	}
	st_launch_end(&launch);
	free(argv);
}

/* Everybody who has no more to do with it is spared this library. */
static void leave_environment(void)
{
	const char *before = getenv("LD_PRELOAD");
	char *after = before ? malloc(strlen(before) + 1) : NULL;

	unsetenv(ARGUMENTS);
	unsetenv(ST_RANKS);
	if (after && st_preload_drop(before, ST_PRELOAD_LAUNCH, after, strlen(before) + 1)) {
		if (*after)
			setenv("LD_PRELOAD", after, 1);
		else
			unsetenv("LD_PRELOAD");
	}
	free(after);
}

static bool has(void *nowhere, const char *name)
{
	(void)nowhere;
	return getenv(name) != NULL;
}

static void set(void *nowhere, const char *name, const char *value)
{
	(void)nowhere;
	setenv(name, value, 0);
}

static int number_of(const char *prefix, const char *name, uint32_t *number)
{
	char variable[64];
	uint64_t value;

	snprintf(variable, sizeof(variable), "%s_%s", prefix, name);
	if (st_number(getenv(variable), UINT32_MAX, &value) < 0)
		return -1;
	*number = (uint32_t)value;
	return 0;
}

/* What a rank has spawned is a world of its own, of which the plan knows nothing. */
static bool is_spawned(void)
{
	const char *space = getenv("PMIX_NAMESPACE"), *at = space ? strrchr(space, '@') : NULL;

	return getenv("PMI_SPAWNED") || (at && strcmp(at, "@1"));
}

/* Daemons and Slurm's own programs have variables of a rank, too, where their step has a process manager. */
static bool is_rank(const char *prefix, struct st_placed *placed)
{
	return !st_is_daemon(program_invocation_short_name) && strcmp(program_invocation_short_name, "srun") &&
	       number_of(prefix, "RANK", &placed->rank) == 0 && number_of(prefix, "SIZE", &placed->ranks) == 0;
}

/* In a rank, or on the way to it: `given` is "PREFIX:PLAN", and is cut. */
static void place_rank(char *given, const struct st_args *args)
{
	const struct st_variables variables = { has, set, NULL };
	struct st_placed placed = { .args = args, .step = "batch", .start = st_clock() };
	char *plan = strchr(given, ':');

	if (!plan)
		return;
	*plan++ = '\0';
	if (!is_rank(given, &placed))
		return;
	leave_environment();
	if (is_spawned() || access(args->kill_switch, F_OK) == 0 || number_of("SLURM_JOB", "ID", &placed.job) < 0)
		return;
	snprintf(placed.plan_path, sizeof(placed.plan_path), "%s", plan);
	gethostname(placed.node, sizeof(placed.node) - 1);
	placed.node[strcspn(placed.node, ".")] = '\0';
	if (st_placed_bind(&placed) == 0 && args->openmp)
		st_placed_openmp(&placed, &variables);
	st_placed_record(&placed);
	st_plan_free(&placed.plan);
}

static void find_family(void)
{
	for (size_t i = 0; i < sizeof(families) / sizeof(families[0]) && !family; i++)
		if (families[i]->is_this())
			family = families[i];
}

/* In mpirun. Its ranks and daemons need the library only where they have been told of a plan. */
static void launch(const struct st_args *args)
{
	find_family();
	if (!family && is_forerunner())
		return;
	place_mpirun(args);
	if (!getenv(ST_RANKS))
		leave_environment();
}

__attribute__((constructor)) static void st_mpirun(void)
{
	const char *given = getenv(ARGUMENTS), *ranks = getenv(ST_RANKS);
	char *text, *plan = NULL;
	struct st_args args;
	int saved = errno;

	if (!given || (!ranks && !is_mpirun()))
		return;
	text = strdup(given);
	plan = ranks ? strdup(ranks) : NULL;
	if (!text || (ranks && !plan) || read_arguments(text, &args) < 0)
		leave_environment();
	else if (plan)
		place_rank(plan, &args);
	else
		launch(&args);
	free(text);
	free(plan);
	errno = saved;
}
