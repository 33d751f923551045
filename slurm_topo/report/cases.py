"""One run of a program in full: who talks to whom, over which links, and what each level costs.

Pure functions from a graph, a machine and two placements; :mod:`slurm_topo.report.case_load` finds these in
the history.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slurm_topo.model import CommGraph, Floats, Ints, Level, Machine
from slurm_topo.placement.cost import meeting_level

# Rows of a picture of a matrix; larger ones are added up in blocks.
MATRIX_ROWS = 64


@dataclass(frozen=True, eq=False)
class Side:
    """One run under one placement.

    Attributes
    ----------
    matrix : float64 array, shape (m, m)
        Bytes between blocks of ranks, the ranks in the order of their nodes and cores; m is at most 64.
    borders : tuple of float
        Where a new node begins, in rows of the matrix.
    nbytes, latency_s, transfer_s : float64 arrays, shape (k,)
        Bytes, seconds of latency and seconds of transfer by level.
    links : mapping of str to float
        Bytes over the link above each node and switch, both directions.
    inside : mapping of str to float
        Bytes that stay inside each node.
    """

    matrix: Floats
    borders: tuple[float, ...]
    nbytes: Floats
    latency_s: Floats
    transfer_s: Floats
    links: dict[str, float]
    inside: dict[str, float]


@dataclass(frozen=True, eq=False)
class Case:
    """A run of a program, as Slurm alone would have placed it and as it was placed.

    Attributes
    ----------
    program, ranks : int
        Number in the history, MPI ranks.
    job : int
        Slurm's number of the job that was placed (or traced).
    baseline : str
        Name of the baseline that ``before`` is; ``as it ran`` where the real binding was recorded.
    levels : tuple of Level
        Levels of the machine, innermost first.
    nodes : tuple of str
        Host names.
    parents : mapping of str to str
        The switch above each node and switch.
    before : Side
        The baseline.
    after : Side or None
        The placement; None where the program was traced but not placed.
    """

    program: int
    ranks: int
    job: int
    baseline: str
    levels: tuple[Level, ...]
    nodes: tuple[str, ...]
    parents: dict[str, str]
    before: Side
    after: Side | None

    def cost(self, side: Side) -> Floats:
        """Seconds of communication by level, shape (k,)."""
        cost: Floats = side.latency_s + side.transfer_s
        return cost


def side_of(graph: CommGraph, machine: Machine, core_of_rank: Ints, parents: dict[str, str]) -> Side:
    """What a placement means for every level, link and block of ranks.

    Parameters
    ----------
    graph : CommGraph
        Traffic of n ranks.
    machine : Machine
        The allocation.
    core_of_rank : int32 array, shape (n,)
        Core of each rank.
    parents : mapping of str to str
        The switch above each node and each switch (a node without one has no entry).
    """
    level = meeting_level(machine, core_of_rank[graph.source], core_of_rank[graph.target])
    k = len(machine.levels)
    nbytes = np.bincount(level, graph.nbytes, minlength=k).astype(np.float64)
    messages = np.bincount(level, graph.messages, minlength=k)
    node = machine.node[core_of_rank]
    at = node[graph.source], node[graph.target]
    local = np.bincount(at[0], np.where(at[0] == at[1], graph.nbytes, 0.0), minlength=len(machine.node_names))
    order = np.lexsort((core_of_rank, node))
    return Side(
        matrix=matrix_of(graph, order),
        borders=_borders(node[order]),
        nbytes=nbytes,
        latency_s=messages * np.array([x.latency_s for x in machine.levels]),
        transfer_s=nbytes * np.array([x.seconds_per_byte for x in machine.levels]),
        links=link_bytes(*at, graph.nbytes, machine.node_names, parents),
        inside=dict(zip(machine.node_names, local.tolist(), strict=True)),
    )


def matrix_of(graph: CommGraph, order: NDArray[np.integer], rows: int = MATRIX_ROWS) -> Floats:
    """Bytes between blocks of ranks in this order, shape (m, m), m = min(rows, n)."""
    n = graph.ranks
    m = min(rows, n)
    position = np.empty(n, dtype=np.int64)
    position[order] = np.arange(n)
    block = position * m // n
    pair = block[graph.source] * m + block[graph.target]
    return np.bincount(pair, graph.nbytes, minlength=m * m).astype(np.float64).reshape(m, m)


def _borders(ordered: NDArray[np.integer]) -> tuple[float, ...]:
    n = len(ordered)
    m = min(MATRIX_ROWS, n)
    return tuple(float(i) * m / n for i in np.flatnonzero(np.diff(ordered)) + 1)


def link_bytes(
    source: NDArray[np.integer],
    target: NDArray[np.integer],
    nbytes: Floats,
    names: Sequence[str],
    parents: dict[str, str],
) -> dict[str, float]:
    """Bytes over the link above each node and switch, both directions.

    Parameters
    ----------
    source, target : int array, shape (e,)
        Nodes between which bytes go.
    nbytes : float64 array, shape (e,)
        The bytes.
    names : sequence of str, length c
        Names of the nodes.
    parents : mapping of str to str
        The switch above each node and switch.

    Notes
    -----
    A link is used by all traffic between what is below it and everything else.
    """
    crossing = np.where(source == target, 0.0, nbytes)
    count = len(names)
    own = np.bincount(source, crossing, minlength=count) + np.bincount(target, crossing, minlength=count)
    found = dict(zip(names, own.tolist(), strict=True))
    below: dict[str, NDArray[np.bool_]] = {}
    for i, name in enumerate(names):
        above = parents.get(name)
        while above is not None:
            below.setdefault(above, np.zeros(count, dtype=bool))[i] = True
            above = parents.get(above)
    for switch, members in below.items():
        found[switch] = float(nbytes[members[source] != members[target]].sum())
    return found
