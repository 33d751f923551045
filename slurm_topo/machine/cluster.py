"""A cluster: classes of equal nodes, the switches above them, and what the levels cost."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from slurm_topo.errors import MachineError
from slurm_topo.machine.build import build_machine
from slurm_topo.machine.fabric import Fabric, Switch
from slurm_topo.machine.gpus import NodeGpus, gpus_of_cores, gpus_of_topology
from slurm_topo.machine.shape import NodeClass, from_counts
from slurm_topo.model import Level, Machine


@dataclass(frozen=True)
class ClassEntry:
    """How a class of nodes was given, beside its resolved shape.

    Attributes
    ----------
    shape : NodeClass
        Cores and groups.
    hwloc, sha256 : str
        Path of the hwloc XML (as written, relative to the description) and the digest of its bytes; or empty.
    hardware : str
        Digest of what the XML says of the hardware, without names and serial numbers; or empty.
    synthetic : str
        hwloc synthetic string; or empty.
    counts : tuple of int or None
        Sockets, cores per socket, threads per core, where only these are known.
    gpus : NodeGpus or None
        GPUs, where something is known of them.
    """

    shape: NodeClass
    hwloc: str = ""
    sha256: str = ""
    hardware: str = ""
    synthetic: str = ""
    counts: tuple[int, int, int] | None = None
    gpus: NodeGpus | None = None


@dataclass(frozen=True)
class NodeShape:
    """A node for :func:`build_cluster`: Slurm's three numbers, or better a hwloc XML file.

    Attributes
    ----------
    name : str
        Host name.
    sockets, cores_per_socket, threads_per_core : int
        As ``scontrol show node`` prints them.
    hwloc : str
        Path of the node's hwloc XML; empty where there is none.
    gpus : tuple of tuples of int
        Slurm's abstract cores next to each GPU of its GRES (empty: all), in the order of Slurm's numbers.
    """

    name: str
    sockets: int = 1
    cores_per_socket: int = 1
    threads_per_core: int = 1
    hwloc: str = ""
    gpus: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True, eq=False)
class Cluster:
    """All nodes of a cluster.

    Attributes
    ----------
    name : str
        Slurm's name of the cluster, possibly empty.
    classes : mapping of str to ClassEntry
        Classes of equal nodes.
    nodes : mapping of str to str
        Class of each node, in Slurm's order.
    fabric : Fabric
        The switches.
    levels : tuple of Level
        Costs that were measured or given; the others are assumed.
    source : str
        Where it was read from.
    digest : str
        16 hexadecimal digits of the description, empty where it was never written.
    """

    name: str
    classes: Mapping[str, ClassEntry]
    nodes: Mapping[str, str]
    fabric: Fabric
    levels: tuple[Level, ...] = ()
    source: str = ""
    digest: str = ""
    _memo: dict[tuple[str, tuple[int, ...]], NodeClass] = field(default_factory=dict, repr=False)

    def shape(self, node: str) -> NodeClass:
        """Shape of a node.

        Raises
        ------
        MachineError
            The cluster has no such node.
        """
        if node not in self.nodes:
            raise MachineError(
                f"node {node}: not in {self.source or 'the cluster description'}; "
                "write it again with `slurm-topo sync`"
            )
        return self.classes[self.nodes[node]].shape

    def gpus(self, node: str) -> NodeGpus | None:
        """GPUs of a node; None where none are known."""
        return self.classes[self.nodes[node]].gpus if node in self.nodes else None

    def machine(
        self,
        nodes: Sequence[str] | None = None,
        cpus: Mapping[str, Collection[int]] | None = None,
        slots: str = "core",
    ) -> Machine:
        """The machine model of an allocation, or of the whole cluster.

        Parameters
        ----------
        nodes : sequence of str, optional
            Host names in Slurm's order; all nodes by default.
        cpus : mapping of str to collection of int, optional
            OS indices of the CPUs that the job owns on a node; a node that is missing is owned whole.
        slots : str
            ``core`` (one slot a core) or ``pu`` (one a hardware thread).

        Raises
        ------
        MachineError
            A node or a CPU is unknown, a node occurs twice, or nothing is left.
        """
        names = list(self.nodes) if nodes is None else list(nodes)
        if len(set(names)) < len(names):
            twice = next(n for i, n in enumerate(names) if n in names[:i])
            raise MachineError(f"node {twice}: named twice; name every node of the allocation once")
        if not names:
            raise MachineError("the allocation has no node; name at least one")
        shapes = [self._owned(name, cpus) for name in names]
        meta = {"source": self.source, "digest": self.digest, "cluster": self.name}
        known = {level.name: level for level in self.levels}
        whole = [self.shape(name).cores for name in names]
        if slots == "pu":
            whole = [sum(max(len(pus), 1) for pus in self.shape(name).pus) for name in names]
        return build_machine(names, shapes, self.fabric.tiers(names), known, slots, meta, whole)

    def _owned(self, node: str, cpus: Mapping[str, Collection[int]] | None) -> NodeClass:
        shape = self.shape(node)
        if cpus is None or node not in cpus:
            return shape
        key = (self.nodes[node], tuple(sorted(set(cpus[node]))))
        if key not in self._memo:
            try:
                self._memo[key] = shape.only(key[1])
            except MachineError as error:
                raise MachineError(f"node {node}: {error}") from error
        return self._memo[key]


def build_cluster(
    nodes: Iterable[NodeShape], switches: Iterable[Switch] = (), levels: Iterable[Level] = (), name: str = ""
) -> Cluster:
    """A cluster from what Slurm says of its nodes and switches; equal nodes share a class.

    Parameters
    ----------
    nodes : iterable of NodeShape
        In Slurm's order.
    switches : iterable of Switch
        As in topology.conf; nodes that are not in ``nodes`` are ignored (a partition of a cluster is fine).
    levels : iterable of Level
        Measured or given costs.
    name : str
        Slurm's name of the cluster.

    Raises
    ------
    MachineError
        A node occurs twice, has impossible numbers, or an unreadable hwloc file; the switches form no tree.
    """
    classes: dict[str, ClassEntry] = {}
    class_of: dict[str, str] = {}
    # Class by what was given, and by the hardware that it turned out to be.
    known: dict[tuple[object, ...], str] = {}
    for node in nodes:
        if node.name in class_of:
            raise MachineError(f"node {node.name}: described twice; remove one of the two")
        given = _key(node)
        if given not in known:
            entry = _entry(node)
            hardware = ("hardware", entry.hardware, entry.gpus) if entry.hardware else given
            if hardware not in known:
                known[hardware] = f"class{len(classes) + 1}"
                classes[known[hardware]] = entry
            known[given] = known[hardware]
        class_of[node.name] = known[given]
    kept = [Switch(s.name, tuple(n for n in s.nodes if n in class_of), s.switches) for s in switches]
    return Cluster(name, classes, class_of, Fabric(kept), tuple(levels))


def _key(node: NodeShape) -> tuple[object, ...]:
    if node.hwloc:
        try:
            return ("hwloc", hashlib.sha256(Path(node.hwloc).read_bytes()).hexdigest(), node.gpus)
        except OSError as error:
            raise MachineError(
                f"node {node.name}: {node.hwloc} cannot be read ({error.strerror}); capture the node again"
            ) from error
    return ("counts", node.sockets, node.cores_per_socket, node.threads_per_core, node.gpus)


def _entry(node: NodeShape) -> ClassEntry:
    try:
        if node.hwloc:
            entry = hwloc_entry(node.hwloc, node.hwloc)
            # GPUs are counted as Slurm counts them: where hwloc has another number, its order means nothing.
            if not node.gpus or (entry.gpus and entry.gpus.count == len(node.gpus)):
                return entry
            return replace(entry, gpus=gpus_of_cores(entry.shape, node.gpus))
        counts = (node.sockets, node.cores_per_socket, node.threads_per_core)
        shape = from_counts(*counts)
        return ClassEntry(shape, counts=counts, gpus=gpus_of_cores(shape, node.gpus))
    except MachineError as error:
        raise MachineError(f"node {node.name}: {error}") from error


def with_known_links(cluster: Cluster, known: Cluster) -> Cluster:
    """The cluster with the GPUs of an earlier description, where that has as many and knows their links."""
    classes = dict(cluster.classes)
    for node, name in reversed(list(cluster.nodes.items())):
        before, now = known.gpus(node), cluster.gpus(node)
        if before and now and before.links and before.count == now.count:
            classes[name] = replace(classes[name], gpus=before)
    return replace(cluster, classes=classes)


def hwloc_entry(written: str, path: str | Path) -> ClassEntry:
    """The class of nodes of a hwloc XML file; ``written`` is the path that the description keeps."""
    # Imported here: a launch that needs no XML must not load libhwloc.
    from slurm_topo.hwloc import reader
    from slurm_topo.machine.hardware import hardware_digest
    from slurm_topo.machine.local import node_class

    topology = reader.load_xml(path)
    digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    shape, hardware = node_class(topology), hardware_digest(topology)
    return ClassEntry(shape, written, digest, hardware, gpus=gpus_of_topology(topology))


def synthetic_entry(description: str) -> ClassEntry:
    """The class of nodes that a hwloc synthetic string describes."""
    from slurm_topo.hwloc import reader
    from slurm_topo.machine.local import node_class

    return ClassEntry(node_class(reader.load_synthetic(description)), synthetic=description)
