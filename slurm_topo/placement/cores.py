"""Fewer ranks than cores: which part of a large machine the search looks at."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from slurm_topo.model import Ints, Machine

# The search looks at up to this many times the cores that the ranks need (and at no fewer than this number).
ROOM = 2
SMALL = 256


def select_cores(ranks: int, machine: Machine, start: Ints, needed: Iterable[int] = ()) -> NDArray[np.int64]:
    """Cores for the search, ascending; int64 array, shape (at least ranks,).

    All cores, if they are not many more than the ranks. Otherwise the smallest group that has room for all
    ranks, and in it the largest sub-groups first until there is room enough; beside these the cores of
    `start` and the `needed` ones, so that the search can hold them.
    """
    limit = max(ROOM * ranks, SMALL)
    if machine.cores <= limit:
        return np.arange(machine.cores)
    chosen = np.zeros(machine.cores, dtype=bool)
    chosen[_tightest(ranks, limit, machine)] = True
    chosen[start] = True
    chosen[list(needed)] = True
    return np.flatnonzero(chosen)


def _tightest(ranks: int, limit: int, machine: Machine) -> NDArray[np.int64]:
    cores = np.arange(machine.cores)
    for level in range(len(machine.levels) - 1, -1, -1):
        _, inverse, counts = np.unique(machine.groups[level, cores], return_inverse=True, return_counts=True)
        if counts.max() >= ranks:
            # One group holds all: the smallest of those; look further inside it.
            fitting = np.where(counts >= ranks, counts, machine.cores + 1)
            cores = cores[inverse == fitting.argmin()]
            continue
        order = np.argsort(-counts, kind="stable")
        room = np.cumsum(counts[order])
        enough = int(np.searchsorted(room, min(limit, room[-1]))) + 1
        return cores[np.isin(inverse, order[:enough])]
    return cores
