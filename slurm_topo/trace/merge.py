"""All nodes of a step as one communication graph."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slurm_topo.errors import GraphError
from slurm_topo.model import CommGraph, Floats, Ints
from slurm_topo.trace.graph_io import build_graph
from slurm_topo.trace.phases import bound_by, phase_change, phase_graphs
from slurm_topo.trace.reader import RankTrace, Trace, read_trace
from slurm_topo.units import fold_ints


def read_traces(paths: Iterable[str | os.PathLike[str]]) -> CommGraph:
    """The graph of one step from the trace files of its nodes.

    Of several worlds in the files (spawned ones, several launches of one batch script) the one with most
    ranks is taken; ``meta["other_worlds"]`` counts the rest. ``meta["missing_ranks"]`` names the ranks
    without counters.

    Raises
    ------
    GraphError
        A file cannot be read, or no file holds a rank.
    """
    return merge_traces([read_trace(path) for path in paths])


def merge_traces(traces: Sequence[Trace]) -> CommGraph:
    """The graph of traces that were read before; see :func:`read_traces`."""
    worlds: dict[tuple[str, int], dict[int, RankTrace]] = {}
    for trace in traces:
        for record in trace.ranks:
            known = worlds.setdefault((record.world, record.size), {})
            if record.rank not in known or record.start_s > known[record.rank].start_s:
                known[record.rank] = record
    if not worlds:
        names = ", ".join(t.path for t in traces) or "no file"
        raise GraphError(f"{names}: no rank has left counters; trace the program again")
    main = max(worlds, key=lambda w: (len(worlds[w]), not _spawned(worlds[w]), w[1], w[0]))
    ranks = [worlds[main][r] for r in sorted(worlds[main])]
    return _graph(main[1], ranks, _meta(main[1], ranks, traces, len(worlds) - 1))


def _spawned(ranks: Mapping[int, RankTrace]) -> bool:
    return any(r.spawned for r in ranks.values())


def _graph(size: int, ranks: Sequence[RankTrace], meta: Mapping[str, Any]) -> CommGraph:
    sent = np.concatenate([r.sent for r in ranks])
    rank = np.repeat(np.array([r.rank for r in ranks], np.int32), [r.sent.size for r in ranks])
    peer = sent["peer"].astype(np.int32)
    measured = np.repeat([r.measured for r in ranks], [r.sent.size for r in ranks])
    out_bytes = _sum(sent, "p2p_bytes", "coll_bytes", "out_bytes")
    out_messages = _sum(sent, "p2p_messages", "coll_messages", "out_messages")
    got = sent["in_messages"] > 0
    source: Ints = np.concatenate([rank, peer[got]])
    target: Ints = np.concatenate([peer, rank[got]])
    return build_graph(
        size,
        source,
        target,
        np.concatenate([out_bytes, _sum(sent[got], "in_bytes")]),
        np.concatenate([out_messages, _sum(sent[got], "in_messages")]),
        np.concatenate([np.where(measured, 0.0, _sum(sent, "coll_bytes")), np.zeros(int(got.sum()))]),
        meta,
    )


def _sum(sent: NDArray[Any], *columns: str) -> Floats:
    total = np.zeros(sent.size)
    for column in columns:
        total += sent[column]
    return total


def _meta(size: int, ranks: Sequence[RankTrace], traces: Sequence[Trace], others: int) -> dict[str, Any]:
    first = ranks[0]
    present = {r.rank for r in ranks}
    begin = min(r.start_s for r in ranks)
    end = max([r.end_s for r in ranks if r.end_s] or [t.end_s for t in traces])
    hosts: dict[str, list[int]] = {}
    for record in ranks:
        hosts.setdefault(record.host, []).append(record.rank)
    waits = [(r.wait_p2p_s + r.wait_coll_s) / (end - begin) if end > begin else 0.0 for r in ranks]
    width, phases = phase_graphs(size, ranks)
    reasons = [t.reason for t in traces if t.reason] + [r.reason for r in ranks if r.reason]
    return {
        "origin": "trace",
        "program": first.program,
        "executable": first.executable,
        "library": first.library,
        "hosts": {host: fold_ints(numbers) for host, numbers in hosts.items()},
        "job": traces[0].job,
        "step": traces[0].step,
        "keys": traces[0].keys,
        "start": begin,
        "seconds": max(end - begin, 0.0),
        "finalized": all(r.finalized for r in ranks),
        "wait_p2p_seconds": sum(r.wait_p2p_s for r in ranks),
        "wait_coll_seconds": sum(r.wait_coll_s for r in ranks),
        "wait_share": [min(waits), sum(waits) / len(waits), max(waits)],
        "bound_by": bound_by(ranks, end - begin),
        "phase_seconds": width,
        "phase_bytes": [float(p.nbytes.sum()) for p in phases],
        "phase_change": phase_change(phases),
        "measured": all(r.measured for r in ranks),
        "collectives": max(r.collectives for r in ranks),
        "messages_of_size": np.sum([r.messages_of_size for r in ranks], axis=0).tolist(),
        "foreign_bytes": sum(r.foreign_bytes for r in ranks),
        "missing_ranks": [r for r in range(size) if r not in present],
        "missing_reason": reasons[0] if reasons else "",
        "other_worlds": others,
    }
