#include "advice.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "spool.h"

#define ADVICE_MAX (1u << 20)
#define COMMAND_MAX 65536u

/* Two polynomial hashes whose products stay below 2^53, so that Lua computes the same. */
void st_key_digest(const char *text, size_t size, char *digits)
{
	static const uint64_t primes[] = { UINT64_C(17592186044399), UINT64_C(17592186044299) };

	for (size_t p = 0; p < 2; p++) {
		uint64_t hash = 7;

		for (size_t i = 0; i < size; i++)
			hash = (hash * 257 + (unsigned char)text[i] + 1) % primes[p];
		snprintf(digits + 11 * p, 12, "%011llx", (unsigned long long)hash);
	}
}

static void make_key(char kind, const char *words, uint32_t ranks, char key[ST_KEY_SIZE])
{
	size_t room = strlen(words) + 48;
	char *text = malloc(room);
	int n, m;

	key[0] = '\0';
	if (!text)
		return;
	/* Fields end with a byte 0, so that two texts never read as one. */
	n = snprintf(text, room, "%lu", (unsigned long)geteuid()) + 1;
	memcpy(text + n, words, strlen(words) + 1);
	m = n + (int)strlen(words) + 1;
	n = snprintf(text + m, room - (size_t)m, "%u", ranks);
	key[0] = kind;
	st_key_digest(text, (size_t)(m + n), key + 1);
	free(text);
}

static const char *base_name(const char *word)
{
	const char *slash = strrchr(word, '/');

	return slash ? slash + 1 : word;
}

/* Words joined by blanks, without their folders where `bare`; false where they are too long or there is no memory. free() the text. */
static bool join(char *const *words, size_t count, bool bare, char **text)
{
	size_t size = 1, used = 0;

	for (size_t i = 0; i < count; i++)
		size += strlen(words[i]) + 1;
	*text = size <= COMMAND_MAX ? malloc(size) : NULL;
	if (!*text)
		return false;
	(*text)[0] = '\0';
	for (size_t i = 0; i < count; i++)
		used += (size_t)sprintf(*text + used, "%s%s", i ? " " : "", bare ? base_name(words[i]) : words[i]);
	return true;
}

static bool is_among(const char *word, const char *const *names, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (!strcmp(base_name(word), names[i]))
			return true;
	return false;
}

/* As job_submit does it: an interpreter with its script, a wrapper with all that follows, else the program alone. */
static size_t program_words(char *const *words, size_t count)
{
	static const char *const interpreters[] = { "python", "python2", "python3", "perl", "ruby", "bash", "sh", "zsh", "ksh",
						    "julia", "Rscript", "java", "node", "lua", "matlab", "octave" };
	static const char *const wrappers[] = { "env", "time", "nice", "numactl", "taskset", "hwloc-bind", "singularity",
						"apptainer", "shifter", "podman", "docker", "valgrind", "perf", "nsys", "ncu",
						"gdb", "strace", "ddt", "map", "likwid-pin", "likwid-perfctr", "scalasca",
						"scorep" };
	size_t at = 1;

	if (is_among(words[0], wrappers, sizeof(wrappers) / sizeof(wrappers[0])))
		return count;
	if (!is_among(words[0], interpreters, sizeof(interpreters) / sizeof(interpreters[0])))
		return 1;
	while (at < count && words[at][0] == '-' && strcmp(words[at], "-m") && strcmp(words[at], "-c"))
		at++;
	if (at < count && words[at][0] == '-')
		return count;
	return at < count ? at + 1 : 1;
}

void st_step_keys(char *const *words, uint32_t ranks, struct st_step_keys *keys)
{
	size_t count = 0;
	char *text = NULL;

	*keys = (struct st_step_keys){ .command = "" };
	while (words[count])
		count++;
	if (!count)
		return;
	if (join(words, count, false, &text))
		make_key('c', text, ranks, keys->command);
	free(text);
	if (join(words, program_words(words, count), true, &text))
		make_key('e', text, ranks, keys->executable);
	free(text);
}

void st_program_key(const char *program, uint32_t ranks, char key[ST_KEY_SIZE])
{
	make_key('p', program, ranks, key);
}

/* Digits and a point, whatever the locale says. -1 where it is no number of at most 1. */
static double read_share(const char *text)
{
	double share = 0, unit = 0;

	for (; *text; text++) {
		if (*text == '.' && unit == 0)
			unit = 1;
		else if (!isdigit((unsigned char)*text))
			return -1;
		else if (unit > 0)
			share += (*text - '0') * (unit /= 10);
		else
			share = share * 10 + (*text - '0');
	}
	return share <= 1 ? share : -1;
}

/* "graph=D ranks=N arm=A trace=T" behind the key of a line, in any order. */
static bool read_step(char *words, struct st_advice *advice)
{
	char *rest = NULL;

	for (char *word = strtok_r(words, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
		char *value = strchr(word, '=');
		uint64_t number;

		if (!value)
			return false;
		*value++ = '\0';
		if (!strcmp(word, "graph")) {
			size_t len = strspn(value, "0123456789abcdef");

			if (!strcmp(value, "-"))
				continue;
			if (!len || value[len] || len >= sizeof(advice->graph))
				return false;
			memcpy(advice->graph, value, len + 1);
		} else if (!strcmp(word, "ranks")) {
			if (st_number(value, UINT32_MAX, &number) < 0)
				return false;
			advice->ranks = (uint32_t)number;
		} else if (!strcmp(word, "arm")) {
			if ((advice->arm = st_arm_parse(value)) < 0)
				return false;
		} else if (!strcmp(word, "trace")) {
			advice->trace = !strcmp(value, "1");
		}
	}
	return true;
}

/* The whole file: a header, lines "step KEY ...", and their number at the end. */
static int find(char *text, const char *const *keys, int count, uint32_t ranks, struct st_advice *advice)
{
	char *rest = NULL, *line = strtok_r(text, "\n", &rest);
	double holdout = 0;
	int best = count;
	uint64_t steps = 0, ended = UINT64_MAX;

	if (!line || strcmp(line, "slurm-topo-steps 1"))
		return -1;
	while ((line = strtok_r(NULL, "\n", &rest))) {
		struct st_advice here = { .arm = ST_ENFORCE };

		if (ended != UINT64_MAX)
			return -1;
		if (!strncmp(line, "holdout ", 8)) {
			if ((holdout = read_share(line + 8)) < 0)
				return -1;
			continue;
		}
		if (!strncmp(line, "end ", 4)) {
			if (st_number(line + 4, UINT32_MAX, &ended) < 0)
				return -1;
			continue;
		}
		if (strncmp(line, "step ", 5) || strlen(line) < 5 + ST_KEY_SIZE || line[4 + ST_KEY_SIZE] != ' ')
			return -1;
		steps++;
		for (int i = 0; i < best; i++) {
			if (strncmp(line + 5, keys[i], ST_KEY_SIZE - 1) || strlen(keys[i]) != ST_KEY_SIZE - 1)
				continue;
			if (!read_step(line + 5 + ST_KEY_SIZE, &here))
				return -1;
			if (!here.ranks || here.ranks == ranks) {
				best = i;
				*advice = here;
			}
			break;
		}
	}
	advice->holdout = holdout;
	return ended == steps && best < count ? best : -1;
}

int st_advice_find(const char *spool, const char *const *keys, int count, uint32_t ranks, struct st_advice *advice)
{
	struct st_why ignored;
	int folder = st_spool_open(spool, "advice", false, &ignored), found = -1;
	char *text = NULL;
	size_t size;

	*advice = (struct st_advice){ .arm = ST_ENFORCE };
	if (folder >= 0) {
		text = st_file_read(folder, "steps", ADVICE_MAX, &size, &ignored);
		close(folder);
	}
	if (text && strlen(text) == size)
		found = find(text, keys, count, ranks, advice);
	free(text);
	if (found < 0)
		*advice = (struct st_advice){ .arm = ST_ENFORCE };
	return found;
}

void st_keys_join(const char *job, const struct st_step_keys *keys, char *text, size_t size)
{
	const char *const step[] = { keys->command, keys->executable };
	size_t used = 0;

	text[0] = '\0';
	while (job && *job) {
		size_t len = strcspn(job, ":");

		/* An outer step has left its own there, perhaps; that of the account is not believed in a trace. */
		if (len == ST_KEY_SIZE - 1 && strchr(step[0][0] ? "snu" : "snux", *job) && used + len + 1 < size)
			used += (size_t)snprintf(text + used, size - used, "%s%.*s", used ? ":" : "", (int)len, job);
		job += len + (job[len] != '\0');
	}
	for (size_t i = 0; i < 2; i++)
		if (step[i][0] && used + ST_KEY_SIZE < size)
			used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ":" : "", step[i]);
}
