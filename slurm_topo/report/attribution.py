"""What the time of a run went into, and how much of it depends on each level of the machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from slurm_topo.model import Floats
from slurm_topo.report.cases import Case, Side
from slurm_topo.report.runs import Mask, Runs
from slurm_topo.report.values import MEASURED, MODELLED, Value, known, missing


@dataclass(frozen=True)
class Part:
    """One part of the time of a run.

    Attributes
    ----------
    name : str
        ``queue``, ``computation`` (and waiting inside the program), ``latency``, or ``bandwidth of LEVEL``.
    seconds : Value
        Wall-clock seconds of a run; of communication: the mean of its ranks.
    """

    name: str
    seconds: Value


@dataclass(frozen=True)
class Attribution:
    """The time of a median run of one program on one side, taken apart.

    Attributes
    ----------
    program : int
        Number in the history.
    placed : bool
        Runs that were placed, or those that were not.
    time, queue : Value
        Median seconds of the completed runs, and of their wait in the queue.
    energy : Value
        Median joules of a run.
    parts : tuple of Part
        Queue, computation, latency, bandwidth by level.
    dominant : str
        The largest part of the time in the run; "" where the time is not known.
    dominant_communication : str
        The largest part of its communication.
    sensitivity : tuple of (str, Value)
        By level, the share by which a run takes longer if this level becomes half as fast.
    """

    program: int
    placed: bool
    time: Value
    queue: Value
    energy: Value
    parts: tuple[Part, ...]
    dominant: str
    dominant_communication: str
    sensitivity: tuple[tuple[str, Value], ...]


def attributions(runs: Runs, cases: Mapping[int, Case]) -> tuple[Attribution, ...]:
    """Both sides of every program that has a case.

    Parameters
    ----------
    runs : Runs
        Runs of the report.
    cases : mapping of int to Case
        By number of the program.
    """
    return tuple(made for number, case in cases.items() for made in _both(runs, number, case))


def _both(runs: Runs, number: int, case: Case) -> Iterator[Attribution]:
    mine = (runs.program == number) & runs.completed
    yield _attribute(runs, mine & ~runs.placed, number, False, case, case.before)
    if case.after is not None:
        yield _attribute(runs, mine & runs.placed, number, True, case, case.after)


def _median(values: Floats, unit: str) -> Value:
    finite = values[np.isfinite(values)]
    return known(float(np.median(finite)), unit, MEASURED, len(finite)) if len(finite) else missing(unit)


def _attribute(runs: Runs, rows: Mask, number: int, placed: bool, case: Case, side: Side) -> Attribution:
    time, queue = _median(runs.elapsed[rows], "s"), _median(runs.wait[rows], "s")
    # The cost is a sum over all ranks; a run feels the mean of its ranks.
    latency, transfer = side.latency_s / case.ranks, side.transfer_s / case.ranks
    names = [level.name for level in case.levels]
    talk = [Part("latency", known(float(latency.sum()), "s", MODELLED))]
    talk += [
        Part(f"bandwidth of {name}", known(float(s), "s", MODELLED))
        for name, s in zip(names, transfer, strict=True)
    ]
    total = float(latency.sum() + transfer.sum())
    rest = known(max(time.value - total, 0.0), "s", MODELLED) if time.value is not None else missing("s")
    inside = [Part("computation", rest), *talk]
    return Attribution(
        program=number,
        placed=placed,
        time=time,
        queue=queue,
        energy=_median(runs.energy[rows], "J"),
        parts=(Part("queue", queue), *inside),
        dominant=largest(inside) if time.known else "",
        dominant_communication=largest(talk),
        sensitivity=tuple(
            (name, _share(float(a + b), time)) for name, a, b in zip(names, latency, transfer, strict=True)
        ),
    )


def _share(seconds: float, time: Value) -> Value:
    """Twice the cost of a level adds its cost once more."""
    return known(seconds / time.value, "ratio", MODELLED) if time.value else missing("ratio")


def largest(parts: Sequence[Part]) -> str:
    """Name of the largest part."""
    return max(parts, key=lambda part: part.seconds.value or 0.0).name
