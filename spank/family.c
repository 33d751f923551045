#include "family.h"

#include <ctype.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "spool.h"

extern char **environ;

bool st_starts_with(const char *text, const char *const *starts)
{
	for (; *starts; starts++)
		if (!strncmp(text, *starts, strlen(*starts)))
			return true;
	return false;
}

int st_table_next(const struct st_table *table, struct st_cursor *cursor, struct st_option *option, struct st_why *why)
{
	const char *text = cursor->at < cursor->argc ? cursor->argv[cursor->at] : "";
	size_t i;

	if (text[0] != '-' || !text[1])
		return 0;
	text += text[1] == '-' ? 2 : 1;
	for (i = 0; table->rows[i].name; i++)
		if (!strcmp(table->rows[i].name, text))
			break;
	if (!table->rows[i].name)
		return st_why_set(why, "%s option %.60s", table->launcher, cursor->argv[cursor->at]);
	if (cursor->argc - cursor->at <= table->rows[i].arguments)
		return st_why_set(why, "%s option %.60s has no value", table->launcher, cursor->argv[cursor->at]);
	*option = (struct st_option){ .name = table->rows[i].name, .effect = table->rows[i].effect };
	if (table->rows[i].arguments)
		option->value = cursor->argv[cursor->at + 1];
	/* A parameter or a variable, and its value. */
	if (option->effect == ST_NOTHING && option->value && table->is_wish(option->value))
		*option = (struct st_option){ .name = option->value, .effect = ST_USER };
	cursor->at += 1 + table->rows[i].arguments;
	return 1;
}

bool st_environment_wish(const char *const *prefixes, bool (*is_wish)(const char *), struct st_why *why)
{
	for (size_t i = 0; environ[i]; i++)
		for (size_t p = 0; prefixes[p]; p++) {
			size_t len = strlen(prefixes[p]);

			if (!strncmp(environ[i], prefixes[p], len) && is_wish(environ[i] + len)) {
				st_why_set(why, "user: %.*s", (int)strcspn(environ[i], "="), environ[i]);
				return true;
			}
		}
	return false;
}

bool st_file_wish(const char *path, bool (*is_wish)(const char *), struct st_why *why)
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
		line += strspn(line, " \t\r");
		if (*line && *line != '#' && (!is_wish || is_wish(line))) {
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

void st_beside_program(const char *file, char *path, size_t size)
{
	char program[PATH_MAX];
	ssize_t len = readlink("/proc/self/exe", program, sizeof(program) - 1);
	char *slash;

	program[len > 0 ? len : 0] = '\0';
	for (int up = 0; up < 2; up++)
		if ((slash = strrchr(program, '/')))
			*slash = '\0';
	snprintf(path, size, "%s/%s", program, file);
}

uint32_t *st_nodes_of_ranks(const struct st_launch *launch)
{
	const struct st_plan *plan = &launch->plan;
	const struct st_allocation *allocation = &launch->allocation;
	uint32_t *index = calloc(plan->node_count, sizeof(*index)), *of_rank = NULL;

	if (!index || plan->node_count != allocation->nodes)
		goto out;
	/* st_allocation_fits() has seen to it that each is there, and gets a rank. */
	for (uint32_t n = 0; n < plan->node_count; n++)
		while (index[n] < allocation->nodes - 1 && strcmp(allocation->name[index[n]], plan->nodes[n]))
			index[n]++;
	of_rank = malloc(plan->ranks * sizeof(*of_rank));
	for (uint32_t r = 0; of_rank && r < plan->ranks; r++)
		of_rank[r] = index[plan->rank[r].node];
out:
	free(index);
	return of_rank;
}

bool st_in_blocks(const uint32_t *node_of_rank, uint32_t ranks)
{
	for (uint32_t r = 1; r < ranks; r++)
		if (node_of_rank[r] < node_of_rank[r - 1])
			return false;
	return true;
}

char *st_tasks_per_node(const struct st_launch *launch)
{
	uint32_t nodes = launch->allocation.nodes, *of_rank = st_nodes_of_ranks(launch);
	uint32_t *count = calloc(nodes + 1, sizeof(*count));
	size_t room = (size_t)nodes * 24 + 1, used = 0;
	char *text = of_rank && count ? malloc(room) : NULL;

	for (uint32_t r = 0; text && r < launch->plan.ranks; r++)
		count[of_rank[r]]++;
	/* As Slurm writes it: "2(x3),1". */
	for (uint32_t n = 0, same; text && n < nodes; n += same) {
		for (same = 1; n + same < nodes && count[n + same] == count[n];)
			same++;
		used += (size_t)snprintf(text + used, room - used, "%s%u", n ? "," : "", count[n]);
		if (same > 1)
			used += (size_t)snprintf(text + used, room - used, "(x%u)", same);
	}
	free(of_rank);
	free(count);
	return text;
}

int st_set_file(struct st_launch *launch, const char *variable, char *text, size_t size)
{
	char path[32];
	int rc = text ? st_memory_file(text, size, path, sizeof(path), &launch->why) :
			st_why_set(&launch->why, "file in memory: no memory");

	free(text);
	if (rc < 0)
		return -1;
	return setenv(variable, path, 1) == 0 ? 0 : st_why_set(&launch->why, "file in memory: no memory");
}

bool st_is_loaded(const char *part)
{
	char line[PATH_MAX + 128];
	FILE *maps = fopen("/proc/self/maps", "re");
	bool found = false;

	while (maps && !found && fgets(line, sizeof(line), maps))
		found = strstr(line, part) != NULL;
	if (maps)
		fclose(maps);
	return found;
}

/* The file of this program. NULL where it cannot be read; munmap() it. */
static char *map_program(size_t *size)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct stat status;
	void *image = MAP_FAILED;

	if (fd >= 0 && fstat(fd, &status) == 0 && status.st_size > 0) {
		*size = (size_t)status.st_size;
		image = mmap(NULL, *size, PROT_READ, MAP_PRIVATE, fd, 0);
	}
	if (fd >= 0)
		close(fd);
	return image == MAP_FAILED ? NULL : image;
}

bool st_program_has(const char *text)
{
	size_t size;
	char *image = map_program(&size);
	bool found = image && memmem(image, size, text, strlen(text));

	if (image)
		munmap(image, size);
	return found;
}

/* "5.0.2", "4.3b1": digits, a dot, more of both or of letters, up to the byte 0. */
static unsigned release_at(const char *text, const char *end)
{
	const char *at = text;
	unsigned number = 0;

	while (at < end && isdigit((unsigned char)*at) && at - text < 3)
		number = number * 10 + (unsigned)(*at++ - '0');
	if (at == text || at == end || *at++ != '.' || at == end || !isdigit((unsigned char)*at))
		return 0;
	while (at < end && (isalnum((unsigned char)*at) || *at == '.'))
		at++;
	return at < end && !*at && at - text < 16 ? number : 0;
}

unsigned st_program_release(void)
{
	size_t size;
	char *image = map_program(&size);
	unsigned release = 0;

	for (size_t i = 1; image && !release && i < size; i++)
		if (!image[i - 1] && isdigit((unsigned char)image[i]))
			release = release_at(image + i, image + size);
	if (image)
		munmap(image, size);
	return release;
}
