"""Phases, and what a program is bound by."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from slurm_topo.trace import read_trace, read_traces
from slurm_topo.trace.phases import phase_graphs

Make = Callable[..., Path]
Record = Callable[..., bytes]


def phased(*nbytes: int) -> tuple[int, ...]:
    """Slot with these bytes by phase."""
    return (1, sum(nbytes), 0, 0, 0, 0, 0, 0, *nbytes)


def test_phases_with_the_same_partners_do_not_change(make_trace: Make, make_record: Record) -> None:
    records = [make_record(r, 2, {1 - r: phased(10, 10, 30)}) for r in range(2)]
    graph = read_traces([make_trace(records)])
    assert graph.meta["phase_bytes"] == [20, 20, 60]
    assert graph.meta["phase_change"] == 0.0
    assert graph.meta["phase_seconds"] == 2.0


def test_partners_that_change_are_seen(make_trace: Make, make_record: Record) -> None:
    records = [make_record(r, 3, {(r + 1) % 3: phased(10, 0), (r + 2) % 3: phased(0, 10)}) for r in range(3)]
    assert read_traces([make_trace(records)]).meta["phase_change"] == pytest.approx(1.0)


def test_clocks_of_different_pace_are_brought_together(make_trace: Make, make_record: Record) -> None:
    slow = make_record(0, 2, {1: phased(10, 20, 30)}, phase_s=4.0)
    fast = make_record(1, 2, {0: phased(1, 2, 3, 4, 5, 6)}, phase_s=2.0)
    width, phases = phase_graphs(2, read_trace(make_trace([slow, fast])).ranks)
    assert width == 4.0
    assert [p.nbytes.tolist() for p in phases] == [[10, 3], [20, 7], [30, 11]]


@pytest.mark.parametrize(
    ("waits", "bins", "bound"),
    [
        ([0.1, 0.2, 0.1], {20: 5}, "computation"),
        ([0.1, 4.0, 4.0], {20: 5}, "imbalance"),
        ([4.0, 4.0, 5.0], {20: 5}, "bandwidth"),
        ([4.0, 4.0, 5.0], {4: 500}, "latency"),
    ],
)
def test_what_a_program_is_bound_by(
    make_trace: Make, make_record: Record, waits: list[float], bins: dict[int, int], bound: str
) -> None:
    records = [
        make_record(r, 3, {(r + 1) % 3: (1, 1)}, wait_s=(w, 0.0), bins=bins) for r, w in enumerate(waits)
    ]
    meta = read_traces([make_trace(records)]).meta
    assert meta["bound_by"] == bound
    assert meta["wait_share"][2] == pytest.approx(max(waits) / 10)
