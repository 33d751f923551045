"""GPUs, NICs and NVMe drives of a topology, each once, with where they hang in the PCIe tree."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from slurm_topo.hwloc.topology import Object, Topology, bits

_AMD, _NVIDIA = 0x1002, 0x10DE
# Vendors of consoles: management controllers and the displays of virtual machines.
_CONSOLE_VENDORS = {
    0x1A03,  # ASPEED
    0x102B,  # Matrox
    0x1013,  # Cirrus
    0x126F,  # Silicon Motion
    0x18CA,  # XGI
    0x19E5,  # Huawei iBMC
    0x1234,  # QEMU standard VGA
    0x1AF4,  # virtio-gpu
    0x1B36,  # QXL
    0x1414,  # Hyper-V
    0x15AD,  # VMware
    0x1AB8,  # Parallels
    0x80EE,  # VirtualBox
}
# ATI ES1000 and Rage XL: consoles of older servers.
_CONSOLE_DEVICES = {(_AMD, 0x515E), (_AMD, 0x5969), (_AMD, 0x4752)}
_GPU_BACKENDS = ("NVML", "RSMI", "CUDA", "LevelZero", "OpenCL")
_VIRTUAL_FUNCTIONS = {
    (0x15B3, d) for d in (0x1004, 0x1006, 0x1014, 0x1016, 0x1018, 0x101A, 0x101C, 0x101E)
} | {(0x8086, d) for d in (0x10CA, 0x10ED, 0x1515, 0x1520, 0x154C, 0x1889, 0x37CD)}
_VIRTUAL_NAMES = re.compile(
    r"^(lo|docker|veth|virbr|br-|bond|team|tun|tap|dummy|vlan|macvlan|cni|flannel|cali)"
)
_IO_KINDS = ("Bridge", "PCIDev", "OSDev")


@dataclass(frozen=True)
class Device:
    """A GPU, NIC or NVMe drive.

    Attributes
    ----------
    kind : str
        ``gpu``, ``nic`` or ``nvme``.
    index : int
        0, 1, ... among the devices of its kind: in the order of the driver where hwloc knows it, else
        of the PCI address.
    names : tuple of str
        Names of its OS devices, the driver's own first (``nvml0``, ``cuda0``; ``mlx5_0``, ``ib0``).
    address : str
        PCI address, empty where it is not on PCI.
    model : str
        What hwloc knows of its model, possibly empty.
    vendor, device, class_id : int
        PCI identity, 0 where unknown.
    link_gbs : float
        Bandwidth of its PCIe link, GB/s, 0 where unknown.
    numa : tuple of int
        OS indices of the NUMA nodes next to it; empty where it is as near to all.
    cpuset : int
        Bit set of the PUs next to it.
    bridges : tuple of str
        PCI addresses (or ``host:<buses>``) of the bridges above it, the root complex first.
    slot : str
        Physical slot, possibly empty.
    objects : tuple of int
        Indices of its hwloc objects (PCI function and OS devices), for the distance matrices.
    infos : mapping
        Memory size, UUID and so on, as hwloc names them.
    """

    kind: str
    index: int
    names: tuple[str, ...]
    address: str
    model: str
    vendor: int
    device: int
    class_id: int
    link_gbs: float
    numa: tuple[int, ...]
    cpuset: int
    bridges: tuple[str, ...]
    slot: str
    objects: tuple[int, ...]
    infos: Mapping[str, str] = field(default_factory=dict)

    @property
    def card(self) -> str:
        """PCI address without the function: functions of one card share it."""
        return self.address.rpartition(".")[0]

    @property
    def label(self) -> str:
        """``gpu0``, ``nic2``: unique in the node."""
        return f"{self.kind}{self.index}"


def find_devices(topology: Topology) -> tuple[Device, ...]:
    """All GPUs, then NICs, then NVMe drives of the node.

    A GPU counts once though cuda, nvml, opencl, rsmi and card all name it; a NIC counts once a PCI function.
    Consoles (the VGA of a management controller), software interfaces and virtual functions beside their
    physical one do not count.
    """
    on_pci = [o for o in topology.objects if o.kind == "PCIDev"]
    loose = [o for o in topology.objects if o.kind == "OSDev" and not _pci_above(topology, o)]
    found: list[Device] = []
    for kind in ("gpu", "nic", "nvme"):
        groups = [(o, _os_devices(topology, o)) for o in on_pci]
        chosen = [(pci, os) for pci, os in groups if _is_kind(kind, pci, os)]
        if kind == "nic":
            chosen = _without_virtual_functions(chosen)
        devices = [_device(topology, kind, pci, os) for pci, os in chosen]
        if not devices:
            devices = [_device(topology, kind, None, os) for os in _loose_groups(kind, loose)]
        devices.sort(key=_order)
        found += [_numbered(device, i) for i, device in enumerate(devices)]
    return tuple(found)


def _pci_above(topology: Topology, obj: Object) -> bool:
    return any(p.kind == "PCIDev" for p in topology.parents(obj))


def _os_devices(topology: Topology, obj: Object) -> list[Object]:
    return [o for o in topology.below(obj) if o.kind == "OSDev"]


def _is_kind(kind: str, obj: Object, os_devices: list[Object]) -> bool:
    return {"gpu": _is_gpu, "nic": _is_nic, "nvme": _is_nvme}[kind](obj, os_devices)


def _is_gpu(obj: Object, os_devices: Iterable[Object]) -> bool:
    """A device that computes: an OS device says so, or its class and vendor do."""
    if any(_computes(o) for o in os_devices):
        return True
    pci = obj.pci
    if pci is None:
        return False
    if pci.class_id >> 8 == 0x03:
        console = pci.vendor in _CONSOLE_VENDORS or (pci.vendor, pci.device) in _CONSOLE_DEVICES
        return not console
    return pci.class_id >> 8 == 0x12 and pci.vendor in (_AMD, _NVIDIA)


def _computes(obj: Object) -> bool:
    if "gpu" in obj.roles:
        # card and controlD exist for consoles too; a render node does not.
        return not re.match(r"^(card|controlD|:)", obj.name)
    return "coproc" in obj.roles and (obj.subtype in _GPU_BACKENDS or obj.name.startswith(("cuda", "opencl")))


def _is_nic(obj: Object, os_devices: Iterable[Object]) -> bool:
    if any(o.roles & {"network", "openfabrics"} for o in os_devices):
        return True
    return obj.pci is not None and (obj.pci.class_id >> 8 == 0x02 or obj.pci.class_id == 0x0C06)


def _is_nvme(obj: Object, os_devices: Iterable[Object]) -> bool:
    if any("block" in o.roles and o.name.startswith("nvme") for o in os_devices):
        return True
    return obj.pci is not None and obj.pci.class_id == 0x0108


def _without_virtual_functions(
    nics: list[tuple[Object, list[Object]]],
) -> list[tuple[Object, list[Object]]]:
    """Drop virtual functions beside a physical one of their vendor (in a guest they are all there is)."""
    physical = {pci.pci.vendor for pci, _ in nics if pci.pci and not _is_virtual_function(pci)}
    return [
        (pci, os)
        for pci, os in nics
        if not (pci.pci and _is_virtual_function(pci) and pci.pci.vendor in physical)
    ]


def _is_virtual_function(obj: Object) -> bool:
    named = "virtual function" in obj.infos.get("PCIDevice", "").lower()
    return named or (obj.pci is not None and (obj.pci.vendor, obj.pci.device) in _VIRTUAL_FUNCTIONS)


def _loose_groups(kind: str, loose: list[Object]) -> list[list[Object]]:
    """OS devices that are not on PCI (or whose PCI part was filtered out), one group a device."""
    groups: dict[tuple[int, str], list[Object]] = defaultdict(list)
    for obj in loose:
        if kind == "gpu" and _computes(obj):
            ordinal = re.findall(r"\d+", obj.name) or ["0"]
            groups[obj.parent, ordinal[-1]].append(obj)
        elif kind == "nic" and obj.roles & {"network", "openfabrics"} and not _VIRTUAL_NAMES.match(obj.name):
            groups[obj.parent, obj.name].append(obj)
        elif kind == "nvme" and (drive := re.match(r"nvme(\d+)", obj.name)):
            groups[obj.parent, drive[1]].append(obj)
    return list(groups.values())


def _device(topology: Topology, kind: str, pci: Object | None, os_devices: list[Object]) -> Device:
    where = pci or os_devices[0]
    place = topology.locality(where)
    whole = place.nodeset == topology.root.nodeset and len(bits(topology.root.nodeset)) > 1
    infos: dict[str, str] = dict(pci.infos) if pci else {}
    for obj in os_devices:
        infos.update(obj.infos)
    attributes = pci.pci if pci else None
    return Device(
        kind=kind,
        index=0,
        names=tuple(o.name for o in sorted(os_devices, key=_name_rank)),
        address=attributes.address if attributes else "",
        model=_model(infos, pci),
        vendor=attributes.vendor if attributes else 0,
        device=attributes.device if attributes else 0,
        class_id=attributes.class_id if attributes else 0,
        link_gbs=attributes.link_gbs if attributes else 0.0,
        numa=() if whole else tuple(bits(place.nodeset)),
        cpuset=place.cpuset,
        bridges=tuple(_bridges(topology, where)),
        slot=infos.get("PCISlot", ""),
        objects=tuple(o.index for o in ([pci] if pci else []) + os_devices),
        infos=infos,
    )


def _name_rank(obj: Object) -> tuple[int, str]:
    ranks = ("nvml", "rsmi", "ze", "cuda", "opencl", "mlx", "hfi", "bnxt", "card", "render")
    rank = next((i for i, prefix in enumerate(ranks) if obj.name.startswith(prefix)), len(ranks))
    return (rank - 5 if "openfabrics" in obj.roles and rank == len(ranks) else rank, obj.name)


def _model(infos: Mapping[str, str], pci: Object | None) -> str:
    for key in ("GPUModel", "PCIDevice", "Model"):
        if infos.get(key):
            return infos[key].split(",")[0]
    return pci.name if pci else ""


def _bridges(topology: Topology, obj: Object) -> list[str]:
    path = []
    for parent in topology.parents(obj):
        if parent.kind == "Bridge":
            buses = parent.bridge.buses if parent.bridge else None
            path.append(parent.pci.address if parent.pci else f"host:{buses or parent.logical}")
        elif parent.kind not in _IO_KINDS:
            break
    return path[::-1]


def _order(device: Device) -> tuple[int, str]:
    """The driver's number first (nvml3, rsmi0, nvme1), then the PCI address."""
    driver = next((n for n in device.names if n.startswith(("nvml", "rsmi", "nvme"))), "")
    number = re.search(r"\d+", driver)
    return (int(number[0]) if number else -1, device.address or "".join(device.names))


def _numbered(device: Device, index: int) -> Device:
    return Device(**{**device.__dict__, "index": index})
