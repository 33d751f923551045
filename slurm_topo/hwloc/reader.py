"""Read a topology out of libhwloc: this machine, an XML file, a synthetic string."""

from __future__ import annotations

import os
from typing import Any

from slurm_topo.errors import MachineError
from slurm_topo.hwloc.library import MAJOR, ROLES, Handle, check, ffi, lib, mask, quiet, text
from slurm_topo.hwloc.topology import (
    BridgeAttributes,
    CpuKind,
    Distances,
    MemoryAttribute,
    MemoryValue,
    Object,
    PciAttributes,
    Topology,
)
from slurm_topo.hwloc.trial import check_consistent, try_first
from slurm_topo.hwloc.xmlcheck import check_xml, read_xml

_UNKNOWN = 0xFFFFFFFF


def load_this_machine() -> Topology:
    """The machine that we run on.

    Raises
    ------
    MachineError
        libhwloc cannot discover it.
    """
    with Handle("this machine") as handle:
        return _read(handle)


def load_xml(path: str | os.PathLike[str]) -> Topology:
    """A hwloc XML file.

    Raises
    ------
    MachineError
        The file is missing, unreadable, truncated, no hwloc XML, or of a format that is too new.
    """
    return load_xml_bytes(read_xml(path, MAJOR), str(path))


def load_xml_bytes(data: bytes, origin: str) -> Topology:
    """hwloc XML that is already in memory (see :func:`load_xml`)."""
    outline = check_xml(data, origin)

    def load() -> Topology:
        with Handle(origin, xml=data) as handle:
            return _read(handle)

    try_first(load, origin)
    topology = load()
    check_consistent(topology, outline.pus)
    return topology


def load_synthetic(description: str) -> Topology:
    """A hwloc synthetic description such as ``package:2 l3:4 core:4 pu:2``.

    Raises
    ------
    MachineError
        hwloc does not understand it.
    """
    if not description.strip() or "\0" in description:
        raise MachineError(
            f"synthetic string {description!r}: is empty; write for example 'package:2 core:8 pu:1'"
        )
    with Handle(f"synthetic string {description!r}", synthetic=description) as handle:
        return _read(handle)


def export_this_machine() -> bytes:
    """This machine as hwloc XML, all I/O objects included.

    Raises
    ------
    MachineError
        libhwloc cannot discover or export it.
    """
    with Handle("this machine") as handle, quiet():
        buffer, length = ffi.new("char **"), ffi.new("int *")
        check(lib.hwloc_topology_export_xmlbuffer(handle.pointer, buffer, length, 0), "XML export")
        try:
            return bytes(ffi.buffer(buffer[0], length[0])).rstrip(b"\0")
        finally:
            lib.hwloc_free_xmlbuffer(handle.pointer, buffer[0])


class _Walk:
    """Depth-first copy of the object tree; ``index`` maps hwloc's gp_index to our index."""

    def __init__(self, root: Any) -> None:
        self.objects: list[Object | None] = []
        self.index: dict[int, int] = {}
        self._copy(root, -1)

    def _copy(self, obj: Any, parent: int) -> int:
        index = len(self.objects)
        self.objects.append(None)
        self.index[obj.gp_index] = index
        lists = [
            tuple(self._copy(child, index) for child in _siblings(first))
            for first in (obj.first_child, obj.memory_first_child, obj.io_first_child, obj.misc_first_child)
        ]
        self.objects[index] = _object(obj, index, parent, lists)
        return index

    def done(self) -> tuple[Object, ...]:
        return tuple(o for o in self.objects if o is not None)


def _siblings(obj: Any) -> list[Any]:
    found = []
    while obj:
        found.append(obj)
        obj = obj.next_sibling
    return found


def _object(obj: Any, index: int, parent: int, lists: list[tuple[int, ...]]) -> Object:
    kind = text(lib.hwloc_obj_type_string(obj.type))
    roles: frozenset[str] = frozenset()
    if kind == "OSDev":
        found = lib.st_hwloc_osdev_roles(obj)
        roles = frozenset(name for name, bit in ROLES.items() if found & bit)
    pairs = (
        (text(lib.st_hwloc_info(obj, i, 0)), text(lib.st_hwloc_info(obj, i, 1)))
        for i in range(lib.st_hwloc_info_count(obj))
    )
    return Object(
        index=index,
        kind=kind,
        logical=obj.logical_index,
        os_index=-1 if obj.os_index == _UNKNOWN else obj.os_index,
        name=text(obj.name),
        subtype=text(obj.subtype),
        cpuset=mask(obj.cpuset),
        nodeset=mask(obj.nodeset),
        complete_cpuset=mask(obj.complete_cpuset),
        parent=parent,
        children=lists[0],
        memory_children=lists[1],
        io_children=lists[2],
        misc_children=lists[3],
        size=lib.st_hwloc_cache_size(obj) or lib.st_hwloc_local_memory(obj),
        roles=roles,
        pci=_pci(obj),
        bridge=_bridge(obj),
        infos=_joined(pairs),
    )


def _joined(pairs: Any) -> dict[str, str]:
    infos: dict[str, str] = {}
    for name, value in pairs:
        infos[name] = f"{infos[name]},{value}" if name in infos else value
    return infos


def _pci(obj: Any) -> PciAttributes | None:
    out = ffi.new("st_hwloc_pci *")
    if not lib.st_hwloc_pci_of(obj, out):
        return None
    return PciAttributes(
        address=f"{out.domain:04x}:{out.bus:02x}:{out.dev:02x}.{out.func:x}",
        class_id=out.class_id,
        vendor=out.vendor,
        device=out.device,
        subvendor=out.subvendor,
        subdevice=out.subdevice,
        revision=out.revision,
        link_gbs=round(out.linkspeed, 6),
    )


def _bridge(obj: Any) -> BridgeAttributes | None:
    out = ffi.new("st_hwloc_bridge *")
    if not lib.st_hwloc_bridge_of(obj, out):
        return None
    buses = f"{out.domain:04x}:[{out.secondary_bus:02x}-{out.subordinate_bus:02x}]" if out.pci_below else None
    return BridgeAttributes(host=bool(out.host), buses=buses)


def _read(handle: Handle) -> Topology:
    topology = handle.pointer
    walk = _Walk(lib.hwloc_get_obj_by_depth(topology, 0, 0))
    return Topology(
        objects=walk.done(),
        distances=tuple(_distances(topology, walk.index)),
        memory_attributes=tuple(_memory_attributes(topology, walk.index)),
        cpu_kinds=tuple(_cpu_kinds(topology)),
        allowed_cpuset=mask(lib.hwloc_topology_get_allowed_cpuset(topology)),
        allowed_nodeset=mask(lib.hwloc_topology_get_allowed_nodeset(topology)),
        origin=handle.origin,
    )


def _distances(topology: Any, index: dict[int, int]) -> list[Distances]:
    count = ffi.new("unsigned *")
    check(lib.hwloc_distances_get(topology, count, ffi.NULL, 0, 0), "hwloc distances")
    if not count[0]:
        return []
    handles = ffi.new("struct hwloc_distances_s *[]", count[0])
    check(lib.hwloc_distances_get(topology, count, handles, 0, 0), "hwloc distances")
    found = []
    for i in range(count[0]):
        try:
            found.append(_matrix(topology, handles[i], index))
        finally:
            lib.hwloc_distances_release(topology, handles[i])
    return found


def _matrix(topology: Any, one: Any, index: dict[int, int]) -> Distances:
    n = one.nbobjs
    means = "other"
    if one.kind & lib.HWLOC_DISTANCES_KIND_MEANS_LATENCY:
        means = "latency"
    elif one.kind & lib.HWLOC_DISTANCES_KIND_MEANS_BANDWIDTH:
        means = "bandwidth"
    flat = list(ffi.unpack(one.values, n * n))
    return Distances(
        name=text(lib.hwloc_distances_get_name(topology, one)),
        means=means,
        objects=tuple(index[one.objs[i].gp_index] for i in range(n)),
        values=tuple(tuple(flat[i * n : i * n + n]) for i in range(n)),
    )


def _memory_attributes(topology: Any, index: dict[int, int]) -> list[MemoryAttribute]:
    found = []
    name, attribute = ffi.new("const char **"), 0
    while lib.hwloc_memattr_get_name(topology, attribute, name) == 0:
        values = _memory_values(topology, attribute, index)
        # Capacity and Locality follow from the objects themselves.
        if values and text(name[0]) not in ("Capacity", "Locality"):
            found.append(MemoryAttribute(text(name[0]), tuple(values)))
        attribute += 1
    return found


def _memory_values(topology: Any, attribute: int, index: dict[int, int]) -> list[MemoryValue]:
    flags, count = ffi.new("unsigned long *"), ffi.new("unsigned *")
    check(lib.hwloc_memattr_get_flags(topology, attribute, flags), "hwloc memory attribute")
    if lib.hwloc_memattr_get_targets(topology, attribute, ffi.NULL, 0, count, ffi.NULL, ffi.NULL) < 0:
        return []
    room = count[0]
    targets, values = ffi.new("hwloc_obj_t[]", room), ffi.new("uint64_t[]", room)
    code = lib.hwloc_memattr_get_targets(topology, attribute, ffi.NULL, 0, count, targets, values)
    check(code, "hwloc memory attribute")
    if not flags[0] & lib.HWLOC_MEMATTR_FLAG_NEED_INITIATOR:
        return [MemoryValue(index[targets[i].gp_index], None, values[i]) for i in range(min(room, count[0]))]
    found = []
    for i in range(min(room, count[0])):
        found += _initiators(topology, attribute, targets[i], index[targets[i].gp_index])
    return found


def _initiators(topology: Any, attribute: int, target: Any, number: int) -> list[MemoryValue]:
    count = ffi.new("unsigned *")
    code = lib.hwloc_memattr_get_initiators(topology, attribute, target, 0, count, ffi.NULL, ffi.NULL)
    if code < 0:
        return []
    room = count[0]
    places, values = ffi.new("struct hwloc_location[]", room), ffi.new("uint64_t[]", room)
    code = lib.hwloc_memattr_get_initiators(topology, attribute, target, 0, count, places, values)
    check(code, "hwloc memory attribute")
    return [
        MemoryValue(number, mask(lib.st_hwloc_location_cpuset(ffi.addressof(places, i))), values[i])
        for i in range(min(room, count[0]))
    ]


def _cpu_kinds(topology: Any) -> list[CpuKind]:
    found = []
    cpuset = lib.hwloc_bitmap_alloc()
    try:
        for kind in range(max(lib.hwloc_cpukinds_get_nr(topology, 0), 0)):
            efficiency, count = ffi.new("int *"), ffi.new("unsigned *")
            pairs = ffi.new("struct hwloc_info_s **")
            code = lib.st_hwloc_cpukind(topology, kind, cpuset, efficiency, count, pairs)
            check(code, "hwloc kind of CPU")
            infos = _joined((text(pairs[0][i].name), text(pairs[0][i].value)) for i in range(count[0]))
            found.append(CpuKind(mask(cpuset), efficiency[0], infos))
    finally:
        lib.hwloc_bitmap_free(cpuset)
    return found
