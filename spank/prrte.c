/*
 * Open MPI 5: its mpirun starts prterun, which is PRRTE 3. It can take a rank file only in logical numbers of a node's
 * cores, which nobody here knows; so it is told the node of every rank, and the ranks bind themselves.
 */
#include "family.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Parameters that map, bind or choose nodes: PRRTE's own, and those of Open MPI 4 that it still takes. */
static bool is_wish(const char *parameter)
{
	static const char *const starts[] = { "rmaps", "hwloc_", "ras", "prte_default_hostfile", "default_hostfile",
					      "prte_set_slots", "set_slots", "orte_rankfile", "orte_default_hostfile",
					      "orte_default_dash_host", "orte_cpu_set", "orte_set_slots", "prte_cpu_set",
					      "LD_PRELOAD", NULL };

	return st_starts_with(parameter, starts);
}

static const struct st_table table = {
	.launcher = "mpirun",
	.is_wish = is_wish,
	.rows = (const __typeof__(*table.rows)[]){
		ST_OPENMPI_ROWS,
		{ "output", 1, ST_NOTHING },
		{ "display", 1, ST_NOTHING },
		{ "prtemca", 2, ST_NOTHING },
		{ "pmixmca", 2, ST_NOTHING },
		{ NULL, 0, ST_NOTHING },
	},
};

static int next(struct st_cursor *cursor, struct st_option *option, struct st_why *why)
{
	return st_table_next(&table, cursor, option, why);
}

static bool is_prrte(void)
{
	return st_is_loaded("/libprrte.so.3");
}

static bool wish(struct st_why *why)
{
	static const char *const prefixes[] = { "PRTE_MCA_", "OMPI_MCA_", NULL };
	static const char *const home_files[] = { ".prte/mca-params.conf", ".openmpi/mca-params.conf" };
	static const char *const files[] = { "etc/prte-mca-params.conf", "etc/openmpi-mca-params.conf" };
	const char *home = getenv("HOME");
	char path[PATH_MAX + 64];

	if (st_environment_wish(prefixes, is_wish, why))
		return true;
	if (getenv("PRTE_MCA_mca_base_param_files") || getenv("OMPI_MCA_mca_base_param_files")) {
		st_why_set(why, "user: mca_base_param_files");
		return true;
	}
	for (size_t i = 0; home && i < sizeof(home_files) / sizeof(home_files[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", home, home_files[i]);
		if (st_file_wish(path, is_wish, why))
			return true;
	}
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		st_beside_program(files[i], path, sizeof(path));
		if (st_file_wish(path, is_wish, why))
			return true;
	}
	st_beside_program("etc/prte-default-hostfile", path, sizeof(path));
	return st_file_wish(path, NULL, why);
}

static int apply(struct st_launch *launch)
{
	size_t size;
	char *hosts = st_host_file(&launch->plan, &size);

	launch->outcome = ST_FAULT;
	if (st_set_file(launch, "PRTE_MCA_prte_default_hostfile", hosts, size) < 0)
		return -1;
	/* A line of the host file for each rank, one after another. */
	setenv("PRTE_MCA_rmaps_default_mapping_policy", "seq", 1);
	setenv("PRTE_MCA_hwloc_default_binding_policy", "none", 1);
	return 0;
}

const struct st_family st_prrte = { "Open MPI 5", "OMPI_COMM_WORLD", is_prrte, next, wish, apply };
