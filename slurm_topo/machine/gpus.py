"""The GPUs of a class of nodes: which CPUs they hang on, and how fast each pair of them is linked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from slurm_topo.errors import InputError, MachineError
from slurm_topo.machine.shape import MOST_CORES, NodeClass
from slurm_topo.units import expand_ints, fold_ints

if TYPE_CHECKING:
    from slurm_topo.hwloc.topology import Topology
    from slurm_topo.machine.affinity import Affinity
    from slurm_topo.machine.gpulinks import LinkMatrix

MOST_GPUS = 256


@dataclass(frozen=True)
class NodeGpus:
    """GPUs in the order in which the driver and Slurm number them.

    Attributes
    ----------
    pus : tuple of tuples of int, length g
        OS indices of the PUs next to each GPU; empty: as near to all, or unknown.
    links : tuple of g tuples of g float
        Bandwidth between two GPUs in one direction, GB/s, 0 on the diagonal and where unknown; empty where
        nobody knows.
    nics : tuple of g (str, float)
        The adapter with the best path to each GPU and the bandwidth of that path, GB/s (0 where unknown);
        empty where nobody knows. Of equally good ones the one that serves fewest.
    """

    pus: tuple[tuple[int, ...], ...]
    links: tuple[tuple[float, ...], ...] = ()
    nics: tuple[tuple[str, float], ...] = ()

    @property
    def count(self) -> int:
        """Number of GPUs g."""
        return len(self.pus)

    @property
    def distinct(self) -> bool:
        """It matters which GPU a rank has: they differ in what is near or how they are linked."""
        paths = {v for i, row in enumerate(self.links) for j, v in enumerate(row) if i != j}
        return len(set(self.pus)) > 1 or len(paths) > 1


def gpus_of_topology(topology: Topology, links: LinkMatrix | None = None) -> NodeGpus | None:
    """GPUs of a node that hwloc describes, None where it has none.

    Parameters
    ----------
    topology : Topology
        The node.
    links : LinkMatrix, optional
        What nvidia-smi or rocm-smi printed there; it overrules hwloc between GPUs.

    Raises
    ------
    MachineError
        The matrix has another number of GPUs.
    """
    from slurm_topo.hwloc.topology import bits
    from slurm_topo.machine.affinity import find_affinity

    affinity = find_affinity(topology, links)
    devices = [e.device for e in affinity.endpoints if e.device and e.device.kind == "gpu"]
    if not devices:
        return None
    allowed = topology.allowed_cpuset
    near = tuple(() if not d.numa else tuple(bits(d.cpuset & allowed)) for d in devices)
    return NodeGpus(near, _links(affinity), _nics(affinity))


def gpus_of_matrix(links: LinkMatrix) -> NodeGpus:
    """GPUs of a node of which only the driver's own matrix is known."""
    from slurm_topo.machine.affinity import from_matrix

    return NodeGpus(
        tuple(links.devices[i].cpus or () for i in links.gpus),
        _links(from_matrix(links)),
        _nics(from_matrix(links)),
    )


def _links(affinity: Affinity) -> tuple[tuple[float, ...], ...]:
    gpus = [i for i, e in enumerate(affinity.endpoints) if e.label.startswith("gpu")]
    if len(gpus) < 2:
        return ()
    return tuple(
        tuple(0.0 if i == j else round(affinity.paths[i][j].bandwidth_gbs, 3) for j in gpus) for i in gpus
    )


def _nics(affinity: Affinity) -> tuple[tuple[str, float], ...]:
    ends = affinity.endpoints
    nics = [i for i, e in enumerate(ends) if e.label.startswith("nic")]
    if not nics:
        return ()
    served = dict.fromkeys(nics, 0)
    found = []
    for gpu in (i for i, e in enumerate(ends) if e.label.startswith("gpu")):
        paths = affinity.paths[gpu]
        best = max(nics, key=lambda n: (paths[n].bandwidth_gbs, -paths[n].hops, -served[n], -n))
        served[best] += 1
        device = ends[best].device
        name = next(iter(device.names), "") if device else ""
        found.append((name or ends[best].label, round(paths[best].bandwidth_gbs, 3)))
    return tuple(found)


def gpus_of_cores(shape: NodeClass, cores: Sequence[Sequence[int]]) -> NodeGpus | None:
    """GPUs as Slurm's gres.conf describes them.

    Parameters
    ----------
    shape : NodeClass
        The node.
    cores : sequence of sequences of int
        Slurm's abstract cores next to each GPU (``Cores=``), empty: all. Where the node has no such core they
        are in some other numbering, and nothing is known of that GPU.
    """
    if not cores:
        return None
    known = [c if all(0 <= core < shape.cores for core in c) else () for c in cores]
    return NodeGpus(tuple(tuple(shape.os_cpus_of_cores(c)) for c in known))


def with_links(gpus: NodeGpus | None, links: LinkMatrix) -> NodeGpus | None:
    """The same GPUs with the links that the driver shows; unchanged where it shows another number."""
    other = gpus_of_matrix(links)
    if gpus is None or gpus.count != other.count:
        return gpus
    near = gpus.pus if any(gpus.pus) else other.pus
    return replace(gpus, pus=near, links=other.links, nics=other.nics or gpus.nics)


def distances(shape: NodeClass, gpus: NodeGpus, ranks: Sequence[Sequence[int]]) -> list[list[int]]:
    """How far each GPU is from each of some ranks.

    Parameters
    ----------
    shape : NodeClass
        The whole node, also cores that the job does not own: a GPU may hang on these.
    gpus : NodeGpus
        Its GPUs.
    ranks : sequence of sequences of int
        OS indices of the PUs of each rank.

    Returns
    -------
    list of lists of int
        A list a rank, a number a GPU. 0: the GPU is next to one of the rank's CPUs; l: they meet in the l-th
        group around the CPU (L3, NUMA node, package, node).
    """
    core_of = {pu: core for core, pus in enumerate(shape.pus) for pu in pus}
    around = [_groups(shape, core_of, near) for near in gpus.pus]
    found = []
    for pus in ranks:
        own = _groups(shape, core_of, pus)
        found.append(
            [
                next((n for n, (a, b) in enumerate(zip(own, there, strict=True)) if a & b), len(own))
                if near
                else 0
                for near, there in zip(gpus.pus, around, strict=True)
            ]
        )
    return found


def _groups(shape: NodeClass, core_of: Mapping[int, int], pus: Sequence[int]) -> list[set[int]]:
    """The PUs, and the groups of their cores on each level, innermost first."""
    cores = {core_of[pu] for pu in pus if pu in core_of}
    return [set(pus), *({groups[core] for core in cores} for _, groups in shape.groups)]


def gpus_json(gpus: NodeGpus) -> dict[str, Any]:
    """Value of ``gpus`` in a class of a cluster description."""
    document: dict[str, Any] = {"pus": [fold_ints(p) for p in gpus.pus]}
    if gpus.links:
        document["links"] = [list(row) for row in gpus.links]
    if gpus.nics:
        document["nics"] = [list(nic) for nic in gpus.nics]
    return document


def parse_gpus(raw: Mapping[str, Any], what: str) -> NodeGpus | None:
    """GPUs of a class of a cluster description, None where the class names none.

    Raises
    ------
    MachineError
        ``gpus`` is malformed.
    """
    if "gpus" not in raw:
        return None
    value = raw["gpus"]
    if not isinstance(value, dict) or not set(value) <= {"pus", "links", "nics"}:
        raise MachineError(f"{what}: gpus is a table of pus, links and nics; see docs/formats-cluster.md")
    pus, links = value.get("pus"), value.get("links", [])
    if not isinstance(pus, list) or not all(isinstance(p, str) for p in pus) or not 0 < len(pus) <= MOST_GPUS:
        raise MachineError(f"{what}, gpus: pus is a list of CPU lists such as 0-7, one a GPU; correct it")
    try:
        near = tuple(tuple(expand_ints(p)) if p else () for p in pus)
    except InputError as error:
        raise MachineError(f"{what}, gpus: {error}") from error
    if any(not 0 <= pu < MOST_CORES for p in near for pu in p):
        raise MachineError(f"{what}, gpus: a CPU of pus is out of range; correct it")
    if links and not _is_square(links, len(pus)):
        raise MachineError(f"{what}, gpus: links is a square matrix of GB/s, a row a GPU; correct it")
    nics = value.get("nics", [])
    if nics and not _are_nics(nics, len(pus)):
        raise MachineError(f"{what}, gpus: nics is a list of [name, GB/s], one a GPU; correct it")
    return NodeGpus(
        near,
        tuple(tuple(float(v) for v in row) for row in links),
        tuple((name, float(speed)) for name, speed in nics),
    )


def _are_nics(rows: Any, size: int) -> bool:
    return (
        isinstance(rows, list)
        and len(rows) == size
        and all(
            isinstance(row, list)
            and len(row) == 2
            and isinstance(row[0], str)
            and type(row[1]) in (int, float)
            and 0 <= row[1] < float("inf")
            for row in rows
        )
    )


def _is_square(rows: Any, size: int) -> bool:
    return (
        isinstance(rows, list)
        and len(rows) == size
        and all(
            isinstance(row, list)
            and len(row) == size
            and all(type(v) in (int, float) and 0 <= v < float("inf") for v in row)
            for row in rows
        )
    )
