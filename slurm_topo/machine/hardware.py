"""Is it the same hardware? A digest that equal nodes share, and what changed between two captures."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from slurm_topo.hwloc.topology import Topology, bits
from slurm_topo.machine.describe import counts, cpu_model
from slurm_topo.machine.devices import Device, find_devices
from slurm_topo.machine.local import node_class
from slurm_topo.units import fold_ints, format_size

# Memory that the kernel keeps for itself differs from boot to boot; a lost module is much more.
_SAME_MEMORY = 0.03


def hardware_digest(topology: Topology) -> str:
    """16 hexadecimal digits over cores, caches, NUMA nodes and devices, without names and serial numbers."""
    shape = node_class(topology)
    parts: dict[str, Any] = {
        "cpu": cpu_model(topology),
        "pus": shape.pus,
        "numa": shape.numa,
        "groups": shape.groups,
        "caches": sorted(
            (o.kind, o.size, o.cpuset.bit_count()) for o in topology.objects if o.kind.endswith("Cache")
        ),
        "memory": [(o.os_index, o.subtype, bits(o.cpuset)) for o in topology.of_kind("NUMANode")],
        "devices": [_identity(d) for d in find_devices(topology)],
    }
    text = json.dumps(parts, separators=(",", ":"), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _identity(device: Device) -> tuple[Any, ...]:
    return (device.kind, device.address, device.vendor, device.device, device.numa, device.bridges)


def differences(before: Topology, now: Topology) -> list[str]:
    """What changed between two captures of a node, in words; empty where the hardware is the same."""
    found = []
    old_devices, new_devices = find_devices(before), find_devices(now)
    old, new = counts(before, old_devices), counts(now, new_devices)
    found += [
        f"{key.replace('_', ' ')}: {old[key]} before, {new[key]} now" for key in old if old[key] != new[key]
    ]
    if cpu_model(before) != cpu_model(now):
        found.append(f"processor: {cpu_model(before) or 'unknown'} before, {cpu_model(now) or 'unknown'} now")
    for word, a, b in (
        ("offline PUs", before.offline_cpuset, now.offline_cpuset),
        ("disallowed PUs", before.disallowed_cpuset, now.disallowed_cpuset),
    ):
        if a != b:
            found.append(f"{word}: {fold_ints(bits(a)) or 'none'} before, {fold_ints(bits(b)) or 'none'} now")
    found += _memory(before, now)
    found += _devices(old_devices, new_devices)
    if not found and hardware_digest(before) != hardware_digest(now):
        found.append("cores, caches or NUMA nodes are arranged differently")
    return found


def _memory(before: Topology, now: Topology) -> list[str]:
    old = {o.os_index: o.size for o in before.of_kind("NUMANode")}
    new = {o.os_index: o.size for o in now.of_kind("NUMANode")}
    return [
        f"memory of NUMA node {node}: {format_size(old[node])} before, {format_size(new[node])} now"
        for node in sorted(old.keys() & new.keys())
        if abs(old[node] - new[node]) > _SAME_MEMORY * max(old[node], new[node])
    ]


def _devices(before: tuple[Device, ...], now: tuple[Device, ...]) -> list[str]:
    old = {(d.kind, d.address or d.names): d for d in before}
    new = {(d.kind, d.address or d.names): d for d in now}
    found = [f"{_named(old[key])} is gone" for key in old if key not in new]
    found += [f"{_named(new[key])} is new" for key in new if key not in old]
    for key in old.keys() & new.keys():
        a, b = old[key], new[key]
        if (a.vendor, a.device) != (b.vendor, b.device):
            found.append(f"{_named(a)} is another model now: {b.vendor:04x}:{b.device:04x}")
        elif a.numa != b.numa:
            found.append(f"{_named(a)} moved from NUMA node {fold_ints(a.numa)} to {fold_ints(b.numa)}")
    return sorted(found)


def _named(device: Device) -> str:
    return f"{device.kind} {device.address or ' '.join(device.names)}"
