"""The search on distances that are no tree: quadratic assignment by annealing from many starts."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from slurm_topo.model import CommGraph, Ints, Machine
from slurm_topo.placement.native import Assignment, Control

# One annealing has about this many proposals a pair of vertices, at least; many short ones find more than one
# long one where there are few vertices.
_MOVES_A_PAIR, _LEAST_RUNS = 30.0, 3
_HEATS, _FALL = (1.0, 0.1, 0.5), 1000.0
# Calibrated seconds of a proposal, and of each neighbour of the two vertices.
_MOVE_WORK, _NEIGHBOUR_WORK = 30e-9, 12e-9


def assign(
    graph: CommGraph,
    machine: Machine,
    starts: Mapping[str, Ints],
    fixed: NDArray[np.uint8] | None,
    work: float,
    seed: int,
    control: Control,
) -> tuple[Ints, str]:
    """The cheapest placement found, and the name of its start and refinement.

    Parameters
    ----------
    graph, machine : CommGraph, Machine
        The problem; the machine has distances.
    starts : mapping of str to int32 array, shape (c,)
        Core of each vertex: the ranks, then the free cores; at least one.
    fixed : uint8 array, shape (c,), optional
        1 for vertices that stay where they are.
    work : float
        Calibrated seconds; counted, not timed.
    seed : int
        Seed of the random generator.
    control : Control
        Ends it, with what is there.
    """
    rng = np.random.default_rng([seed, 2])
    with Assignment(graph, machine) as problem:
        best, name = min(
            ((placement, name) for name, placement in starts.items()), key=lambda s: problem.cost(s[0])
        )
        cost = problem.cost(best)
        move = _MOVE_WORK + _NEIGHBOUR_WORK * problem.degree * 2
        runs = max(_LEAST_RUNS, int(work / (move * _MOVES_A_PAIR * machine.cores**2)))
        known = list(starts)
        for run in range(runs):
            if control.expired():
                break
            # Every start once, then in turn the best so far and ones of chance.
            origin = known[run] if run < len(known) else "random" if run % 2 else name.split("+")[0]
            placement = _start(origin, starts, best, run, machine.cores, fixed, rng)
            heat = _HEATS[run % len(_HEATS)]
            problem.anneal(
                placement, fixed, int(work / runs / move), heat, _FALL, int(rng.integers(2**63)), control
            )
            now = problem.cost(placement)
            if now < cost:
                best, cost, name = placement, now, f"{origin}+assignment"
        return best, name


def _start(
    origin: str,
    starts: Mapping[str, Ints],
    best: Ints,
    run: int,
    cores: int,
    fixed: NDArray[np.uint8] | None,
    rng: np.random.Generator,
) -> Ints:
    if run < len(starts):
        return starts[origin].copy()
    if origin != "random":
        return best.copy()
    free = np.arange(cores) if fixed is None else np.flatnonzero(fixed == 0)
    placement = best.copy()
    placement[free] = best[rng.permutation(free)]
    return placement
