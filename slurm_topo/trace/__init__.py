"""Tracing MPI programs, and their communication graphs as files (loaded when they are asked for)."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slurm_topo.trace.graph_io import (
        build_graph,
        export_mtx,
        export_scipy,
        graph_digest,
        read_graph,
        write_graph,
    )

__all__ = ["build_graph", "export_mtx", "export_scipy", "graph_digest", "read_graph", "write_graph"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(importlib.import_module("slurm_topo.trace.graph_io"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
