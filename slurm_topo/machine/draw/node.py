"""A node drawn: packages, NUMA nodes, caches, cores, the PCIe tree, and the links between GPUs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from slurm_topo.hwloc.topology import Object, Topology, bits
from slurm_topo.machine.affinity import find_affinity
from slurm_topo.machine.bandwidthclass import class_of
from slurm_topo.machine.describe import counts, cpu_model
from slurm_topo.machine.devices import Device, find_devices
from slurm_topo.machine.draw.canvas import Canvas, fitted
from slurm_topo.machine.draw.gpus import draw_links
from slurm_topo.machine.gpulinks.matrix import LinkMatrix
from slurm_topo.units import fold_ints, format_size

_CORE, _GAP, _COLUMN, _MOST_WIDTH = 16.0, 3.0, 268.0, 2300.0
_HBM = ("HBM", "MCDRAM", "GPUMemory")


def draw_node(topology: Topology, links: LinkMatrix | None = None) -> str:
    """SVG of a node.

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
    canvas = Canvas()
    devices = find_devices(topology)
    affinity = find_affinity(topology, links)
    title = cpu_model(topology) or topology.origin
    canvas.text(20, 34, title, 18, bold=True)
    canvas.text(20, 54, _headline(topology, devices), 12, fill="#444444")
    x, y, row = 20.0, 70.0, 0.0
    for name, columns in _packages(topology):
        width = max(len(columns), 1) * (_COLUMN + 12) + 12
        if x > 20 and x + width > _MOST_WIDTH:
            x, y, row = 20.0, y + row + 18, 0.0
        height = _draw_package(canvas, topology, devices, name, columns, x, y)
        x, row = x + width + 18, max(row, height)
    y += row + 18
    y = _draw_loose(canvas, devices, topology, y)
    y = draw_links(canvas, affinity, 20, y)
    _legend(canvas, topology, y + 8)
    return canvas.svg(title)


def _headline(topology: Topology, devices: Sequence[Device]) -> str:
    found = counts(topology, tuple(devices))
    words = {"packages": "package", "numa_nodes": "NUMA node", "cores": "core", "pus": "PU"}
    words |= {"gpus": "GPU", "nics": "NIC", "nvme": "NVMe drive"}
    memory = sum(o.size for o in topology.of_kind("NUMANode"))
    parts = [f"{found[k]} {w}{'' if found[k] == 1 else 's'}" for k, w in words.items() if found[k]]
    return " · ".join([*parts, format_size(memory)] if memory else parts)


def _packages(topology: Topology) -> list[tuple[str, list[list[Object]]]]:
    """Frames and their columns: NUMA nodes with the same CPUs share one; those of all have a frame."""
    packages = topology.of_kind("Package") or [topology.root]
    placed: set[int] = set()
    frames = []
    for package in packages:
        columns: dict[int, list[Object]] = defaultdict(list)
        for node in topology.of_kind("NUMANode"):
            if node.cpuset and not node.cpuset & ~package.cpuset:
                columns[node.cpuset].append(node)
                placed.add(node.index)
        left = package.cpuset & ~_union(columns)
        found = list(columns.values())
        if left or not found:
            # Cores of the package that no NUMA node of its own holds.
            found.append([package])
        shared = [c for c in topology.of_kind("L3Cache") if not c.cpuset & ~package.cpuset]
        wide = [c for c in shared if len(found) > 1 and all(c.cpuset & ~cpuset for cpuset in columns)]
        title = f"{package.kind} {package.logical}"
        frames.append((f"{title} · L3 {format_size(wide[0].size)} for all" if wide else title, found))
    others = [o for o in topology.of_kind("NUMANode") if o.index not in placed]
    if others:
        frames.append(("Memory of all", [[o] for o in others]))
    return frames


def _union(sets: dict[int, list[Object]]) -> int:
    covered = 0
    for cpuset in sets:
        covered |= cpuset
    return covered


def _draw_package(
    canvas: Canvas, topology: Topology, devices: Sequence[Device], name: str, columns: list[list[Object]],
    x: float, y: float,
) -> float:  # fmt: skip
    """Draw one frame and return its height; the frame goes first, so that it lies behind its columns."""
    at = len(canvas.parts)
    canvas.text(x + 12, y + 19, name, 13, bold=True)
    bottom = y + 40
    held = {o.index for column in columns for o in column}
    taken = _union({o.cpuset: [o] for column in columns for o in column if o.kind == "NUMANode"})
    for i, column in enumerate(columns):
        left = x + 12 + i * (_COLUMN + 12)
        cpuset = column[0].cpuset
        if column[0].kind != "NUMANode":
            cpuset &= ~taken
        if name == "Memory of all":
            cpuset = 0
        bottom = max(bottom, _draw_column(canvas, topology, devices, column, cpuset, left, y + 28))
    width = max(len(columns), 1) * (_COLUMN + 12) + 12
    frame = Canvas()
    frame.box("package", x, y, width, bottom - y + 12, f"{name}, {len(held)} NUMA nodes", 6)
    canvas.parts[at:at] = frame.parts
    canvas.right, canvas.bottom = max(canvas.right, x + width), max(canvas.bottom, bottom + 12)
    return bottom - y + 12


def _draw_column(
    canvas: Canvas, topology: Topology, devices: Sequence[Device], column: list[Object], cpuset: int,
    x: float, y: float,
) -> float:  # fmt: skip
    at, top = len(canvas.parts), y
    y += 8
    for node in column:
        if node.kind == "NUMANode":
            y = _draw_memory(canvas, node, x + 8, y)
    y = _draw_cores(canvas, topology, cpuset, x + 8, y + 4)
    own = {o.os_index for o in column if o.kind == "NUMANode"}
    here = [d for d in devices if len(d.numa) == 1 and d.numa[0] in own]
    y = _draw_tree(canvas, here, x + 8, y + 6)
    frame = Canvas()
    frame.box("numa", x, top, _COLUMN, y - top + 6, "", 4)
    canvas.parts[at:at] = frame.parts
    canvas.bottom = max(canvas.bottom, y + 6)
    return y + 6


def _draw_memory(canvas: Canvas, node: Object, x: float, y: float) -> float:
    kind = "hbm" if node.subtype in _HBM else "dram" if node.subtype in ("", "DRAM") else "othermem"
    size = f"{format_size(node.size)} {node.subtype or 'DRAM'}" if node.size else "no memory"
    canvas.box(
        kind, x, y, _COLUMN - 16, 20, f"NUMA node {node.os_index}: {size}, PUs {fold_ints(bits(node.cpuset))}"
    )
    canvas.text(x + 6, y + 14, f"NUMA {node.os_index}", 11, bold=True)
    canvas.text(x + _COLUMN - 22, y + 14, size, 11, anchor="end")
    return y + 24


def _draw_cores(canvas: Canvas, topology: Topology, cpuset: int, x: float, y: float) -> float:
    """Cores in boxes of their L3, or in one box where they have none of their own."""
    cores = [c for c in topology.of_kind("Core") or topology.of_kind("PU") if c.cpuset & cpuset]
    if not cores:
        return y
    groups: dict[int, list[Object]] = defaultdict(list)
    for core in cores:
        l3 = next((p for p in topology.parents(core) if p.kind == "L3Cache" and not p.cpuset & ~cpuset), None)
        groups[l3.index if l3 else -1].append(core)
    per_row = int((_COLUMN - 16 - 8) // (_CORE + _GAP))
    x0, row_height = x, 0.0
    for index, members in groups.items():
        columns = min(len(members), per_row)
        rows = -(-len(members) // columns)
        label = f"L3 {format_size(topology.objects[index].size)}" if index >= 0 else ""
        width = max(columns * (_CORE + _GAP) + 8 - _GAP, 74.0 if label else 0.0)
        height = rows * (_CORE + _GAP) + 8 - _GAP + (13 if label else 0)
        if x > x0 and x + width > x0 + _COLUMN - 16:
            x, y, row_height = x0, y + row_height + 5, 0.0
        canvas.box("l3", x, y, width, height, label or "cores")
        for i, core in enumerate(members):
            _draw_core(
                canvas,
                topology,
                core,
                x + 4 + i % columns * (_CORE + _GAP),
                y + 4 + i // columns * (_CORE + _GAP),
            )
        if label:
            canvas.text(x + 4, y + height - 4, label, 9, fill="#444444")
        x, row_height = x + width + 5, max(row_height, height)
    return y + row_height


def _draw_core(canvas: Canvas, topology: Topology, core: Object, x: float, y: float) -> None:
    usable = core.cpuset & topology.allowed_cpuset
    tip = f"core {core.logical}, PUs {fold_ints(bits(core.cpuset))}"
    fast = max((kind.efficiency for kind in topology.cpu_kinds), default=0)
    slow = any(kind.efficiency < fast and kind.cpuset & core.cpuset for kind in topology.cpu_kinds)
    style = ("slowcore" if slow else "core") if usable else "unusable"
    canvas.box(style, x, y, _CORE, _CORE, tip, 2)
    threads = core.cpuset.bit_count()
    for i in range(1, min(threads, 8)):
        canvas.line(
            x + i * _CORE / threads, y + _CORE - 4, x + i * _CORE / threads, y + _CORE, "#4a6484", 0.8
        )
    canvas.text(x + _CORE / 2, y + _CORE - 6, str(core.logical), 6.5, anchor="middle")


def _draw_tree(canvas: Canvas, devices: Sequence[Device], x: float, y: float) -> float:
    """Root complexes, the bridges below them that fork, and devices, indented as they hang."""
    roots: dict[str, list[Device]] = defaultdict(list)
    for device in devices:
        roots[device.bridges[0] if device.bridges else ""].append(device)
    for root, members in roots.items():
        label = f"root complex {root.removeprefix('host:')}" if root else "not on PCIe"
        canvas.box("root", x, y, _COLUMN - 16, 16, label)
        canvas.text(x + 6, y + 12, fitted(label, 10, _COLUMN - 28), 10)
        y = _draw_branch(canvas, members, 1, x + 10, y + 20, x + _COLUMN - 16)
    return y


def _draw_branch(
    canvas: Canvas, devices: Sequence[Device], depth: int, x: float, y: float, right: float
) -> float:
    groups: dict[str, list[Device]] = defaultdict(list)
    for device in devices:
        key = device.bridges[depth] if len(device.bridges) > depth else f"={device.label}"
        groups[key].append(device)
    stem = y - 4
    last = stem
    for key, members in groups.items():
        last = y + 8
        canvas.line(x, last, x + 8, last)
        if len(members) == 1 or key.startswith("="):
            for device in members:
                y = _draw_device(canvas, device, x + 8, y, right)
            continue
        level = depth
        # Bridges that all members share are one line of the drawing.
        while (
            len({m.bridges[level + 1 : level + 2] for m in members}) == 1
            and len(members[0].bridges) > level + 1
        ):
            level += 1
        canvas.box("root", x + 8, y, right - x - 8, 16, f"PCIe bridge {key}")
        word = "port" if len({m.card for m in members}) == 1 else "switch"
        canvas.text(x + 14, y + 12, fitted(f"PCIe {word} {key}", 10, right - x - 20), 10)
        y = _draw_branch(canvas, members, level + 1, x + 22, y + 20, right)
    canvas.line(x, stem, x, last)
    return y


def _draw_device(canvas: Canvas, device: Device, x: float, y: float, right: float) -> float:
    width = max(right - x, 90.0)
    found = class_of(device)
    speed = f"{found.name} {found.gb_per_s:g} GB/s" if found.gb_per_s else ""
    names = " ".join(device.names[:2])
    if device.kind == "nvme":
        # Many of them hang on one node: a line each.
        words = " ".join(t for t in (device.label, device.address, names) if t)
        canvas.box("nvme", x, y, width, 16, device.model or "drive")
        canvas.text(x + 6, y + 12, fitted(words, 9, width - 12), 9)
        return y + 20
    known = [device.label, device.model or "model unknown", " ".join(device.names)]
    canvas.box(device.kind, x, y, width, 30, "; ".join([*known, f"PCIe {device.link_gbs:.1f} GB/s"]))
    canvas.text(x + 6, y + 12, fitted(f"{device.label} {device.address}", 10, width - 12), 10, bold=True)
    words = (
        " · ".join(t for t in (names, speed) if t)
        or device.model
        or f"{device.vendor:04x}:{device.device:04x}"
    )
    canvas.text(x + 6, y + 25, fitted(words, 9, width - 12), 9)
    return y + 34


def _draw_loose(canvas: Canvas, devices: Sequence[Device], topology: Topology, y: float) -> float:
    """Devices that are not next to one NUMA node."""
    known = {o.os_index for o in topology.of_kind("NUMANode")}
    loose = [d for d in devices if len(d.numa) != 1 or d.numa[0] not in known]
    if not loose:
        return y
    canvas.text(20, y + 12, "Near to all or several NUMA nodes", 12, bold=True)
    return _draw_tree(canvas, loose, 20, y + 20) + 8


def _legend(canvas: Canvas, topology: Topology, y: float) -> None:
    kinds = {
        "core": "core (split: hardware threads)",
        "slowcore": "efficiency core",
        "unusable": "core that may not be used",
        "l3": "shared L3",
    }
    kinds |= {"dram": "memory", "hbm": "high-bandwidth memory", "othermem": "other memory"}
    kinds |= {"gpu": "GPU", "nic": "NIC", "nvme": "NVMe"}
    x = 20.0
    if len({kind.efficiency for kind in topology.cpu_kinds}) < 2:
        del kinds["slowcore"]
    for kind, words in kinds.items():
        canvas.box(kind, x, y, 14, 12)
        canvas.text(x + 19, y + 10, words, 10)
        x += 34 + 6.2 * len(words)
