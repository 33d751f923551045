"""From a hwloc topology to the shape of a node: cores, their PUs and NUMA nodes, and nested groups."""

from __future__ import annotations

from collections.abc import Sequence

from slurm_topo.errors import MachineError
from slurm_topo.hwloc.topology import Object, Topology
from slurm_topo.machine.shape import INSIDE, NodeClass, renumber

# Memory that is not where a program's pages go by default: the later, the less.
_HIGH_BANDWIDTH = ("HBM", "MCDRAM")
_SPECIAL_MEMORY = ("HBM", "MCDRAM", "CXL-DRAM", "CXL-Memory", "SPM", "NVM", "CXL-NVM", "GPUMemory")


def node_class(topology: Topology) -> NodeClass:
    """The shape of a node; cores that may not be used are left out.

    Raises
    ------
    MachineError
        There is no usable PU.
    """
    cores = _cores(topology)
    if not cores:
        raise MachineError(
            f"{topology.origin}: no PU that may be used; look at it with `slurm-topo machine show`"
        )
    levels: list[tuple[str, tuple[int, ...]]] = []
    for name, groups in (
        ("l2", _cache_groups(topology, cores, "L2Cache")),
        ("l3", _cache_groups(topology, cores, "L3Cache")),
        ("die", _cache_groups(topology, cores, "Die")),
        ("numa", renumber([_local_nodes(topology, c) for c, _ in cores])),
        ("package", _cache_groups(topology, cores, "Package")),
    ):
        if groups is not None:
            levels.append((name, groups))
    return NodeClass(
        pus=tuple(pus for _, pus in cores),
        numa=tuple(_home(topology, c) for c, _ in cores),
        groups=nested(levels),
        threads=max(len(pus) for _, pus in cores),
        hbm=_hbm(topology, cores),
    )


def _cores(topology: Topology) -> list[tuple[Object, tuple[int, ...]]]:
    """Cores in logical order with their usable PUs in logical order; PUs without a core stand for one."""
    pus = topology.of_kind("PU")
    owner: dict[int, Object] = {}
    members: dict[int, list[int]] = {}
    for pu in pus:
        if not topology.allowed_cpuset >> pu.os_index & 1:
            continue
        core = next((p for p in topology.parents(pu) if p.kind == "Core"), pu)
        owner[core.index] = core
        members.setdefault(core.index, []).append(pu.os_index)
    return [(owner[i], tuple(members[i])) for i in members]


def _cache_groups(
    topology: Topology, cores: Sequence[tuple[Object, tuple[int, ...]]], kind: str
) -> tuple[int, ...] | None:
    """Index of the object of this kind above each core; a core without one is alone. None: there are none."""
    found = [
        next((p.index for p in topology.parents(core) if p.kind == kind), -1 - core.index)
        for core, _ in cores
    ]
    return renumber(found) if any(i >= 0 for i in found) else None


def _local_nodes(topology: Topology, core: Object) -> int:
    """Bit set of the NUMA nodes that hwloc finds local to a core."""
    return core.nodeset


def _home(topology: Topology, core: Object) -> int:
    """OS index of the NUMA node that a core's memory comes from by default, -1 where unknown."""
    near = [o for o in topology.of_kind("NUMANode") if core.nodeset >> max(o.os_index, 0) & 1]
    if not near:
        return -1
    # Ordinary memory, the most specific; of several (flat-mode MCDRAM) the first, which is DRAM.
    return min(near, key=_rank).os_index


def _rank(obj: Object) -> tuple[bool, int, int, int]:
    special = _SPECIAL_MEMORY.index(obj.subtype) + 1 if obj.subtype in _SPECIAL_MEMORY else 0
    return (obj.size == 0, special, obj.cpuset.bit_count() or 1 << 30, obj.os_index)


def is_hbm(topology: Topology, node: Object) -> bool:
    """Whether a NUMA node is high-bandwidth memory.

    hwloc's word for it counts. Where it has none, memory without CPUs of its own is that whose bandwidth, as
    the firmware (HMAT) tells, is at least twice that of every node with CPUs.
    """
    if node.subtype:
        return node.subtype in _HIGH_BANDWIDTH
    bandwidth: dict[int, int] = {}
    for attribute in topology.memory_attributes:
        if attribute.name == "Bandwidth":
            for value in attribute.values:
                bandwidth[value.target] = max(value.value, bandwidth.get(value.target, 0))
    known = [o for o in topology.of_kind("NUMANode") if o.index in bandwidth]
    ordinary = [bandwidth[o.index] for o in known if _is_home(topology, o)]
    mine = bandwidth.get(node.index, 0)
    return bool(ordinary) and not _is_home(topology, node) and mine >= 2 * max(ordinary)


def memory_kind(topology: Topology, node: Object) -> str:
    """What a NUMA node is made of, where that is anything but ordinary memory."""
    return node.subtype or ("HBM" if node.size and is_hbm(topology, node) else "")


def _is_home(topology: Topology, node: Object) -> bool:
    """Whether it is the default memory of some core."""
    return any(
        _home(topology, core) == node.os_index
        for core in topology.of_kind("Core") or topology.of_kind("PU")
        if core.nodeset >> max(node.os_index, 0) & 1
    )


def _hbm(topology: Topology, cores: Sequence[tuple[Object, tuple[int, ...]]]) -> tuple[tuple[int, ...], ...]:
    """High-bandwidth memory next to each core: the nearest of what is local to it, or else to its package."""
    nodes = [o for o in topology.of_kind("NUMANode") if o.size and is_hbm(topology, o)]
    if not nodes:
        return ()
    latency = _latencies(topology)
    found = []
    for core, _ in cores:
        home = _home(topology, core)
        package = next((p.nodeset for p in topology.parents(core) if p.kind == "Package"), 0)
        local = [o for o in nodes if core.nodeset >> o.os_index & 1]
        near = local or [o for o in nodes if package >> o.os_index & 1]
        far = {o.os_index: latency.get((home, o.os_index), 0) for o in near}
        found.append(tuple(sorted(n for n, distance in far.items() if distance == min(far.values()))))
    return tuple(found)


def _latencies(topology: Topology) -> dict[tuple[int, int], int]:
    """The firmware's distances between NUMA nodes by their OS indices."""
    found = {}
    for matrix in topology.distances:
        nodes = [topology.objects[i] for i in matrix.objects]
        if matrix.means == "latency" and all(o.kind == "NUMANode" for o in nodes):
            for a, row in zip(nodes, matrix.values, strict=True):
                found.update({(a.os_index, b.os_index): v for b, v in zip(nodes, row, strict=True)})
    return found


def nested(levels: Sequence[tuple[str, tuple[int, ...]]]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Levels from fine to coarse, each nested in the next; what does not nest, or adds nothing, is dropped.

    Where an L3 spans NUMA nodes (sub-NUMA clustering) the L3 goes, because its slices belong to the clusters;
    where a NUMA node spans packages the NUMA level goes; where an L2 and an L3 agree the L3 stays; a die that
    is a NUMA node or a package, or that holds several NUMA nodes, goes.
    """
    kept: list[tuple[str, tuple[int, ...]]] = []
    for name, groups in sorted(levels, key=lambda item: -len(set(item[1]))):
        if len(set(groups)) == len(groups):
            continue
        if kept and (INSIDE.index(kept[-1][0]) > INSIDE.index(name) or not _refines(kept[-1][1], groups)):
            continue
        if kept and len(set(kept[-1][1])) == len(set(groups)):
            # The word that says more: a cache, or anything rather than a die.
            if name == "l3" or kept[-1][0] == "die":
                kept[-1] = (name, groups)
            continue
        kept.append((name, groups))
    return tuple(kept)


def _refines(fine: Sequence[int], coarse: Sequence[int]) -> bool:
    """True when cores that share a fine group share the coarse one."""
    return len(set(zip(fine, coarse, strict=True))) == len(set(fine))
