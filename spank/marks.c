#include "marks.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "child.h"

#define ITEM "slurm-topo:1 "
#define ANSWER_MAX 262144u

static void copy(const char *value, size_t len, char *into, size_t size)
{
	into[0] = '\0';
	if (len < size) {
		memcpy(into, value, len);
		into[len] = '\0';
	}
}

/* Words `name=value` of the item; Slurm's own fields, which follow it, begin with a capital letter. */
static void parse_item(const char *at, struct st_marks *marks)
{
	char arm[16] = "";

	*marks = (struct st_marks){ .arm = -1 };
	while (*at >= 'a' && *at <= 'z') {
		size_t name = strspn(at, "abcdefghijklmnopqrstuvwxyz_"), value;

		if (at[name] != '=')
			break;
		value = strcspn(at + name + 1, " ;\t\n");
		if (!strncmp(at, "arm=", 4))
			copy(at + 4, value, arm, sizeof(arm));
		else if (!strncmp(at, "keys=", 5))
			copy(at + 5, value, marks->keys, sizeof(marks->keys));
		else if (!strncmp(at, "program=", 8))
			copy(at + 8, value, marks->program, sizeof(marks->program));
		at += name + 1 + value;
		if (*at != ' ')
			break;
		at += strspn(at, " ");
	}
	marks->arm = st_arm_parse(arm);
	marks->found = marks->arm >= 0;
}

void st_marks_parse(const char *text, struct st_marks *marks)
{
	const char *comment = strstr(text, " AdminComment="), *item = NULL;

	*marks = (struct st_marks){ .arm = -1 };
	for (const char *at = comment; at && (at = strstr(at, ITEM)); at += sizeof(ITEM) - 1)
		item = at;
	if (item)
		parse_item(item + sizeof(ITEM) - 1, marks);
}

/* The scontrol of this srun's release is beside it. */
static bool find_scontrol(char *path, size_t size)
{
	const char *folders = getenv("PATH");
	ssize_t n = readlink("/proc/self/exe", path, size - 1);
	char *slash;

	path[n > 0 ? n : 0] = '\0';
	if ((slash = strrchr(path, '/'))) {
		snprintf(slash, size - (size_t)(slash - path), "/scontrol");
		if (access(path, X_OK) == 0)
			return true;
	}
	while (folders && *folders) {
		size_t len = strcspn(folders, ":");

		snprintf(path, size, "%.*s/scontrol", (int)len, folders);
		if (path[0] == '/' && access(path, X_OK) == 0)
			return true;
		folders += len + (folders[len] != '\0');
	}
	return false;
}

int st_marks_ask(uint32_t job, int deadline_ms, struct st_marks *marks, struct st_why *why)
{
	static char oneliner[] = "--oneliner", show[] = "show", word[] = "job";
	char path[PATH_MAX], number[16], *text = NULL;
	char *argv[] = { path, oneliner, show, word, number, NULL };
	struct st_why failure;

	*marks = (struct st_marks){ .arm = -1 };
	if (!find_scontrol(path, sizeof(path)))
		return st_why_set(why, "scontrol: is not beside srun and not in PATH");
	snprintf(number, sizeof(number), "%u", job);
	if (st_child_read(argv, deadline_ms, ANSWER_MAX, &text, &failure) != ST_CHILD_DONE)
		return st_why_set(why, "scontrol: %.150s", failure.text);
	st_marks_parse(text, marks);
	free(text);
	return 0;
}
