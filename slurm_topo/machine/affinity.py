"""Paths between all devices and NUMA nodes of one node: NVLink and xGMI first, else through the PCIe tree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slurm_topo.errors import MachineError
from slurm_topo.hwloc.topology import Topology
from slurm_topo.machine.bandwidthclass import class_of
from slurm_topo.machine.devices import Device, find_devices
from slurm_topo.machine.gpulinks.matrix import LinkMatrix
from slurm_topo.machine.gpulinks.paths import PCIE_DEFAULT_GBS, Path, nvlink_gbs, paths_of

# GB/s between NUMA nodes where no one measured it, and what is left of PCIe over such a link.
_NUMA_LINK_GBS = 100.0
_SOCKET_LINK_GBS = 60.0
_MOST_LINKS = 18
# PCI identity of GPUs that share a package and its memory with a CPU: MI300A.
_APUS = ((0x1002, 0x74A0),)


@dataclass(frozen=True)
class Endpoint:
    """A device (``gpu0``, ``nic1``, ``nvme0``) or the memory and cores of a NUMA node (``numa8``)."""

    label: str
    device: Device | None
    numa: tuple[int, ...]
    package: int


@dataclass(frozen=True)
class Affinity:
    """All endpoints and the path between each pair; ``paths[i][j]`` equals ``paths[j][i]``."""

    endpoints: tuple[Endpoint, ...]
    paths: tuple[tuple[Path, ...], ...]


def find_affinity(topology: Topology, links: LinkMatrix | None = None) -> Affinity:
    """Paths between the devices and NUMA nodes of a node.

    Parameters
    ----------
    topology : Topology
        The node.
    links : LinkMatrix, optional
        What nvidia-smi or rocm-smi printed on the same node; it overrules hwloc between GPUs.

    Raises
    ------
    MachineError
        The matrix has another number of GPUs than the topology.
    """
    devices = find_devices(topology)
    ends = [Endpoint(d.label, d, d.numa, _package(topology, d.cpuset)) for d in devices]
    for node in topology.of_kind("NUMANode"):
        ends.append(Endpoint(f"numa{node.os_index}", None, (node.os_index,), _package(topology, node.cpuset)))
    special = {**_from_distances(topology, ends), **_from_links(links, ends)}
    n = len(ends)
    rows: list[list[Path]] = [[Path("self", 0, 0, 0.0, "reported", "X")] * n for _ in range(n)]
    for i in range(n):
        for j in range(i):
            path = special.get((j, i)) or _through_tree(ends[j], ends[i])
            rows[i][j] = rows[j][i] = path
    return Affinity(tuple(ends), tuple(tuple(row) for row in rows))


def _package(topology: Topology, cpuset: int) -> int:
    """Logical index of the package around a CPU set, -1 where there is none or it spans several."""
    around = [p.logical for p in topology.of_kind("Package") if cpuset and not cpuset & ~p.cpuset]
    return around[0] if around else -1


def _from_links(links: LinkMatrix | None, ends: Sequence[Endpoint]) -> dict[tuple[int, int], Path]:
    if links is None:
        return {}
    gpus = [i for i, e in enumerate(ends) if e.label.startswith("gpu")]
    if len(gpus) != len(links.gpus):
        raise MachineError(
            f"{links.tool}: shows {len(links.gpus)} GPUs, the machine has {len(gpus)}; "
            "use outputs of one and the same node"
        )
    own = {i: ends[gpus[k]].device for k, i in enumerate(links.gpus)}
    models = {i: d.model for i, d in own.items() if d}
    speeds = {i: d.link_gbs for i, d in own.items() if d}
    where = dict(zip(links.gpus, gpus, strict=True)) | _nics(links, ends)
    paths = paths_of(links, models, speeds)
    return {
        (min(where[i], where[j]), max(where[i], where[j])): paths[i][j]
        for i in where
        for j in where
        if i < j and links.codes[i][j] != "N/A"
    }


def _nics(links: LinkMatrix, ends: Sequence[Endpoint]) -> dict[int, int]:
    """NICs of the matrix whose name hwloc knows too."""
    names = {
        name: i for i, e in enumerate(ends) if e.device and e.device.kind == "nic" for name in e.device.names
    }
    return {i: names[links.devices[i].name] for i in links.nics if links.devices[i].name in names}


def _from_distances(topology: Topology, ends: Sequence[Endpoint]) -> dict[tuple[int, int], Path]:
    """NVLink and xGMI between GPUs, and NVLink between CPUs and GPUs, from hwloc's matrices."""
    found: dict[tuple[int, int], Path] = {}
    hops = _hops(topology, ends)
    for matrix in topology.distances:
        kind = {"NVLinkBandwidth": "nvlink", "XGMIBandwidth": "xgmi"}.get(matrix.name)
        if kind is None:
            continue
        places = [_ends_of(topology, index, ends) for index in matrix.objects]
        for a, ends_a in enumerate(places):
            for b, ends_b in enumerate(places):
                speed = matrix.values[a][b] / 1000.0
                if a == b or speed <= 0:
                    continue
                shared = kind == "nvlink" and _on_switch(
                    matrix.values[a], a, ends[ends_a[0]] if ends_a else None
                )
                for i in ends_a:
                    for j in ends_b:
                        found[min(i, j), max(i, j)] = _gpu_path(
                            kind, speed, shared, hops.get((i, j), 1), ends[i]
                        )
    return found


def _gpu_path(kind: str, speed: float, shared: bool, hops: int, end: Endpoint) -> Path:
    if kind == "xgmi":
        return Path("xgmi", hops, 1, speed, "reported")
    links = max(round(speed / nvlink_gbs(end.device.model if end.device else "")), 1)
    return (
        Path("nvswitch", 2, links, speed, "reported")
        if shared
        else Path("nvlink", 1, links, speed, "reported")
    )


def _on_switch(row: Sequence[int], own: int, end: Endpoint | None) -> bool:
    """More bandwidth to all peers together than a GPU has links for: they share it through a switch."""
    per_link = nvlink_gbs(end.device.model if end and end.device else "")
    links = [value / 1000.0 / per_link for i, value in enumerate(row) if i != own]
    return sum(links) > _MOST_LINKS + 0.5


def _hops(topology: Topology, ends: Sequence[Endpoint]) -> dict[tuple[int, int], int]:
    found: dict[tuple[int, int], int] = {}
    for matrix in topology.distances:
        if matrix.name != "XGMIHops":
            continue
        places = [_ends_of(topology, index, ends) for index in matrix.objects]
        for a, ends_a in enumerate(places):
            for b, ends_b in enumerate(places):
                found.update({(i, j): matrix.values[a][b] for i in ends_a for j in ends_b})
    return found


def _ends_of(topology: Topology, index: int, ends: Sequence[Endpoint]) -> list[int]:
    """Endpoints that an object of a distance matrix stands for: a GPU, or the NUMA nodes of a package."""
    obj = topology.objects[index]
    own = [i for i, e in enumerate(ends) if e.device and index in e.device.objects]
    if own:
        return own
    return [i for i, e in enumerate(ends) if e.device is None and obj.nodeset >> e.numa[0] & 1]


def _through_tree(a: Endpoint, b: Endpoint) -> Path:
    if a.device and b.device:
        return _pcie(a, b)
    own = next((e.device for e in (a, b) if e.device), None)
    if own and (own.vendor, own.device) in _APUS and set(a.numa) == set(b.numa):
        # CPU and GPU of one package share its memory; the PCIe link that the GPU shows is none.
        return Path("c2c", 1, 1, class_of(own).gb_per_s, "derived")
    speeds = [e.device.link_gbs for e in (a, b) if e.device and e.device.link_gbs]
    has_device = bool(a.device or b.device)
    link = speeds[0] if speeds else PCIE_DEFAULT_GBS if has_device else 0.0
    origin = "derived" if speeds else "assumed"
    return _between_nodes(a, b, link, origin, has_device)


def _pcie(a: Endpoint, b: Endpoint) -> Path:
    """Two devices: by the bridges that they have in common, else by their NUMA nodes."""
    assert a.device is not None
    assert b.device is not None
    speeds = [d.link_gbs for d in (a.device, b.device) if d.link_gbs]
    link, origin = (min(speeds), "derived") if speeds else (PCIE_DEFAULT_GBS, "assumed")
    one, two = a.device.bridges, b.device.bridges
    common = _common(one, two)
    if common >= 2:
        below = len(one) + len(two) - 2 * common
        code, share = ("PIX", 1.0) if below <= 2 else ("PXB", 0.95)
        return Path("pcie-switch", max(below, 1), 1, round(share * link, 3), origin, code)
    if common == 1:
        return Path("host-bridge", 2, 1, round(0.8 * link, 3), origin, "PHB")
    return _between_nodes(a, b, link, origin, True)


def _common(one: Sequence[str], two: Sequence[str]) -> int:
    count = 0
    for x, y in zip(one, two, strict=False):
        if x != y:
            break
        count += 1
    return count


def _between_nodes(a: Endpoint, b: Endpoint, link: float, origin: str, has_device: bool) -> Path:
    both = 1 if a.device and b.device else 0

    def limited(top: float, share: float) -> float:
        return round(min(top, share * link), 3) if has_device else top

    if not a.numa or not b.numa:
        # As near to all NUMA nodes: nobody knows better.
        return Path("unknown", 2 + both, 1, limited(_SOCKET_LINK_GBS, 0.5), "assumed")
    if set(a.numa) & set(b.numa):
        return Path(
            "host-bridge",
            1 + 2 * both,
            1,
            limited(link, 0.7 if both else 1.0),
            origin,
            "NODE" if both else "",
        )
    if a.package >= 0 and a.package == b.package:
        top, kind, hops = _NUMA_LINK_GBS, "numa-link", 2 + both
    else:
        top, kind, hops = _SOCKET_LINK_GBS, "socket-link", 3 + both
    return Path(kind, hops, 1, limited(top, 0.5), origin if has_device else "assumed", "SYS" if both else "")


def from_matrix(links: LinkMatrix) -> Affinity:
    """Paths between the GPUs and NICs of a matrix alone, where there is no hwloc file of the node."""
    ends = []
    numbers = {"gpu": 0, "nic": 0}
    for device in links.devices:
        ends.append(Endpoint(f"{device.kind}{numbers[device.kind]}", None, device.numa or (), -1))
        numbers[device.kind] += 1
    return Affinity(tuple(ends), paths_of(links))
