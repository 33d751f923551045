"""hwloc through cffi: this machine, an XML file or a synthetic string as frozen dataclasses.

The dataclasses are loaded when they are asked for: a launch reads a cluster description without them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(importlib.import_module("slurm_topo.hwloc.topology"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
