"""Four NUMA nodes, cgroups that constrain cores, two Slurm nodes: what each rank of a placed job gets."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from itertools import pairwise

from slurm_topo.units import expand_ints
from tests.acceptance.checks import check_apart, check_placed
from tests.acceptance.conftest import NUMA
from tests.acceptance.evidence import DEFAULT, decision_of, owned_cpus, read_ranks, ring_within
from tests.acceptance.guest import Results

Passed = Callable[[Results, str], None]


def test_machine_has_four_numa_nodes(numa: Results, passed: Passed) -> None:
    passed(numa, "00-setup")
    said = numa.outcomes["00-setup"].stdout
    assert "available: 4 nodes (0-3)" in said
    assert "2:  32  32  10  12" in said


def test_first_run_is_traced_and_left_as_slurm_has_it(numa: Results, passed: Passed) -> None:
    passed(numa, "01-trace")
    for name, size in (("trace16", 16), ("trace8", 8), ("trace8c2", 8)):
        ranks = read_ranks(numa.out, name)
        assert len(ranks) == size
        assert decision_of(numa.out, ranks[0].job, "spool.traced")["decision"] == "trace"
        assert {rank.policy for rank in ranks} == {DEFAULT}
        assert {rank.environment["LD_PRELOAD"] for rank in ranks} == {
            "/usr/lib/slurm-topo/libslurm_topo_trace.so"
        }


def test_sync_learns_from_accounting_and_traces(numa: Results, passed: Passed) -> None:
    passed(numa, "02-sync")
    assert re.search(r"\d+ jobs, 3 traces", numa.outcomes["02-sync"].stdout)
    # Every program under each of its keys: script, job name, executable.
    advice = [f.read_text() for f in (numa.out / "state/advice").glob("??/*")]
    assert len(advice) >= 3
    assert {line for text in advice for line in text.splitlines() if line.startswith("ranks")} == {
        "ranks 8",
        "ranks 16",
    }
    assert all("\ngraph " in text for text in advice)


def test_full_node_puts_neighbours_into_one_numa_node(numa: Results, passed: Passed) -> None:
    passed(numa, "10-full")
    _, ranks = check_placed(numa, NUMA, "full", 16)
    assert {rank.node for rank in ranks} == {ranks[0].node}
    assert set().union(*(rank.cpus for rank in ranks)) == set(range(16))
    domains = [NUMA.numa_of(min(rank.cpus)) for rank in ranks]
    # A ring cut into four pieces of four has twelve of its sixteen links inside; Slurm's own order has none.
    assert ring_within(domains) == 12
    before = [NUMA.numa_of(min(rank.cpus)) for rank in read_ranks(numa.out, "trace16")]
    assert ring_within(before) == 0


def test_several_cores_of_a_rank_lie_in_one_numa_node(numa: Results, passed: Passed) -> None:
    passed(numa, "10-full")
    _, ranks = check_placed(numa, NUMA, "wide", 8)
    for rank in ranks:
        assert len(rank.cpus) == 2
        assert len({NUMA.numa_of(cpu) for cpu in rank.cpus}) == 1


def test_openmp_threads_follow_the_mask_unless_the_user_says_otherwise(numa: Results) -> None:
    for rank in read_ranks(numa.out, "wide"):
        assert rank.environment["OMP_NUM_THREADS"] == "2"
        assert rank.environment["OMP_PLACES"] == "cores"
        assert frozenset(expand_ints(rank.environment["GOMP_CPU_AFFINITY"])) == rank.cpus
    assert {rank.environment["OMP_NUM_THREADS"] for rank in read_ranks(numa.out, "spread")} == {"3"}


def test_fewer_ranks_than_cores_are_spread_over_numa_nodes(numa: Results, passed: Passed) -> None:
    passed(numa, "11-spread")
    _, ranks = check_placed(numa, NUMA, "spread", 8)
    for node in ("n1", "n2"):
        mine = [NUMA.numa_of(min(rank.cpus)) for rank in ranks if rank.node == node]
        assert sorted(mine) == [0, 1, 2, 3]


def test_unequal_parts_of_two_nodes(numa: Results, passed: Passed) -> None:
    passed(numa, "12-unequal")
    _, ranks = check_placed(numa, NUMA, "unequal", 16)
    assert Counter(rank.node for rank in ranks) == {"n1": 10, "n2": 6}


def test_sparse_cores_of_a_partial_node(numa: Results, passed: Passed) -> None:
    passed(numa, "13-sparse")
    _, ranks = check_placed(numa, NUMA, "sparse", 8)
    cpus = sorted(owned_cpus(numa.out, "sparse")["n1"])
    assert len(cpus) == 8
    assert any(b - a > 1 and a // 4 == b // 4 for a, b in pairwise(cpus)), cpus
    assert set().union(*(rank.cpus for rank in ranks)) == set(cpus)


def test_two_placed_jobs_share_a_node_without_a_common_cpu(numa: Results, passed: Passed) -> None:
    passed(numa, "14-shared")
    assert set(numa.outcomes["14-shared"].stdout.split()) == {"shared1", "shared2"}
    _, first = check_placed(numa, NUMA, "shared1", 8)
    _, second = check_placed(numa, NUMA, "shared2", 8)
    assert {rank.node for rank in first} == {rank.node for rank in second} == {"n1"}
    check_apart(first + second)


def test_more_ranks_than_cores_stand_down(numa: Results, passed: Passed) -> None:
    passed(numa, "15-crowd")
    ranks = read_ranks(numa.out, "crowd")
    assert len(ranks) == 16
    decision = decision_of(numa.out, ranks[0].job)
    assert (decision["decision"], decision["reason"]) == ("stand-down", "shape: overcommit")
    assert {rank.policy for rank in ranks} == {DEFAULT}
    # As Slurm has it: all of the job's cores for everyone.
    assert {len(rank.cpus) for rank in ranks} == {8}


def test_tasks_record_the_mask_in_force(numa: Results) -> None:
    ranks = read_ranks(numa.out, "full")
    records = (
        (numa.out / "spool/2001/records" / f"{ranks[0].job}.0.{ranks[0].node}.rec").read_text().splitlines()
    )
    recorded = {r["rank"]: frozenset(expand_ints(r["cpus"])) for r in map(json.loads, records)}
    assert recorded == {rank.rank: rank.cpus for rank in ranks}
