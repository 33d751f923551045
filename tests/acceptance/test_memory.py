"""Memory policies, high-bandwidth memory, fewer ranks than cores, and GPUs behind a cgroup of devices."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.acceptance.checks import check_apart, check_placed
from tests.acceptance.conftest import MEMORY
from tests.acceptance.evidence import (
    BIND,
    DEFAULT,
    INTERLEAVE,
    PREFERRED,
    Rank,
    decision_of,
    plan_of,
    read_ranks,
)
from tests.acceptance.guest import Results

Passed = Callable[[Results, str], None]


def placed(results: Results, name: str, size: int) -> list[Rank]:
    """Ranks of a placed job, each on the CPUs of its plan."""
    ranks = read_ranks(results.out, name)
    assert len(ranks) == size
    assert decision_of(results.out, ranks[0].job)["decision"] == "place"
    plan = plan_of(results.out, ranks[0].job)
    assert [rank.cpus for rank in ranks] == [set(place.cpus) for place in plan.places]
    check_apart(ranks)
    return ranks


def own_numa(rank: Rank) -> int:
    (numa,) = {MEMORY.numa_of(cpu) for cpu in rank.cpus}
    return numa


def test_machine_has_memory_without_cpus(memory: Results, passed: Passed) -> None:
    passed(memory, "00-setup")
    said = memory.outcomes["00-setup"].stdout
    assert "available: 6 nodes (0-5)" in said
    assert "node 4 cpus:\n" in said
    # The model knows it as what it is, and as nobody's default memory.
    assert said.count("HBM") == 2


def test_default_memory_is_never_the_fast_one(memory: Results, passed: Passed) -> None:
    passed(memory, "30-plain")
    check_placed(memory, MEMORY, "plain", 8)


def test_strict_memory_is_bound(memory: Results, passed: Passed) -> None:
    passed(memory, "30-strict")
    for rank in placed(memory, "strict", 8):
        numa = own_numa(rank)
        assert (rank.policy, rank.policy_nodes) == (BIND, {numa})
        assert rank.numa_maps.split()[1] == f"bind:{numa}"
        assert rank.mapped == {numa: 1024}


def test_interleaved_memory_goes_round_the_nodes_of_the_job(memory: Results, passed: Passed) -> None:
    passed(memory, "30-interleave")
    for rank in placed(memory, "interleave", 8):
        assert (rank.policy, rank.policy_nodes) == (INTERLEAVE, {0, 1, 2, 3})
        assert rank.numa_maps.split()[1] == "interleave:0-3"
        # By pages of 4 KiB or, where the kernel made one, of 2 MiB.
        assert sum(rank.mapped.values()) == 1024
        assert min(rank.mapped[numa] for numa in range(4)) >= 128


def test_fast_memory_of_the_own_socket_is_preferred(memory: Results, passed: Passed) -> None:
    passed(memory, "30-hbm")
    for rank in placed(memory, "hbm", 8):
        fast = MEMORY.hbm_of(own_numa(rank))
        assert (rank.policy, rank.policy_nodes) == (PREFERRED, {fast})
        assert rank.numa_maps.split()[1] == f"prefer:{fast}"
        assert rank.mapped == {fast: 1024}


def test_fast_memory_that_is_full_gives_way_to_ordinary_memory(memory: Results, passed: Passed) -> None:
    passed(memory, "31-full")
    pages: dict[int, int] = {}
    for rank in placed(memory, "full", 8):
        assert rank.numa_maps.split()[1] == f"prefer:{MEMORY.hbm_of(own_numa(rank))}"
        assert sum(rank.mapped.values()) == 48 * 256
        for numa, count in rank.mapped.items():
            pages[numa] = pages.get(numa, 0) + count
    assert pages[4] > 48 * 256
    assert pages[5] > 48 * 256
    assert sum(count for numa, count in pages.items() if numa < 4) > 48 * 256


def test_no_policy_can_be_asked_for(memory: Results, passed: Passed) -> None:
    passed(memory, "30-none")
    assert {rank.policy for rank in placed(memory, "none", 8)} == {DEFAULT}


def test_packed_ranks_lie_in_as_few_numa_nodes_as_hold_them(memory: Results, passed: Passed) -> None:
    passed(memory, "32-packed")
    plan, ranks = check_placed(memory, MEMORY, "packed", 4)
    assert plan.variant == "packed"
    assert len({own_numa(rank) for rank in ranks}) == 2
    # Nearest neighbours share them, in one socket.
    assert len({MEMORY.socket_of(own_numa(rank)) for rank in ranks}) == 1


def test_nodes_that_nobody_captured_get_the_memory_that_the_kernel_has_there(
    memory: Results, passed: Passed
) -> None:
    passed(memory, "50-counted")
    ranks = placed(memory, "counted", 8)
    assert {place.mem for place in plan_of(memory.out, ranks[0].job).places} == {()}
    for rank in ranks:
        numa = own_numa(rank)
        assert (rank.policy, rank.policy_nodes) == (PREFERRED, {numa})
        assert rank.mapped == {numa: 1024}


VARIABLES = {"nvidia": "CUDA_VISIBLE_DEVICES", "amd": "ROCR_VISIBLE_DEVICES", "intel": "ZE_AFFINITY_MASK"}


@pytest.mark.parametrize("maker", VARIABLES)
def test_gpus_behind_a_cgroup_are_ordered_by_their_numbers_there(
    memory: Results, passed: Passed, maker: str
) -> None:
    passed(memory, "40-gpus")
    ranks = placed(memory, maker, 6)
    plan = plan_of(memory.out, ranks[0].job)
    for rank in ranks:
        # The first is another job's: the kernel lets nobody of this one at it, and counts from the second.
        assert rank.environment["SLURM_STEP_GPUS"] == "1,2"
        assert rank.devices == {0: "denied", 1: "usable", 2: "usable", 3: "denied"}
        (own,) = plan.places[rank.rank].gpus
        assert rank.environment[VARIABLES[maker]] == ("0,1" if own == 1 else "1,0")
        # GPU 1 is next to NUMA node 2, GPU 2 to NUMA node 1; node 0 has none of its own.
        assert own == {2: 1, 1: 2}.get(own_numa(rank), own)
    assert sorted(place.gpus for place in plan.places) == [(1,)] * 3 + [(2,)] * 3


def test_isolated_ranks_see_one_gpu_behind_a_cgroup(memory: Results) -> None:
    ranks = placed(memory, "isolated", 6)
    plan = plan_of(memory.out, ranks[0].job)
    for rank in ranks:
        (own,) = plan.places[rank.rank].gpus
        assert rank.environment["CUDA_VISIBLE_DEVICES"] == str(own - 1)
