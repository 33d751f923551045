"""hwloc through cffi: this machine, an XML file or a synthetic string as frozen dataclasses."""

from slurm_topo.hwloc.topology import (
    BridgeAttributes,
    CpuKind,
    Distances,
    MemoryAttribute,
    MemoryValue,
    Object,
    PciAttributes,
    Topology,
    bits,
)

__all__ = [
    "BridgeAttributes",
    "CpuKind",
    "Distances",
    "MemoryAttribute",
    "MemoryValue",
    "Object",
    "PciAttributes",
    "Topology",
    "bits",
]
