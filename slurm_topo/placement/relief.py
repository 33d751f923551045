"""The search where loads count: swaps that relieve the most loaded link, from placements of a small sum."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from slurm_topo.model import CommGraph, Ints, Machine
from slurm_topo.placement.load import SHARES
from slurm_topo.placement.native import Control, LinkLoads

# Of two placements that load the links alike the cheaper one leads further.
_LEAST_SHARE = 0.01
# Starts warm, in units of a typical change: placements of a small sum are worth keeping.
_HEATS = (0.1, 0.5)
_FALL = 300.0
# Calibrated seconds of a proposal: for each neighbour and level.
_MOVE_WORK, _MOVE_EXTRA = 28e-9, 8.0


def relieve(
    graph: CommGraph,
    machine: Machine,
    cores: NDArray[np.integer],
    starts: Mapping[str, Ints],
    fixed: NDArray[np.uint8] | None,
    objective: str,
    work: float,
    seed: int,
    control: Control,
) -> dict[str, Ints]:
    """Placements of the objective ``load`` or ``auto``, one a start and heat, named after the start.

    Parameters
    ----------
    graph, machine : CommGraph, Machine
        The problem.
    cores : int array, shape (c,)
        Cores of the machine that the placements are about.
    starts : mapping of str to int32 array, shape (c,)
        Core (index into `cores`) of each vertex: the ranks, then the free cores.
    fixed : uint8 array, shape (c,), optional
        1 for vertices that stay where they are.
    work : float
        Calibrated seconds, shared by all; counted, not timed.
    seed : int
        Seed of the random generator.
    control : Control
        Ends it, with what is there.
    """
    found: dict[str, Ints] = {}
    seeds = np.random.SeedSequence([seed, 1]).generate_state(len(starts) * len(_HEATS), np.uint64)
    of_bytes, of_messages = (max(share, _LEAST_SHARE) for share in SHARES[objective])
    shares = (1.0 / graph.ranks, 1.0)
    with LinkLoads(graph, machine, cores, (of_bytes, of_messages)) as loads:
        move_work = _MOVE_WORK * loads.levels * (loads.degree + _MOVE_EXTRA)
        moves = int(work / move_work / len(seeds))
        turns = [(name, heat) for heat in _HEATS for name in starts]
        for (name, heat), draw in zip(turns, seeds.tolist(), strict=True):
            if control.expired():
                break
            placement = starts[name].copy()
            loads.relieve(placement, fixed, moves, heat, _FALL, shares, draw, control)
            found[f"{name}+relief" + ("" if heat == _HEATS[0] else " warm")] = placement
    return found
