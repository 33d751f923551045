#include "openmpi.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

/* Options that change neither the number of ranks nor where they run; all others end in a stand-down. */
static const struct {
	const char *name;
	int arguments;
	enum st_effect effect;
} table[] = {
	{ "n", 1, ST_NTASKS },
	{ "np", 1, ST_NTASKS },
	{ "c", 1, ST_NTASKS },
	{ "h", 0, ST_INFO },
	{ "help", 0, ST_INFO },
	{ "V", 0, ST_INFO },
	{ "version", 0, ST_INFO },
	{ "q", 0, ST_QUIET },
	{ "quiet", 0, ST_QUIET },
	{ "v", 0, ST_NOTHING },
	{ "verbose", 0, ST_NOTHING },
	{ "x", 1, ST_NOTHING },
	{ "wd", 1, ST_NOTHING },
	{ "wdir", 1, ST_NOTHING },
	{ "tag-output", 0, ST_NOTHING },
	{ "timestamp-output", 0, ST_NOTHING },
	{ "output-filename", 1, ST_NOTHING },
	{ "stdin", 1, ST_NOTHING },
	{ "timeout", 1, ST_NOTHING },
	{ "report-bindings", 0, ST_NOTHING },
	{ "display-map", 0, ST_NOTHING },
	{ "display-allocation", 0, ST_NOTHING },
	{ "nooversubscribe", 0, ST_NOTHING },
	{ "allow-run-as-root", 0, ST_NOTHING },
	{ "mca", 2, ST_NOTHING },
	{ "gmca", 2, ST_NOTHING },
};

/* Parameters that map, bind or choose nodes; in the environment they have OMPI_MCA_ before them. */
static bool is_wish(const char *parameter)
{
	static const char *const prefixes[] = { "rmaps", "hwloc_base_", "orte_rankfile", "orte_default_hostfile",
						"orte_default_dash_host", "orte_cpu_set", "orte_set_slots", "ras" };

	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
		if (!strncmp(parameter, prefixes[i], strlen(prefixes[i])))
			return true;
	return false;
}

int st_openmpi_next(struct st_cursor *cursor, struct st_option *option, struct st_why *why)
{
	const char *text = cursor->at < cursor->argc ? cursor->argv[cursor->at] : "";
	size_t i;

	if (text[0] != '-' || !text[1])
		return 0;
	/* One dash or two: the same to mpirun. */
	text += text[1] == '-' ? 2 : 1;
	for (i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (!strcmp(table[i].name, text))
			break;
	if (i == sizeof(table) / sizeof(table[0]))
		return st_why_set(why, "mpirun option %.60s", cursor->argv[cursor->at]);
	if (cursor->argc - cursor->at <= table[i].arguments)
		return st_why_set(why, "mpirun option %.60s has no value", cursor->argv[cursor->at]);
	*option = (struct st_option){ .name = table[i].name, .effect = table[i].effect };
	if (table[i].arguments)
		option->value = cursor->argv[cursor->at + 1];
	if (table[i].arguments == 2 && is_wish(option->value))
		*option = (struct st_option){ .name = option->value, .effect = ST_USER };
	cursor->at += 1 + table[i].arguments;
	return 1;
}

/* A line of a parameter file: "name = value", blanks before it, "#" begins a comment. */
static bool file_has_wish(const char *path, struct st_why *why)
{
	char text[65536];
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t size = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (fd >= 0)
		close(fd);
	if (size < 0)
		return false;
	text[size] = '\0';
	for (char *line = text; *line;) {
		size_t len = strcspn(line, "\n");
		bool last = !line[len];

		line[len] = '\0';
		line += strspn(line, " \t");
		if (is_wish(line)) {
			line[strcspn(line, " \t=")] = '\0';
			st_why_set(why, "user: %.60s in %.100s", line, path);
			return true;
		}
		if (last)
			break;
		line += strlen(line) + 1;
	}
	return false;
}

static bool environment_has_wish(struct st_why *why)
{
	for (size_t i = 0; environ[i]; i++)
		if (!strncmp(environ[i], "OMPI_MCA_", 9) && is_wish(environ[i] + 9)) {
			st_why_set(why, "user: %.*s", (int)strcspn(environ[i], "="), environ[i]);
			return true;
		}
	return false;
}

bool st_openmpi_wish(struct st_why *why)
{
	const char *home = getenv("HOME"), *files = getenv("OMPI_MCA_mca_base_param_files");
	char path[PATH_MAX + 64], program[PATH_MAX];
	ssize_t size = readlink("/proc/self/exe", program, sizeof(program) - 1);
	char *slash;

	if (environment_has_wish(why))
		return true;
	if (files) {
		st_why_set(why, "user: OMPI_MCA_mca_base_param_files");
		return true;
	}
	snprintf(path, sizeof(path), "%s/.openmpi/mca-params.conf", home ? home : "");
	if (file_has_wish(path, why) || file_has_wish("/etc/openmpi/openmpi-mca-params.conf", why))
		return true;
	program[size > 0 ? size : 0] = '\0';
	for (int up = 0; up < 2; up++)
		if ((slash = strrchr(program, '/')))
			*slash = '\0';
	snprintf(path, sizeof(path), "%s/etc/openmpi-mca-params.conf", program);
	return file_has_wish(path, why);
}

char *st_openmpi_rank_file(const struct st_plan *plan, size_t *size)
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
