"""From nodes, their shapes and the switches above them to a :class:`slurm_topo.model.Machine`."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slurm_topo.errors import MachineError
from slurm_topo.machine.levels import level_of, origin_of, switch_level
from slurm_topo.machine.links import known_links
from slurm_topo.machine.shape import INSIDE, NodeClass
from slurm_topo.model import Floats, Ints, Level, Machine

SLOTS = ("core", "pu")


def build_machine(
    names: Sequence[str],
    classes: Sequence[NodeClass],
    switches: Sequence[Sequence[int]],
    costs: Mapping[str, Level],
    slots: str = "core",
    meta: Mapping[str, Any] | None = None,
    whole: Sequence[int] | None = None,
) -> Machine:
    """The machine model of some nodes.

    Parameters
    ----------
    names : sequence of str, length n
        Host names, in the order in which Slurm lists them.
    classes : sequence of NodeClass, length n
        Shape of each node (equal shapes may be one object).
    switches : sequence of sequences of int, each of length n
        Group of each node at each tier of switches, leaves first; nested; the last one holds all nodes.
    costs : mapping of str to Level
        Measured or given levels; the others get their documented defaults.
    slots : str
        ``core``: one slot a core; ``pu``: one a hardware thread.
    meta : mapping
        Kept in the model; ``costs`` (origin of the levels) is added.
    whole : sequence of int, length n, optional
        Cores of each node, where the shapes hold only those of a job: its share of the node's links.

    Raises
    ------
    MachineError
        There is no core.

    Notes
    -----
    A level without a pair of cores of its own is left out: it groups as the level inside it. ``node`` always
    stays, and takes the cost of the level that it coincides with, unless only its own is known.
    """
    classes = [_as_slots(c, slots) for c in classes]
    sizes = np.array([c.cores for c in classes], dtype=np.int64)
    if not sizes.sum():
        raise MachineError("the machine has no core; check the description or the CPUs of the allocation")
    node = np.repeat(np.arange(len(classes), dtype=np.int32), sizes)
    candidates = [(name, _inside(name, classes, sizes)) for name in INSIDE]
    candidates.append(("node", node))
    for tier, groups in enumerate(switches):
        candidates.append((switch_level(tier + 1), np.asarray(groups, dtype=np.int32)[node]))
    levels, kept = _collapse(candidates, costs)
    return Machine(
        levels=tuple(levels),
        groups=np.stack([candidates[i][1] for i in kept]),
        node=node,
        node_names=tuple(names),
        pus=tuple(pus for c in classes for pus in c.pus),
        numa=np.concatenate([np.asarray(c.numa, dtype=np.int32) for c in classes]),
        meta={**(meta or {}), "costs": origin_of(levels)},
        hbm=_hbm(classes),
        link_bandwidth=_links(candidates, kept, costs, node, _owned_share(sizes, whole)),
    )


def _links(
    candidates: Sequence[tuple[str, Ints]],
    kept: Sequence[int],
    costs: Mapping[str, Level],
    node: Ints,
    owned_share: Floats,
) -> Floats | None:
    """What the links between the kept levels carry: the narrowest of those that are crossed on the way."""
    levels = [level_of(name, costs) for name, _ in candidates]
    found = known_links(levels, [groups for _, groups in candidates], node, owned_share)
    if found is None:
        return None
    ends = [*kept[1:], len(candidates)]
    rows = [found[first:end].min(axis=0) for first, end in zip(kept, ends, strict=True)]
    rows[-1] = np.full(node.size, np.inf)
    return np.stack(rows)


def _owned_share(sizes: NDArray[np.int64], whole: Sequence[int] | None) -> Floats:
    """Share of each node's cores that is in the machine."""
    return np.ones(sizes.size) if whole is None else sizes / np.maximum(np.array(whole), 1)


def _as_slots(shape: NodeClass, slots: str) -> NodeClass:
    """Slots of a shape: itself, or one core for each of its PUs under a level ``core``."""
    if slots == "core" or all(len(p) <= 1 for p in shape.pus):
        return shape
    owner = [core for core, pus in enumerate(shape.pus) for _ in (pus or (0,))]
    return NodeClass(
        pus=tuple((pu,) for pus in shape.pus for pu in pus),
        numa=tuple(shape.numa[core] for core in owner),
        groups=(
            ("core", tuple(owner)),
            *((name, tuple(g[core] for core in owner)) for name, g in shape.groups),
        ),
        threads=1,
        hbm=tuple(shape.hbm[core] for core in owner) if shape.hbm else (),
    )


def _hbm(classes: Sequence[NodeClass]) -> tuple[tuple[int, ...], ...]:
    """High-bandwidth memory next to each core; empty where no node has any."""
    if not any(c.hbm for c in classes):
        return ()
    return tuple(near for c in classes for near in (c.hbm or ((),) * c.cores))


def _inside(name: str, classes: Sequence[NodeClass], sizes: Any) -> Ints:
    """Group of every core at a level inside the nodes; where a shape lacks it, that of the level inside."""
    local: dict[int, Ints] = {}
    for shape in classes:
        if id(shape) not in local:
            local[id(shape)] = _local_groups(name, shape)
    counts = np.array([int(local[id(c)].max(initial=-1)) + 1 for c in classes], dtype=np.int64)
    offsets = np.concatenate([[0], np.cumsum(counts)[:-1]])
    flat = np.concatenate([local[id(c)] for c in classes]) + np.repeat(offsets, sizes)
    return np.asarray(flat, dtype=np.int32)


def _local_groups(name: str, shape: NodeClass) -> Ints:
    groups: Sequence[int] = range(shape.cores)
    for level, values in shape.groups:
        if INSIDE.index(level) <= INSIDE.index(name):
            groups = values
    return np.asarray(groups, dtype=np.int32)


def _collapse(
    candidates: Sequence[tuple[str, Ints]], costs: Mapping[str, Level]
) -> tuple[list[Level], list[int]]:
    """The levels that say something, and their places among the candidates."""
    levels: list[Level] = []
    kept: list[int] = []
    inner = candidates[0][1].size
    for i, (name, groups) in enumerate(candidates):
        # Groups are numbered densely.
        count = int(groups.max()) + 1
        adds_nothing = count == inner
        if name == "node" and adds_nothing and levels:
            # Same groups as the level inside: its cost, the name that reports look for.
            last = levels.pop()
            if last.origin == "assumed":
                # Somebody may know better what the node costs as a whole.
                last = costs.get(name, last)
            levels.append(replace(last, name=name))
            kept[-1] = i
        elif name == "node" or not adds_nothing:
            levels.append(level_of(name, costs))
            kept.append(i)
        inner = count
    return levels, kept


def machine_digest(machine: Machine) -> str:
    """16 hexadecimal digits that name a machine model (cores, groups, costs, nodes)."""
    digest = hashlib.sha256()
    for level in machine.levels:
        digest.update(f"{level.name} {level.latency_s!r} {level.seconds_per_byte!r}\n".encode())
    digest.update("\n".join(machine.node_names).encode())
    for array in (machine.groups, machine.node, machine.numa):
        digest.update(np.ascontiguousarray(array).astype("<i4").tobytes())
    digest.update(repr(machine.pus).encode())
    return digest.hexdigest()[:16]
