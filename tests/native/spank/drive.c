/* Runs one part of the plugin for a test. DRIVE names the part; the arguments are those of the part. */
#include <linux/mempolicy.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "advice.h"
#include "allocation.h"
#include "args.h"
#include "bind.h"
#include "child.h"
#include "collect.h"
#include "devices.h"
#include "fake_spank.h"
#include "family.h"
#include "marks.h"
#include "plan.h"
#include "preload.h"
#include "record.h"
#include "shape.h"
#include "spool.h"

extern char **environ;
spank_t fake_handle(void);

static char *read_file(const char *path, size_t *size)
{
	FILE *stream = fopen(path, "rb");
	char *data = malloc((32u << 20) + 1);

	*size = stream ? fread(data, 1, 32u << 20, stream) : 0;
	data[*size] = '\0';
	if (stream)
		fclose(stream);
	return data;
}

static char *copy(const char *data, size_t size)
{
	/* Exactly as large as promised, so that a sanitizer sees every read behind it. */
	char *text = malloc(size + 1);

	memcpy(text, data, size);
	text[size] = '\0';
	return text;
}

static int parse(const char *data, size_t size, struct st_why *why)
{
	struct st_plan plan;
	int rc = st_plan_parse(&plan, copy(data, size), size, why);

	st_plan_free(&plan);
	return rc;
}

static int drive_plan(char **argv)
{
	struct st_plan plan;
	struct st_why why;
	size_t size;
	char *data = read_file(argv[1], &size);
	int rc = st_plan_parse(&plan, copy(data, size), size, &why);

	free(data);
	if (rc < 0)
		printf("error %s\n", why.text);
	else {
		printf("job %u ranks %u cpus %u place %d reason %s cost %g baseline %g nodes %u\n", plan.job, plan.ranks,
		       plan.cpus_per_task, plan.place, plan.reason, plan.cost, plan.baseline, plan.node_count);
		printf("variant %s memory %d\n", plan.variant[0] ? plan.variant : "-", plan.memory);
		for (uint32_t r = 0; plan.rank && r < plan.ranks; r++)
			printf("rank %u %s cpus=%.*s\n", r, plan.nodes[plan.rank[r].node], (int)plan.rank[r].cpus.len,
			       plan.rank[r].cpus.text ? plan.rank[r].cpus.text : "");
	}
	st_plan_free(&plan);
	return 0;
}

/* Every prefix but the whole must be refused. */
static int drive_prefixes(char **argv)
{
	struct st_why why;
	size_t size;
	char *data = read_file(argv[1], &size);
	size_t accepted = 0;

	for (size_t n = 0; n < size; n++)
		accepted += parse(data, n, &why) == 0;
	printf("prefixes %zu accepted %zu whole %d\n", size, accepted, parse(data, size, &why));
	free(data);
	return 0;
}

/* Random bytes in random places: nothing may break, whatever is accepted. */
static int drive_mutations(char **argv)
{
	struct st_why why;
	size_t size, accepted = 0;
	char *data = read_file(argv[1], &size);
	unsigned count = (unsigned)atoi(argv[3]);

	srand((unsigned)atoi(argv[2]));
	for (unsigned i = 0; i < count; i++) {
		char *text = copy(data, size);

		for (int flips = 1 + rand() % 3; flips; flips--) {
			static const char digits[] = "0123456789-, \n=\0Z";
			text[(size_t)rand() % size] = rand() % 2 ? (char)rand() : digits[rand() % 17];
		}
		accepted += parse(text, size, &why) == 0;
		free(text);
	}
	printf("mutations %u accepted %zu\n", count, accepted);
	free(data);
	return 0;
}

static int drive_args(int argc, char **argv)
{
	struct st_args args;
	struct st_why why;

	if (st_args_parse(argc - 1, argv + 1, &args, &why) < 0)
		printf("error %s\n", why.text);
	else
		printf("spool %s local_dir %s tracer %s place %s config %s kill %s deadline %d collect %d memory %d gpus %d openmp %d\n", args.spool,
		       args.local_dir, args.tracer ? args.tracer : "-", args.place ? args.place : "-",
		       args.config ? args.config : "-", args.kill_switch, args.deadline_ms, args.collect_ms, args.memory, args.gpus, args.openmp);
	return 0;
}

static int drive_shape(st_option_reader *next)
{
	struct st_shape shape;
	struct st_why why = { "certain" };
	int argc;
	char **argv = st_command_line(&argc);
	int rc = st_shape_read(argc, argv, next, &shape, &why);

	printf("%d %s\n", rc, why.text);
	printf("ntasks %u cpus %u nodes %u per_node %u all %d exact %d overlap %d one_thread %d quiet %d info %d topo %s\n", shape.ntasks,
	       shape.cpus, shape.nodes, shape.per_node, shape.all_nodes, shape.exact, shape.overlap, shape.one_thread, shape.quiet, shape.info,
	       shape.topo < 0 ? "-" : st_arm_name(shape.topo));
	free(argv);
	return 0;
}

/* FAMILY: openmpi, where it is not given. */
static const struct st_family *family(void)
{
	const char *name = getenv("FAMILY") ? getenv("FAMILY") : "openmpi";

	return !strcmp(name, "prrte") ? &st_prrte :
	       !strcmp(name, "hydra") ? &st_hydra :
	       !strcmp(name, "intel") ? &st_intel :
					&st_openmpi;
}

static int drive_wish(void)
{
	struct st_why why = { "none" };

	family()->wish(&why);
	printf("%s\n", why.text);
	return 0;
}

/* list, name, room */
static int drive_preload(char **argv)
{
	size_t size = (size_t)atoi(argv[3]);
	char *into = malloc(size);

	printf("%d %s\n", st_preload_drop(argv[1], argv[2], into, size), into);
	free(into);
	return 0;
}

static int drive_allocation(void)
{
	struct st_allocation allocation;
	struct st_why why;

	if (st_allocation_read(&allocation, &why) < 0)
		printf("error %s\n", why.text);
	else
		for (uint32_t i = 0; i < allocation.nodes; i++)
			printf("%s %u\n", allocation.name[i], allocation.cpus[i]);
	st_allocation_free(&allocation);
	return 0;
}

/* Random command lines of known and unknown words: nothing may break. */
static int drive_fuzz_shape(char **argv)
{
	static const char *const words[] = { "-n",     "4",	"-N",	   "2",	  "--ntasks=4", "--cpu-bind", "=",	"-",
					     "--",     ":",	"-mca",	   "btl", "--topo=off", "./app",      "--nod",	"-lK",
					     "-n4-m8", "--x11", "--ex=1",  "-c1", "",		"-np",	      "-Q",	"--t" };
	unsigned count = (unsigned)atoi(argv[2]), certain = 0;

	srand((unsigned)atoi(argv[1]));
	for (unsigned i = 0; i < count; i++) {
		struct st_shape shape;
		struct st_why why;
		char *line[12] = { strdup("srun") };
		int words_of_line = 1 + rand() % 10;

		for (int w = 1; w <= words_of_line; w++) {
			line[w] = strdup(words[(size_t)rand() % (sizeof(words) / sizeof(words[0]))]);
			if (*line[w] && rand() % 8 == 0)
				line[w][(size_t)rand() % strlen(line[w])] = (char)(1 + rand() % 255);
		}
		certain += st_shape_read(words_of_line + 1, line, st_option_next, &shape, &why) == 0;
		st_shape_read(words_of_line + 1, line, family()->next, &shape, &why);
		for (int w = 0; w <= words_of_line; w++)
			free(line[w]);
	}
	printf("certain %u of %u\n", certain, count);
	return 0;
}

/* Random node lists and counts. */
static int drive_fuzz_allocation(char **argv)
{
	static const char letters[] = "n[]-,0123(x)9 a";
	unsigned count = (unsigned)atoi(argv[2]), understood = 0;

	srand((unsigned)atoi(argv[1]));
	for (unsigned i = 0; i < count; i++) {
		struct st_allocation allocation;
		struct st_why why;
		char text[2][24] = { "n[1-3]", "2(x3)" };

		for (int flips = rand() % 5; flips; flips--) {
			char *one = text[rand() % 2];

			one[(size_t)rand() % strlen(one)] = letters[(size_t)rand() % (sizeof(letters) - 1)];
		}
		setenv("SLURM_JOB_NODELIST", text[0], 1);
		setenv("SLURM_JOB_CPUS_PER_NODE", text[1], 1);
		understood += st_allocation_read(&allocation, &why) == 0;
		st_allocation_free(&allocation);
	}
	printf("understood %u of %u\n", understood, count);
	return 0;
}

static int drive_fits(char **argv)
{
	struct st_allocation allocation;
	struct st_shape shape = { .per_node = (uint32_t)atoi(argv[2]), .all_nodes = atoi(argv[3]) };
	struct st_plan plan;
	struct st_why why;
	size_t size;
	char *data = read_file(argv[1], &size);
	int rc = st_plan_parse(&plan, data, size, &why);

	if (rc == 0)
		rc = st_allocation_read(&allocation, &why);
	if (rc == 0)
		rc = st_allocation_fits(&allocation, &plan, &shape, &why);
	printf("%s\n", rc < 0 ? why.text : "fits");
	if (rc == 0) {
		char *hosts = st_host_file(&plan, &size);

		fwrite(hosts, 1, size, stdout);
		free(hosts);
	}
	st_allocation_free(&allocation);
	st_plan_free(&plan);
	return 0;
}

static int drive_child(char **argv)
{
	struct st_why why = { "" };
	char *extra[] = { getenv("EXTRA"), NULL };
	int end = st_child_run(argv + 2, extra, atoi(argv[1]), &why);

	printf("%d %s\n", end, why.text);
	return 0;
}

/* Keys of the words behind the number of ranks. */
static int drive_keys(char **argv)
{
	struct st_step_keys keys;
	char program[ST_KEY_SIZE], text[128];
	uint32_t ranks = (uint32_t)atoi(argv[1]);

	st_step_keys(argv + 2, ranks, &keys);
	st_program_key("12", ranks, program);
	st_keys_join(getenv("KEYS"), &keys, text, sizeof(text));
	printf("%s\n%s\n%s\n%s\n", keys.command, keys.executable, program, text);
	return 0;
}

static int drive_marks(char **argv)
{
	struct st_marks marks;

	st_marks_parse(argv[1], &marks);
	printf("%d %s keys=%s program=%s\n", marks.found, st_arm_name(marks.arm), marks.keys, marks.program);
	return 0;
}

static int drive_spool(char **argv)
{
	struct st_why why = { "" };
	int folder = st_spool_open(argv[1], argv[2], atoi(argv[3]), &why);
	const char *verb = argv[4];

	if (folder < 0) {
		printf("error %s\n", why.text);
		return 0;
	}
	if (!strcmp(verb, "read")) {
		size_t size = 0;
		char *data = st_file_read(folder, argv[5], 1000, &size, &why);

		printf("%s %s\n", data ? data : "error", why.text);
		free(data);
	} else {
		int rc = strcmp(verb, "write") ? st_file_append(folder, argv[5], argv[6], strlen(argv[6]), &why) :
						 st_file_write(folder, argv[5], argv[6], strlen(argv[6]), &why);

		printf("%d %s\n", rc, why.text);
	}
	close(folder);
	return 0;
}

static int drive_record(char **argv)
{
	struct st_record record;

	st_record_begin(&record, "srun");
	for (int i = 1; argv[i] && argv[i + 1]; i += 2)
		st_record_text(&record, argv[i], argv[i + 1]);
	st_record_real(&record, "cost", 0.125);
	st_record_real(&record, "left_out", -1);
	fwrite(record.text, 1, st_record_end(&record), stdout);
	return 0;
}

/* visible, known ("-": none), gpus, isolate */
static int drive_devices(char **argv)
{
	struct st_span gpus = { argv[3], (uint32_t)strlen(argv[3]) };
	char list[64];
	int rc = st_devices_order(argv[1], strcmp(argv[2], "-") ? argv[2] : NULL, &gpus, atoi(argv[4]), list, sizeof(list));

	printf("%s\n", rc < 0 ? "refused" : list);
	return 0;
}

static char *split(char *text, char **words, int *count)
{
	for (char *word = strtok(text, " "); word; word = strtok(NULL, " "))
		words[(*count)++] = word;
	return text;
}

int slurm_spank_init(spank_t spank, int argc, char **argv);
int slurm_spank_task_init(spank_t spank, int argc, char **argv);
int slurm_spank_exit(spank_t spank, int argc, char **argv);

/* The lines of a file that only this process can open. */
static void print_file(const char *path)
{
	size_t size;
	char *data = read_file(path, &size);

	for (char *line = strtok(data, "\n"); line; line = strtok(NULL, "\n"))
		printf("host %s\n", line);
	free(data);
}

static void print_binding(void)
{
	struct st_set cpus;
	unsigned long nodes[64] = { 0 };
	int mode = -1;
	char list[256];

	st_cpus_now(&cpus);
	st_set_format(&cpus, list, sizeof(list));
	printf("cpus %s\n", list);
	syscall(SYS_get_mempolicy, &mode, nodes, 4096UL, NULL, 0UL);
	printf("policy %d nodes %lx\n", mode, nodes[0]);
}

/* A whole entry point; the plugin's arguments are in FAKE_ARGS. */
static int drive_plugin(const char *phase)
{
	char *words[16], *text = strdup(getenv("FAKE_ARGS") ? getenv("FAKE_ARGS") : "");
	int count = 0, rc;
	const char *context = getenv("FAKE_CONTEXT");

	split(text, words, &count);
	fake.context = !context || !strcmp(context, "remote") ? S_CTX_REMOTE :
		       !strcmp(context, "local")     ? S_CTX_LOCAL :
		       !strcmp(context, "allocator") ? S_CTX_ALLOCATOR :
						       S_CTX_SLURMD;
	fake_load(phase);
	if (!strcmp(phase, "started")) {
		/* srun outside of a job: what it learns of its allocation stands in LATER_*. */
		fake.phase = "init";
		slurm_spank_init(fake_handle(), count, words);
		fake.phase = phase;
		for (size_t i = 0; environ[i]; i++)
			if (!strncmp(environ[i], "LATER_", 6))
				putenv(environ[i] + 6);
	}
	rc = !strcmp(phase, "init")	 ? slurm_spank_init(fake_handle(), count, words) :
	     !strcmp(phase, "started")	 ? slurm_spank_local_user_init(fake_handle(), count, words) :
	     !strcmp(phase, "task_init") ? slurm_spank_task_init(fake_handle(), count, words) :
					   slurm_spank_exit(fake_handle(), count, words);
	printf("rc %d\n", rc);
	if (fake.option) {
		printf("option %s\n", fake.option->name);
		if (getenv("FAKE_OPTION"))
			printf("callback %d\n", fake.option->cb(0, getenv("FAKE_OPTION"), fake.context == S_CTX_REMOTE));
		free(fake.option);
	}
	if (!strcmp(phase, "init") || !strcmp(phase, "started"))
		for (size_t i = 0; environ[i]; i++)
			if (!strncmp(environ[i], "SLURM", 5))
				printf("now %s\n", environ[i]);
	if (!strcmp(phase, "init") && getenv("SLURM_HOSTFILE"))
		print_file(getenv("SLURM_HOSTFILE"));
	if (!strcmp(phase, "task_init"))
		print_binding();
	fake_print();
	free(text);
	return 0;
}

/* In place of the tracer's collector: writes down who it runs as. FAKE_COLLECT=hang never ends. */
int st_collect(const char *dir, const char *out_path, const struct st_collect_meta *meta, char *reason, size_t size)
{
	const char *wish = getenv("FAKE_COLLECT") ? getenv("FAKE_COLLECT") : "";
	FILE *out;
	uid_t real, effective, saved;
	gid_t groups[64];

	if (!strcmp(wish, "hang")) {
		char half[4096];

		/* As the collector names what it has not finished. */
		snprintf(half, sizeof(half), "%s.%ld.tmp", out_path, (long)getpid());
		fclose(fopen(half, "w"));
		for (;;)
			pause();
	}
	snprintf(reason, size, "the disk is full");
	if (!strcmp(wish, "fail") || !(out = fopen(out_path, "w")))
		return -1;
	getresuid(&real, &effective, &saved);
	fprintf(out, "%u %u %u groups %d back %d\n%s\n", real, effective, saved, getgroups(64, groups),
		setresuid(0, 0, 0) == 0, dir);
	fprintf(out, "%s %s %s %s %s %u %d\n", meta->job, meta->step, meta->node, meta->keys, meta->plan, meta->nodes,
		meta->end_ns == 0);
	fclose(out);
	return 0;
}

int main(int argc, char **argv)
{
	const char *part = getenv("DRIVE");

	if (!part)
		return 2;
	if (!strcmp(part, "plan"))
		return drive_plan(argv);
	if (!strcmp(part, "prefixes"))
		return drive_prefixes(argv);
	if (!strcmp(part, "mutations"))
		return drive_mutations(argv);
	if (!strcmp(part, "args"))
		return drive_args(argc, argv);
	if (!strcmp(part, "shape"))
		return drive_shape(st_option_next);
	if (!strcmp(part, "mpirun-shape"))
		return drive_shape(family()->next);
	if (!strcmp(part, "fuzz-shape"))
		return drive_fuzz_shape(argv);
	if (!strcmp(part, "fuzz-allocation"))
		return drive_fuzz_allocation(argv);
	if (!strcmp(part, "mpirun-wish"))
		return drive_wish();
	if (!strcmp(part, "preload"))
		return drive_preload(argv);
	if (!strcmp(part, "allocation"))
		return drive_allocation();
	if (!strcmp(part, "fits"))
		return drive_fits(argv);
	if (!strcmp(part, "child"))
		return drive_child(argv);
	if (!strcmp(part, "spool"))
		return drive_spool(argv);
	if (!strcmp(part, "keys"))
		return drive_keys(argv);
	if (!strcmp(part, "marks"))
		return drive_marks(argv);
	if (!strcmp(part, "record"))
		return drive_record(argv);
	if (!strcmp(part, "devices"))
		return drive_devices(argv);
	return drive_plugin(part);
}
