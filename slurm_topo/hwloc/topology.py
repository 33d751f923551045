"""What hwloc knows about one node, as frozen Python values; nothing here refers to C memory.

Sets of processing units and of NUMA nodes are integers whose bit i stands for OS index i.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field


def bits(mask: int) -> list[int]:
    """OS indices in a set, ascending.

    Examples
    --------
    >>> bits(0b1011)
    [0, 1, 3]
    """
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found


@dataclass(frozen=True)
class PciAttributes:
    """Address, identity and link of a PCI function.

    Attributes
    ----------
    address : str
        ``0000:c1:00.0``.
    class_id, vendor, device, subvendor, subdevice, revision : int
        As in the configuration space; class_id is base class and subclass, for example 0x0302.
    link_gbs : float
        Bandwidth of the link as hwloc saw it, GB/s; 0 where unknown.
    """

    address: str
    class_id: int
    vendor: int
    device: int
    subvendor: int
    subdevice: int
    revision: int
    link_gbs: float


@dataclass(frozen=True)
class BridgeAttributes:
    """A bridge: ``host`` for a root complex, and the PCI buses below it (None where unknown)."""

    host: bool
    buses: str | None


@dataclass(frozen=True)
class Object:
    """One object of the topology.

    Attributes
    ----------
    index : int
        Position in :attr:`Topology.objects`.
    kind : str
        hwloc's name of the type: ``Machine``, ``Package``, ``Die``, ``NUMANode``, ``MemCache``, ``L3Cache``,
        ``Group``, ``Core``, ``PU``, ``Bridge``, ``PCIDev``, ``OSDev``, ``Misc`` ...
    logical : int
        Logical index among the objects of the same kind and depth.
    os_index : int
        OS index, -1 where there is none.
    name, subtype : str
        Empty where hwloc has none.
    cpuset, nodeset : int
        Bit sets of OS indices (disallowed ones included); 0 for I/O and Misc objects.
    complete_cpuset : int
        The same with PUs that are offline or were not discovered.
    parent : int
        Index of the parent, -1 for the root.
    children, memory_children, io_children, misc_children : tuple of int
        Indices of the children, by hwloc's four lists.
    size : int
        Bytes of a cache, or of the local memory of a NUMA node.
    roles : frozenset of str
        Of an OS device: ``block``, ``gpu``, ``network``, ``openfabrics``, ``dma``, ``coproc``, ``memory``.
    pci : PciAttributes or None
        Of a PCI device, and of a bridge below another bridge.
    bridge : BridgeAttributes or None
        Of a bridge.
    infos : mapping of str to str
        hwloc's name/value pairs; values of a name that repeats are joined by commas.
    """

    index: int
    kind: str
    logical: int
    os_index: int
    name: str
    subtype: str
    cpuset: int
    nodeset: int
    complete_cpuset: int
    parent: int
    children: tuple[int, ...] = ()
    memory_children: tuple[int, ...] = ()
    io_children: tuple[int, ...] = ()
    misc_children: tuple[int, ...] = ()
    size: int = 0
    roles: frozenset[str] = frozenset()
    pci: PciAttributes | None = None
    bridge: BridgeAttributes | None = None
    infos: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Distances:
    """A matrix between objects, for example ``NUMALatency`` or ``NVLinkBandwidth``.

    ``values[i][j]`` goes from ``objects[i]`` to ``objects[j]`` (indices into :attr:`Topology.objects`);
    ``means`` is ``latency``, ``bandwidth`` or ``other``. Bandwidths are MB/s, latencies have no unit.
    """

    name: str
    means: str
    objects: tuple[int, ...]
    values: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class MemoryValue:
    """A memory attribute of a NUMA node, seen from ``initiator`` (a cpuset, None where irrelevant)."""

    target: int
    initiator: int | None
    value: int


@dataclass(frozen=True)
class MemoryAttribute:
    """A memory attribute such as ``Bandwidth`` (MB/s) or ``Latency`` (ns), where hwloc has values for it."""

    name: str
    values: tuple[MemoryValue, ...]


@dataclass(frozen=True)
class CpuKind:
    """PUs of one kind (such as efficiency cores); ``efficiency`` is -1 where unknown, higher is faster."""

    cpuset: int
    efficiency: int
    infos: Mapping[str, str]


@dataclass(frozen=True)
class Topology:
    """One node as hwloc sees it.

    Attributes
    ----------
    objects : tuple of Object
        Depth first, a parent before its children; ``objects[0]`` is the root.
    distances, memory_attributes, cpu_kinds : tuples
        What hwloc found of them.
    allowed_cpuset, allowed_nodeset : int
        What the operating system lets us use; PUs outside are *disallowed*.
    origin : str
        Where it comes from, for messages: ``this machine``, a path, or the synthetic string.
    """

    objects: tuple[Object, ...]
    distances: tuple[Distances, ...]
    memory_attributes: tuple[MemoryAttribute, ...]
    cpu_kinds: tuple[CpuKind, ...]
    allowed_cpuset: int
    allowed_nodeset: int
    origin: str

    @property
    def root(self) -> Object:
        """The Machine object."""
        return self.objects[0]

    def of_kind(self, kind: str) -> list[Object]:
        """All objects of a kind, in logical order."""
        found = [o for o in self.objects if o.kind == kind]
        return sorted(found, key=lambda o: o.logical)

    def parents(self, obj: Object) -> Iterator[Object]:
        """The ancestors of an object, nearest first."""
        while obj.parent >= 0:
            obj = self.objects[obj.parent]
            yield obj

    def locality(self, obj: Object) -> Object:
        """The nearest object with a CPU set: where an I/O or Misc object is attached, itself for others."""
        if obj.kind not in ("Bridge", "PCIDev", "OSDev", "Misc"):
            return obj
        return next(p for p in self.parents(obj) if p.kind not in ("Bridge", "PCIDev", "OSDev", "Misc"))

    def below(self, obj: Object) -> Iterator[Object]:
        """All objects under an object, depth first."""
        for child in (*obj.children, *obj.memory_children, *obj.io_children, *obj.misc_children):
            yield self.objects[child]
            yield from self.below(self.objects[child])

    @property
    def disallowed_cpuset(self) -> int:
        """PUs that are there but may not be used."""
        return self.root.cpuset & ~self.allowed_cpuset

    @property
    def offline_cpuset(self) -> int:
        """PUs that the machine has but that are offline or unknown."""
        return self.root.complete_cpuset & ~self.root.cpuset
