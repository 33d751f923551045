"""Cores of two hardware threads: a rank has a core of its own, with the threads that it asked for."""

from __future__ import annotations

from collections.abc import Callable

from tests.acceptance.checks import check_placed
from tests.acceptance.conftest import SMT
from tests.acceptance.evidence import decision_of, read_ranks, ring_within
from tests.acceptance.guest import Results

Passed = Callable[[Results, str], None]


def test_a_rank_of_two_threads_gets_the_two_of_one_core(smt: Results, passed: Passed) -> None:
    passed(smt, "20-cores")
    _, ranks = check_placed(smt, SMT, "cores", 8)
    for rank in ranks:
        first = min(rank.cpus)
        assert rank.cpus == {first, first + 1}
        assert first % 2 == 0
    domains = [SMT.numa_of(min(rank.cpus)) for rank in ranks]
    # Four pieces of two ranks: every second link of the ring is inside.
    assert ring_within(domains) == 4


def test_a_rank_on_every_thread_stands_down(smt: Results, passed: Passed) -> None:
    passed(smt, "21-threads")
    ranks = read_ranks(smt.out, "threads")
    assert len(ranks) == 16
    decision = decision_of(smt.out, ranks[0].job)
    assert (decision["decision"], decision["reason"]) == ("stand-down", "cores")


def test_one_thread_a_core_leaves_the_second_thread_alone(smt: Results, passed: Passed) -> None:
    passed(smt, "22-single")
    _, ranks = check_placed(smt, SMT, "single", 8)
    assert len({min(rank.cpus) // 2 for rank in ranks}) == 8
