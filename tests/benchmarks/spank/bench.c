/* Times the plugin's parts inside one process. argv: runs, ranks, nodes, folder with a spool. Prints microseconds. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "fake_spank.h"
#include "plan.h"

int slurm_spank_init(spank_t spank, int argc, char **argv);
int slurm_spank_task_init(spank_t spank, int argc, char **argv);
spank_t fake_handle(void);

int st_collect(const char *dir, const char *out, const void *meta, char *reason, size_t size);
int st_collect(const char *dir, const char *out, const void *meta, char *reason, size_t size)
{
	(void)dir, (void)out, (void)meta, (void)reason, (void)size;
	return 0;
}

static char *words[8];
static int count;

static double init(int runs)
{
	double start = st_clock();

	fake.context = S_CTX_LOCAL;
	fake.phase = "init";
	for (int i = 0; i < runs; i++) {
		slurm_spank_init(fake_handle(), count, words);
		free(fake.option);
		unsetenv("SLURM_HOSTFILE");
		unsetenv("SLURM_DISTRIBUTION");
	}
	return (st_clock() - start) / runs * 1e6;
}

static double task(int runs)
{
	double spent = 0;

	for (int i = 0; i < runs; i++) {
		double start;

		fake.context = S_CTX_REMOTE;
		fake_load("task_init");
		start = st_clock();
		slurm_spank_task_init(fake_handle(), count, words);
		spent += st_clock() - start;
		for (size_t e = 0; fake.environment[e]; e++)
			free(fake.environment[e]);
		memset(fake.environment, 0, sizeof(fake.environment));
	}
	return spent / runs * 1e6;
}

int main(int argc, char **argv)
{
	int runs = argc > 1 ? atoi(argv[1]) : 100;
	const char *plan;

	for (char *word = strtok(strdup(getenv("FAKE_ARGS")), " "); word && count < 8; word = strtok(NULL, " "))
		words[count++] = word;
	unsetenv("SLURM_TOPO_JOB_ARM");
	printf("srun, nothing to do: %.2f\n", init(runs));
	printf("task, nothing to do: %.2f\n", task(runs));
	setenv("SLURM_TOPO_JOB_ARM", "enforce", 1);
	init(1);
	plan = getenv("SLURM_TOPO_JOB_PLAN");
	printf("srun, plan known: %.2f\n", init(runs));
	printf("task, placed: %.2f\n", plan ? task(runs) : -1.0);
	return 0;
}
