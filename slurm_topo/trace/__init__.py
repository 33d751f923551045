"""Tracing MPI programs, and their communication graphs as files (loaded when they are asked for)."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slurm_topo.trace.graph_io import (
        build_graph,
        export_mtx,
        export_scipy,
        format_graph,
        graph_digest,
        parse_graph,
        read_graph,
        write_graph,
    )
    from slurm_topo.trace.launch import run_traced, traced_environment
    from slurm_topo.trace.library import find_library
    from slurm_topo.trace.merge import merge_traces, read_traces
    from slurm_topo.trace.reader import RankTrace, Trace, is_trace, parse_trace, read_trace

_HOMES = {
    "graph_io": (
        "build_graph",
        "export_mtx",
        "export_scipy",
        "format_graph",
        "graph_digest",
        "parse_graph",
        "read_graph",
        "write_graph",
    ),
    "launch": ("run_traced", "traced_environment"),
    "library": ("find_library",),
    "merge": ("merge_traces", "read_traces"),
    "reader": ("RankTrace", "Trace", "is_trace", "parse_trace", "read_trace"),
}

__all__ = [
    "RankTrace",
    "Trace",
    "build_graph",
    "export_mtx",
    "export_scipy",
    "find_library",
    "format_graph",
    "graph_digest",
    "is_trace",
    "merge_traces",
    "parse_graph",
    "parse_trace",
    "read_graph",
    "read_trace",
    "read_traces",
    "run_traced",
    "traced_environment",
    "write_graph",
]


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"slurm_topo.trace.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
