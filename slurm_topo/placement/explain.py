"""Why a placement is as it is, and what more search or another machine would bring: all of it computed."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from slurm_topo.errors import MachineError
from slurm_topo.machine.levels import default_level
from slurm_topo.machine.links import link_bandwidths
from slurm_topo.model import CommGraph, Ints, Machine, Placement
from slurm_topo.placement.baselines import baselines, node_level
from slurm_topo.placement.cost import cost_by_level, cost_of_pairs, meeting_level

MOST_PAIRS = 10
HOUR_S = 3600.0
# Searches with these shares of the work show what a doubling of it brings.
SHARES = (0.125, 0.25, 0.5)
# Gains get smaller from doubling to doubling: by at least this factor in the estimate.
_SLOWEST = 0.8

# Places on a machine, from a start, with a share of the work that the placement itself got.
Solver = Callable[[Machine, Ints | None, float], Placement]


def explain(graph: CommGraph, machine: Machine, placement: Placement, solver: Solver) -> dict[str, Any]:
    """Everything that ``place --explain`` says, as JSON values.

    Parameters
    ----------
    graph, machine : CommGraph, Machine
        What was placed.
    placement : Placement
        The result.
    solver : callable
        (machine, start or None, share of the work) -> Placement, with the objective, seed and fixed ranks of
        the placement.
    """
    sides = {**baselines(machine, graph.ranks), "placed": placement.core_of_rank}
    return {
        "cost_by_level": {
            name: cost_by_level(graph, machine, cores).tolist() for name, cores in sides.items()
        },
        "dearest_pairs": dearest_pairs(graph, machine, placement),
        "search": _more_search(machine, placement, solver),
        "changed_machines": [
            _on_changed(machine, placement, solver, "another node", node_level(machine)),
            _on_changed(machine, placement, solver, "another switch", node_level(machine) + 1),
        ],
    }


def dearest_pairs(graph: CommGraph, machine: Machine, placement: Placement) -> list[dict[str, Any]]:
    """The pairs of ranks that pay most, both directions together."""
    low, high = np.minimum(graph.source, graph.target), np.maximum(graph.source, graph.target)
    key, inverse = np.unique(low.astype(np.int64) * graph.ranks + high, return_inverse=True)
    if not key.size:
        return []
    seconds = np.bincount(inverse, cost_of_pairs(graph, machine, placement.core_of_rank))
    nbytes = np.bincount(inverse, graph.nbytes)
    a, b = key // graph.ranks, key % graph.ranks
    cores = placement.core_of_rank
    level = meeting_level(machine, cores[a], cores[b])
    total = float(seconds.sum())
    return [
        {
            "ranks": [int(a[i]), int(b[i])],
            "level": machine.levels[int(level[i])].name,
            "nbytes": float(nbytes[i]),
            "seconds": float(seconds[i]),
            "share": float(seconds[i]) / total if total else 0.0,
        }
        for i in np.argsort(-seconds, kind="stable")[:MOST_PAIRS].tolist()
    ]


def _more_search(machine: Machine, placement: Placement, solver: Solver) -> dict[str, Any]:
    """What another hour would bring, from what doublings of the work brought."""
    seen = [solver(machine, None, share).value for share in SHARES]
    # A search is not always better than a shorter one with the same seed: the best so far counts.
    best = np.minimum.accumulate([*seen, placement.value]).tolist()
    gains = [before - after for before, after in pairwise(best)]
    spent = max(placement.seconds, 1e-3)
    doublings = math.log2(1 + HOUR_S / spent)
    ratio = min(_SLOWEST, gains[-1] / gains[-2]) if gains[-2] > 0 else _SLOWEST
    gain = gains[-1] * sum(ratio**k for k in range(1, math.ceil(doublings) + 1))
    return {
        "work": [*SHARES, 1.0],
        "values": [*seen, placement.value],
        "gain_per_doubling": gains,
        "seconds": placement.seconds,
        "doublings_in_an_hour": doublings,
        "estimated_value_after_an_hour": max(placement.value - gain, 0.0),
        "estimated_gain_share": gain / placement.value if placement.value else 0.0,
        "basis": f"each doubling is taken to bring {ratio:.2f} times the gain of the one before; "
        "an extrapolation, not a bound",
    }


def _on_changed(
    machine: Machine, placement: Placement, solver: Solver, what: str, level: int
) -> dict[str, Any]:
    try:
        changed = with_another(machine, level)
    except MachineError as error:
        return {"change": what, "reason": str(error)}
    found = solver(changed, placement.core_of_rank, 1.0)
    return {
        "change": what,
        "cores": changed.cores,
        "value": found.value,
        "gain_share": 1.0 - found.value / placement.value if placement.value else 0.0,
    }


def with_another(machine: Machine, level: int) -> Machine:
    """The machine and, behind its cores, a copy of the last group of a level.

    Raises
    ------
    MachineError
        There is no such level, or nobody knows what the network above it would cost.
    """
    if machine.distances is not None:
        raise MachineError("the distances of a new one are not known")
    if level >= len(machine.levels):
        raise MachineError("this machine has no switches")
    if level == len(machine.levels) - 1:
        machine = _with_root(machine)
    copied = np.flatnonzero(machine.groups[level] == machine.groups[level, -1])
    fresh = machine.groups[:, copied].copy()
    for row in range(level + 1):
        _, inverse = np.unique(fresh[row], return_inverse=True)
        fresh[row] = machine.groups[row].max() + 1 + inverse
    nodes, inverse = np.unique(machine.node[copied], return_inverse=True)
    named = machine.node_names != ("",)
    extra = tuple(f"{machine.node_names[n]}+" for n in nodes) if named else ()
    link = machine.link_bandwidth
    return replace(
        machine,
        groups=np.ascontiguousarray(np.concatenate([machine.groups, fresh], axis=1)),
        node=np.concatenate(
            [machine.node, (len(machine.node_names) + inverse if named else inverse * 0)]
        ).astype(np.int32),
        node_names=machine.node_names + extra,
        pus=machine.pus + tuple(machine.pus[core] for core in copied),
        numa=np.concatenate([machine.numa, machine.numa[copied]]),
        hbm=machine.hbm + tuple(machine.hbm[core] for core in copied) if machine.hbm else (),
        link_bandwidth=None if link is None else np.concatenate([link, link[:, copied]], axis=1),
    )


def _with_root(machine: Machine) -> Machine:
    """One level more above the root, at the documented cost of a tier of switches."""
    names = [level.name for level in machine.levels]
    if "node" not in names:
        raise MachineError("a tree says nothing of what lies above its root")
    height = len(names) - names.index("node")
    level = default_level("switch" if height == 1 else f"switch{height}")
    links = None
    if machine.link_bandwidth is not None:
        root = np.full((1, machine.cores), machine.cores * level.bandwidth)
        links = np.concatenate([link_bandwidths(machine)[:-1], root, np.full((1, machine.cores), np.inf)])
    return replace(
        machine,
        levels=(*machine.levels, level),
        groups=np.concatenate([machine.groups, np.zeros((1, machine.cores), dtype=np.int32)]),
        link_bandwidth=links,
    )
