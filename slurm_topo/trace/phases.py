"""What a program is bound by, and how its communication changes while it runs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from slurm_topo.model import CommGraph, Floats
from slurm_topo.trace.graph_io import build_graph
from slurm_topo.trace.growth import agreement
from slurm_topo.trace.reader import EPOCHS, RankTrace

SMALL_MESSAGE = 8192.0
LITTLE_WAITING = 0.05


def bound_by(ranks: Sequence[RankTrace], seconds: float) -> str:
    """``computation``, ``imbalance``, ``latency`` or ``bandwidth``; empty where it cannot be told.

    Notes
    -----
    By the share of the time that ranks wait in MPI: under 5 % it is computation; where the least share is
    below half of the mean, some ranks are waited for, which is imbalance; else latency where half of the
    bytes or more are in messages of less than 8 KiB, and bandwidth otherwise.
    """
    if seconds <= 0 or not ranks:
        return ""
    shares = np.array([r.wait_p2p_s + r.wait_coll_s for r in ranks]) / seconds
    if shares.mean() < LITTLE_WAITING:
        return "computation"
    if shares.min() < shares.mean() / 2:
        return "imbalance"
    messages = np.sum([r.messages_of_size for r in ranks], axis=0)
    sizes = np.r_[0.0, 1.5 * 2.0 ** np.arange(messages.size - 1)]
    nbytes = messages * sizes
    small = nbytes[sizes < SMALL_MESSAGE].sum()
    return "latency" if small >= nbytes.sum() / 2 else "bandwidth"


def phase_graphs(size: int, ranks: Sequence[RankTrace]) -> tuple[float, list[CommGraph]]:
    """Seconds of a phase, and the bytes of each phase, in order.

    Messages are not known by phase. At most six phases; their width doubles as the program goes on.
    """
    width = max((r.phase_s for r in ranks), default=0.0)
    source, target, columns = [], [], []
    for record in ranks:
        source.append(np.full(record.sent.size, record.rank, np.int32))
        target.append(record.sent["peer"].astype(np.int32))
        columns.append(_widened(record, width))
    if not columns:
        return 0.0, []
    nbytes = np.concatenate(columns)
    used = int(np.flatnonzero(nbytes.sum(axis=0)).max(initial=-1)) + 1
    u, v = np.concatenate(source), np.concatenate(target)
    return width, [build_graph(size, u, v, nbytes[:, i]) for i in range(used)]


def _widened(record: RankTrace, width: float) -> Floats:
    """Epochs of one rank, shape (partners, 6), in the width of the slowest clock."""
    nbytes = record.sent["epoch_bytes"].astype(np.float64)
    own = record.phase_s
    while own and own < width * 0.99:
        pairs = nbytes.reshape(-1, EPOCHS // 2, 2).sum(axis=2)
        nbytes = np.hstack([pairs, np.zeros_like(pairs)])
        own *= 2
    return nbytes


def phase_change(phases: Sequence[CommGraph]) -> float:
    """How much of the traffic goes elsewhere from phase to phase: 0 (never changes) .. 1.

    Notes
    -----
    Mean over neighbouring phases of half the sum of differences of the matrices, each divided by its sum.
    """
    loud = [p for p in phases if p.nbytes.sum() > 0]
    moves = [1.0 - agreement(a, b) for a, b in pairwise(loud)]
    return float(np.mean(moves)) if moves else 0.0
