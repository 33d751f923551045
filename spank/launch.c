#include "launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "record.h"
#include "search.h"
#include "spool.h"

static int fault(struct st_launch *launch)
{
	launch->outcome = ST_FAULT;
	return -1;
}

bool st_launch_begin(struct st_launch *launch, const struct st_args *args, const char *where)
{
	uint64_t job;

	*launch = (struct st_launch){ .args = args, .where = where, .plans = -1 };
	launch->arm = st_arm_parse(getenv("SLURM_TOPO_JOB_ARM"));
	if (launch->arm <= ST_OFF || st_number(getenv("SLURM_JOB_ID"), UINT32_MAX, &job) < 0)
		return false;
	launch->start = st_clock();
	launch->job = (uint32_t)job;
	launch->graph = getenv("SLURM_TOPO_JOB_GRAPH");
	return access(args->kill_switch, F_OK) < 0;
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
static bool may_place(struct st_launch *launch)
{
	const char *word = getenv("SLURM_TOPO");
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
		st_why_set(&launch->why, "arm");
	} else if (!launch->graph) {
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
	if (may_place(launch) && certain)
		place(launch, apply);
}

static bool is_traced(void)
{
	const char *trace = getenv("SLURM_TOPO_JOB_TRACE");

	return trace && !strcmp(trace, "1");
}

const char *st_launch_decision(const struct st_launch *launch)
{
	switch (launch->outcome) {
	case ST_PLACED:
		return "place";
	case ST_ADVISED:
		return "none";
	case ST_NONE:
		return is_traced() ? "trace" : "none";
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
