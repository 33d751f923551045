"""The campaign: the same jobs with Slurm's own distribution and placed, by the judge's times."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from slurm_topo.campaign.centre import Job, Program
from slurm_topo.campaign.scheduler import Run, Shape, schedule
from slurm_topo.errors import InputError
from slurm_topo.judge.platform import Overrides
from slurm_topo.judge.run import judge
from slurm_topo.judge.simgrid import MODEL, Simulator
from slurm_topo.model import CommGraph, Ints, Level, Machine
from slurm_topo.placement.baselines import baselines
from slurm_topo.placement.cost import bytes_by_level
from slurm_topo.placement.solve import place
from slurm_topo.slurm.launch import slurm_way

VERSION = 1
LOCAL = ("core", "l2", "l3", "die", "numa")


@dataclass(frozen=True, eq=False)
class Site:
    """The machine of the campaign: leaf switches with equal nodes.

    Attributes
    ----------
    node : Machine
        One node.
    switches, each : int
        Leaf switches, nodes of each.
    leaf, spine : Level
        What communication costs between two nodes of a leaf switch and across leaf switches.
    """

    node: Machine
    switches: int
    each: int
    leaf: Level
    spine: Level

    @property
    def nodes(self) -> int:
        """Nodes in all."""
        return self.switches * self.each

    def allocation(self, shape: Shape) -> Machine:
        """The machine of a job that has so many nodes under each of some leaf switches."""
        count, cores = sum(shape), self.node.cores
        groups = [
            (np.arange(count)[:, None] * (int(row.max()) + 1) + row[None, :]).ravel()
            for row in self.node.groups.astype(np.int64)
        ]
        switch = np.repeat(np.arange(len(shape)), np.array(shape) * cores)
        levels = list(self.node.levels)
        if count > 1:
            groups.append(np.arange(count * cores) * 0 if len(shape) == 1 else switch)
            levels.append(self.leaf)
        if len(shape) > 1:
            groups.append(np.zeros(count * cores, dtype=np.int64))
            levels.append(self.spine)
        return replace(
            self.node,
            levels=tuple(levels),
            groups=np.stack(groups).astype(np.int32),
            node=np.repeat(np.arange(count), cores).astype(np.int32),
            node_names=tuple(f"n{i}" for i in range(count)),
            pus=self.node.pus * count,
            numa=np.tile(self.node.numa, count),
        )


@dataclass(frozen=True)
class Judged:
    """One program on one shape of allocation.

    Attributes
    ----------
    before_s, after_s : float
        Simulated seconds of one iteration's communication: Slurm's own distribution, the placement.
    applied : bool
        Whether the placement was worth it by the site's margin; else the job is left alone.
    cross_before, cross_after : float
        Share of the bytes between ranks of different NUMA domains.
    """

    before_s: float
    after_s: float
    applied: bool
    cross_before: float
    cross_after: float

    @property
    def ratio(self) -> float:
        """Time of the communication as it would be over what it is with Slurm alone."""
        return self.after_s / self.before_s if self.applied and self.before_s else 1.0


class Bench:
    """Judged programs, kept in a file so that an interrupted campaign goes on where it was."""

    def __init__(
        self,
        site: Site,
        baseline: str,
        margin: float,
        seed: int,
        store: Path | None = None,
        overrides: Overrides | None = None,
        progress: Callable[[int], None] = lambda count: None,
        objective: str = "auto",
    ) -> None:
        self.site, self.baseline, self.margin, self.seed = site, baseline, margin, seed
        self.overrides, self.objective = overrides or Overrides(), objective
        self.store, self.progress = store, progress
        self.simulator = Simulator.find()
        self._known: dict[str, Judged] = {}
        if store is not None and store.exists():
            self._load(store)

    def judged(self, program: Program, shape: Shape) -> Judged:
        """The program on such an allocation; simulated the first time."""
        key = self._key(program.digest, shape)
        if key not in self._known:
            found = self._simulate(program.graph, self.site.allocation(shape))
            self._known[key] = found
            self._save(key, found)
            self.progress(len(self._known))
        return self._known[key]

    def _simulate(self, graph: CommGraph, machine: Machine) -> Judged:
        known = baselines(machine, graph.ranks)
        placement = place(graph, machine, objective=self.objective, seed=self.seed)
        name = slurm_way(placement) if self.baseline == "best" else self.baseline
        before, after = known[name], placement.core_of_rank
        applied = placement.value < (1 - self.margin) * placement.baseline_values[name]
        seconds = self._seconds(graph, machine, [before, after] if applied else [before])
        return Judged(
            before_s=seconds[0],
            after_s=seconds[-1],
            applied=applied,
            cross_before=_cross_numa(graph, machine, before),
            cross_after=_cross_numa(graph, machine, after if applied else before),
        )

    def _seconds(self, graph: CommGraph, machine: Machine, placements: Sequence[Ints]) -> list[float]:
        """Both at once: a machine with two cores can."""

        def one(cores: Ints) -> float:
            found = judge(graph, machine, {"": cores}, overrides=self.overrides, simulator=self.simulator)
            return found.seconds[""]

        with ThreadPoolExecutor(len(placements)) as pool:
            return list(pool.map(one, placements))

    def _key(self, digest: str, shape: Shape) -> str:
        """All that the result depends on."""
        machine = self.site.allocation(shape)
        levels = [(level.name, level.latency_s, level.seconds_per_byte) for level in machine.levels]
        said = [VERSION, MODEL, digest, shape, levels, self.baseline, self.margin, self.seed, self.objective]
        said += [
            self.overrides.latency,
            self.overrides.bandwidth,
            hashlib.sha256(machine.groups.tobytes()).hexdigest(),
        ]
        return hashlib.sha256(json.dumps(said).encode()).hexdigest()[:24]

    def _load(self, store: Path) -> None:
        try:
            lines = store.read_text(encoding="utf-8").splitlines(keepends=True)
            for number, line in enumerate(lines, 1):
                if not self._read(line):
                    # A campaign that was killed while it wrote leaves half a last line.
                    if number < len(lines):
                        raise InputError(f"{store}: line {number} is damaged; remove it or the file")
                    os.truncate(store, len("".join(lines[:-1]).encode()))
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{store}: cannot be read ({error}); give another --folder") from error

    def _read(self, line: str) -> bool:
        try:
            values = json.loads(line)
            key = values.pop("key")
            self._known[key] = Judged(**values)
        except (ValueError, KeyError, TypeError, AttributeError):
            return False
        return line.endswith("\n")

    def _save(self, key: str, found: Judged) -> None:
        if self.store is None:
            return
        try:
            with self.store.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps({"key": key, **found.__dict__}) + "\n")
        except OSError as error:
            raise InputError(
                f"{self.store}: cannot be written ({error.strerror}); give another --folder"
            ) from error


@dataclass(frozen=True)
class Outcome:
    """One job before and after."""

    job: Job
    before: Run
    after: Run
    judged: Judged
    traced: bool


def run_campaign(jobs: Sequence[Job], bench: Bench) -> list[Outcome]:
    """All jobs through the scheduler twice.

    Notes
    -----
    A job's run time in the log is taken as that with Slurm's own distribution on as few leaf switches as
    possible; the part of it that is communication changes with the judge's times. The first job of each
    program is traced and runs as Slurm alone would run it.
    """
    site = bench.site
    compact = {p.digest: bench.judged(p, _compact(p.nodes, site.each)).before_s for p in _programs(jobs)}
    firsts = _firsts(jobs)

    def run_time(job: Job, shape: Shape, placed: bool) -> float:
        found = bench.judged(job.program, shape)
        seconds = found.after_s if placed and found.applied else found.before_s
        reference = compact[job.program.digest]
        change = seconds / reference if reference else 1.0
        return job.run_s * (1 - job.program.share + job.program.share * change)

    def after(job: Job, shape: Shape) -> float:
        return run_time(job, shape, job.number not in firsts)

    before = schedule(jobs, site.switches, site.each, lambda job, shape: run_time(job, shape, False))
    placed = schedule(jobs, site.switches, site.each, after)
    return [
        Outcome(b.job, b, a, bench.judged(a.job.program, a.shape), a.job.number in firsts)
        for b, a in zip(before, placed, strict=True)
    ]


def _programs(jobs: Iterable[Job]) -> list[Program]:
    return list({job.program.digest + job.program.name: job.program for job in jobs}.values())


def _firsts(jobs: Iterable[Job]) -> set[int]:
    """Numbers of the first job of each program."""
    first: dict[str, int] = {}
    for job in sorted(jobs, key=lambda job: (job.submit_s, job.number)):
        first.setdefault(job.program.name, job.number)
    return set(first.values())


def _compact(nodes: int, each: int) -> Shape:
    """Under as few leaf switches as possible."""
    full, rest = divmod(nodes, each)
    return (each,) * full + ((rest,) if rest else ())


def _cross_numa(graph: CommGraph, machine: Machine, cores: Ints) -> float:
    """Share of the bytes between ranks whose cores are in different NUMA domains."""
    nbytes = bytes_by_level(graph, machine, cores)
    total = float(nbytes.sum())
    within = sum(n for level, n in zip(machine.levels, nbytes, strict=True) if level.name in LOCAL)
    return 1 - float(within) / total if total else 0.0


def as_values(outcome: Outcome) -> dict[str, Any]:
    """One job as JSON values."""
    return {
        "job": outcome.job.number,
        "program": outcome.job.program.name,
        "kind": outcome.job.program.kind,
        "nodes": outcome.job.program.nodes,
        "communication_share": outcome.job.program.share,
        "submit_s": outcome.job.submit_s,
        "run_before_s": outcome.before.run_s,
        "run_after_s": outcome.after.run_s,
        "completion_before_s": outcome.before.completion_s,
        "completion_after_s": outcome.after.completion_s,
        "shape_before": list(outcome.before.shape),
        "shape_after": list(outcome.after.shape),
        "decision": decision_of(outcome),
        "cross_numa_before": outcome.judged.cross_before,
        "cross_numa_after": outcome.judged.cross_before if outcome.traced else outcome.judged.cross_after,
    }


def decision_of(outcome: Outcome) -> str:
    """``traced`` (the first job of a program), ``placed`` or ``left alone``."""
    if outcome.traced:
        return "traced"
    return "placed" if outcome.judged.applied else "left alone"
