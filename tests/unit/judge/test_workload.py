"""The order of messages: all bytes, nobody waits for a message that never comes."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_topo.judge.workload import Workload, workload_of
from slurm_topo.model import CommGraph
from slurm_topo.trace import build_graph


def actions(workload: Workload) -> list[list[list[str]]]:
    return [[line.split()[1:] for line in text.splitlines()] for text in workload.rank_text]


def sent(workload: Workload) -> Counter[tuple[int, int]]:
    found: Counter[tuple[int, int]] = Counter()
    for rank, lines in enumerate(actions(workload)):
        for what, *rest in lines:
            if what == "isend":
                found[rank, int(rest[0])] += int(rest[2])
    return found


def received(workload: Workload) -> Counter[tuple[int, int]]:
    found: Counter[tuple[int, int]] = Counter()
    for rank, lines in enumerate(actions(workload)):
        for what, *rest in lines:
            if what == "irecv":
                found[int(rest[0]), rank] += int(rest[2])
    return found


@st.composite
def graphs(draw: st.DrawFn) -> CommGraph:
    ranks = draw(st.integers(2, 12))
    rank = st.integers(0, ranks - 1)
    pairs = draw(st.lists(st.tuples(rank, rank, st.integers(1, 10**6), st.integers(1, 50)), min_size=1))
    u, v, nbytes, messages = (np.array(column) for column in zip(*pairs, strict=True))
    return build_graph(ranks, u, v, nbytes.astype(float), messages.astype(float))


@settings(deadline=None)
@given(graphs(), st.integers(1, 6), st.integers(1, 8))
def test_what_is_sent_is_received_and_is_all(graph: CommGraph, rounds: int, window: int) -> None:
    workload = workload_of(graph, rounds, window)
    assert sent(workload) == received(workload)
    total = sum(sent(workload).values()) * workload.repeats
    messages = sum(len(lines) for lines in actions(workload))
    # Sizes are whole bytes: each message is up to one byte more than its share.
    assert graph.nbytes.sum() * (1 - 1e-9) <= total <= graph.nbytes.sum() + messages * workload.repeats


@settings(deadline=None)
@given(graphs(), st.integers(1, 4))
def test_portions_end_at_the_same_distances_for_all(graph: CommGraph, window: int) -> None:
    portions: dict[int, int] = {}
    for rank, lines in enumerate(actions(workload_of(graph, 1, window))):
        part: list[int] = []
        order = []
        for what, *rest in lines:
            if what == "isend":
                part.append((int(rest[0]) - rank) % graph.ranks)
            if what == "irecv":
                part.append((rank - int(rest[0])) % graph.ranks)
            if what == "waitall":
                order.append(part)
                part = []
        assert not part
        for earlier, later in pairwise(order):
            assert max(earlier) < min(later)
        for part in order:
            for distance in part:
                portions.setdefault(distance, min(part))


def test_a_rank_has_no_more_than_the_window_open() -> None:
    ranks = 20
    source, target = np.divmod(np.arange(ranks * ranks), ranks)
    graph = build_graph(ranks, source, target, np.full(source.size, 8.0), np.ones(source.size))
    for lines in actions(workload_of(graph, 1, window=5)):
        open_messages = 0
        for what, *_ in lines:
            open_messages += what == "isend"
            if what == "waitall":
                assert open_messages <= 5
                open_messages = 0


@pytest.mark.parametrize(("rounds", "messages"), [(1, 2), (3, 4), (30, 40)])
def test_a_pair_that_sends_in_every_third_iteration(rounds: int, messages: int) -> None:
    graph = build_graph(3, np.array([0, 1]), np.array([1, 2]), np.array([3e6, 1e6]), np.array([30.0, 10.0]))
    workload = workload_of(graph, rounds)
    assert workload.repeats == pytest.approx(30 / rounds)
    assert sum(line[0] == "isend" for lines in actions(workload) for line in lines) == messages
    assert sent(workload)[1, 2] * workload.repeats == pytest.approx(1e6, rel=1e-4)
