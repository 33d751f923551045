"""Loads: what the busiest link and the busiest rank carry, which the sum alone does not show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slurm_topo.config import OBJECTIVES
from slurm_topo.errors import PlacementError
from slurm_topo.machine.links import link_bandwidths
from slurm_topo.model import CommGraph, Floats, Machine
from slurm_topo.placement.baselines import baselines, node_level
from slurm_topo.placement.cost import (
    bytes_by_level,
    check_placement,
    cost,
    cost_of_pairs,
    cost_parts,
    meeting_level,
)
from slurm_topo.units import fold_hostlist, fold_ints

# What of a mean rank's cost counts beside the most loaded link: of its bytes and of its messages. Latencies
# are paid one after another while links are shared; of the bytes only as much as decides between placements
# that load the links alike. docs/placement.md has the figures behind that.
SHARES = {"load": (0.0, 0.0), "auto": (0.1, 1.0)}
# Pairs that are looked at together: bounds the memory for graphs of many millions of pairs.
_CHUNK = 1 << 20


@dataclass(frozen=True)
class LinkLoad:
    """One direction of one link.

    Attributes
    ----------
    level : str
        Level of the group that the link belongs to: ``node`` is the uplink of a node.
    name : str
        Node names below it, or its cores in a machine without names.
    direction : str
        ``up`` (sent by the group) or ``down`` (received by it).
    nbytes, seconds : float
        What it carries, and how long it takes for that.
    """

    level: str
    name: str
    direction: str
    nbytes: float
    seconds: float


@dataclass(frozen=True)
class RankLoad:
    """What one rank sends (``out``) or receives (``in``).

    Attributes
    ----------
    rank : int
        The rank.
    direction : str
        ``out`` or ``in``.
    nbytes, seconds : float
        Bytes, and their part of the cost.
    """

    rank: int
    direction: str
    nbytes: float
    seconds: float


@dataclass(frozen=True, eq=False)
class Loads:
    """The figures of one placement beside its cost.

    Attributes
    ----------
    cost : float
        :func:`slurm_topo.placement.cost.cost`.
    link, node, switch : LinkLoad or None
        The direction of a link that takes longest: of all links, of those of nodes, of those of switches.
        None where nothing crosses such a link.
    rank : RankLoad or None
        The rank whose sent or received traffic costs most.
    bytes_by_level : float64 array, shape (k,)
        Bytes between ranks that meet at each level.
    """

    cost: float
    link: LinkLoad | None
    node: LinkLoad | None
    switch: LinkLoad | None
    rank: RankLoad | None
    bytes_by_level: Floats

    @property
    def most_s(self) -> float:
        """Seconds of the most loaded link, 0 without one."""
        return self.link.seconds if self.link else 0.0


def link_loads(
    graph: CommGraph, machine: Machine, core_of_rank: NDArray[np.integer]
) -> list[tuple[NDArray[np.intp], Floats, Floats]]:
    """Loads of all links, a tuple a level below the root.

    Returns
    -------
    list of (int array (g,), float64 array (2, g), float64 array (2, g))
        A core of each group of the level; bytes up and down; seconds up and down.
    """
    check_placement(graph, machine, core_of_rank)
    cores = np.asarray(core_of_rank)
    bandwidths = link_bandwidths(machine)
    tables = [np.unique(row, return_index=True, return_inverse=True) for row in machine.groups[:-1]]
    loads = [np.zeros((2, first.size)) for _, first, _ in tables]
    for begin in range(0, graph.source.size, _CHUNK):
        part = slice(begin, begin + _CHUNK)
        a, b, nbytes = cores[graph.source[part]], cores[graph.target[part]], graph.nbytes[part]
        level = meeting_level(machine, a, b)
        for i, (_, first, group) in enumerate(tables):
            crossing = level > i
            for way, ends in enumerate((a, b)):
                loads[i][way] += np.bincount(group[ends[crossing]], nbytes[crossing], minlength=first.size)
    return [
        (first, load, load / bandwidths[i, first])
        for i, ((_, first, _), load) in enumerate(zip(tables, loads, strict=True))
    ]


def most_loaded(graph: CommGraph, machine: Machine, core_of_rank: NDArray[np.integer]) -> float:
    """Seconds of the direction of a link that takes longest; 0 where nothing crosses a link."""
    levels = link_loads(graph, machine, core_of_rank)
    return max((float(seconds.max(initial=0.0)) for _, _, seconds in levels), default=0.0)


def objective_value(
    objective: str, graph: CommGraph, machine: Machine, core_of_rank: NDArray[np.integer]
) -> float:
    """What `objective` makes of a placement, seconds; less is better.

    ``sum`` is the cost, ``load`` the time of the most loaded link, ``auto`` that time, the latencies of a
    mean rank and a tenth of its bytes' seconds together.
    """
    if objective not in OBJECTIVES:
        raise PlacementError(f"objective {objective!r} is unknown; it is one of {', '.join(OBJECTIVES)}")
    if objective == "sum":
        return cost(graph, machine, core_of_rank)
    share_of_bytes, share_of_messages = SHARES[objective]
    of_bytes, of_messages = cost_parts(graph, machine, core_of_rank)
    mean = (share_of_bytes * of_bytes + share_of_messages * of_messages) / graph.ranks
    return most_loaded(graph, machine, core_of_rank) + mean


def baseline_values(objective: str, graph: CommGraph, machine: Machine) -> dict[str, float]:
    """:func:`objective_value` of each of the baselines."""
    placements = baselines(machine, graph.ranks)
    return {name: objective_value(objective, graph, machine, cores) for name, cores in placements.items()}


def find_loads(graph: CommGraph, machine: Machine, core_of_rank: NDArray[np.integer]) -> Loads:
    """The most loaded links and rank of a placement, and its bytes by level."""
    levels = link_loads(graph, machine, core_of_rank)
    node = node_level(machine)
    links = [_most_of_level(machine, i, *parts) for i, parts in enumerate(levels)]
    return Loads(
        cost=cost(graph, machine, core_of_rank),
        link=_longest(links),
        node=links[node] if node < len(links) else None,
        switch=_longest(links[node + 1 :]),
        rank=_most_loaded_rank(graph, machine, core_of_rank),
        bytes_by_level=bytes_by_level(graph, machine, core_of_rank),
    )


def _longest(links: list[LinkLoad | None]) -> LinkLoad | None:
    known = [link for link in links if link is not None]
    return max(known, key=lambda link: link.seconds, default=None)


def _most_of_level(
    machine: Machine, level: int, first: NDArray[np.intp], nbytes: Floats, seconds: Floats
) -> LinkLoad | None:
    if not nbytes.any():
        return None
    # The bytes decide where a byte takes no time.
    by = seconds if seconds.any() else nbytes
    way, group = (int(i) for i in np.unravel_index(int(by.argmax()), by.shape))
    return LinkLoad(
        level=machine.levels[level].name,
        name=group_name(machine, level, int(first[group])),
        direction=("up", "down")[way],
        nbytes=float(nbytes[way, group]),
        seconds=float(seconds[way, group]),
    )


def group_name(machine: Machine, level: int, core: int) -> str:
    """The group of a level that a core is in: its nodes, or its cores where it is part of one node."""
    members = np.flatnonzero(machine.groups[level] == machine.groups[level, core])
    nodes = list(dict.fromkeys(machine.node[members].tolist()))
    if level >= node_level(machine) and machine.node_names != ("",):
        return fold_hostlist(machine.node_names[node] for node in nodes)
    inside = f"cores {fold_ints(members.tolist())}"
    if machine.node_names == ("",):
        return inside
    start = int(np.flatnonzero(machine.node == nodes[0])[0])
    return f"{machine.node_names[nodes[0]]} cores {fold_ints((members - start).tolist())}"


def _most_loaded_rank(
    graph: CommGraph, machine: Machine, core_of_rank: NDArray[np.integer]
) -> RankLoad | None:
    if not graph.source.size:
        return None
    seconds = cost_of_pairs(graph, machine, core_of_rank)
    sides = [
        (np.bincount(end, weights, minlength=graph.ranks))
        for weights in (seconds, graph.nbytes)
        for end in (graph.source, graph.target)
    ]
    by = np.stack(sides[:2]) if seconds.any() else np.stack(sides[2:])
    way, rank = (int(i) for i in np.unravel_index(int(by.argmax()), by.shape))
    return RankLoad(rank, ("out", "in")[way], float(sides[2 + way][rank]), float(sides[way][rank]))


def loads_json(loads: Loads) -> Mapping[str, object]:
    """The figures as JSON values (docs/placement.md)."""
    total = float(loads.bytes_by_level.sum())
    return {
        "cost": loads.cost,
        "node_uplink": vars(loads.node) if loads.node else None,
        "switch_uplink": vars(loads.switch) if loads.switch else None,
        "link": vars(loads.link) if loads.link else None,
        "rank": vars(loads.rank) if loads.rank else None,
        "share_by_level": (loads.bytes_by_level / total if total else loads.bytes_by_level).tolist(),
    }
