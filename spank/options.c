#include "options.h"

#include <string.h>

enum { NO, NEED, MAY };

struct entry {
	const char *name;
	char letter;
	char argument;
	enum st_effect effect;
};

/*
 * What srun 22.05, 24.11 and 26.05 hand to getopt_long; `pty` takes no value in the first. getopt's rules (bundles, prefixes, the end at the first other argument) are followed below.
 */
static const struct entry table[] = {
	{ "accel-bind", 0, NEED, ST_USER },
	{ "account", 'A', NEED, ST_NOTHING },
	{ "acctg-freq", 0, NEED, ST_NOTHING },
	{ "async", 0, NO, ST_SHAPE },
	{ "autocomplete", 0, NEED, ST_INFO },
	{ "bb", 0, NEED, ST_NOTHING },
	{ "bbf", 0, NEED, ST_NOTHING },
	{ "bcast", 0, MAY, ST_NOTHING },
	{ "bcast-exclude", 0, NEED, ST_NOTHING },
	{ "begin", 'b', NEED, ST_NOTHING },
	{ "chdir", 'D', NEED, ST_NOTHING },
	{ "cluster", 'M', NEED, ST_SHAPE },
	{ "cluster-constraint", 0, NEED, ST_NOTHING },
	{ "clusters", 'M', NEED, ST_SHAPE },
	{ "comment", 0, NEED, ST_NOTHING },
	{ "compress", 0, MAY, ST_NOTHING },
	{ "consolidate-segments", 0, NO, ST_NOTHING },
	{ "constraint", 'C', NEED, ST_SHAPE },
	{ "container", 0, NEED, ST_SHAPE },
	{ "container-id", 0, NEED, ST_SHAPE },
	{ "container-type", 0, NEED, ST_SHAPE },
	{ "context", 0, NEED, ST_NOTHING },
	{ "contiguous", 0, NO, ST_NOTHING },
	{ "core-spec", 'S', NEED, ST_USER },
	{ "cores-per-socket", 0, NEED, ST_USER },
	{ "cpu-bind", 0, NEED, ST_CPU_BIND },
	{ "cpu-freq", 0, NEED, ST_NOTHING },
	{ "cpu_bind", 0, NEED, ST_CPU_BIND },
	{ "cpus-per-gpu", 0, NEED, ST_SHAPE },
	{ "cpus-per-task", 'c', NEED, ST_CPUS },
	{ "deadline", 0, NEED, ST_NOTHING },
	{ "debugger-test", 0, NO, ST_SHAPE },
	{ "delay-boot", 0, NEED, ST_NOTHING },
	{ "dependency", 'd', NEED, ST_NOTHING },
	{ "disable-status", 'X', NO, ST_NOTHING },
	{ "distribution", 'm', NEED, ST_USER },
	{ "epilog", 0, NEED, ST_NOTHING },
	{ "error", 'e', NEED, ST_NOTHING },
	{ "exact", 0, NO, ST_EXACT },
	{ "exclude", 'x', NEED, ST_USER },
	{ "exclusive", 0, MAY, ST_EXACT },
	{ "export", 0, NEED, ST_NOTHING },
	{ "external-launcher", 0, MAY, ST_SHAPE },
	{ "extra", 0, NEED, ST_NOTHING },
	{ "extra-node-info", 'B', NEED, ST_USER },
	{ "gid", 0, NEED, ST_SHAPE },
	{ "gpu-bind", 0, NEED, ST_USER },
	{ "gpu-freq", 0, NEED, ST_NOTHING },
	{ "gpus", 'G', NEED, ST_SHAPE },
	{ "gpus-per-node", 0, NEED, ST_NOTHING },
	{ "gpus-per-socket", 0, NEED, ST_SHAPE },
	{ "gpus-per-task", 0, NEED, ST_SHAPE },
	{ "gres", 0, NEED, ST_NOTHING },
	{ "gres-flags", 0, NEED, ST_SHAPE },
	{ "help", 'h', NO, ST_INFO },
	{ "het-group", 0, NEED, ST_SHAPE },
	{ "hint", 0, NEED, ST_HINT },
	{ "hold", 'H', NO, ST_NOTHING },
	{ "ignore-signals", 0, NEED, ST_NOTHING },
	{ "immediate", 'I', MAY, ST_NOTHING },
	{ "input", 'i', NEED, ST_NOTHING },
	{ "interactive", 0, NO, ST_INFO },
	{ "job-name", 'J', NEED, ST_NOTHING },
	{ "jobid", 0, NEED, ST_JOBID },
	{ "kill-on-bad-exit", 'K', MAY, ST_NOTHING },
	{ "label", 'l', NO, ST_NOTHING },
	{ "licenses", 'L', NEED, ST_NOTHING },
	{ "mail-type", 0, NEED, ST_NOTHING },
	{ "mail-user", 0, NEED, ST_NOTHING },
	{ "mcs-label", 0, NEED, ST_NOTHING },
	{ "mem", 0, NEED, ST_NOTHING },
	{ "mem-bind", 0, NEED, ST_USER },
	{ "mem-per-cpu", 0, NEED, ST_NOTHING },
	{ "mem-per-gpu", 0, NEED, ST_SHAPE },
	{ "mem-update", 0, NEED, ST_SHAPE },
	{ "mincpus", 0, NEED, ST_NOTHING },
	{ "mpi", 0, NEED, ST_NOTHING },
	{ "msg-timeout", 0, NEED, ST_NOTHING },
	{ "multi-prog", 0, NO, ST_SHAPE },
	{ "network", 0, NEED, ST_NOTHING },
	{ "nice", 0, MAY, ST_NOTHING },
	{ "no-allocate", 'Z', NO, ST_SHAPE },
	{ "no-kill", 'k', MAY, ST_SHAPE },
	{ "nodefile", 'F', NEED, ST_USER },
	{ "nodelist", 'w', NEED, ST_USER },
	{ "nodes", 'N', NEED, ST_NODES },
	{ "ntasks", 'n', NEED, ST_NTASKS },
	{ "ntasks-per-core", 0, NEED, ST_SHAPE },
	{ "ntasks-per-gpu", 0, NEED, ST_SHAPE },
	{ "ntasks-per-node", 0, NEED, ST_PER_NODE },
	{ "ntasks-per-socket", 0, NEED, ST_SHAPE },
	{ "ntasks-per-tres", 0, NEED, ST_SHAPE },
	{ "oom-kill-step", 0, MAY, ST_NOTHING },
	{ "open-mode", 0, NEED, ST_NOTHING },
	{ "output", 'o', NEED, ST_NOTHING },
	{ "overcommit", 'O', NO, ST_SHAPE },
	{ "overlap", 0, MAY, ST_OVERLAP },
	{ "oversubscribe", 's', NO, ST_NOTHING },
	{ "pack-group", 0, NEED, ST_SHAPE },
	{ "parsable", 0, NO, ST_SHAPE },
	{ "partition", 'p', NEED, ST_NOTHING },
	{ "power", 0, NEED, ST_NOTHING },
	{ "prefer", 0, NEED, ST_NOTHING },
	{ "preserve-env", 'E', NO, ST_SHAPE },
	{ "priority", 0, NEED, ST_NOTHING },
	{ "profile", 0, NEED, ST_NOTHING },
	{ "prolog", 0, NEED, ST_NOTHING },
	{ "propagate", 0, MAY, ST_NOTHING },
	{ "pty", 0, MAY, ST_NOTHING },
	{ "qos", 'q', NEED, ST_NOTHING },
	{ "quiet", 'Q', NO, ST_QUIET },
	{ "quit-on-interrupt", 0, NO, ST_NOTHING },
	{ "reboot", 0, NO, ST_NOTHING },
	{ "relative", 'r', NEED, ST_USER },
	{ "reservation", 0, NEED, ST_NOTHING },
	{ "resources", 0, NEED, ST_SHAPE },
	{ "resv-ports", 0, MAY, ST_NOTHING },
	{ "segment", 0, NEED, ST_NOTHING },
	{ "send-libs", 0, MAY, ST_NOTHING },
	{ "signal", 0, NEED, ST_NOTHING },
	{ "slurmd-debug", 0, NEED, ST_NOTHING },
	{ "sockets-per-node", 0, NEED, ST_USER },
	{ "spread-job", 0, NO, ST_SHAPE },
	{ "spread-segments", 0, NO, ST_NOTHING },
	{ "stepmgr", 0, NO, ST_NOTHING },
	{ "switches", 0, NEED, ST_NOTHING },
	{ "task-epilog", 0, NEED, ST_NOTHING },
	{ "task-prolog", 0, NEED, ST_NOTHING },
	{ "tasks-per-node", 0, NEED, ST_PER_NODE },
	{ "test-only", 0, NO, ST_INFO },
	{ "thread-spec", 0, NEED, ST_USER },
	{ "threads", 'T', NEED, ST_NOTHING },
	{ "threads-per-core", 0, NEED, ST_THREADS },
	{ "time", 't', NEED, ST_NOTHING },
	{ "time-min", 0, NEED, ST_NOTHING },
	{ "tmp", 0, NEED, ST_NOTHING },
	{ "topo", 0, NEED, ST_TOPO },
	{ "treewidth", 0, NEED, ST_NOTHING },
	{ "tres-bind", 0, NEED, ST_USER },
	{ "tres-per-task", 0, NEED, ST_SHAPE },
	{ "uid", 0, NEED, ST_SHAPE },
	{ "unbuffered", 'u', NO, ST_NOTHING },
	{ "usage", 0, NO, ST_INFO },
	{ "use-min-nodes", 0, NO, ST_SHAPE },
	{ "verbose", 'v', NO, ST_NOTHING },
	{ "version", 'V', NO, ST_INFO },
	{ "wait", 'W', NEED, ST_NOTHING },
	{ "wait-for-children", 0, NO, ST_NOTHING },
	{ "wckey", 0, NEED, ST_NOTHING },
	{ "whole", 0, NO, ST_NOTHING },
	{ "x11", 0, MAY, ST_NOTHING },
};

#define ENTRIES (sizeof(table) / sizeof(table[0]))

/* The entry of a long option: its full name, or a prefix that only one of them has. */
static const struct entry *find_long(const char *name, size_t len)
{
	const struct entry *found = NULL;

	for (size_t i = 0; i < ENTRIES; i++) {
		if (strncmp(table[i].name, name, len))
			continue;
		if (!table[i].name[len])
			return &table[i];
		if (found)
			found = (const struct entry *)-1;
		else
			found = &table[i];
	}
	return found == (const struct entry *)-1 ? NULL : found;
}

static const struct entry *find_letter(char letter)
{
	for (size_t i = 0; i < ENTRIES; i++)
		if (letter && table[i].letter == letter)
			return &table[i];
	return NULL;
}

/* The argument of an option that needs one and has none attached to it. */
static int take_next(struct st_cursor *cursor, const struct entry *entry, struct st_option *option,
		     struct st_why *why)
{
	if (cursor->at >= cursor->argc)
		return st_why_set(why, "srun option --%s has no value", entry->name);
	option->value = cursor->argv[cursor->at++];
	return 0;
}

static int read_long(struct st_cursor *cursor, const char *text, struct st_option *option, struct st_why *why)
{
	size_t len = strcspn(text, "=");
	const struct entry *entry = find_long(text, len);

	if (!entry)
		return st_why_set(why, "srun option --%.60s is not known", text);
	option->name = entry->name;
	option->effect = entry->effect;
	option->value = text[len] ? text + len + 1 : NULL;
	if (option->value && entry->argument == NO)
		return st_why_set(why, "srun option --%s takes no value", entry->name);
	if (!option->value && entry->argument == NEED && take_next(cursor, entry, option, why) < 0)
		return -1;
	return 1;
}

static int read_letter(struct st_cursor *cursor, struct st_option *option, struct st_why *why)
{
	const char *text = cursor->more;
	const struct entry *entry = find_letter(*text);

	cursor->more = NULL;
	if (!entry)
		return st_why_set(why, "srun option -%.1s is not known", text);
	option->name = entry->name;
	option->effect = entry->effect;
	option->value = NULL;
	if (entry->argument == NO)
		cursor->more = text[1] ? text + 1 : NULL;
	else if (text[1])
		option->value = text + 1;
	else if (entry->argument == NEED && take_next(cursor, entry, option, why) < 0)
		return -1;
	return 1;
}

int st_option_next(struct st_cursor *cursor, struct st_option *option, struct st_why *why)
{
	const char *text;

	if (cursor->more)
		return read_letter(cursor, option, why);
	if (cursor->at >= cursor->argc)
		return 0;
	text = cursor->argv[cursor->at];
	if (text[0] != '-' || !text[1])
		return 0;
	cursor->at++;
	if (!strcmp(text, "--"))
		return 0;
	if (text[1] == '-')
		return read_long(cursor, text + 2, option, why);
	cursor->more = text + 1;
	return read_letter(cursor, option, why);
}
