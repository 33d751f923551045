"""What a node holds, counted and listed: the JSON of ``slurm-topo machine show``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slurm_topo.hwloc.topology import Object, Topology, bits
from slurm_topo.machine.devices import Device, find_devices
from slurm_topo.machine.encoding import encode
from slurm_topo.machine.gpulinks.matrix import LinkMatrix
from slurm_topo.machine.local import memory_kind
from slurm_topo.units import fold_ints

FORMAT = "slurm-topo-node"
VERSION = 1


def counts(topology: Topology, devices: tuple[Device, ...]) -> dict[str, int]:
    """Numbers of packages, NUMA nodes, L3 caches, cores, PUs, GPUs, NICs and NVMe drives."""
    kinds = {
        "packages": "Package",
        "numa_nodes": "NUMANode",
        "l3_caches": "L3Cache",
        "cores": "Core",
        "pus": "PU",
    }
    found = {key: len(topology.of_kind(kind)) for key, kind in kinds.items()}
    for key, kind in (("gpus", "gpu"), ("nics", "nic"), ("nvme", "nvme")):
        found[key] = sum(device.kind == kind for device in devices)
    return found


def describe(topology: Topology, links: LinkMatrix | None = None) -> dict[str, Any]:
    """Everything that is known of a node, as JSON values; the counts are at the top.

    Raises
    ------
    MachineError
        ``links`` (of nvidia-smi or rocm-smi) are not of this node.
    """
    devices = find_devices(topology)
    return {
        "format": FORMAT,
        "version": VERSION,
        "origin": topology.origin,
        **counts(topology, devices),
        "dies": len(topology.of_kind("Die")),
        "memory_bytes": sum(o.size for o in topology.of_kind("NUMANode")),
        "offline_pus": fold_ints(bits(topology.offline_cpuset)),
        "disallowed_pus": fold_ints(bits(topology.disallowed_cpuset)),
        "numa": [_numa(topology, o) for o in topology.of_kind("NUMANode")],
        "caches": _caches(topology),
        "cpu_kinds": [
            {
                "pus": fold_ints(bits(k.cpuset)),
                "cores": fold_ints(c.logical for c in topology.of_kind("Core") if c.cpuset & k.cpuset),
                "efficiency": k.efficiency,
                **k.infos,
            }
            for k in topology.cpu_kinds
        ],
        **encode(topology, links),
        "distances": [
            {
                "name": d.name or "latency",
                "means": d.means,
                "objects": [label_of(topology, topology.objects[i], devices) for i in d.objects],
                "values": [list(row) for row in d.values],
            }
            for d in topology.distances
        ],
        "memory_attributes": {
            a.name: [
                {
                    "numa": topology.objects[v.target].os_index,
                    "from": None if v.initiator is None else fold_ints(bits(v.initiator)),
                    "value": v.value,
                }
                for v in a.values
            ]
            for a in topology.memory_attributes
        },
    }


def cpu_model(topology: Topology) -> str:
    """Name of the processor, empty where hwloc does not know it."""
    for obj in (*topology.of_kind("Package"), topology.root):
        if obj.infos.get("CPUModel"):
            return " ".join(obj.infos["CPUModel"].split())
    return ""


def label_of(topology: Topology, obj: Object, devices: tuple[Device, ...]) -> str:
    """``gpu0`` for an object of a device, else ``numa8``, ``package1`` and so on."""
    for device in devices:
        if obj.index in device.objects:
            return device.label
    number = obj.os_index if obj.kind == "NUMANode" else obj.logical
    return obj.name if obj.kind == "OSDev" else f"{obj.kind.lower().removesuffix('node')}{number}"


def _numa(topology: Topology, obj: Object) -> dict[str, Any]:
    return {
        "os_index": obj.os_index,
        "memory_bytes": obj.size,
        "kind": memory_kind(topology, obj) or ("DRAM" if obj.size else ""),
        "pus": fold_ints(bits(obj.cpuset)),
        "memory_side_cache_bytes": memory_side_cache(topology, obj),
    }


def memory_side_cache(topology: Topology, obj: Object) -> int:
    """Bytes of the memory-side caches in front of a NUMA node."""
    return sum(p.size for p in topology.parents(obj) if p.kind == "MemCache")


def _caches(topology: Topology) -> Mapping[str, Any]:
    found: dict[str, Any] = {}
    for kind in ("L4Cache", "L3Cache", "L2Cache", "L1Cache"):
        caches = topology.of_kind(kind)
        if caches:
            found[kind[:2].lower()] = {
                "count": len(caches),
                "bytes": sorted({c.size for c in caches}),
                "pus_each": sorted({c.cpuset.bit_count() for c in caches}),
            }
    return found
