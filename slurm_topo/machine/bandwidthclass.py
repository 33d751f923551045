"""What a device can carry: memory of a GPU, port of a NIC, link of a drive, by vendors' peak figures."""

from __future__ import annotations

from dataclasses import dataclass

from slurm_topo.machine.devices import Device


@dataclass(frozen=True)
class BandwidthClass:
    """A class such as ``HBM3`` with its GB/s; origin: ``published``, ``reported`` (hwloc), ``unknown``."""

    name: str
    gb_per_s: float
    origin: str


UNKNOWN = BandwidthClass("unknown", 0.0, "unknown")

# PCI identity of GPUs: class of memory, GB/s.
_GPU_IDS: dict[tuple[int, int], tuple[str, float]] = {
    (0x10DE, 0x15F8): ("HBM2", 732.0),
    (0x10DE, 0x15F9): ("HBM2", 732.0),
    (0x10DE, 0x1DB1): ("HBM2", 900.0),
    (0x10DE, 0x1DB4): ("HBM2", 900.0),
    (0x10DE, 0x1DB5): ("HBM2", 900.0),
    (0x10DE, 0x1DB6): ("HBM2", 900.0),
    (0x10DE, 0x1EB8): ("GDDR6", 320.0),
    (0x10DE, 0x20B0): ("HBM2", 1555.0),
    (0x10DE, 0x20B2): ("HBM2e", 2039.0),
    (0x10DE, 0x20F1): ("HBM2", 1555.0),
    (0x10DE, 0x20B5): ("HBM2e", 1935.0),
    (0x10DE, 0x2330): ("HBM3", 3350.0),
    (0x10DE, 0x2331): ("HBM2e", 2000.0),
    (0x10DE, 0x2321): ("HBM3", 3938.0),
    (0x10DE, 0x2335): ("HBM3e", 4800.0),
    (0x10DE, 0x2342): ("HBM3", 4000.0),
    (0x10DE, 0x26B9): ("GDDR6", 864.0),
    (0x1002, 0x6860): ("HBM2", 484.0),
    (0x1002, 0x66A1): ("HBM2", 1024.0),
    (0x1002, 0x738C): ("HBM2", 1229.0),
    (0x1002, 0x7408): ("HBM2e", 1638.0),
    (0x1002, 0x740C): ("HBM2e", 1638.0),
    (0x1002, 0x740F): ("HBM2e", 1638.0),
    (0x1002, 0x74A0): ("HBM3", 5300.0),
    (0x1002, 0x74A1): ("HBM3", 5300.0),
    (0x1002, 0x74A5): ("HBM3e", 6000.0),
}
# Words of a model's name, the most specific first.
_GPU_WORDS: tuple[tuple[str, str, float], ...] = (
    ("H100 NVL", "HBM3", 3938.0),
    ("H100 PCIE", "HBM2e", 2000.0),
    ("H100", "HBM3", 3350.0),
    ("H800", "HBM3", 3350.0),
    ("GH200 144", "HBM3e", 4900.0),
    ("GH200", "HBM3", 4000.0),
    ("GB200", "HBM3e", 8000.0),
    ("B200", "HBM3e", 8000.0),
    ("H200", "HBM3e", 4800.0),
    ("H20", "HBM3", 4000.0),
    ("A100-SXM4-80", "HBM2e", 2039.0),
    ("A100 80", "HBM2e", 1935.0),
    ("A100", "HBM2", 1555.0),
    ("V100", "HBM2", 900.0),
    ("P100", "HBM2", 732.0),
    ("RTX A6000", "GDDR6", 768.0),
    ("L40", "GDDR6", 864.0),
    ("A40", "GDDR6", 696.0),
    ("A30", "HBM2", 933.0),
    ("A10", "GDDR6", 600.0),
    ("L4", "GDDR6", 300.0),
    ("T4", "GDDR6", 320.0),
    ("RTX 5090", "GDDR7", 1792.0),
    ("RTX 4090", "GDDR6X", 1008.0),
    ("RTX 3090", "GDDR6X", 936.0),
    ("MI355", "HBM3e", 8000.0),
    ("MI325", "HBM3e", 6000.0),
    ("MI300", "HBM3", 5300.0),
    ("MI200", "HBM2e", 1638.0),
    ("MI250", "HBM2e", 1638.0),
    ("MI210", "HBM2e", 1638.0),
    ("MI100", "HBM2", 1229.0),
    ("MI50", "HBM2", 1024.0),
    ("MI60", "HBM2", 1024.0),
    ("MI25", "HBM2", 484.0),
)
# PCI identity of NICs: class of port, GB/s of the fastest port, one direction.
_NIC_IDS: dict[tuple[int, int], tuple[str, float]] = {
    (0x15B3, 0x1013): ("EDR", 12.5),
    (0x15B3, 0x1017): ("EDR", 12.5),
    (0x15B3, 0x1019): ("EDR", 12.5),
    (0x15B3, 0x101B): ("HDR", 25.0),
    (0x15B3, 0x101D): ("100GbE", 12.5),
    (0x15B3, 0x1021): ("NDR", 50.0),
    (0x15B3, 0x1023): ("XDR", 100.0),
    (0x17DB, 0x0501): ("Slingshot 200", 25.0),
    (0x8086, 0x24F0): ("Omni-Path 100", 12.5),
    (0x8086, 0x1521): ("1GbE", 0.125),
    (0x8086, 0x1523): ("1GbE", 0.125),
    (0x8086, 0x1537): ("1GbE", 0.125),
    (0x8086, 0x10D3): ("1GbE", 0.125),
    (0x14E4, 0x1657): ("1GbE", 0.125),
    (0x14E4, 0x165F): ("1GbE", 0.125),
    (0x1D0F, 0xEFA0): ("EFA 100", 12.5),
}


def class_of(device: Device) -> BandwidthClass:
    """Bandwidth class of a device.

    Notes
    -----
    A GPU is classed by its memory, a NIC by its port, a drive by its PCIe link.
    """
    if device.kind == "gpu":
        found = _GPU_IDS.get((device.vendor, device.device)) or _by_words(device.model)
    elif device.kind == "nic":
        found = _NIC_IDS.get((device.vendor, device.device))
    else:
        found = None
    if found:
        return BandwidthClass(found[0], found[1], "published")
    if device.link_gbs:
        name = "NVMe" if device.kind == "nvme" else "PCIe"
        return BandwidthClass(name, round(device.link_gbs, 3), "reported")
    return UNKNOWN


def class_of_model(model: str) -> BandwidthClass:
    """Bandwidth class of a GPU of which only the model's name is known."""
    found = _by_words(model)
    return BandwidthClass(found[0], found[1], "published") if found else UNKNOWN


def _by_words(model: str) -> tuple[str, float] | None:
    text = model.upper().replace("_", " ")
    return next(((name, speed) for words, name, speed in _GPU_WORDS if words in text), None)
