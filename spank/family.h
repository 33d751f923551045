/*
 * The families of launchers that a batch script may call, one file each: openmpi.c, prrte.c, hydra.c. How one is known,
 * what its options mean, where else a user or a site tells it how to map and bind, and how it is told a plan.
 */
#ifndef ST_FAMILY_H
#define ST_FAMILY_H

#include "launch.h"

struct st_family {
	const char *name;
	/*
	 * Its ranks know themselves by <ranks>_RANK and <ranks>_SIZE, and bind themselves to the plan before main; NULL: the
	 * launcher binds them.
	 */
	const char *ranks;
	bool (*is_this)(void); /* whether this process is it */
	st_option_reader *next;
	bool (*wish)(struct st_why *why);
	/* Tells it the plan. 0, or -1 and why; with ST_STOOD_DOWN in `outcome` that is no fault. */
	int (*apply)(struct st_launch *launch);
};

extern const struct st_family st_openmpi, st_prrte, st_hydra, st_intel;

/* What a family's launcher knows of its command line. */
struct st_table {
	const char *launcher;
	const struct {
		const char *name;
		int arguments;
		enum st_effect effect;
	} *rows; /* without dashes; NULL at the end */
	/* Whether a parameter, or variable, maps, binds or chooses nodes. */
	bool (*is_wish)(const char *parameter);
};

/* What mpirun of Open MPI 4 and that of 5 understand alike. */
#define ST_OPENMPI_ROWS \
	{ "n", 1, ST_NTASKS }, { "np", 1, ST_NTASKS }, { "c", 1, ST_NTASKS }, { "h", 0, ST_INFO }, \
		{ "help", 0, ST_INFO }, { "V", 0, ST_INFO }, { "version", 0, ST_INFO }, { "q", 0, ST_QUIET }, \
		{ "quiet", 0, ST_QUIET }, { "v", 0, ST_NOTHING }, { "verbose", 0, ST_NOTHING }, \
		{ "x", 1, ST_NOTHING }, { "wd", 1, ST_NOTHING }, { "wdir", 1, ST_NOTHING }, \
		{ "tag-output", 0, ST_NOTHING }, { "timestamp-output", 0, ST_NOTHING }, { "stdin", 1, ST_NOTHING }, \
		{ "timeout", 1, ST_NOTHING }, { "report-bindings", 0, ST_NOTHING }, { "display-map", 0, ST_NOTHING }, \
		{ "display-allocation", 0, ST_NOTHING }, { "allow-run-as-root", 0, ST_NOTHING }, \
		{ "mca", 2, ST_NOTHING }, { "gmca", 2, ST_NOTHING }

/* Whether the text begins with one of these (NULL at the end). */
bool st_starts_with(const char *text, const char *const *starts);

/* The next option by the table, one dash or two. Options that it has not are uncertain. */
int st_table_next(const struct st_table *table, struct st_cursor *cursor, struct st_option *option, struct st_why *why);

/* Whether a variable with one of the prefixes (NULL at the end) is a wish by what stands behind the prefix: then why. */
bool st_environment_wish(const char *const *prefixes, bool (*is_wish)(const char *), struct st_why *why);

/*
 * The same of a parameter file: lines "name = value", "#" begins a comment. `is_wish` NULL: every line is one.
 * A file that is not there has none.
 */
bool st_file_wish(const char *path, bool (*is_wish)(const char *), struct st_why *why);

/* <folder>/<file> where folder is that above the program's. */
void st_beside_program(const char *file, char *path, size_t size);

/*
 * For every rank the index of its node in the allocation. NULL where a node of the allocation gets none, or there is
 * no memory. free() it.
 */
uint32_t *st_nodes_of_ranks(const struct st_launch *launch);

/* Whether each node has one block of consecutive ranks, the blocks in the order of the nodes. */
bool st_in_blocks(const uint32_t *node_of_rank, uint32_t ranks);

/* SLURM_TASKS_PER_NODE as the plan has it. NULL as above. free() it. */
char *st_tasks_per_node(const struct st_launch *launch);

/* Puts a file of the text (which is freed) into memory and its path into a variable. */
int st_set_file(struct st_launch *launch, const char *variable, char *text, size_t size);

/* A shared library with this in its path is loaded. */
bool st_is_loaded(const char *part);

/* The file of this program contains the text. */
bool st_program_has(const char *text);

/* The first string of the form "5.0.2" in the file of this program: its first number, 0 where there is none. */
unsigned st_program_release(void);

#endif
