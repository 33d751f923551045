"""The simulated scheduler: never more than there is, and backfilling that delays nobody."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_topo.campaign.centre import Job, Program
from slurm_topo.campaign.patterns import halo
from slurm_topo.campaign.scheduler import Nodes, Run, Shape, schedule

GRAPH = halo(2, axes=1)


def job(number: int, submit_s: float, run_s: float, nodes: int) -> Job:
    return Job(number, submit_s, run_s, Program(f"p{nodes}", "halo", GRAPH, "d", 0.3, nodes))


def as_asked(job: Job, shape: Shape) -> float:
    return job.run_s


@st.composite
def workloads(draw: st.DrawFn) -> list[Job]:
    times = draw(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 30), st.integers(1, 6)), max_size=30))
    return [job(number, submit, run, nodes) for number, (submit, run, nodes) in enumerate(times)]


def busy(runs: list[Run], at: float) -> int:
    return sum(run.job.program.nodes for run in runs if run.start_s <= at < run.end_s)


@settings(deadline=None)
@given(workloads())
def test_all_jobs_run_on_nodes_that_are_there(jobs: list[Job]) -> None:
    runs = schedule(jobs, 2, 3, as_asked)
    assert [run.job.number for run in runs] == [job.number for job in jobs]
    for run in runs:
        assert run.start_s >= run.job.submit_s
        assert sum(run.shape) == run.job.program.nodes
        assert max(run.shape) <= 3
        assert busy(runs, run.start_s) <= 6


@settings(deadline=None)
@given(workloads())
def test_backfilling_does_not_delay_the_head_of_the_queue(jobs: list[Job]) -> None:
    """No job starts later than it would if each waited for all before it."""
    runs = schedule(jobs, 1, 6, as_asked)
    strict = _in_order(jobs)
    first_waiting = next(
        (
            run
            for run in sorted(runs, key=lambda r: (r.job.submit_s, r.job.number))
            if run.start_s > run.job.submit_s
        ),
        None,
    )
    if first_waiting:
        assert first_waiting.start_s <= strict[first_waiting.job.number] + 1e-9


def _in_order(jobs: list[Job]) -> dict[int, float]:
    started: dict[int, float] = {}
    running: list[tuple[float, int]] = []
    clock = 0.0
    for one in sorted(jobs, key=lambda j: (j.submit_s, j.number)):
        clock = max(clock, one.submit_s)
        while 6 - sum(n for end, n in running if end > clock) < one.program.nodes:
            clock = min(end for end, _ in running if end > clock)
        started[one.number] = clock
        running.append((clock + one.run_s, one.program.nodes))
    return started


def test_a_small_job_fills_a_hole() -> None:
    jobs = [job(0, 0, 10, 4), job(1, 1, 10, 6), job(2, 2, 5, 2), job(3, 2, 50, 2)]
    runs = schedule(jobs, 2, 3, as_asked)
    assert [run.start_s for run in runs] == [0, 10, 2, 20]


def test_nodes_come_from_one_switch_where_they_fit() -> None:
    nodes = Nodes(3, 4)
    assert nodes.take(3) == [3, 0, 0]
    # The fullest switch with room.
    assert nodes.take(1) == [1, 0, 0]
    assert nodes.take(6) == [0, 4, 2]
    nodes.give([0, 4, 2])
    assert nodes.idle == 8
