/*
 * An MPI program that tells where it ran: ranks OFFSET MEGABYTES ROUNDS FILE-PREFIX
 *
 * Each rank touches MEGABYTES of fresh memory, exchanges 64 KiB ROUNDS times with the ranks OFFSET before and behind it (0: the first
 * with the last, and so on), and writes FILE-PREFIX.<rank>.json: its mask, its memory policy and the NUMA nodes of its pages, as the
 * kernel tells them, and which of the devices /dev/stgpu* it may use.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { BLOCK = 65536, NODES = 64, PAGE = 4096 };

static const char *status_field(const char *name)
{
	static char line[4096];
	FILE *file = fopen("/proc/self/status", "r");
	size_t len = strlen(name);
	const char *found = "";

	while (file && fgets(line, sizeof(line), file))
		if (!strncmp(line, name, len) && line[len] == ':') {
			line[strcspn(line, "\n")] = '\0';
			found = line + len + 2;
			break;
		}
	if (file)
		fclose(file);
	return found;
}

/* The line of numa_maps that holds `address`: the last one that begins at or before it. */
static const char *numa_maps(const void *address)
{
	static char found[4096];
	char line[4096];
	FILE *file = fopen("/proc/self/numa_maps", "r");

	while (file && fgets(line, sizeof(line), file))
		if (strtoul(line, NULL, 16) <= (unsigned long)address) {
			line[strcspn(line, "\n")] = '\0';
			strcpy(found, line);
		}
	if (file)
		fclose(file);
	return found;
}

static void count_pages(char *memory, size_t pages, long count[NODES])
{
	void **address = calloc(pages, sizeof(*address));
	int *where = calloc(pages, sizeof(*where));

	for (size_t i = 0; i < pages; i++)
		address[i] = memory + i * PAGE;
	if (syscall(SYS_move_pages, 0, pages, address, NULL, where, 0) == 0)
		for (size_t i = 0; i < pages; i++)
			if (where[i] >= 0 && where[i] < NODES)
				count[where[i]]++;
	free(address);
	free(where);
}

static void write_environment(FILE *out)
{
	static const char *const names[] = { "SLURM_CPU_BIND", "SLURM_CPU_BIND_LIST", "SLURM_DISTRIBUTION", "OMP_NUM_THREADS",
					     "OMP_PLACES", "GOMP_CPU_AFFINITY", "OMP_PROC_BIND", "LD_PRELOAD",
					     "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK",
					     "SLURM_STEP_GPUS", "SLURM_TOPO_JOB_PLAN",
					     "SLURM_TOPO_JOB_ARM", "SLURM_TOPO_JOB_TRACE" };
	const char *separator = "";

	fprintf(out, "\"environment\": {");
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (getenv(names[i])) {
			fprintf(out, "%s\"%s\": \"%s\"", separator, names[i], getenv(names[i]));
			separator = ", ";
		}
	fprintf(out, "}");
}

/* A device of no driver: ENXIO for those who may use it, EPERM for all others. */
static void write_devices(FILE *out)
{
	const char *separator = "";
	char path[32];

	fprintf(out, "\"devices\": {");
	for (int i = 0; i < 4; i++) {
		int fd;

		snprintf(path, sizeof(path), "/dev/stgpu%d", i);
		fd = open(path, O_RDWR);
		if (fd < 0 && errno == ENOENT)
			continue;
		fprintf(out, "%s\"%d\": \"%s\"", separator, i,
			fd >= 0 || errno == ENXIO ? "usable" : errno == EPERM ? "denied" : strerror(errno));
		separator = ", ";
		if (fd >= 0)
			close(fd);
	}
	fprintf(out, "}, ");
}

static void tell(const char *prefix, int rank, int size, char *memory, size_t bytes)
{
	char path[4096];
	const char *node = getenv("SLURMD_NODENAME"), *job = getenv("SLURM_JOB_ID"), *step = getenv("SLURM_STEP_ID");
	unsigned long nodes[16] = { 0 };
	long pages[NODES] = { 0 };
	const char *separator = "";
	int policy = -1;
	FILE *out;

	count_pages(memory, bytes / PAGE, pages);
	syscall(SYS_get_mempolicy, &policy, nodes, sizeof(nodes) * 8, NULL, 0);
	snprintf(path, sizeof(path), "%s.%d.json", prefix, rank);
	out = fopen(path, "w");
	if (!out)
		MPI_Abort(MPI_COMM_WORLD, 1);
	fprintf(out, "{\"rank\": %d, \"size\": %d, \"node\": \"%s\", \"job\": \"%s\", \"step\": \"%s\", \"cpu\": %d, ", rank, size,
		node ? node : "", job ? job : "", step ? step : "", sched_getcpu());
	fprintf(out, "\"cpus\": \"%s\", ", status_field("Cpus_allowed_list"));
	fprintf(out, "\"mems\": \"%s\", \"policy\": %d, \"policy_mask\": %lu, ", status_field("Mems_allowed_list"), policy, nodes[0]);
	fprintf(out, "\"pages\": {");
	for (int i = 0; i < NODES; i++)
		if (pages[i]) {
			fprintf(out, "%s\"%d\": %ld", separator, i, pages[i]);
			separator = ", ";
		}
	fprintf(out, "}, \"numa_maps\": \"%s\", ", numa_maps(memory));
	write_devices(out);
	write_environment(out);
	fprintf(out, "}\n");
	fclose(out);
}

int main(int argc, char **argv)
{
	static char to[BLOCK], from[BLOCK];
	int rank, size;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	if (argc != 5)
		MPI_Abort(MPI_COMM_WORLD, 2);

	int offset = atoi(argv[1]) % size, rounds = atoi(argv[3]);
	int before = (rank - offset + size) % size, behind = (rank + offset) % size;

	/* Without an offset the first exchanges with the last: what neither block nor cyclic brings together, of few ranks, too. */
	if (!offset)
		before = behind = size - 1 - rank;
	size_t bytes = (size_t)atoi(argv[2]) << 20;
	char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		MPI_Abort(MPI_COMM_WORLD, 3);
	memset(memory, rank + 1, bytes);
	for (int i = 0; i < rounds; i++)
		MPI_Sendrecv(to, BLOCK, MPI_BYTE, behind, 0, from, BLOCK, MPI_BYTE, before, 0, MPI_COMM_WORLD,
			     MPI_STATUS_IGNORE);
	tell(argv[4], rank, size, memory, bytes);
	/* Nobody leaves before all have told: a rank that Slurm sees leaving late ends the others. */
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Finalize();
	return 0;
}
