"""The one objective: what a placement costs, and at which level of the machine."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slurm_topo.errors import PlacementError
from slurm_topo.model import CommGraph, Floats, Machine

# Pairs that are looked at together: bounds the memory for graphs of many millions of pairs.
_CHUNK = 1 << 20


def cost(graph: CommGraph, machine: Machine, core_of_rank: NDArray[np.integer]) -> float:
    """Seconds (or the unit of the machine's costs) that all traffic takes with this placement.

    Parameters
    ----------
    graph : CommGraph
        Who sent how much to whom, n ranks.
    machine : Machine
        Tree of cores with a latency and an inverse bandwidth a level.
    core_of_rank : int array, shape (n,)
        Core of each rank, no core twice.

    Returns
    -------
    float
        Sum over ordered pairs (u, v) of ``messages * latency(l) + nbytes * seconds_per_byte(l)`` where l is
        the first level at which the two cores are in one group; between cores of different rows of
        ``machine.distances`` a byte costs what these say.

    Raises
    ------
    PlacementError
        The placement has another length than the graph, leaves the machine or uses a core twice.
    """
    return float(cost_by_level(graph, machine, core_of_rank).sum())


def cost_parts(graph: CommGraph, machine: Machine, core_of_rank: NDArray[np.integer]) -> tuple[float, float]:
    """The parts of :func:`cost` that come from bytes and from messages."""
    _, messages, seconds = _traffic(graph, machine, core_of_rank)
    return float(seconds.sum()), float((messages * latencies(machine)).sum())


def cost_by_level(graph: CommGraph, machine: Machine, core_of_rank: NDArray[np.integer]) -> Floats:
    """The part of :func:`cost` at each level; float64 array, shape (k,), innermost level first."""
    _, messages, seconds = _traffic(graph, machine, core_of_rank)
    return seconds + messages * latencies(machine)


def bytes_by_level(graph: CommGraph, machine: Machine, core_of_rank: NDArray[np.integer]) -> Floats:
    """Bytes between ranks that meet at each level; float64 array, shape (k,), innermost level first."""
    return _traffic(graph, machine, core_of_rank)[0]


def cost_of_pairs(graph: CommGraph, machine: Machine, core_of_rank: NDArray[np.integer]) -> Floats:
    """The part of :func:`cost` of each pair; float64 array, shape (e,)."""
    check_placement(graph, machine, core_of_rank)
    cores = np.asarray(core_of_rank)
    a, b = cores[graph.source], cores[graph.target]
    level = meeting_level(machine, a, b)
    return graph.nbytes * _per_byte(machine, a, b, level) + graph.messages * latencies(machine)[level]


def latencies(machine: Machine) -> Floats:
    """Seconds for a message at each level; float64 array, shape (k,)."""
    return np.array([level.latency_s for level in machine.levels], dtype=np.float64)


def inverse_bandwidths(machine: Machine) -> Floats:
    """Seconds for a byte at each level; float64 array, shape (k,)."""
    return np.array([level.seconds_per_byte for level in machine.levels], dtype=np.float64)


def check_placement(graph: CommGraph, machine: Machine, core_of_rank: NDArray[np.integer]) -> None:
    """Raise PlacementError unless every rank has a core of the machine of its own."""
    cores = np.asarray(core_of_rank)
    if cores.shape != (graph.ranks,):
        raise PlacementError(
            f"placement of {cores.size} ranks: the graph has {graph.ranks}; give one core a rank"
        )
    if cores.min() < 0 or cores.max() >= machine.cores:
        raise PlacementError(
            f"placement: core {int(cores.max())} of 0..{machine.cores - 1}; use cores of the machine"
        )
    taken = np.bincount(cores, minlength=machine.cores)
    if taken.max() > 1:
        raise PlacementError(
            f"placement: core {int(taken.argmax())} has {int(taken.max())} ranks; give each its own"
        )


def _per_byte(
    machine: Machine, a: NDArray[np.integer], b: NDArray[np.integer], level: NDArray[np.intp]
) -> Floats:
    """Seconds for a byte between cores a[i] and b[i], which meet at level[i]."""
    seconds = inverse_bandwidths(machine)[level]
    if machine.distances is not None:
        one, two = machine.distances.row[a], machine.distances.row[b]
        apart = one != two
        seconds[apart] = machine.distances.seconds_per_byte[one[apart], two[apart]]
    return seconds


def _traffic(
    graph: CommGraph, machine: Machine, core_of_rank: NDArray[np.integer]
) -> tuple[Floats, Floats, Floats]:
    """Bytes, messages and seconds of the bytes by level."""
    check_placement(graph, machine, core_of_rank)
    cores = np.asarray(core_of_rank)
    levels = len(machine.levels)
    nbytes, messages, seconds = np.zeros(levels), np.zeros(levels), np.zeros(levels)
    for first in range(0, graph.source.size, _CHUNK):
        part = slice(first, first + _CHUNK)
        a, b = cores[graph.source[part]], cores[graph.target[part]]
        level = meeting_level(machine, a, b)
        if machine.distances is not None:
            weights = graph.nbytes[part] * _per_byte(machine, a, b, level)
            seconds += np.bincount(level, weights, minlength=levels)
        nbytes += np.bincount(level, graph.nbytes[part], minlength=levels)
        messages += np.bincount(level, graph.messages[part], minlength=levels)
    if machine.distances is None:
        seconds = nbytes * inverse_bandwidths(machine)
    return nbytes, messages, seconds


def meeting_level(machine: Machine, a: NDArray[np.integer], b: NDArray[np.integer]) -> NDArray[np.intp]:
    """First level at which cores a[i] and b[i] are in one group; int array of the same shape."""
    level = np.zeros(a.shape, dtype=np.intp)
    # Groups are nested: the number of levels at which two cores are apart is the level where they meet.
    for groups in machine.groups[:-1]:
        level += groups[a] != groups[b]
    return level
