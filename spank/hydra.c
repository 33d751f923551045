/*
 * MPICH's mpiexec (Hydra) and Intel MPI's, which was made of it. Both take the nodes and the number of ranks on each from
 * Slurm's variables and fill the nodes in their order. From release 5 on Hydra has a map of ranks to nodes beside that;
 * that of 4.3 starts ranks that cannot find their shared memory, older ones have none. Intel's has a host file, but starts
 * its daemons in Slurm's order whatever stands in it. Neither can give each rank a mask: the ranks bind themselves.
 */
#include "family.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Longer ones would not fit the line that Hydra reads. */
#define MAP_MAX 32768

/* `variable` is NAME=VALUE. How the daemons are started decides how they are numbered: by srun that is known. */
static bool is_hydra_wish(const char *variable)
{
	static const char *const starts[] = { "HYDRA_HOST_FILE=", "HYDRA_CONFIG_FILE=", "HYDRA_BINDING=", "HYDRA_MAPPING=",
					      "HYDRA_MEMBIND=", "HYDRA_RMK=", "HYDRA_USER_PROVIDED_BINDING=", "HYDRA_ENV=",
					      "HYDRA_USE_LOCALHOST=", "HYDRA_LAUNCHER=", "HYDRA_BOOTSTRAP=", NULL };
	static const char *const known[] = { "HYDRA_LAUNCHER=slurm", "HYDRA_BOOTSTRAP=slurm", NULL };

	return st_starts_with(variable, starts) && !st_starts_with(variable, known);
}

static bool is_intel_wish(const char *variable)
{
	static const char *const starts[] = { "I_MPI_PIN", "I_MPI_PERHOST=", "I_MPI_HYDRA_HOST", "I_MPI_HYDRA_RMK=",
					      "I_MPI_JOB_RESPECT_PROCESS_PLACEMENT=", "I_MPI_HYDRA_ENV=",
					      "I_MPI_HYDRA_BOOTSTRAP=", "HYDRA_HOST_FILE=", "HYDRA_RMK=", NULL };
	/* The mpirun of Intel MPI sets it in every job of Slurm. */
	static const char *const known[] = { "I_MPI_HYDRA_BOOTSTRAP=slurm", NULL };

	return st_starts_with(variable, starts) && !st_starts_with(variable, known);
}

/* Variables that the command line has for the ranks. */
static bool is_rank_wish(const char *name)
{
	static const char *const starts[] = { "LD_PRELOAD", "I_MPI_PIN", "SLURM_TOPO", NULL };

	return st_starts_with(name, starts);
}

#define COMMON_ROWS                                                                                                    \
	{ "n", 1, ST_NTASKS }, { "np", 1, ST_NTASKS }, { "help", 0, ST_INFO }, { "h", 0, ST_INFO },                    \
		{ "info", 0, ST_INFO }, { "version", 0, ST_INFO }, { "V", 0, ST_INFO }, { "genv", 2, ST_NOTHING },     \
		{ "env", 2, ST_NOTHING }, { "genvall", 0, ST_NOTHING }, { "envall", 0, ST_NOTHING },                   \
		{ "wdir", 1, ST_NOTHING }, { "l", 0, ST_NOTHING }, { "prepend-rank", 0, ST_NOTHING },                  \
		{ "prepend-pattern", 1, ST_NOTHING }, { "outfile-pattern", 1, ST_NOTHING },                            \
		{ "errfile-pattern", 1, ST_NOTHING }, { "iface", 1, ST_NOTHING },                                      \
		{ "disable-auto-cleanup", 0, ST_NOTHING }, { "print-all-exitcodes", 0, ST_NOTHING },                   \
		{ "v", 0, ST_NOTHING }, { "verbose", 0, ST_NOTHING }

static const struct st_table hydra_table = {
	.launcher = "mpiexec",
	.is_wish = is_rank_wish,
	.rows = (const __typeof__(*hydra_table.rows)[]){ COMMON_ROWS, { NULL, 0, ST_NOTHING } },
};

static const struct st_table intel_table = {
	.launcher = "mpiexec",
	.is_wish = is_rank_wish,
	.rows = (const __typeof__(*intel_table.rows)[]){ COMMON_ROWS,
							 { "s", 1, ST_NOTHING },
							 { "prot", 0, ST_NOTHING },
							 { "silent-abort", 0, ST_NOTHING },
							 { "print-rank-map", 0, ST_NOTHING },
							 { "prepend-timestamp", 0, ST_NOTHING },
							 { NULL, 0, ST_NOTHING } },
};

static int hydra_next(struct st_cursor *cursor, struct st_option *option, struct st_why *why)
{
	return st_table_next(&hydra_table, cursor, option, why);
}

static int intel_next(struct st_cursor *cursor, struct st_option *option, struct st_why *why)
{
	return st_table_next(&intel_table, cursor, option, why);
}

static bool is_intel(void)
{
	return st_program_has("I_MPI_HYDRA_HOST_FILE");
}

static bool is_hydra(void)
{
	return st_program_has("HYDRA_HOST_FILE") && !is_intel();
}

static bool file_is_there(const char *path, struct st_why *why)
{
	if (access(path, F_OK) < 0)
		return false;
	st_why_set(why, "user: %.150s", path);
	return true;
}

/* Files of options: any may be among them. `beside`: below the folder above the program's. */
static bool files_are_there(const char *name, const char *beside, struct st_why *why)
{
	const char *home = getenv("HOME");
	char path[PATH_MAX + 64];

	snprintf(path, sizeof(path), "%s/.%s", home ? home : "/nowhere", name);
	if (file_is_there(path, why))
		return true;
	snprintf(path, sizeof(path), "/etc/%s", name);
	if (file_is_there(path, why))
		return true;
	st_beside_program(beside, path, sizeof(path));
	return file_is_there(path, why);
}

static const char *const any[] = { "", NULL };

static bool hydra_wish(struct st_why *why)
{
	return st_environment_wish(any, is_hydra_wish, why) ||
	       files_are_there("mpiexec.hydra.conf", "etc/mpiexec.hydra.conf", why);
}

static bool intel_wish(struct st_why *why)
{
	return st_environment_wish(any, is_intel_wish, why) || file_is_there("mpiexec.conf", why) ||
	       files_are_there("mpiexec.conf", "etc/mpiexec.conf", why);
}

/* "-rankmap 2,0,1\n", the numbers those of the nodes in Slurm's order. NULL where it is too long. */
static char *rank_map(const uint32_t *of_rank, uint32_t ranks, size_t *size)
{
	char *text = malloc(MAP_MAX);
	size_t used = text ? (size_t)snprintf(text, MAP_MAX, "-rankmap ") : 0;

	for (uint32_t r = 0; text && r < ranks && used < MAP_MAX; r++)
		used += (size_t)snprintf(text + used, MAP_MAX - used, "%u%c", of_rank[r], r + 1 < ranks ? ',' : '\n');
	if (used >= MAP_MAX) {
		free(text);
		return NULL;
	}
	*size = used;
	return text;
}

/* A plan that is not in blocks. */
static int map_ranks(struct st_launch *launch, const uint32_t *of_rank)
{
	size_t size;
	char *text;

	if (st_program_release() < 5)
		return st_why_set(&launch->why, "launcher: Hydra before 5 cannot mix the ranks of nodes as the plan does");
	text = rank_map(of_rank, launch->plan.ranks, &size);
	if (!text)
		return st_why_set(&launch->why, "launcher: too many ranks for a map of Hydra");
	launch->outcome = ST_FAULT;
	return st_set_file(launch, "HYDRA_CONFIG_FILE", text, size);
}

static int hydra_apply(struct st_launch *launch)
{
	uint32_t *of_rank = st_nodes_of_ranks(launch);
	int rc = 0;

	if (!of_rank)
		return st_why_set(&launch->why, "plan: no memory");
	if (!st_in_blocks(of_rank, launch->plan.ranks))
		rc = map_ranks(launch, of_rank);
	free(of_rank);
	return rc;
}

static int intel_apply(struct st_launch *launch)
{
	uint32_t *of_rank = st_nodes_of_ranks(launch);
	bool blocks = of_rank && st_in_blocks(of_rank, launch->plan.ranks);

	free(of_rank);
	if (!blocks)
		return st_why_set(&launch->why, "launcher: Intel MPI cannot mix the ranks of nodes as the plan does");
	/* It would bind the ranks once more, in MPI_Init. */
	setenv("I_MPI_PIN", "0", 1);
	return 0;
}

const struct st_family st_hydra = { "MPICH", "PMI", is_hydra, hydra_next, hydra_wish, hydra_apply };
const struct st_family st_intel = { "Intel MPI", "PMI", is_intel, intel_next, intel_wish, intel_apply };
