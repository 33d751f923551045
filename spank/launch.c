#include "launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "marks.h"
#include "record.h"
#include "search.h"
#include "spool.h"

static int fault(struct st_launch *launch)
{
	launch->outcome = ST_FAULT;
	return -1;
}

/* What does not depend on the marks. False outside a job, and with the kill switch. */
static bool begin(struct st_launch *launch, const struct st_args *args, const char *where)
{
	uint64_t job;

	*launch = (struct st_launch){ .args = args, .where = where, .plans = -1, .arm = -1 };
	if (st_number(getenv("SLURM_JOB_ID"), UINT32_MAX, &job) < 0)
		return false;
	launch->start = st_clock();
	launch->job = (uint32_t)job;
	return access(args->kill_switch, F_OK) < 0;
}

static bool is_one(const char *name)
{
	const char *value = getenv(name);

	return value && !strcmp(value, "1");
}

bool st_launch_begin(struct st_launch *launch, const struct st_args *args, const char *where)
{
	int arm = st_arm_parse(getenv("SLURM_TOPO_JOB_ARM"));
	const char *program = getenv("SLURM_TOPO_JOB_PROGRAM"), *keys = getenv("SLURM_TOPO_JOB_KEYS");

	if (arm <= ST_OFF || !begin(launch, args, where))
		return false;
	launch->arm = arm;
	launch->traced = is_one("SLURM_TOPO_JOB_TRACE");
	snprintf(launch->program, sizeof(launch->program), "%s", program ? program : "");
	snprintf(launch->keys, sizeof(launch->keys), "%s", keys ? keys : "");
	return true;
}

bool st_launch_ask(struct st_launch *launch, const struct st_args *args, const char *where)
{
	struct st_marks marks;

	if (!begin(launch, args, where))
		return false;
	launch->interactive = true;
	if (st_marks_ask(launch->job, args->deadline_ms, &marks, &launch->why) < 0)
		return true;
	if (!marks.found || marks.arm == ST_OFF)
		return false;
	launch->arm = marks.arm;
	snprintf(launch->program, sizeof(launch->program), "%s", marks.program);
	snprintf(launch->keys, sizeof(launch->keys), "%s", marks.keys);
	return true;
}

/* The job's own graph, where it is one of so many ranks. */
static const char *job_graph(const struct st_launch *launch)
{
	const char *graph = getenv("SLURM_TOPO_JOB_GRAPH");
	uint64_t ranks;

	if (launch->interactive || !graph)
		return NULL;
	if (st_number(getenv("SLURM_TOPO_JOB_RANKS"), UINT32_MAX, &ranks) < 0)
		ranks = launch->shape.job_ntasks;
	return ranks == launch->shape.ntasks ? graph : NULL;
}

/* The same share of the launches of a program stays in observe as of the jobs; drawn once a job and program. */
static bool is_held_out(const struct st_launch *launch, const char *key)
{
	char text[64], digits[ST_KEY_SIZE];
	int n = snprintf(text, sizeof(text), "%u %s", launch->job, key);

	/* Twice: after one pass the draws of neighbours would be neighbours. */
	st_key_digest(text, (size_t)n, digits);
	st_key_digest(digits, strlen(digits), digits);
	digits[19] = '\0';
	return (double)strtoul(digits + 11, NULL, 16) / 4294967296.0 < launch->advice.holdout;
}

/* The step's own advice: of this command, of the job's program, of this executable. Its key, NULL where there is none. */
static const char *own_advice(struct st_launch *launch, const struct st_step_keys *keys, char *program_key)
{
	const char *const order[] = { keys->command, program_key, keys->executable };
	int found;

	program_key[0] = '\0';
	if (launch->program[0])
		st_program_key(launch->program, launch->shape.ntasks, program_key);
	found = st_advice_find(launch->args->spool, order, 3, launch->shape.ntasks, &launch->advice);
	/* Not known, or with other arguments, which may mean other traffic: this run tells. */
	if (found < 0 || found == 2)
		launch->advice.trace = found < 0 || launch->advice.graph[0] || launch->advice.trace;
	return found < 0 ? NULL : order[found];
}

void st_launch_learn(struct st_launch *launch, bool certain, char *const *words)
{
	struct st_step_keys keys = { .command = "" };
	char program_key[ST_KEY_SIZE], text[sizeof(launch->keys)];
	const char *found;

	if (words && words[0])
		st_step_keys(words, launch->shape.ntasks, &keys);
	st_keys_join(launch->keys, &keys, text, sizeof(text));
	memcpy(launch->keys, text, sizeof(text));
	launch->graph = job_graph(launch);
	if (launch->graph)
		return;
	found = own_advice(launch, &keys, program_key);
	if (found && launch->advice.graph[0])
		launch->graph = launch->advice.graph;
	/* A job of a program that was traced in vain, in its own shape, is left alone. */
	if (!launch->interactive && launch->shape.ntasks == launch->shape.job_ntasks)
		return;
	launch->traced |= launch->advice.trace && certain && words;
	if (!launch->interactive || !found)
		return;
	if (launch->advice.arm < launch->arm)
		launch->arm = launch->advice.arm;
	if (launch->arm > ST_OBSERVE && launch->graph && !launch->program[0] && is_held_out(launch, found)) {
		launch->arm = ST_OBSERVE;
		launch->held_out = true;
	}
}

/* Steps that share a job by --exact would all be placed on the same best CPUs, unless one of them takes all. */
static int check_room(struct st_launch *launch)
{
	uint64_t cpus = 0;

	for (uint32_t n = 0; n < launch->allocation.nodes; n++)
		cpus += launch->allocation.cpus[n];
	if (launch->shape.exact && (uint64_t)launch->shape.ntasks * launch->shape.cpus < cpus)
		return st_why_set(&launch->why, "shape: exact");
	return 0;
}

/* The plan of this launch, and what follows from it. */
static int place(struct st_launch *launch, int (*apply)(struct st_launch *))
{
	if (st_allocation_read(&launch->allocation, &launch->why) < 0 || check_room(launch) < 0)
		return -1;
	if (st_search(launch) < 0)
		return fault(launch);
	if (!launch->plan.place) {
		st_why_set(&launch->why, "%s", launch->plan.reason);
		/* What st_search() remembered of a failure. */
		return strncmp(launch->plan.reason, "place-", 6) ? -1 : fault(launch);
	}
	if (st_allocation_fits(&launch->allocation, &launch->plan, &launch->shape, &launch->why) < 0)
		return fault(launch);
	if (launch->arm < ST_ENFORCE) {
		launch->outcome = ST_ADVISED;
		st_why_set(&launch->why, "advise");
		return 0;
	}
	launch->outcome = ST_FAULT;
	if (apply(launch) < 0)
		return -1;
	launch->outcome = ST_PLACED;
	st_why_set(&launch->why, "%s", launch->plan.reason);
	return 0;
}

/* Everything up to the question whether there is something to place: true where there is. */
static bool may_place(struct st_launch *launch, bool certain)
{
	const char *word = getenv("SLURM_TOPO");
	/* In the first run of a job nothing is known of it, whatever its steps look like. */
	bool first = !launch->interactive && !getenv("SLURM_TOPO_JOB_GRAPH");
	int user = launch->shape.topo >= 0 ? launch->shape.topo : word ? st_arm_parse(word) : ST_ENFORCE;

	if (user < launch->arm)
		launch->arm = user < 0 ? ST_OFF : user;
	if (user < 0) {
		launch->outcome = ST_FAULT;
		st_why_set(&launch->why, "SLURM_TOPO=%.40s is none of off, observe, advise, enforce", word);
	} else if (launch->arm == ST_OFF) {
		st_why_set(&launch->why, "user: topo off");
	} else if (launch->arm == ST_OBSERVE) {
		launch->outcome = ST_NONE;
		st_why_set(&launch->why, launch->held_out ? "holdout" : "arm");
	} else if (!launch->graph && (certain || first)) {
		launch->outcome = ST_NONE;
		st_why_set(&launch->why, "graph unknown");
	} else {
		return true;
	}
	return false;
}

void st_launch_decide(struct st_launch *launch, bool certain, int (*apply)(struct st_launch *))
{
	launch->outcome = ST_STOOD_DOWN;
	/* Without an arm slurmctld did not answer: what may be done is not known, and nobody has asked for anything. */
	if (launch->arm >= 0 && may_place(launch, certain) && certain)
		place(launch, apply);
	launch->traced &= launch->arm >= ST_OBSERVE && launch->args->tracer;
}

const char *st_launch_decision(const struct st_launch *launch)
{
	switch (launch->outcome) {
	case ST_PLACED:
		return "place";
	case ST_ADVISED:
		return "none";
	case ST_NONE:
		return launch->traced ? "trace" : "none";
	case ST_STOOD_DOWN:
	case ST_FAULT:
		break;
	}
	return "stand-down";
}

/* 0, or -1 and why. */
static int write_record(const struct st_launch *launch, struct st_why *why)
{
	struct st_record record;
	char host[65] = "", file[128], plan[PATH_MAX + 8];
	int folder = st_spool_open(launch->args->spool, "records", true, why), rc;

	if (folder < 0)
		return -1;
	gethostname(host, sizeof(host) - 1);
	host[strcspn(host, "./")] = '\0';
	snprintf(file, sizeof(file), "%u.%ld.%s.rec", launch->job, (long)getpid(), host);
	snprintf(plan, sizeof(plan), "%s.plan", launch->path);
	st_record_begin(&record, launch->where);
	st_record_count(&record, "job", launch->job);
	st_record_count(&record, "ranks", launch->shape.ntasks);
	st_record_text(&record, "arm", st_arm_name(launch->arm));
	st_record_text(&record, "decision", st_launch_decision(launch));
	st_record_text(&record, "reason", launch->why.text);
	st_record_text(&record, "graph", launch->graph);
	if (launch->traced)
		st_record_count(&record, "traced", 1);
	st_record_text(&record, "search", launch->plan.text && launch->plan.search[0] ? launch->plan.search : NULL);
	st_record_text(&record, "plan", launch->plan.text ? plan : NULL);
	st_record_text(&record, "variant", launch->plan.variant[0] ? launch->plan.variant : NULL);
	if (launch->plan.text && launch->outcome != ST_FAULT) {
		st_record_real(&record, "cost", launch->plan.cost);
		st_record_real(&record, "baseline", launch->plan.baseline);
	}
	st_record_real(&record, "seconds", st_clock() - launch->start);
	rc = st_file_append(folder, file, record.text, st_record_end(&record), why);
	close(folder);
	return rc;
}

void st_launch_report(const struct st_launch *launch, struct st_why *line)
{
	struct st_why why;
	int rc = write_record(launch, &why);

	line->text[0] = '\0';
	if (launch->shape.quiet)
		return;
	if (launch->outcome == ST_FAULT)
		st_why_set(line, "slurm-topo: stood down: %.150s", launch->why.text);
	else if (rc < 0)
		st_why_set(line, "slurm-topo: not recorded: %.150s", why.text);
}

void st_launch_end(struct st_launch *launch)
{
	if (launch->plans >= 0)
		close(launch->plans);
	st_plan_free(&launch->plan);
	st_allocation_free(&launch->allocation);
}
