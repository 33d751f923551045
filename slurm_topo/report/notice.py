"""Programs that an administrator should look at, and why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from slurm_topo.model import Floats
from slurm_topo.report.numbers import Notice
from slurm_topo.report.runs import Program
from slurm_topo.report.values import known

# Fewer runs say nothing about a program.
_FEWEST_RUNS = 5
_MOST = 10


def notices(
    of: Sequence[Program],
    runs: NDArray[np.int64],
    placed: NDArray[np.int64],
    left: NDArray[np.int64],
    hours: Floats,
    best: Floats,
    reason: Callable[[int], str],
) -> tuple[Notice, ...]:
    """At most ten programs, most node-hours first.

    Parameters
    ----------
    of : sequence of Program, length k
        The programs.
    runs, placed, left : int64 arrays, shape (k,)
        Runs; those placed; those left alone.
    hours : float64 array, shape (k,)
        Node-hours.
    best : float64 array, shape (k,)
        Upper end of the interval of the saving: below zero the program is slower when placed. NaN: unknown.
    reason : callable
        Most frequent reason why program number k was left alone.
    """
    found = []
    for k in np.argsort(-hours, kind="stable").tolist():
        text = _why(of[k], int(runs[k]), int(placed[k]), int(left[k]), float(best[k]), partial(reason, k))
        if text:
            value = known(float(hours[k]), "node-h", n=int(runs[k]))
            found.append(Notice(of[k].number, of[k].name or "?", of[k].user, value, text))
        if len(found) == _MOST:
            break
    return tuple(found)


def _why(program: Program, runs: int, placed: int, left: int, best: float, reason: Callable[[], str]) -> str:
    """The most important thing to say of a program; empty: nothing."""
    if program.switched_back or runs < _FEWEST_RUNS:
        return ""
    if best < 0:
        return f"slower when placed, by {-best * 100:.1f} % or more"
    if left * 2 >= runs:
        return f"left alone in {left} of {runs} runs: {reason()}"
    if not placed and not program.graph:
        return f"no communication graph after {runs} runs: is it MPI, is it traced?"
    if not placed:
        return f"has a graph, but none of {runs} runs was placed"
    return ""
