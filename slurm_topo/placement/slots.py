"""Slots: the places of an allocation that one rank each can have.

Slurm decides how many tasks a node gets, and a launch keeps that: memory and the user's wish depend on it.
Which cores of the node they get is ours: ranks are spread evenly over the domains of the node (NUMA before
L3), because each domain has its own memory bandwidth; or packed into as few domains as hold them, because
messages inside a domain are cheaper. Both are the same where every core has a rank.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from slurm_topo.errors import PlacementError
from slurm_topo.machine.links import link_bandwidths
from slurm_topo.model import Ints, Machine
from slurm_topo.placement.baselines import node_and_socket

# Room of each group and number of tasks -> tasks of each group.
_Share = Callable[[list[int], int], list[int]]


@dataclass(frozen=True, eq=False)
class Slots:
    """An allocation as one slot a rank.

    Attributes
    ----------
    machine : Machine
        One "core" per slot, in the order of nodes.
    cores : tuple of tuples of int
        Cores of the allocation's machine that make up each slot.
    """

    machine: Machine
    cores: tuple[tuple[int, ...], ...]


def make_slots(
    machine: Machine, tasks_per_node: Sequence[int], cpus_per_task: int, packed: bool = False
) -> Slots:
    """Slots of an allocation.

    Parameters
    ----------
    machine
        The allocation's cores.
    tasks_per_node
        Number of ranks on each node of ``machine.node_names``.
    cpus_per_task
        Slurm CPUs (threads, or cores where the machine has one thread a core) of each rank.
    packed
        Fill domain after domain instead of all evenly.

    Raises
    ------
    PlacementError
        A node has fewer cores than its ranks need.
    """
    slots: list[tuple[int, ...]] = []
    for node, tasks in enumerate(tasks_per_node):
        cores = np.flatnonzero(machine.node == node).astype(np.int32)
        width = _cores_per_rank(machine, cores, cpus_per_task)
        if tasks * width > len(cores):
            raise PlacementError(
                f"node {machine.node_names[node]}: {tasks} ranks of {width} cores do not fit on "
                f"{len(cores)} cores; ask for more nodes or fewer ranks a node"
            )
        share = _full_share if packed else _even_share
        slots.extend(_deal(machine, cores, len(machine.levels) - 1, tasks, width, share))
    return Slots(_reduce(machine, slots), tuple(slots))


def with_spare(machine: Machine, slots: Slots) -> Slots:
    """The slots with the cores that no rank asked for: each goes to the nearest slot of its node.

    Of equally near ones the smallest.

    Slurm, too, lets a rank have them that was not given its CPUs by number. The machine of the slots stays.
    """
    grown = [list(slot) for slot in slots.cores]
    used = {c for slot in grown for c in slot}
    for core in (c for c in range(machine.cores) if c not in used):
        here = [slot for slot in grown if machine.node[slot[0]] == machine.node[core]]
        if here:
            apart = [int((machine.groups[:, slot[0]] != machine.groups[:, core]).sum()) for slot in here]
            _, _, nearest = min(zip(apart, map(len, here), range(len(here)), strict=True))
            here[nearest].append(core)
    return Slots(slots.machine, tuple(tuple(slot) for slot in grown))


def slots_of_places(machine: Machine, places: Sequence[tuple[int, Sequence[int]]]) -> Slots:
    """Slots that were given already: node and OS CPUs of each rank, in any order.

    Raises
    ------
    PlacementError
        A rank has no CPU of the machine, or two ranks share a core.
    """
    core_of = {(int(machine.node[c]), pu): c for c, pus in enumerate(machine.pus) for pu in pus}
    slots = []
    for node, cpus in places:
        cores = tuple(sorted({core_of[node, pu] for pu in cpus if (node, pu) in core_of}))
        if not cores:
            raise PlacementError(
                f"a rank has no CPU on node {machine.node_names[node]}; its plan is another's"
            )
        slots.append(cores)
    used = [c for slot in slots for c in slot]
    if len(set(used)) < len(used):
        raise PlacementError("two ranks of the plan share a core; it is another machine's")
    # The cores of a machine stand node by node.
    slots.sort()
    return Slots(_reduce(machine, slots), tuple(slots))


def all_slots(machine: Machine, cores: Sequence[int] | None, width: int) -> Slots:
    """As many slots of `width` cores as there is room for on each node.

    Parameters
    ----------
    machine : Machine
        The whole machine.
    cores : sequence of int, optional
        Cores that may be used; all by default.
    width : int
        Cores of each slot: neighbours, and of one domain where the domains are large enough.

    Raises
    ------
    PlacementError
        There is no room for a single slot.
    """
    allowed = np.arange(machine.cores) if cores is None else np.unique(np.asarray(cores, dtype=np.int64))
    node, _ = node_and_socket(machine)
    slots: list[tuple[int, ...]] = []
    for number in dict.fromkeys(node[allowed].tolist()):
        own = allowed[node[allowed] == number].astype(np.int32)
        if width == 1:
            slots.extend((core,) for core in own.tolist())
            continue
        tasks = len(own) // width
        slots.extend(_deal(machine, own, len(machine.levels) - 1, tasks, width, _even_share))
    if not slots:
        raise PlacementError(
            f"{width} cores a rank: no node has as many of the {allowed.size} cores; ask for fewer"
        )
    return Slots(_reduce(machine, slots), tuple(slots))


def _cores_per_rank(machine: Machine, cores: Ints, cpus_per_task: int) -> int:
    threads = max((len(machine.pus[c]) for c in cores), default=1) or 1
    return -(-max(cpus_per_task, 1) // threads)


def _deal(
    machine: Machine, cores: Ints, level: int, tasks: int, width: int, share_out: _Share
) -> list[tuple[int, ...]]:
    """Split ``tasks`` over the groups below ``level``, each group's again over those in it."""
    if tasks == 0:
        return []
    if level == 0:
        return [tuple(int(c) for c in cores[i * width : (i + 1) * width]) for i in range(tasks)]
    ids = machine.groups[level - 1, cores]
    children = [cores[ids == g] for g in dict.fromkeys(ids.tolist())]
    capacity = [len(c) // width for c in children]
    if sum(capacity) < tasks:
        # Domains smaller than a rank: ranks have to cross them.
        return [tuple(int(c) for c in cores[i * width : (i + 1) * width]) for i in range(tasks)]
    share = share_out(capacity, tasks)
    return [
        slot
        for child, count in zip(children, share, strict=True)
        for slot in _deal(machine, child, level - 1, count, width, share_out)
    ]


def _even_share(capacity: list[int], tasks: int) -> list[int]:
    """Fill the emptiest group that has room, first one first."""
    share = [0] * len(capacity)
    for _ in range(tasks):
        open_groups = [i for i, c in enumerate(capacity) if share[i] < c]
        share[min(open_groups, key=lambda i: (share[i], i))] += 1
    return share


def _full_share(capacity: list[int], tasks: int) -> list[int]:
    """Fill the roomiest groups; the rest goes where it fits most tightly, first one first."""
    share = [0] * len(capacity)
    while tasks:
        left = [i for i, c in enumerate(capacity) if c and not share[i]]
        enough = [i for i in left if capacity[i] >= tasks]
        chosen = min(enough, key=capacity.__getitem__) if enough else max(left, key=capacity.__getitem__)
        share[chosen] = min(capacity[chosen], tasks)
        tasks -= share[chosen]
    return share


def _reduce(machine: Machine, slots: list[tuple[int, ...]]) -> Machine:
    first = np.array([s[0] for s in slots], dtype=np.int64)
    return Machine(
        levels=machine.levels,
        groups=np.ascontiguousarray(machine.groups[:, first]),
        node=machine.node[first],
        node_names=machine.node_names,
        pus=tuple(tuple(sorted(p for c in slot for p in machine.pus[c])) for slot in slots),
        numa=machine.numa[first],
        meta=machine.meta,
        hbm=tuple(tuple(sorted({n for c in s for n in machine.hbm[c]})) for s in slots)
        if machine.hbm
        else (),
        link_bandwidth=np.ascontiguousarray(link_bandwidths(machine)[:, first]),
        distances=machine.distances and replace(machine.distances, row=machine.distances.row[first]),
    )
