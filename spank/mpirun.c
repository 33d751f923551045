/*
 * Preloaded into the batch script of a job that may be placed: does for Open MPI's mpirun what the plugin does for srun.
 * In every other program, and where anything is uncertain, it does nothing.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launch.h"
#include "openmpi.h"
#include "preload.h"
#include "spool.h"

#define ARGUMENTS "SLURM_TOPO_JOB_LAUNCH"

static bool is_mpirun(void)
{
	static const char *const names[] = { "mpirun", "mpiexec", "orterun" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		size_t len = strlen(names[i]);

		/* Debian's alternatives end in .openmpi. */
		if (!strncmp(program_invocation_short_name, names[i], len) &&
		    (!program_invocation_short_name[len] || !strcmp(program_invocation_short_name + len, ".openmpi")))
			return true;
	}
	return false;
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

/* Open MPI 4 by its run-time library; others read other variables. */
static bool is_openmpi_4(void)
{
	char line[4096];
	FILE *maps = fopen("/proc/self/maps", "re");
	bool found = false;

	while (maps && !found && fgets(line, sizeof(line), maps))
		found = strstr(line, "/libopen-rte.so.40") != NULL;
	if (maps)
		fclose(maps);
	return found;
}

/* mpirun fails on a CPU that it cannot use, so only whole nodes are certain: there every number below the count exists. */
static int check_whole_nodes(struct st_launch *launch)
{
	for (uint32_t r = 0; r < launch->plan.ranks; r++) {
		const struct st_rank *rank = &launch->plan.rank[r];
		const char *node = launch->plan.nodes[rank->node];
		struct st_set cpus;
		uint32_t n = 0;

		if (st_set_parse(rank->cpus.text, rank->cpus.len, &cpus) < 0)
			return -1;
		while (n < launch->allocation.nodes && strcmp(launch->allocation.name[n], node))
			n++;
		for (uint32_t c = n < launch->allocation.nodes ? launch->allocation.cpus[n] : 0; c < ST_SET_BITS; c++)
			if (st_set_has(&cpus, c))
				return -1;
	}
	return 0;
}

static int apply(struct st_launch *launch)
{
	char path[32];
	size_t size;
	char *text = st_openmpi_rank_file(&launch->plan, &size);
	int rc;

	launch->outcome = ST_STOOD_DOWN;
	if (!text)
		return st_why_set(&launch->why, "plan: no CPUs");
	if (check_whole_nodes(launch) < 0) {
		free(text);
		return st_why_set(&launch->why, "shape: mpirun on parts of nodes");
	}
	launch->outcome = ST_FAULT;
	rc = st_memory_file(text, size, path, sizeof(path), &launch->why);
	free(text);
	if (rc < 0)
		return -1;
	setenv("OMPI_MCA_rmaps_rank_file_path", path, 1);
	setenv("OMPI_MCA_rmaps_rank_file_physical", "1", 1);
	return 0;
}

static void place_mpirun(const struct st_args *args)
{
	struct st_launch launch;
	struct st_why line;
	bool certain;
	int argc = 0;
	char **argv;

	if (!st_launch_begin(&launch, args, "mpirun"))
		return;
	argv = st_command_line(&argc);
	if (!argv)
		return;
	certain = st_shape_read(argc, argv, st_openmpi_next, &launch.shape, &launch.why) == 0;
	if (certain && !is_openmpi_4()) {
		st_why_set(&launch.why, "launcher: not the mpirun of Open MPI 4");
		certain = false;
	}
	certain = certain && !st_openmpi_wish(&launch.why);
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

/* The ranks and daemons need this library no more. */
static void leave_environment(void)
{
	const char *before = getenv("LD_PRELOAD");
	char *after = before ? malloc(strlen(before) + 1) : NULL;

	unsetenv(ARGUMENTS);
	if (after && st_preload_drop(before, ST_PRELOAD_LAUNCH, after, strlen(before) + 1)) {
		if (*after)
			setenv("LD_PRELOAD", after, 1);
		else
			unsetenv("LD_PRELOAD");
	}
	free(after);
}

__attribute__((constructor)) static void st_mpirun(void)
{
	const char *given;
	struct st_args args;
	char *text;
	int saved = errno;

	if (!is_mpirun() || !(given = getenv(ARGUMENTS)) || !(text = strdup(given)))
		return;
	leave_environment();
	if (read_arguments(text, &args) == 0)
		place_mpirun(&args);
	free(text);
	errno = saved;
}
