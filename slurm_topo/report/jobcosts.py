"""What the time and the energy of each single job went into. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from slurm_topo.report.attribution import Part, largest
from slurm_topo.report.runs import Indices, Program, Records
from slurm_topo.report.values import MEASURED, MODELLED, Value, known, missing


@dataclass(frozen=True)
class StepCost:
    """The communication of one step where its ranks really were.

    Attributes
    ----------
    ranks : int
        Ranks that share it.
    cost : float
        The objective, seconds, summed over all ranks.
    nbytes : mapping of str to float
        Bytes by level, innermost first.
    seconds_per_byte : mapping of str to float
        Of the levels of its machine.
    waiting : float or None
        Seconds that a rank spent inside blocking MPI calls, mean; None where the step was not traced.
    own : bool
        Of this step itself; False: the mean of other runs of the program stands for it.
    """

    ranks: int
    cost: float
    nbytes: Mapping[str, float]
    seconds_per_byte: Mapping[str, float]
    waiting: float | None = None
    own: bool = True


@dataclass(frozen=True)
class JobCost:
    """One job, its time and its energy taken apart.

    Attributes
    ----------
    job, program : int
        Slurm's number; the number of the program in the history.
    name, user, state : str
        Of the program; of the job.
    placed : bool
        A step ran where a plan put it.
    start : float
        Seconds since the epoch.
    time : Value
        Seconds of the run.
    parts : tuple of Part
        ``queue`` (before the run); then what the run is made of: ``computation`` (all that is none
        of the others), ``waiting`` (inside MPI beyond what the messages take: for partners, for a busy
        network; known where the run was traced), ``latency``, and ``bandwidth of LEVEL``, innermost first.
    dominant, dominant_communication : str
        The largest part of the time, and of its communication; empty where that is not known.
    energy, energy_communication : Value
        Joules of the run from accounting, and the share of them that the time of waiting and messages has.
    """

    job: int
    program: int
    name: str
    user: str
    state: str
    placed: bool
    start: float
    time: Value
    parts: tuple[Part, ...]
    dominant: str
    dominant_communication: str
    energy: Value
    energy_communication: Value


@dataclass(frozen=True)
class JobFacts:
    """What the history says of the steps of some jobs; see :func:`slurm_topo.report.jobload.load_job_facts`.

    Attributes
    ----------
    steps : mapping of int to sequence of StepCost
        By row of the job.
    levels : mapping of str to float
        Seconds for a byte at each level of the newest machine, for jobs without steps of their own.
    """

    steps: Mapping[int, Sequence[StepCost]] = field(default_factory=dict)
    levels: Mapping[str, float] = field(default_factory=dict)


def newest(records: Records, most: int) -> Indices:
    """Positions of the runs that started last, newest first."""
    start = records.runs.start
    rows = np.flatnonzero(np.isfinite(start))
    return rows[np.lexsort((-records.runs.row[rows], -start[rows]))][:most]


def job_costs(records: Records, rows: Indices, facts: JobFacts) -> tuple[JobCost, ...]:
    """The jobs at these positions, in this order."""
    return tuple(_job_cost(records, int(i), facts) for i in rows)


def _job_cost(records: Records, i: int, facts: JobFacts) -> JobCost:
    runs = records.runs
    number = int(runs.program[i])
    program = records.programs.get(number) or Program(number, "?", "", "")
    time = known(float(runs.elapsed[i]), "s", MEASURED, 1)
    steps = facts.steps.get(int(runs.row[i])) or _of_the_program(records, i, facts)
    talk = _talk(steps)
    messages = sum(part.seconds.value or 0.0 for part in talk)
    waited = [step.waiting for step in steps if step.waiting is not None]
    waiting = known(max(sum(waited) - messages, 0.0), "s", MEASURED, 1) if waited else missing("s")
    rest = missing("s")
    if time.value is not None and steps:
        rest = known(max(time.value - messages - (waiting.value or 0.0), 0.0), "s", MODELLED)
    inside = (Part("computation", rest), Part("waiting", waiting), *talk)
    energy = known(float(runs.energy[i]), "J", MEASURED, 1)
    told = bool(steps) and bool(time.value)
    share = min((messages + (waiting.value or 0.0)) / time.value, 1.0) if told and time.value else None
    return JobCost(
        job=int(runs.job[i]),
        program=number,
        name=program.name or "?",
        user=runs.user.names[runs.user.codes[i]],
        state=runs.state.names[runs.state.codes[i]],
        placed=bool(runs.placed[i]),
        start=float(runs.start[i]),
        time=time,
        parts=(Part("queue", known(float(runs.wait[i]), "s", MEASURED, 1)), *inside),
        dominant=largest(inside) if told else "",
        dominant_communication=largest((inside[1], *talk)) if talk else "",
        energy=energy,
        energy_communication=known(
            None if energy.value is None or share is None else energy.value * share, "J", MODELLED
        ),
    )


def _of_the_program(records: Records, i: int, facts: JobFacts) -> list[StepCost]:
    """The mean of the newest measured runs of the program on the side of this run, where they are known."""
    runs, traffic = records.runs, records.traffic
    side = bool(runs.placed[i])
    mine = np.flatnonzero((traffic.program == runs.program[i]) & (traffic.after == side))
    others = (runs.program == runs.program[i]) & (np.isfinite(runs.baseline))
    costs = (runs.cost if side else runs.baseline)[others]
    costs = costs[np.isfinite(costs)]
    ranks = runs.ranks[i]
    if not len(mine) or not len(costs) or not ranks > 0:
        return []
    order = mine[np.argsort(traffic.depth[mine], kind="stable")]
    nbytes = {traffic.level.names[traffic.level.codes[r]]: float(traffic.nbytes[r]) for r in order}
    return [StepCost(int(ranks), float(costs.mean()), nbytes, facts.levels, own=False)]


def _talk(steps: Sequence[StepCost]) -> tuple[Part, ...]:
    """Latency and bandwidth by level, seconds of a rank, of all steps; empty where nothing is known."""
    if not steps:
        return ()
    levels = dict.fromkeys(level for step in steps for level in step.nbytes)
    transfer = {
        level: sum(
            step.nbytes.get(level, 0.0) * step.seconds_per_byte.get(level, 0.0) / step.ranks for step in steps
        )
        for level in levels
    }
    total = sum(step.cost / step.ranks for step in steps)
    # The objective is latencies plus transfers: what is no transfer is latency.
    latency = max(total - sum(transfer.values()), 0.0)
    return (
        Part("latency", known(latency, "s", MODELLED)),
        *(Part(f"bandwidth of {level}", known(s, "s", MODELLED)) for level, s in transfer.items()),
    )
