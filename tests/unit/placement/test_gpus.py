"""GPUs of the ranks of a node: even, then near, then linked well to those of the ranks that they talk to."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from slurm_topo.placement.gpus import assign_gpus


def nested_distance(domains: int, ranks: list[int], gpus: list[int]) -> np.ndarray:
    """0 in a domain, 1 in a pair of domains, 2 beyond."""
    a, b = np.array(ranks)[:, None], np.array(gpus)[None, :]
    return np.where(a == b, 0, np.where(a // 2 == b // 2, 1, 2))


def least_distance(far: np.ndarray) -> int:
    """Of all even assignments: a column for each item that a bin must or may hold."""
    far = far if far.shape[0] >= far.shape[1] else far.T
    items, bins = far.shape
    full, rest = divmod(items, bins)
    columns = np.repeat(np.arange(bins), full)
    reward = np.zeros(len(columns))
    if rest:
        columns, reward = np.append(columns, np.arange(bins)), np.append(reward - 1000.0, np.zeros(bins))
    cost = far[:, columns] + reward[None, :]
    rows, chosen = linear_sum_assignment(cost)
    return int(far[rows, columns[chosen]].sum())


def assert_even(found: list[tuple[int, ...]], gpus: int) -> None:
    served = Counter(g for own in found for g in own)
    if len(found) >= gpus:
        assert {len(own) for own in found} == {1}
        assert max(served[g] for g in range(gpus)) - min(served[g] for g in range(gpus)) <= 1
    else:
        assert served == dict.fromkeys(range(gpus), 1)
        sizes = [len(own) for own in found]
        assert max(sizes) - min(sizes) <= 1


@settings(max_examples=150, deadline=None)
@given(st.data(), st.integers(1, 24), st.integers(1, 9))
def test_shares_are_even_and_no_even_assignment_is_nearer(data, ranks, gpus):
    domain = st.integers(0, 3)
    places = data.draw(st.lists(domain, min_size=ranks, max_size=ranks))
    devices = data.draw(st.lists(domain, min_size=gpus, max_size=gpus))
    far = nested_distance(4, places, devices)
    found = assign_gpus(far)
    assert_even(found, gpus)
    assert sum(far[r, g] for r, own in enumerate(found) for g in own) == least_distance(far)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.integers(2, 8))
def test_links_never_cost_nearness(seed, ranks, gpus):
    rng = np.random.default_rng(seed)
    far = nested_distance(4, rng.integers(0, 4, ranks).tolist(), rng.integers(0, 4, gpus).tolist())
    traffic = rng.random((ranks, ranks)) * 1e12
    bandwidth = rng.choice([0.0, 20.0, 300.0], (gpus, gpus))
    found = assign_gpus(far, traffic + traffic.T, bandwidth + bandwidth.T)
    assert_even(found, gpus)
    assert sum(far[r, g] for r, own in enumerate(found) for g in own) == least_distance(far)


def test_ranks_that_exchange_most_sit_on_the_best_link():
    bandwidth = np.full((4, 4), 10.0)
    for a, b in ((0, 3), (1, 2)):
        bandwidth[a, b] = bandwidth[b, a] = 100.0
    traffic = np.zeros((4, 4))
    for a, b in ((0, 1), (2, 3)):
        traffic[a, b] = traffic[b, a] = 1e9
    found = [g for (g,) in assign_gpus(np.zeros((4, 4), dtype=int), traffic, bandwidth)]
    assert {frozenset(found[:2]), frozenset(found[2:])} == {frozenset({0, 3}), frozenset({1, 2})}


def test_link_is_chosen_only_among_gpus_that_are_equally_near():
    far = nested_distance(2, [0, 0, 2, 2], [0, 0, 2, 2])
    bandwidth = np.ones((4, 4))
    bandwidth[1, 2] = bandwidth[2, 1] = 100.0
    traffic = np.zeros((4, 4))
    traffic[0, 3] = traffic[3, 0] = 1e9
    assert assign_gpus(far, traffic, bandwidth) == [(1,), (0,), (3,), (2,)]


def test_ranks_that_share_a_gpu_are_those_that_exchange_most():
    traffic = np.zeros((6, 6))
    for a in range(3):
        traffic[a, a + 3] = traffic[a + 3, a] = 1.0
    bandwidth = np.full((3, 3), 10.0)
    found = assign_gpus(np.zeros((6, 3), dtype=int), traffic, bandwidth)
    assert found[:3] == found[3:]
    assert_even(found, 3)


def test_gpus_of_one_rank_are_linked_best_to_each_other():
    bandwidth = np.full((4, 4), 10.0)
    for a, b in ((0, 2), (1, 3)):
        bandwidth[a, b] = bandwidth[b, a] = 100.0
    assert sorted(assign_gpus(np.zeros((2, 4), dtype=int), None, bandwidth)) == [(0, 2), (1, 3)]


@pytest.mark.parametrize(("ranks", "gpus"), [(3, 0), (0, 2), (1, 1)])
def test_nothing_to_choose(ranks, gpus):
    assert assign_gpus(np.zeros((ranks, gpus), dtype=int)) == [tuple(range(gpus))] * ranks
