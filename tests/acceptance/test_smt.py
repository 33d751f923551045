"""Cores of two hardware threads: a rank has a core of its own, with the threads that it asked for."""

from __future__ import annotations

from collections.abc import Callable

from tests.acceptance.checks import check_placed
from tests.acceptance.conftest import SMT
from tests.acceptance.evidence import Rank, decision_of, read_ranks, ring_within
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


def openmp_of(rank: Rank) -> dict[str, str]:
    return {name: value for name, value in rank.environment.items() if name.startswith(("OMP_", "GOMP_"))}


def test_threads_of_openmp_are_as_many_as_the_cpus_of_a_rank(smt: Results) -> None:
    for rank in read_ranks(smt.out, "cores"):
        listed = f"{min(rank.cpus)}-{max(rank.cpus)}"
        assert openmp_of(rank) == {"OMP_NUM_THREADS": "2", "OMP_PLACES": "cores", "GOMP_CPU_AFFINITY": listed}


def test_who_asks_for_no_threads_has_a_core_and_one_thread_on_it(smt: Results, passed: Passed) -> None:
    passed(smt, "23-exclusive")
    _, ranks = check_placed(smt, SMT, "exclusive", 8)
    # Both threads of the core are the rank's: no other rank is beside it.
    assert sorted(sorted(rank.cpus) for rank in ranks) == [[2 * core, 2 * core + 1] for core in range(8)]
    assert {rank.environment["OMP_NUM_THREADS"] for rank in ranks} == {"1"}


def test_a_rank_of_several_cores_has_whole_ones_of_one_numa_node(smt: Results, passed: Passed) -> None:
    passed(smt, "24-several")
    _, ranks = check_placed(smt, SMT, "several", 4)
    for rank in ranks:
        numa = SMT.numa_of(min(rank.cpus))
        assert rank.cpus == set(range(4 * numa, 4 * numa + 4))
        listed = f"{4 * numa}-{4 * numa + 3}"
        assert openmp_of(rank) == {"OMP_NUM_THREADS": "4", "OMP_PLACES": "cores", "GOMP_CPU_AFFINITY": listed}


def test_places_of_the_user_stay(smt: Results) -> None:
    for name, wish in (
        ("places", {"OMP_NUM_THREADS": "4", "OMP_PLACES": "threads"}),
        ("list", {"OMP_NUM_THREADS": "1", "GOMP_CPU_AFFINITY": "0"}),
    ):
        _, ranks = check_placed(smt, SMT, name, 4)
        assert [openmp_of(rank) for rank in ranks] == [wish] * 4
