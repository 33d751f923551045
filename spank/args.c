#include "args.h"

#include <string.h>

#define MILLISECONDS_MAX 60000

static const char *const gpus_names[] = { "order", "isolate", "none", NULL };
static const char *const mpirun_names[] = { "none", "place", NULL };
static const char *const openmp_names[] = { "none", "set", NULL };

static int parse_word(const char *value, const char *const *names)
{
	for (int i = 0; names[i]; i++)
		if (!strcmp(value, names[i]))
			return i;
	return -1;
}

/* LD_PRELOAD separates at blanks and colons, so such a path could not be written there. */
static int parse_path(const char *value, const char **path)
{
	if (value[0] != '/' || strpbrk(value, ": \t\n"))
		return -1;
	*path = value;
	return 0;
}

static int parse_value(const char *name, size_t len, const char *value, struct st_args *args)
{
	const struct {
		const char *name;
		const char **path;
	} paths[] = {
		{ "spool", &args->spool },   { "local_dir", &args->local_dir },
		{ "tracer", &args->tracer }, { "place", &args->place },
		{ "config", &args->config }, { "kill_switch", &args->kill_switch },
	};
	const struct {
		const char *name;
		uint64_t least;
		int *number;
	} numbers[] = { { "deadline_ms", 0, &args->deadline_ms }, { "collect_ms", 100, &args->collect_ms } };
	uint64_t number;
	int word;

	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
		if (strlen(paths[i].name) == len && !strncmp(paths[i].name, name, len))
			return parse_path(value, paths[i].path);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		if (strlen(numbers[i].name) != len || strncmp(numbers[i].name, name, len))
			continue;
		if (st_number(value, MILLISECONDS_MAX, &number) < 0 || number < numbers[i].least)
			return -1;
		*numbers[i].number = (int)number;
		return 0;
	}
	if (len == 6 && !strncmp(name, "memory", len) && (word = st_memory_parse(value)) >= 0)
		return args->memory = (enum st_memory)word, 0;
	if (len == 4 && !strncmp(name, "gpus", len) && (word = parse_word(value, gpus_names)) >= 0)
		return args->gpus = (enum st_gpus)word, 0;
	if (len == 6 && !strncmp(name, "mpirun", len) && (word = parse_word(value, mpirun_names)) >= 0)
		return args->mpirun = word, 0;
	if (len == 6 && !strncmp(name, "openmp", len) && (word = parse_word(value, openmp_names)) >= 0)
		return args->openmp = word, 0;
	return -1;
}

int st_args_parse(int argc, char **argv, struct st_args *args, struct st_why *why)
{
	*args = (struct st_args){
		.spool = "/var/spool/slurm-topo",
		.local_dir = "/dev/shm",
		.kill_switch = "/etc/slurm-topo/disabled",
		.deadline_ms = 3000,
		.collect_ms = 2000,
		.mpirun = true,
		.openmp = true,
	};
	for (int i = 0; i < argc; i++) {
		const char *equals = strchr(argv[i], '=');

		if (!equals || parse_value(argv[i], (size_t)(equals - argv[i]), equals + 1, args) < 0)
			return st_why_set(why,
					  "plugstack.conf: argument %.60s is not one of spool=, local_dir=, tracer=, "
					  "place=, config=, kill_switch= (absolute paths), deadline_ms=, collect_ms= (100 to "
					  "60000), memory=, gpus=, openmp=, mpirun=",
					  argv[i]);
	}
	return 0;
}
