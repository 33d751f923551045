"""What reports ask the history, on rows written by hand."""

from __future__ import annotations

import pytest

from slurm_topo.history import schema
from slurm_topo.history.rows import Filter
from slurm_topo.history.store import open_history

JOBS = [
    # job, program, user, arm, placed, state, ended, run_s, elapsed_s, energy_j
    (1, 1, "ada", "observe", 0, "COMPLETED", 100, 50.0, 60.0, None),
    (2, 1, "ada", "observe", 0, "FAILED", 200, 5.0, 6.0, None),
    (3, 1, "ada", "enforce", 1, "COMPLETED", 300, 20.0, 30.0, 900.0),
    (4, 1, "ada", "enforce", 1, "COMPLETED", 400, None, 31.0, None),
    (5, 1, "ada", "enforce", 0, "RUNNING", None, None, None, None),
    (6, 2, "bob", "enforce", 0, "COMPLETED", 500, 9.0, 9.0, None),
    (7, None, "bob", "", 0, "COMPLETED", 600, None, 1.0, None),
]


@pytest.fixture
def history(tmp_path):
    with open_history(str(tmp_path / "h.sqlite"), create=True) as history:
        with history.writing() as connection:
            for number, user in ((1, "ada"), (2, "bob")):
                values = {"first_seen": 1, "last_seen": 2, "name": f"p{number}", "account": "physics"}
                connection.execute(schema.programs.insert().values(id=number, user_name=user, **values))
            for job, program, user, arm, placed, state, ended, run_s, elapsed_s, energy in JOBS:
                connection.execute(
                    schema.jobs.insert().values(
                        id=job,
                        cluster="lab",
                        job=100 + job,
                        submitted=10 * job,
                        program_id=program,
                        user_name=user,
                        account="physics",
                        partition_name="batch",
                        arm=arm,
                        placed=placed,
                        state=state,
                        ended=ended,
                        run_s=run_s,
                        elapsed_s=elapsed_s,
                        energy_j=energy,
                        final=int(ended is not None),
                        decision="place" if placed else "",
                        reason="cost" if placed else "",
                    )
                )
            for number in (1, 3):
                connection.execute(
                    schema.steps.insert().values(id=number, job_id=number, step="0", cost_before=2.0)
                )
                sides = ("before", "after") if number == 3 else ("before",)
                for side in sides:
                    for depth, level in enumerate(("node", "switch")):
                        connection.execute(
                            schema.traffic.insert().values(
                                step_id=number,
                                side=side,
                                depth=depth,
                                level=level,
                                nbytes=float(number * 10 + depth),
                            )
                        )
        yield history


def test_runs_come_in_order_of_their_end(history):
    assert [run.id for run in history.runs()] == [1, 2, 3, 4, 6, 7, 5]
    assert [run.id for run in history.runs(program_only=True)] == [1, 2, 3, 4, 6, 5]


@pytest.mark.parametrize(
    ("chosen", "ids"),
    [
        (Filter(since=300, until=500), [3, 4]),
        (Filter(until=100), [5]),
        (Filter(user="bob"), [6, 7]),
        (Filter(account="chemistry"), []),
        (Filter(partition="batch", program=2), [6]),
        (Filter(cluster="other"), []),
    ],
)
def test_filters(history, chosen, ids):
    assert sorted(run.id for run in history.runs(chosen)) == ids


def test_time_to_compare_is_that_of_the_steps(history):
    runs = {run.id: run for run in history.runs()}
    assert runs[1].seconds == 50.0
    assert runs[4].seconds == 31.0
    assert [runs[i].completed for i in (1, 2, 5)] == [True, False, False]


def test_programs_are_summed_by_arm(history):
    first, second = history.programs()
    assert [(a.arm, a.placed, a.runs, a.seconds, a.energy_j, a.median_s) for a in first.arms] == [
        ("enforce", False, 0, (), (), None),
        ("enforce", True, 2, (20.0, 31.0), (900.0,), 25.5),
        ("observe", False, 2, (50.0,), (), 50.0),
    ]
    assert (second.name, second.before, second.cost_before) == ("p2", (), None)


def test_both_sides_come_from_one_step(history):
    (program,) = history.programs(Filter(program=1))
    assert [(b.level, b.nbytes) for b in program.before] == [("node", 30.0), ("switch", 31.0)]
    assert [(b.level, b.nbytes) for b in program.after] == [("node", 30.0), ("switch", 31.0)]


def test_program_without_a_run_in_the_filter_is_left_out(history):
    assert [p.id for p in history.programs(Filter(user="bob"))] == [2]


def test_unknown_things_are_none(history):
    assert history.graph("no") is None
    assert history.machine("no") is None
    assert history.state("no") is None
    assert history.rejected_files() == []
    assert history.steps(99) == []
