"""Which cores play ping-pong: for every level pairs that meet there and not before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slurm_topo.errors import MachineError
from slurm_topo.machine.shape import INSIDE
from slurm_topo.model import Machine

# From a few bytes to beyond the burst of a shaped link and the size of most caches' share.
SIZES = (8, 4096, 65_536, 524_288, 2_097_152)
REPEATS = 7
SECONDS = 0.02


@dataclass(frozen=True)
class CalibrationPlan:
    """Pairs of cores by level, and the ranks that play them.

    Attributes
    ----------
    levels : tuple of str
        Levels that can be measured, innermost first.
    pairs : tuple of tuples of (int, int)
        Core indices of the pairs of each level, disjoint; the first plays alone too.
    ranks : tuple of (int, int)
        (node, core) of each rank by node and number on the node.
    per_node : int
        Ranks that a node needs at most.
    hosts : tuple of str
        Names of the nodes that take part, in the order of the machine.
    skipped : tuple of str
        Levels at which no two cores meet.
    """

    levels: tuple[str, ...]
    pairs: tuple[tuple[tuple[int, int], ...], ...]
    ranks: tuple[tuple[int, int], ...]
    per_node: int
    hosts: tuple[str, ...]
    skipped: tuple[str, ...]


def choose_pairs(machine: Machine, most: int = 4, host: str = "") -> CalibrationPlan:
    """Pairs for every level of a machine.

    Parameters
    ----------
    machine : Machine
        What is to be measured.
    most : int
        Pairs of one level that play at the same time, at most.
    host : str
        Name of the only node, where the machine has none.

    Raises
    ------
    MachineError
        No two cores meet anywhere, or ``most`` is below 1.
    """
    if most < 1:
        raise MachineError(f"{most} pairs at once: at least one is needed")
    chosen = [_pairs_at(machine, level, most) for level in range(len(machine.levels))]
    kept = [i for i, pairs in enumerate(chosen) if pairs]
    if not kept:
        raise MachineError("no two cores to measure between: the machine has a single core")
    cores = sorted({core for i in kept for pair in chosen[i] for core in pair})
    nodes = sorted({int(machine.node[core]) for core in cores})
    ranks = tuple((int(machine.node[core]), core) for core in cores)
    return CalibrationPlan(
        levels=tuple(machine.levels[i].name for i in kept),
        pairs=tuple(tuple(chosen[i]) for i in kept),
        ranks=ranks,
        per_node=max(sum(node == n for n, _ in ranks) for node in nodes),
        hosts=tuple(machine.node_names[n] or host for n in nodes),
        skipped=tuple(level.name for i, level in enumerate(machine.levels) if i not in kept),
    )


def _pairs_at(machine: Machine, level: int, most: int) -> list[tuple[int, int]]:
    """Disjoint pairs of cores that meet at a level first, from the first two subgroups of one group."""
    groups = machine.groups[level]
    inner = machine.groups[level - 1] if level else np.arange(machine.cores, dtype=np.int32)
    # Number of distinct inner groups in each group.
    together = np.unique(np.stack([groups, inner]), axis=1)
    wide, counts = np.unique(together[0], return_counts=True)
    able = wide[counts > 1]
    pairs: list[tuple[int, int]] = []
    for group in able[:most]:
        inside = together[1][together[0] == group]
        sides = [np.flatnonzero(inner == part) for part in inside]
        if machine.levels[level].name in (*INSIDE, "node"):
            pairs += _between(sides, most - len(pairs))
        else:
            # Between nodes: cores of one node with cores of another, so that they share its links.
            one = sides[0][machine.node[sides[0]] == machine.node[sides[0][0]]]
            two = sides[1][machine.node[sides[1]] == machine.node[sides[1][0]]]
            return [(int(a), int(b)) for a, b in zip(one[:most], two[:most], strict=False)]
        if len(pairs) >= most or machine.levels[level].name == "node":
            break
    return pairs[:most]


def _between(sides: Sequence[np.ndarray], most: int) -> list[tuple[int, int]]:
    if all(side.size == 1 for side in sides):
        cores = [int(side[0]) for side in sides]
        return list(zip(cores[0::2], cores[1::2], strict=False))[:most]
    return [(int(a), int(b)) for a, b in zip(sides[0][:most], sides[1][:most], strict=False)]


def plan_text(plan: CalibrationPlan, machine: Machine, host: str = "") -> str:
    """The plan as ``pingpong.c`` reads it: for every level first one pair alone, then all pairs together."""
    number: dict[int, str] = {}
    lines = [
        "slurm-topo-pingpong-1",
        " ".join(["sizes", str(len(SIZES)), *map(str, SIZES)]),
        f"repeats {REPEATS}",
        f"seconds {SECONDS}",
    ]
    used: dict[int, int] = {}
    for node, core in plan.ranks:
        name = (machine.node_names[node] or host).partition(".")[0]
        local = used.get(node, 0)
        used[node] = local + 1
        cpu = machine.pus[core][0] if machine.pus[core] else -1
        number[core] = f"{name}:{local}"
        lines.append(f"place {name} {local} {cpu}")
    for pairs in plan.pairs:
        for playing in (pairs[:1], pairs):
            ends = " ".join(f"{number[a]} {number[b]}" for a, b in playing)
            lines.append(f"test {len(playing)} {ends}")
    return "\n".join([*lines, "end"]) + "\n"
