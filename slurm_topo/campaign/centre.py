"""The centre of the simulation: its nodes, its jobs and the programs that they run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from slurm_topo.campaign.patterns import all_to_all, halo, many_to_one, mesh, multigrid, pencils
from slurm_topo.errors import InputError
from slurm_topo.model import CommGraph
from slurm_topo.slurm.recorded import read_accounting_file
from slurm_topo.trace import graph_digest

# Every 5th percentile of the jobs of at least 4 processors and a minute in the log HPC2N-2002 of the Parallel
# Workloads Archive (first 3,170 jobs, 240 processors): processors, minutes, seconds between submissions.
PROCESSORS = (4, 4, 8, 8, 8, 12, 16, 16, 16, 16, 18, 20, 20, 20, 24, 24, 32, 32, 36, 64, 128)
MINUTES = (
    *(1.0, 1.0, 2.1, 5.1, 8.0, 10.7, 12.5, 13.2, 15.4, 21.2, 30.5, 50.1, 66.5, 94.1, 121.6, 193.2, 293.3),
    *(427.3, 516.6, 778.5, 4321.1),
)
SECONDS_BETWEEN = (
    *(0, 0, 0, 0, 0, 2, 4, 8, 27, 67, 132, 189, 268, 435, 597, 842, 1224, 2181, 3788, 7770, 43200),
)
LOG_PROCESSORS = 240
LEAST_PROCESSORS, LEAST_SECONDS = 4, 60.0
# What the programs of a CFD centre are like: (kind, share). An assumption, see docs/campaign.md.
KINDS: tuple[tuple[str, float], ...] = (
    ("halo", 0.30),
    ("halo with corners", 0.15),
    ("mesh, bisection order", 0.15),
    ("mesh, arbitrary order", 0.15),
    ("multigrid", 0.10),
    ("FFT pencils", 0.08),
    ("all-to-all", 0.04),
    ("many-to-one", 0.03),
)
_MAKERS: Mapping[str, Callable[[int, int], CommGraph]] = {
    "halo": lambda ranks, seed: halo(ranks, axes=2 if seed % 4 == 0 else 3),
    "halo with corners": lambda ranks, seed: halo(ranks, corners=True, periodic=bool(seed % 2)),
    "mesh, bisection order": lambda ranks, seed: mesh(ranks, seed),
    "mesh, arbitrary order": lambda ranks, seed: mesh(ranks, seed, "arbitrary"),
    "multigrid": lambda ranks, seed: multigrid(ranks),
    "FFT pencils": lambda ranks, seed: pencils(ranks),
    "all-to-all": lambda ranks, seed: all_to_all(ranks),
    "many-to-one": lambda ranks, seed: many_to_one(ranks),
}


@dataclass(frozen=True)
class Request:
    """What somebody submits: seconds since the first submission, seconds to run, share of the machine."""

    submit_s: float
    run_s: float
    share: float


@dataclass(frozen=True, eq=False)
class Program:
    """A program of the centre.

    Attributes
    ----------
    share : float
        Part of its run time that is communication with Slurm's own distribution on a compact allocation.
    nodes : int
        Nodes of each of its jobs.
    """

    name: str
    kind: str
    graph: CommGraph
    digest: str
    share: float
    nodes: int


@dataclass(frozen=True)
class Job:
    """One job of the campaign; run_s is with Slurm's own distribution on a compact allocation."""

    number: int
    submit_s: float
    run_s: float
    program: Program


def read_requests(path: str | Path, count: int) -> list[Request]:
    """The first jobs of a log (SWF, or sacct's text or JSON) that ran at least a minute on 4 processors.

    Raises
    ------
    InputError
        The file cannot be read or has no such job.
    """
    found: list[tuple[float, float, int]] = []
    most = 0
    for row in read_accounting_file(path):
        if row.step or not row.cpus or not row.elapsed_s or row.submitted is None:
            continue
        most = max(most, row.cpus)
        if row.elapsed_s >= LEAST_SECONDS and row.cpus >= LEAST_PROCESSORS and len(found) < count:
            found.append((float(row.submitted), row.elapsed_s, row.cpus))
    if not found:
        raise InputError(f"{path}: no job of a minute on {LEAST_PROCESSORS} processors; give another log")
    found.sort()
    return [Request(submit - found[0][0], run, cpus / (2 * most)) for submit, run, cpus in found]


def draw_requests(count: int, random: np.random.Generator) -> list[Request]:
    """Jobs with the distributions of the log that this file quotes, drawn independently of one another."""

    def draw(quantiles: Sequence[float]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return np.interp(random.random(count), np.linspace(0, 1, len(quantiles)), quantiles)

    submit = np.cumsum(draw(SECONDS_BETWEEN))
    sizes, minutes = draw(PROCESSORS), draw(MINUTES)
    return [
        Request(float(s - submit[0]), float(m) * 60, float(n) / LOG_PROCESSORS)
        for s, m, n in zip(submit, minutes, sizes, strict=True)
    ]


def make_programs(
    count: int,
    sizes: Mapping[int, int],
    cores: int,
    shares: tuple[float, float],
    random: np.random.Generator,
    traced: Sequence[tuple[str, CommGraph]] = (),
) -> list[Program]:
    """The centre's programs: at least one for each size, more for sizes that many jobs have.

    Parameters
    ----------
    count : int
        Programs that are made.
    sizes : mapping of int to int
        Nodes of a job -> number of jobs.
    cores : int
        Cores of a node; a rank each.
    shares : (float, float)
        Communication takes a share of the run time between these.
    traced : sequence of (name, CommGraph)
        Programs with graphs of their own, beside the made ones.
    """
    kinds, weights = zip(*KINDS, strict=True)
    jobs = sum(sizes.values())
    made: list[Program] = []
    for nodes, number in sorted(sizes.items()):
        for _ in range(max(1, round(count * number / jobs))):
            kind, seed = str(random.choice(kinds, p=weights)), int(random.integers(1 << 30))
            graph = _MAKERS[kind](nodes * cores, seed)
            made.append(_program(f"{kind} {nodes * cores} #{len(made)}", kind, graph, nodes, shares, random))
    for name, graph in traced:
        nodes = -(-graph.ranks // cores)
        made.append(_program(name, "traced", graph, nodes, shares, random))
    return made


def _program(
    name: str,
    kind: str,
    graph: CommGraph,
    nodes: int,
    shares: tuple[float, float],
    random: np.random.Generator,
) -> Program:
    return Program(name, kind, graph, graph_digest(graph), float(random.uniform(*shares)), nodes)


def make_jobs(
    requests: Sequence[Request],
    nodes: int,
    largest: int,
    make: Callable[[Mapping[int, int]], list[Program]],
    random: np.random.Generator,
) -> list[Job]:
    """A program for each request, among those of its size: some run often, some seldom.

    Parameters
    ----------
    nodes : int
        Nodes of the machine.
    largest : int
        Most nodes of a job.
    make : callable
        Programs from {nodes: number of jobs}.
    """
    wanted = [max(1, min(largest, round(request.share * nodes))) for request in requests]
    programs = make({size: wanted.count(size) for size in set(wanted)})
    by_size: dict[int, list[Program]] = {}
    for program in programs:
        by_size.setdefault(program.nodes, []).append(program)
    jobs = []
    for number, (request, size) in enumerate(zip(requests, wanted, strict=True)):
        known = by_size[size]
        often = 1.0 / np.arange(1, len(known) + 1)
        program = known[int(random.choice(len(known), p=often / often.sum()))]
        jobs.append(Job(number, request.submit_s, request.run_s, program))
    return jobs
