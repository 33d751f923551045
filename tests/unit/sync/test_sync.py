"""What a pass of sync makes of accounting, traces, records and plans."""

from __future__ import annotations

import pytest

from slurm_topo.history.rows import Filter


def programs(site):
    with site.history() as history:
        return list(history.programs())


def test_traced_job_gives_a_program_with_graph_and_advice(site):
    keys = site.add_job(1, arm="observe")
    site.trace(1, keys)
    result = site.sync()
    assert (result.jobs, result.outcome.traces, result.outcome.warnings) == (1, 1, [])
    (program,) = programs(site)
    assert (program.user, program.account, program.name, program.ranks) == ("ada", "physics", "halo", 8)
    assert sorted(program.keys) == sorted(keys.split(":"))
    advice = site.advice()
    assert set(advice) >= set(keys.split(":"))
    exact = advice[keys.split(":")[0]]
    assert exact == {
        "key": keys.split(":")[0],
        "program": str(program.id),
        "graph": program.graph,
        "ranks": "8",
        "arm": "enforce",
        "holdout": "0.1",
        "trace": "0",
    }
    assert advice[keys.split(":")[-1]]["trace"] == "1"
    assert (site.user_spool / "graphs" / f"{program.graph}.npz").exists()
    assert site.spool_files() == []


def test_bytes_by_level_of_a_traced_job_are_where_the_ranks_were(site):
    site.trace(1, site.add_job(1, arm="observe"))
    site.sync()
    (program,) = programs(site)
    # Ranks r and r + 4 are two nodes apart: every byte crosses both switches.
    assert {level.level: level.nbytes for level in program.before} == {
        "node": 0,
        "switch": 0,
        "switch2": 8000,
    }
    assert program.after == ()
    assert program.cost_before > 0


def test_placed_job_has_both_sides(site):
    site.trace(1, site.add_job(1, arm="observe", end=1_796_090_000))
    site.sync()
    (program,) = programs(site)
    site.add_job(2, seconds=20)
    site.record(
        2,
        "place",
        "cost",
        when=site.now - 119,
        graph=program.graph,
        plan=site.plan(2, program.graph),
        cost=0.5,
        baseline=2.0,
    )
    site.sync()
    (program,) = programs(site)
    assert {level.level: level.nbytes for level in program.before} == {
        "node": 0,
        "switch": 0,
        "switch2": 8000,
    }
    assert {level.level: level.nbytes for level in program.after} == {"node": 8000, "switch": 0, "switch2": 0}
    assert program.cost_after < program.cost_before
    assert [(a.arm, a.placed, a.runs, a.seconds) for a in program.arms] == [
        ("enforce", True, 1, (20.0,)),
        ("observe", False, 1, (60.0,)),
    ]
    with site.history() as history:
        (run,) = [r for r in history.runs() if r.placed]
        (decision,) = history.decisions(run.id)
        assert (decision.decision, decision.step, decision.baseline_name, decision.solver) == (
            "place",
            "0",
            "block:block",
            "bisection",
        )
        assert decision.plan.startswith("slurm-topo-plan 1")
        assert [(r.where, r.decision, r.reason, r.jobs) for r in history.reasons()] == [
            ("launch", "place", "cost", 1)
        ]
    assert site.spool_files() == []


def test_job_that_was_left_alone_is_counted_with_its_reason(site):
    site.add_job(1, comment="project=42; slurm-topo:1 arm=off reason=tasks")
    site.add_job(2)
    site.record(2, "stand-down", "margin", cost=1.0, baseline=1.01)
    site.sync()
    with site.history() as history:
        assert sorted((r.where, r.decision, r.reason, r.jobs) for r in history.reasons()) == [
            ("launch", "stand-down", "margin", 1),
            ("submit", "stand-down", "tasks", 1),
        ]
        assert [r.program for r in history.runs()] == [None, 1]


def test_jobs_of_others_are_stored_without_a_program(site):
    site.add_job(1, comment="")
    site.sync()
    with site.history() as history:
        (run,) = history.runs(Filter(user="ada"))
        assert (run.program, run.arm, run.elapsed_s, run.run_s, run.tasks) == (None, "", 60.0, 60.0, 8)
        assert list(history.runs(Filter(user="bob"))) == []
    assert site.advice() == {}


def test_where_the_ranks_were_is_kept(site):
    site.add_job(1)
    lines = "".join(
        f'{{"format": "slurm-topo-record", "version": 1, "time": 1, "where": "task", "job": 1, "step": "0", '
        f'"node": "n{r + 1}", "rank": {r}, "decision": "place", "cpus": "{r}-{r + 1}"}}\n'
        for r in range(2)
    )
    site.write("records", "1.0.n1.rec", lines)
    site.sync()
    with site.history() as history:
        (run,) = history.runs()
        step = next(s for s in history.steps(run.id) if s.step == "0")
    assert step.bindings == '{"nodes":["n1","n2"],"rank":[[0,"0-1"],[1,"1-2"]]}'


def test_running_job_is_followed_until_it_ends(site):
    keys = site.add_job(1, end=None)
    site.record(1, "place", "cost")
    site.sync()
    assert site.sync().open_jobs == [1]
    assert site.spool_files() == ["records/1.4711.n1.rec"]
    site.now += 86400 * 3
    site.add_job(1, end=site.now - 86400 * 2, seconds=500, submitted=1_796_099_930)
    result = site.sync()
    assert (result.jobs, result.open_jobs, result.outcome.records) == (1, [], 1)
    with site.history() as history:
        (run,) = history.runs()
        assert (run.state, run.elapsed_s, run.decision) == ("COMPLETED", 500.0, "place")
    assert keys


def test_trace_of_an_ended_step_of_a_running_job_is_used_at_once(site):
    keys = site.add_job(1, end=None, arm="observe")
    site.jobs[1][2]["End"] = "2026-12-01T04:20:00"
    site.trace(1, keys)
    site.record(1, "trace", "arm")
    site.sync()
    (program,) = programs(site)
    assert program.graph
    assert site.spool_files() == ["records/1.4711.n1.rec"]


def test_incomplete_trace_is_kept_but_does_not_place(site):
    keys = site.add_job(1, arm="observe")
    site.trace(1, keys, nodes=["n1", "n2", "n4"])
    site.sync()
    (program,) = programs(site)
    assert program.graph is None
    assert site.advice()[keys.split(":")[0]]["trace"] == "1"
    with site.history() as history:
        (step,) = history.traced_steps(program.id)
        assert not step.graph_complete
        assert history.graph(step.graph).ranks == 8


def test_steps_of_the_newest_trace_are_chosen(site):
    keys = site.add_job(1, arm="observe", end=site.now - 5000)
    site.trace(1, keys, nbytes=10**9)
    site.add_job(2, arm="observe", steps=("batch", "0", "1"))
    site.trace(2, keys, step="0", nbytes=10)
    site.trace(2, keys, step="1", nbytes=20)
    site.sync()
    (program,) = programs(site)
    with site.history() as history:
        assert history.graph(program.graph).nbytes == (80 + 160) / 2
        assert len(history.traced_steps(program.id)) == 3


def test_early_failure_does_not_replace_the_graph(site):
    keys = site.add_job(1, arm="observe", end=site.now - 5000)
    site.trace(1, keys, nbytes=1000)
    site.add_job(2, arm="observe", state="FAILED")
    site.trace(2, keys, nbytes=1)
    site.sync()
    (program,) = programs(site)
    with site.history() as history:
        assert history.graph(program.graph).nbytes == 8000


def test_step_without_mpi_is_no_error(site):
    keys = site.add_job(1, arm="observe")
    site.trace_without_ranks(1, keys)
    result = site.sync()
    assert (result.outcome.traces, result.outcome.rejected) == (0, [])
    assert site.spool_files() == []


def test_requeued_job_closes_its_first_run(site):
    site.add_job(1, end=None)
    site.sync()
    site.now += 1000
    site.add_job(1, end=site.now - 10, submitted=site.now - 200)
    site.sync()
    with site.history() as history:
        assert sorted(r.state for r in history.runs()) == ["COMPLETED", "REQUEUED"]
    assert site.sync().open_jobs == []


def test_job_that_accounting_forgot_is_closed(site):
    site.add_job(1, end=None)
    site.sync()
    site.jobs.clear()
    site.sync()
    site.calls.clear()
    site.sync()
    assert not any("--jobs" in call for call in site.calls)


@pytest.mark.parametrize("name", ["1.0.n1.trace", "x.rec", "notes.txt", ".1.0.n1.trace.tmp"])
def test_files_of_unknown_jobs_and_names_stay(site, name):
    site.write("traces", name, b"x")
    site.sync()
    assert site.spool_files() == [f"traces/{name}"]


def test_files_of_a_job_that_never_was_are_set_aside_after_days(site):
    site.write("traces", "7.0.n1.trace", b"x")
    site.now += 3 * 86400
    result = site.sync()
    assert "accounting knows no such job" in result.outcome.rejected[0]
    assert site.spool_files() == ["rejected/7.0.n1.trace"]


def test_job_of_somebody_else_takes_no_files(site):
    site.add_job(7, user="bob", uid=4242)
    site.trace(7)
    site.sync()
    with site.history() as history:
        (run,) = history.runs()
        assert all(step.graph is None for step in history.steps(run.id))
    assert len(site.spool_files()) == 4


def test_times_far_back_are_asked_for_by_id(site):
    keys = site.add_job(1, end=site.now - 30 * 86400, arm="observe")
    site.trace(1, keys)
    site.sync()
    assert programs(site)[0].graph


def test_ranks_of_mpirun_are_put_together_from_both_steps(site):
    """The first node's ranks are in the step of the batch script, the others in that of mpirun's daemons."""
    keys = site.add_job(1, arm="observe")
    site.jobs[1][2]["NTasks"] = "3"
    site.trace(1, keys, step="batch", nodes=["n1"], world="mpirun")
    site.trace(1, keys, step="0", nodes=["n2", "n3", "n4"], world="mpirun")
    site.write("plans", "1-8x1-abc.ranks", "rank 0=n1 slot=0\n")
    site.sync()
    (program,) = programs(site)
    assert (program.ranks, program.before[2].nbytes) == (8, 8000)
    with site.history() as history:
        (step,) = history.traced_steps(program.id)
        assert (step.step, step.graph_complete) == ("batch", True)
    assert site.spool_files() == []


def test_daemons_of_a_running_mpirun_wait_for_the_batch_step(site):
    keys = site.add_job(1, end=None, arm="observe")
    site.jobs[1][2]["End"] = "2026-12-01T04:20:00"
    site.trace(1, keys, step="0", nodes=["n1", "n2", "n3", "n4"])
    (site.user_spool / "traces" / "1.0.n1.trace").unlink()
    site.jobs[1][2]["NNodes"] = "3"
    site.sync()
    assert len(site.spool_files()) == 3
    with site.history() as history:
        assert history.rejected_files() == []
        assert all(s.graph is None for run in history.runs() for s in history.steps(run.id))


def test_launch_by_mpirun_counts_and_its_daemons_do_not(site):
    keys = site.add_job(1, arm="observe", end=site.now - 5000)
    site.trace(1, keys)
    site.sync()
    (program,) = programs(site)
    site.add_job(2)
    plan = site.plan(2, program.graph)
    site.record(2, "place", "cost", where="mpirun", graph=program.graph, plan=plan)
    site.sync()
    site.add_job(3)
    site.record(3, "stand-down", "margin", where="mpirun")
    path = site.user_spool / "records" / "3.4711.n1.rec"
    mine = path.read_text()
    site.record(3, "stand-down", "launcher: orted", when=site.now - 10)
    site.write("records", path.name, mine + path.read_text())
    site.sync()
    with site.history() as history:
        runs = {run.job: run for run in history.runs()}
        assert (runs[2].decision, runs[2].placed) == ("place", True)
        assert (runs[3].decision, runs[3].reason) == ("stand-down", "margin")
        (decision,) = history.decisions(runs[2].id)
        assert (decision.step, decision.source) == ("batch", "mpirun")
        (step,) = [s for s in history.steps(runs[2].id) if s.cost_after is not None]
        assert step.step == "batch"


@pytest.mark.parametrize(
    ("spans", "seconds"),
    [
        ([], None),
        ([(100, 10)], 10.0),
        ([(100, 10), (100, 30), (120, 5)], 30.0),
        ([(100, 10), (200, 10)], 20.0),
        ([(100, 10), (105, 10)], 15.0),
    ],
)
def test_steps_side_by_side_count_once(site, spans, seconds):
    from slurm_topo.history.sync.accounting import busy_seconds
    from slurm_topo.slurm.sacct import parse_sacct

    site.add_job(1, steps=[str(i) for i in range(len(spans))])
    rows = site.jobs[1][1:]
    for row, (start, elapsed) in zip(rows, spans, strict=True):
        row["Start"], row["ElapsedRaw"] = str(start), str(elapsed)
    parsed = parse_sacct(
        "".join("|".join(row.values()) + "\n" for row in rows), list(rows[0]) if rows else ()
    )
    assert busy_seconds(list(parsed) if rows else []) == seconds


def test_program_without_mpi_is_not_traced_for_ever(site):
    for job in range(1, 4):
        keys = site.add_job(job, end=site.now - 5000 + job)
        site.record(job, "trace", "graph unknown")
        site.trace_without_ranks(job, keys)
        assert site.sync().outcome.traces == 0
        assert {a["trace"] for a in site.advice().values()} == {"1" if job < 3 else "0"}
    site.now += 31 * 86400
    site.sync()
    assert {a["trace"] for a in site.advice().values()} == {"1"}


def test_accounting_is_asked_day_by_day(site):
    site.sync()
    windows = [c for c in site.calls if c[0] == "sacct"]
    assert len(windows) == 7
    site.calls.clear()
    site.sync()
    assert len([c for c in site.calls if c[0] == "sacct"]) == 1


def test_user_of_an_accounting_without_numbers_is_looked_up(site):
    import pwd

    entry = pwd.getpwuid(site.uid)
    keys = site.add_job(1, arm="observe", user=entry.pw_name, UID="")
    site.trace(1, keys)
    site.sync()
    assert programs(site)[0].graph
    assert site.spool_files() == []
