"""The joint encoding of a node: a record for every device and the path between all pairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from slurm_topo.hwloc.topology import Topology, bits
from slurm_topo.machine.affinity import Affinity, find_affinity, from_matrix
from slurm_topo.machine.bandwidthclass import BandwidthClass, class_of, class_of_model
from slurm_topo.machine.devices import Device
from slurm_topo.machine.gpulinks.matrix import LinkMatrix
from slurm_topo.machine.gpulinks.paths import Path
from slurm_topo.units import fold_ints

# Paths that need neither a CPU nor its memory.
_DIRECT = ("nvlink", "nvswitch", "xgmi", "c2c", "pcie-switch")
_PCIE_CODES = ("PIX", "PXB", "PHB", "NODE", "SYS")
_SHORT = {
    "nvlink": "NVL",
    "nvswitch": "NVS",
    "xgmi": "XGMI",
    "c2c": "C2C",
    "pcie-switch": "PIX",
    "host-bridge": "PHB",
    "numa-link": "NUMA",
    "socket-link": "SYS",
    "unknown": "?",
    "self": "x",
}


def encode(topology: Topology, links: LinkMatrix | None = None) -> dict[str, Any]:
    """``devices`` (``bandwidth_class``, ``topo_mask``, ``root_complex_id``) and ``device_affinity`` by pair.

    ``pcie_switches`` lists the bridges below a root complex that several devices hang on, innermost last.

    Parameters
    ----------
    topology : Topology
        The node.
    links : LinkMatrix, optional
        What nvidia-smi or rocm-smi printed on it.

    Raises
    ------
    MachineError
        The matrix is not of this node.
    """
    affinity = find_affinity(topology, links)
    found = [e.device for e in affinity.endpoints if e.device]
    roots = {root: i for i, root in enumerate(sorted({d.bridges[0] for d in found if d.bridges}))}
    devices = []
    for i, device in enumerate(found):
        devices.append(_record(i, device, affinity, roots))
    return {
        "devices": devices,
        "pcie_switches": _switches(found, roots),
        "device_affinity": _pairs(affinity),
    }


def _switches(devices: Sequence[Device], roots: dict[str, int]) -> list[dict[str, Any]]:
    below: dict[tuple[str, ...], list[Device]] = {}
    for device in devices:
        for depth in range(2, len(device.bridges) + 1):
            below.setdefault(device.bridges[:depth], []).append(device)
    found = []
    for path, members in sorted(below.items()):
        # A chain of bridges with the same devices is one switch, its innermost bridge; a card of several
        # functions is none.
        chained = any(len(p) > len(path) and p[: len(path)] == path and below[p] == members for p in below)
        if len({m.card for m in members}) > 1 and not chained:
            labels = [m.label for m in members]
            found.append({"bridge": path[-1], "root_complex_id": roots[path[0]], "devices": labels})
    return found


def _record(index: int, device: Device, affinity: Affinity, roots: dict[str, int]) -> dict[str, Any]:
    return {
        "label": device.label,
        "bit": index,
        "kind": device.kind,
        "names": list(device.names),
        "model": device.model,
        "address": device.address,
        "vendor": f"{device.vendor:04x}",
        "device": f"{device.device:04x}",
        **_class_json(class_of(device)),
        "link_gb_per_s": round(device.link_gbs, 3),
        "topo_mask": _mask(index, affinity),
        "root_complex_id": roots.get(device.bridges[0], -1) if device.bridges else -1,
        "root_complex": device.bridges[0].removeprefix("host:") if device.bridges else "",
        "bridges": list(device.bridges[1:]),
        "slot": device.slot,
        "numa": list(device.numa),
        "pus": fold_ints(bits(device.cpuset)),
    }


def _class_json(found: BandwidthClass) -> dict[str, Any]:
    return {
        "bandwidth_class": found.name,
        "bandwidth_gb_per_s": found.gb_per_s,
        "bandwidth_origin": found.origin,
    }


def _mask(index: int, affinity: Affinity) -> str:
    """Bit j is set where device j is reached without a CPU in between."""
    bits_set = sum(
        1 << j
        for j, path in enumerate(affinity.paths[index])
        if j != index and path.kind in _DIRECT and not affinity.endpoints[j].label.startswith("numa")
    )
    return f"0x{bits_set:x}"


def _pairs(affinity: Affinity) -> dict[str, dict[str, Any]]:
    found = {}
    labels = [e.label for e in affinity.endpoints]
    for i, a in enumerate(labels):
        for j in range(i + 1, len(labels)):
            found[f"{a}-{labels[j]}"] = _path_json(affinity.paths[i][j])
    return found


def _path_json(path: Path) -> dict[str, Any]:
    return {
        "path": path.kind,
        "hops": path.hops,
        "links": path.links,
        "gb_per_s": round(path.bandwidth_gbs, 3),
        "origin": path.origin,
        "code": path.code,
    }


def encode_matrix(links: LinkMatrix) -> dict[str, Any]:
    """The same from a vendor's matrix alone; what only hwloc knows (slots, root complexes) is -1 or empty."""
    affinity = from_matrix(links)
    devices = []
    for i, (end, device) in enumerate(zip(affinity.endpoints, links.devices, strict=True)):
        devices.append(
            {
                "label": end.label,
                "bit": i,
                "kind": device.kind,
                "names": [n for n in (device.label, device.name) if n],
                "model": device.name if device.kind == "gpu" else "",
                **_class_json(class_of_model(device.name) if device.kind == "gpu" else class_of_model("")),
                "topo_mask": _mask(i, affinity),
                "root_complex_id": -1,
                "numa": list(device.numa or ()),
                "pus": fold_ints(device.cpus or ()),
                "gpu_numa": device.gpu_numa,
            }
        )
    return {
        "format": "slurm-topo-links",
        "version": 1,
        "tool": links.tool,
        "gpus": len(links.gpus),
        "nics": len(links.nics),
        "devices": devices,
        "device_affinity": _pairs(affinity),
        "notes": list(links.notes),
    }


def affinity_table(affinity: Affinity) -> str:
    """The matrix for people: kind of path and GB/s between all endpoints."""
    labels = [e.label for e in affinity.endpoints]
    rows = [["", *labels]]
    for i, label in enumerate(labels):
        rows.append([label, *(_cell(path) for path in affinity.paths[i])])
    return "\n".join(_aligned(rows))


def _cell(path: Path) -> str:
    if path.kind == "self":
        return "x"
    # The driver's own word where it says more (PXB, NODE).
    word = path.code if path.code in _PCIE_CODES else _SHORT[path.kind]
    speed = f"{path.bandwidth_gbs:.0f}" if path.bandwidth_gbs >= 9.5 else f"{path.bandwidth_gbs:.2g}"
    return f"{word}:{speed}" if path.bandwidth_gbs else word


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  ".join(c.rjust(w) for c, w in zip(row, widths, strict=True)) for row in rows]
