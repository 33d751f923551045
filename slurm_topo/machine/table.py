"""A node as a tree of text: packages, NUMA nodes, L3 caches, cores, and the devices beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from slurm_topo.hwloc.topology import Object, Topology, bits
from slurm_topo.machine.describe import counts, cpu_model, label_of, memory_side_cache
from slurm_topo.machine.devices import Device, find_devices
from slurm_topo.machine.local import memory_kind
from slurm_topo.machine.workers import Worker
from slurm_topo.units import fold_ints, format_size


@dataclass
class _Line:
    """A line of the tree: a word, the rest of its columns, and the lines below."""

    head: str
    columns: Sequence[str] = ()
    below: list[_Line] = field(default_factory=list)


def node_table(topology: Topology) -> str:
    """The node for people; wide characters draw the tree, columns are aligned."""
    devices = find_devices(topology)
    root = _Line(_headline(topology, devices))
    places: dict[int, _Line] = {}
    for kind in ("Package", "NUMANode", "L3Cache"):
        for obj in topology.of_kind(kind):
            line = _Line(_name(obj), _columns(topology, obj))
            places[obj.index] = line
            above = _container(topology, obj)
            (places[above.index] if above else root).below.append(line)
    for device in devices:
        above = _home(topology, device)
        (places[above.index] if above else root).below.append(_Line(device.label, _device_columns(device)))
    lines = [root.head, *_draw(root.below), *_notes(topology), *_matrices(topology, devices)]
    return "\n".join(lines)


def workers_table(places: Sequence[Worker]) -> str:
    """Places of workers, a line each."""
    rows = [["worker", "cores", "PUs", "NUMA", "GPUs"]]
    for worker in places:
        lists = (worker.cores, worker.pus, worker.numa)
        rows.append(
            [str(worker.index), *(_range(v) if v else "-" for v in lists), " ".join(worker.gpus) or "-"]
        )
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join("  ".join(c.ljust(w) for c, w in zip(r, widths, strict=True)).rstrip() for r in rows)


def _headline(topology: Topology, devices: tuple[Device, ...]) -> str:
    found = counts(topology, devices)
    words = {
        "packages": "package",
        "numa_nodes": "NUMA node",
        "l3_caches": "L3 cache",
        "cores": "core",
        "pus": "PU",
        "gpus": "GPU",
        "nics": "NIC",
        "nvme": "NVMe drive",
    }
    parts = [f"{found[k]} {w}{'' if found[k] == 1 else 's'}" for k, w in words.items() if found[k]]
    memory = sum(o.size for o in topology.of_kind("NUMANode"))
    parts += [format_size(memory)] if memory else []
    return f"{cpu_model(topology) or topology.origin}: {', '.join(parts)}"


def _name(obj: Object) -> str:
    if obj.kind == "NUMANode":
        return f"NUMA {obj.os_index}"
    if obj.kind == "L3Cache":
        return f"L3 {obj.logical}"
    return f"{obj.kind} {obj.logical}"


def _columns(topology: Topology, obj: Object) -> list[str]:
    size = format_size(obj.size) if obj.size else ""
    if obj.kind == "NUMANode":
        size = f"{size} {memory_kind(topology, obj)}".strip()
        cache = memory_side_cache(topology, obj)
        size += f" behind {format_size(cache)} cache" if cache else ""
    cores = [c.logical for c in topology.of_kind("Core") if c.cpuset and not c.cpuset & ~obj.cpuset]
    pus = bits(obj.cpuset)
    return [size, f"cores {_range(cores)}" if cores else "", f"PUs {_range(pus)}" if pus else "no PU"]


def _range(numbers: Sequence[int]) -> str:
    """``0-3,8``, or ``0-78 by 2`` where that is shorter."""
    folded = fold_ints(numbers)
    steps = {b - a for a, b in pairwise(numbers)}
    return f"{numbers[0]}-{numbers[-1]} by {steps.pop()}" if len(steps) == 1 and len(folded) > 16 else folded


def _container(topology: Topology, obj: Object) -> Object | None:
    """The line that an object is drawn below: the smallest NUMA node or package around it."""
    if obj.kind == "Package":
        return None
    kinds = ["Package"] if obj.kind == "NUMANode" else ["NUMANode", "Package"]
    for kind in kinds:
        around = [o for o in topology.of_kind(kind) if obj.cpuset and not obj.cpuset & ~o.cpuset]
        if around:
            return min(around, key=lambda o: o.cpuset.bit_count())
    return None


def _home(topology: Topology, device: Device) -> Object | None:
    if len(device.numa) == 1:
        return next((o for o in topology.of_kind("NUMANode") if o.os_index == device.numa[0]), None)
    if not device.cpuset:
        return None
    around = [o for o in topology.of_kind("Package") if not device.cpuset & ~o.cpuset]
    return around[0] if around else None


def _device_columns(device: Device) -> list[str]:
    link = f"{device.link_gbs:.1f} GB/s" if device.link_gbs else ""
    return [device.address, " ".join(device.names[:3]), f"{device.model} {link}".strip()]


def _draw(lines: Sequence[_Line], indent: str = "") -> list[str]:
    widths: dict[int, int] = {}
    for line in lines:
        for i, cell in enumerate((line.head, *line.columns)):
            widths[i] = max(widths.get(i, 0), len(cell))
    drawn = []
    for line in lines:
        last = line is lines[-1]
        cells = [cell.ljust(widths[i]) for i, cell in enumerate((line.head, *line.columns)) if widths[i]]
        drawn.append(f"{indent}{'└─' if last else '├─'} {'  '.join(cells)}".rstrip())
        drawn += _draw(line.below, indent + ("   " if last else "│  "))
    return drawn


def _notes(topology: Topology) -> list[str]:
    notes = []
    if len(topology.cpu_kinds) > 1:
        for kind in topology.cpu_kinds:
            infos = ", ".join(f"{k} {v}" for k, v in kind.infos.items())
            notes.append(
                f"CPU kind of efficiency {kind.efficiency}: PUs {fold_ints(bits(kind.cpuset))} ({infos})"
            )
    for word, mask in (("offline", topology.offline_cpuset), ("not allowed", topology.disallowed_cpuset)):
        if mask:
            notes.append(f"PUs that are {word}: {fold_ints(bits(mask))}")
    return ["", *notes] if notes else []


def _matrices(topology: Topology, devices: tuple[Device, ...]) -> list[str]:
    lines: list[str] = []
    for matrix in topology.distances:
        if len(matrix.objects) > 16:
            continue
        labels = [label_of(topology, topology.objects[i], devices) for i in matrix.objects]
        cells = [
            ["", *labels],
            *([label, *map(str, row)] for label, row in zip(labels, matrix.values, strict=True)),
        ]
        width = max(len(cell) for row in cells for cell in row)
        unit = " (MB/s)" if matrix.means == "bandwidth" else ""
        lines += ["", f"{matrix.name or 'latency'}{unit}"]
        lines += ["  " + " ".join(cell.rjust(width) for cell in row) for row in cells]
    return lines
