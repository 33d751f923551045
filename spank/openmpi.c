/* Open MPI 4: its mpirun takes a rank file, and binds the ranks by it. */
#include "family.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Parameters that map, bind or choose nodes; in the environment they have OMPI_MCA_ before them. */
static bool is_wish(const char *parameter)
{
	static const char *const starts[] = { "rmaps", "hwloc_base_", "orte_rankfile", "orte_default_hostfile",
					      "orte_default_dash_host", "orte_cpu_set", "orte_set_slots", "ras", NULL };

	return st_starts_with(parameter, starts);
}

/* Options that change neither the number of ranks nor where they run; all others end in a stand-down. */
static const struct st_table table = {
	.launcher = "mpirun",
	.is_wish = is_wish,
	.rows = (const __typeof__(*table.rows)[]){
		ST_OPENMPI_ROWS,
		{ "output-filename", 1, ST_NOTHING },
		{ "nooversubscribe", 0, ST_NOTHING },
		{ NULL, 0, ST_NOTHING },
	},
};

static int next(struct st_cursor *cursor, struct st_option *option, struct st_why *why)
{
	return st_table_next(&table, cursor, option, why);
}

/* By its run-time library. */
static bool is_openmpi(void)
{
	return st_is_loaded("/libopen-rte.so.40");
}

static bool wish(struct st_why *why)
{
	static const char *const prefixes[] = { "OMPI_MCA_", NULL };
	const char *home = getenv("HOME");
	char path[PATH_MAX + 64];

	if (st_environment_wish(prefixes, is_wish, why))
		return true;
	if (getenv("OMPI_MCA_mca_base_param_files")) {
		st_why_set(why, "user: OMPI_MCA_mca_base_param_files");
		return true;
	}
	snprintf(path, sizeof(path), "%s/.openmpi/mca-params.conf", home ? home : "");
	if (st_file_wish(path, is_wish, why) || st_file_wish("/etc/openmpi/openmpi-mca-params.conf", is_wish, why))
		return true;
	st_beside_program("etc/openmpi-mca-params.conf", path, sizeof(path));
	return st_file_wish(path, is_wish, why);
}

/* The rank file of the plan, in OS numbers of CPUs. NULL where a rank has no CPUs or there is no memory. free() it. */
static char *rank_file(const struct st_plan *plan, size_t *size)
{
	size_t room = 1, used = 0;
	char *text;

	for (uint32_t r = 0; r < plan->ranks; r++) {
		if (!plan->rank[r].cpus.text)
			return NULL;
		room += 32 + strlen(plan->nodes[plan->rank[r].node]) + plan->rank[r].cpus.len;
	}
	text = malloc(room);
	for (uint32_t r = 0; text && r < plan->ranks; r++)
		used += (size_t)snprintf(text + used, room - used, "rank %u=%s slot=%.*s\n", r,
					 plan->nodes[plan->rank[r].node], (int)plan->rank[r].cpus.len,
					 plan->rank[r].cpus.text);
	*size = used;
	return text;
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
	size_t size;
	char *text = rank_file(&launch->plan, &size);

	if (!text)
		return st_why_set(&launch->why, "plan: no CPUs");
	if (check_whole_nodes(launch) < 0) {
		free(text);
		return st_why_set(&launch->why, "shape: mpirun on parts of nodes");
	}
	launch->outcome = ST_FAULT;
	if (st_set_file(launch, "OMPI_MCA_rmaps_rank_file_path", text, size) < 0)
		return -1;
	setenv("OMPI_MCA_rmaps_rank_file_physical", "1", 1);
	return 0;
}

const struct st_family st_openmpi = { "Open MPI 4", NULL, is_openmpi, next, wish, apply };
