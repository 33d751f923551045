"""First come, first served with EASY backfilling, and nodes picked under as few leaf switches as possible."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from slurm_topo.campaign.centre import Job

# Nodes that a job got from each leaf switch, the most first: all that a placement depends on.
Shape = tuple[int, ...]
RunTime = Callable[[Job, Shape], float]


@dataclass(frozen=True)
class Run:
    """When and where a job ran."""

    job: Job
    start_s: float
    run_s: float
    shape: Shape

    @property
    def end_s(self) -> float:
        """End, in seconds since the first submission."""
        return self.start_s + self.run_s

    @property
    def completion_s(self) -> float:
        """From the submission to the end."""
        return self.end_s - self.job.submit_s


class Nodes:
    """Free nodes by leaf switch."""

    def __init__(self, switches: int, each: int) -> None:
        self.free = [each] * switches

    def take(self, count: int) -> list[int]:
        """Nodes by switch: the fullest switch that has room for all, else as few switches as possible."""
        taken = [0] * len(self.free)
        fitting = [i for i, free in enumerate(self.free) if free >= count]
        if fitting:
            taken[min(fitting, key=lambda i: (self.free[i], i))] = count
        else:
            for i in sorted(range(len(self.free)), key=lambda i: (-self.free[i], i)):
                taken[i] = min(self.free[i], count - sum(taken))
        for i, number in enumerate(taken):
            self.free[i] -= number
        return taken

    def give(self, taken: Sequence[int]) -> None:
        """Nodes come back."""
        for i, number in enumerate(taken):
            self.free[i] += number

    @property
    def idle(self) -> int:
        """Free nodes in all."""
        return sum(self.free)


def schedule(jobs: Sequence[Job], switches: int, each: int, run_time: RunTime) -> list[Run]:
    """Run all jobs; `run_time` is asked when a job starts. Users' estimates are the jobs' own run times.

    Returns
    -------
    list of Run
        In the order of the jobs' numbers.
    """
    nodes = Nodes(switches, each)
    arriving = sorted(jobs, key=lambda job: (job.submit_s, job.number))
    waiting: list[Job] = []
    done: list[Run] = []
    ending: list[tuple[float, int, list[int], float]] = []
    at, clock = 0, 0.0

    def start(job: Job) -> None:
        taken = nodes.take(job.program.nodes)
        shape = tuple(sorted((n for n in taken if n), reverse=True))
        run = Run(job, clock, run_time(job, shape), shape)
        done.append(run)
        heapq.heappush(ending, (run.end_s, job.number, taken, clock + job.run_s))

    while at < len(arriving) or ending or waiting:
        upcoming = [ending[0][0]] if ending else []
        if at < len(arriving):
            upcoming.append(arriving[at].submit_s)
        clock = max(clock, min(upcoming))
        while ending and ending[0][0] <= clock:
            nodes.give(heapq.heappop(ending)[2])
        while at < len(arriving) and arriving[at].submit_s <= clock:
            waiting.append(arriving[at])
            at += 1
        while waiting and waiting[0].program.nodes <= nodes.idle:
            start(waiting.pop(0))
        if waiting:
            _backfill(waiting, nodes, ending, clock, start)
    return sorted(done, key=lambda run: run.job.number)


def _backfill(
    waiting: list[Job],
    nodes: Nodes,
    ending: Sequence[tuple[float, int, list[int], float]],
    clock: float,
    start: Callable[[Job], None],
) -> None:
    """Start what does not delay the first job in the queue, by the run times that were asked for."""
    free, shadow, spare = nodes.idle, clock, 0
    for planned_s, taken in sorted((max(planned, clock), sum(taken)) for _, _, taken, planned in ending):
        free += taken
        if free >= waiting[0].program.nodes:
            shadow, spare = planned_s, free - waiting[0].program.nodes
            break
    for job in waiting[1:]:
        size = job.program.nodes
        if size > nodes.idle:
            continue
        in_time = clock + job.run_s <= shadow
        if in_time or size <= spare:
            if not in_time:
                spare -= size
            waiting.remove(job)
            start(job)
