#include "bind.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Of Linux 5.15; the header may be older. */
#define POLICY_PREFERRED_MANY 5
/* Each costs a file: more than any kernel of a distribution is made for. */
#define MOST_NODES 1024

int st_cpus_now(struct st_set *cpus)
{
	memset(cpus, 0, sizeof(*cpus));
	return syscall(SYS_sched_getaffinity, 0, sizeof(*cpus), cpus) > 0 ? 0 : -1;
}

int st_cpus_bind(const struct st_set *cpus)
{
	return syscall(SYS_sched_setaffinity, 0, sizeof(*cpus), cpus) == 0 ? 0 : -1;
}

int st_cpus_allowed(struct st_set *cpus)
{
	struct st_set before, all;
	int rv;

	if (st_cpus_now(&before) < 0)
		return -1;
	memset(&all, 0xff, sizeof(all));
	/* The kernel cuts the mask to the cpuset of the process. */
	if (st_cpus_bind(&all) < 0) {
		*cpus = before;
		return 0;
	}
	rv = st_cpus_now(cpus);
	if (st_cpus_bind(&before) < 0)
		rv = -1;
	return rv;
}

int st_cpus_of_rank(const struct st_plan *plan, uint32_t rank, const struct st_set *allowed, struct st_set *cpus,
		    struct st_why *why)
{
	if (!plan->rank[rank].cpus.text)
		return st_why_set(why, "plan: no CPUs");
	for (uint32_t r = 0; r < plan->ranks; r++) {
		const struct st_rank *other = &plan->rank[r];
		struct st_set mask;

		if (other->node != plan->rank[rank].node || !other->cpus.text)
			continue;
		if (st_set_parse(other->cpus.text, other->cpus.len, &mask) < 0)
			return st_why_set(why, "plan: damaged");
		st_set_cut(&mask, allowed);
		if (st_set_empty(&mask))
			return st_why_set(why, "cpus: rank %u may use none of %.40s", r, other->cpus.text);
		if (r == rank)
			*cpus = mask;
	}
	return 0;
}

/* Mems_allowed_list of /proc/self/status: what the cpuset of memory grants. */
static int memory_allowed(struct st_set *nodes)
{
	char text[8192], *line;
	int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
	size_t used = 0;
	ssize_t n;

	if (fd < 0)
		return -1;
	while (used < sizeof(text) - 1 && (n = read(fd, text + used, sizeof(text) - 1 - used)) > 0)
		used += (size_t)n;
	close(fd);
	text[used] = '\0';
	line = strstr(text, "\nMems_allowed_list:\t");
	if (!line)
		return -1;
	line = strchr(line, '\t') + 1;
	return st_set_parse(line, strcspn(line, "\n"), nodes);
}

void st_memory_of_rank(const struct st_plan *plan, uint32_t rank, struct st_set *nodes)
{
	const struct st_span *mem = &plan->rank[rank].mem;
	struct st_set allowed;

	memset(nodes, 0, sizeof(*nodes));
	if (!mem->text || st_set_parse(mem->text, mem->len, nodes) < 0)
		return;
	if (memory_allowed(&allowed) < 0)
		memset(&allowed, 0, sizeof(allowed));
	st_set_cut(nodes, &allowed);
}

/* /sys/devices/system/node/node<number>/cpulist. 0, or -1 where it cannot be read whole. */
static int cpus_of_node(unsigned number, struct st_set *cpus)
{
	char path[64], text[4096];
	int fd;
	ssize_t size;

	snprintf(path, sizeof(path), "/sys/devices/system/node/node%u/cpulist", number);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	size = read(fd, text, sizeof(text));
	close(fd);
	/* Memory without CPUs has an empty line. */
	if (size < 2 || size == (ssize_t)sizeof(text) || text[size - 1] != '\n')
		return -1;
	return st_set_parse(text, (size_t)size - 1, cpus);
}

void st_memory_near(const struct st_set *cpus, struct st_set *nodes)
{
	struct st_set allowed, near;

	memset(nodes, 0, sizeof(*nodes));
	if (memory_allowed(&allowed) < 0)
		return;
	for (unsigned n = 0; n < MOST_NODES; n++)
		if (st_set_has(&allowed, n) && cpus_of_node(n, &near) == 0 && st_set_meets(cpus, &near))
			st_set_add(nodes, n);
}

static int set_policy(int mode, const struct st_set *nodes)
{
	/* The kernel reads one bit less than it is told. */
	return syscall(SYS_set_mempolicy, mode, nodes->word, (unsigned long)ST_SET_BITS) == 0 ? 0 : -1;
}

static int prefer(const struct st_set *nodes)
{
	struct st_set first = { { 0 } };
	unsigned n = 0;

	if (st_set_count(nodes) > 1 && set_policy(POLICY_PREFERRED_MANY, nodes) == 0)
		return 0;
	/* Before Linux 5.15 one node can be preferred. */
	while (!st_set_has(nodes, n))
		n++;
	st_set_add(&first, n);
	return set_policy(MPOL_PREFERRED, &first);
}

int st_memory_bind(const struct st_set *nodes, enum st_memory memory)
{
	if (st_set_empty(nodes))
		return -1;
	switch (memory) {
	case ST_MEMORY_PREFERRED:
		return prefer(nodes);
	case ST_MEMORY_BIND:
		return set_policy(MPOL_BIND, nodes);
	case ST_MEMORY_INTERLEAVE:
		return set_policy(MPOL_INTERLEAVE, nodes);
	case ST_MEMORY_PLAN:
	case ST_MEMORY_NONE:
		break;
	}
	return 0;
}
