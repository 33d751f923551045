"""place(): properties that hold for every graph and machine, and optima that are known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from graphs import cliques, exhaustive, graph_of, grid, problems, shuffled, uneven_machine
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slurm_topo.errors import PlacementError
from slurm_topo.machine.tree import parse_tree
from slurm_topo.model import CommGraph, Machine
from slurm_topo.placement.cost import check_placement, cost
from slurm_topo.placement.native import Control, Instance
from slurm_topo.placement.solve import place

QUICK = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


@QUICK
@given(problems(), st.integers(0, 5))
def test_placement_is_valid_and_never_above_a_baseline(problem: tuple[CommGraph, Machine], seed: int) -> None:
    graph, machine = problem
    placement = place(graph, machine, seed=seed)
    check_placement(graph, machine, placement.core_of_rank)
    assert placement.cost == cost(graph, machine, placement.core_of_rank)
    assert all(placement.cost <= baseline for baseline in placement.baselines.values())


@QUICK
@given(problems(), st.data())
def test_placement_is_never_above_its_start(problem: tuple[CommGraph, Machine], data: st.DataObject) -> None:
    graph, machine = problem
    start = np.array(data.draw(st.permutations(range(machine.cores)))[: graph.ranks])
    placement = place(graph, machine, start=start)
    assert placement.cost <= cost(graph, machine, start)


@QUICK
@given(problems(), st.data())
def test_fixed_ranks_stay(problem: tuple[CommGraph, Machine], data: st.DataObject) -> None:
    graph, machine = problem
    ranks = data.draw(st.lists(st.integers(0, graph.ranks - 1), unique=True, max_size=4))
    cores = data.draw(st.permutations(range(machine.cores)))
    fixed = dict(zip(ranks, cores, strict=False))
    placement = place(graph, machine, fixed=fixed)
    check_placement(graph, machine, placement.core_of_rank)
    assert {rank: int(placement.core_of_rank[rank]) for rank in fixed} == fixed


@pytest.mark.parametrize("messages", [0.0, 1.0, 1e300])
@pytest.mark.parametrize("costs", ["1:2", "5e-324:2", "1e-310:1e-309", "0:1e300"])
@pytest.mark.parametrize("nbytes", [5e-324, 1e-310, 1e-300, 1e300])
def test_numbers_at_the_ends_of_a_double(nbytes: float, costs: str, messages: float) -> None:
    graph = graph_of([(0, 5, nbytes), (2, 13, nbytes / 2)], 16, messages=messages)
    machine = parse_tree(f"tree:4:4/{costs}")
    with np.errstate(over="ignore"):
        placement = place(graph, machine)
    check_placement(graph, machine, placement.core_of_rank)
    assert all(placement.cost <= baseline for baseline in placement.baselines.values())


@pytest.mark.parametrize(
    ("placement", "error"),
    [
        (np.empty(0, dtype=np.int32), ValueError),
        (np.arange(15, dtype=np.int32), ValueError),
        (np.arange(16), TypeError),
    ],
)
def test_the_kernel_never_sees_an_array_that_does_not_fit(placement: Any, error: type[Exception]) -> None:
    control = Control()
    with Instance.build(grid(4, 4), parse_tree("tree:4:4/1:10"), np.arange(16)) as instance:
        for call in (
            lambda: instance.cost(placement),
            lambda: instance.descend(placement, None, control),
            lambda: instance.anneal(placement, None, 10, 1.0, 2.0, 0.0, 1, control),
            lambda: instance.groups(0, placement),
            lambda: instance.expand(0, placement, np.arange(4, dtype=np.int32)),
        ):
            with pytest.raises(error):
                call()


@pytest.mark.parametrize("effort", ["launch", "best"])
def test_same_seed_gives_the_same_placement(effort: str) -> None:
    graph, machine = shuffled(grid(5, 6)), parse_tree("tree:4:2:4/1:10:100")
    first, second = (place(graph, machine, effort=effort, seed=3) for _ in range(2))  # type: ignore[arg-type]
    assert first.core_of_rank.tolist() == second.core_of_rank.tolist()
    assert (first.cost, first.solver) == (second.cost, second.solver)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([6, 7, 8]))
def test_small_problems_are_solved_exactly(seed: int, ranks: int) -> None:
    random = np.random.default_rng(seed)
    pairs = [(u, v, float(random.integers(0, 9))) for u in range(ranks) for v in range(ranks) if u != v]
    graph = graph_of(pairs, ranks, messages=1.0)
    machine = uneven_machine([[2, 1], [3], [2]], [1.0, 5.0, 20.0], [0.1, 1.0, 3.0])
    placement = place(graph, machine, effort="best")
    assert placement.cost == pytest.approx(exhaustive(graph, machine))


def test_groups_that_talk_among_themselves_share_a_node() -> None:
    placement = place(cliques(16, 8), parse_tree("tree:8:16/1:100"))
    assert placement.cost == 16 * 8 * 7
    assert placement.baselines["block:block"] > placement.cost


def test_a_shuffled_grid_is_unshuffled() -> None:
    # 8 x 8 in blocks of 4 x 4 crosses the network on two lines of eight pairs, both ways.
    placement = place(shuffled(grid(8, 8)), parse_tree("tree:16:4/0:1"))
    assert placement.cost == 32


def test_fewer_ranks_than_cores_use_one_node() -> None:
    placement = place(cliques(1, 6), uneven_machine([[2, 2], [3, 3], [2, 2]], [1.0, 10.0, 100.0]))
    assert set(placement.core_of_rank.tolist()) == set(range(4, 10))


def test_few_ranks_on_a_large_machine_are_placed_in_one_group() -> None:
    machine = parse_tree("tree:8:4:64:32/1:5:10:100")
    placement = place(cliques(4, 8), machine)
    assert machine.cores == 65536
    assert placement.cost == 4 * 8 * 7


def test_without_traffic_the_baseline_is_kept() -> None:
    graph = graph_of([(0, 1, 0.0)], 4)
    placement = place(graph, parse_tree("tree:2:4/1:10"))
    assert (placement.solver, placement.cost) == ("block:block", 0.0)


def test_more_ranks_than_cores_are_refused() -> None:
    with pytest.raises(PlacementError, match="9 ranks do not fit on 8 cores"):
        place(grid(3, 3), parse_tree("tree:2:4/1:10"))


def test_unknown_effort_is_refused() -> None:
    with pytest.raises(PlacementError, match="'most'"):
        place(grid(2, 2), parse_tree("tree:4/1"), effort="most")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fixed", "text"), [({9: 0}, "fixed rank 9"), ({0: 99}, "core 99"), ({0: 1, 1: 1}, "given twice")]
)
def test_fixed_ranks_that_do_not_exist_are_refused(fixed: dict[int, int], text: str) -> None:
    with pytest.raises(PlacementError, match=text):
        place(grid(2, 2), parse_tree("tree:4/1"), fixed=fixed)


def test_a_budget_that_is_over_gives_a_valid_placement() -> None:
    graph, machine = shuffled(grid(16, 16)), parse_tree("tree:4:8:8/1:10:100")
    placement = place(graph, machine, effort="best", budget_s=1e-9)
    check_placement(graph, machine, placement.core_of_rank)
    assert placement.cost <= min(placement.baselines.values())


def test_latency_and_bandwidth_weigh_together() -> None:
    # Ranks 0 and 1 send many small messages, 0 and 2 few large ones; only one of them can be near 0.
    graph = CommGraph(
        ranks=4,
        source=np.array([0, 0, 2], dtype=np.int32),
        target=np.array([1, 2, 3], dtype=np.int32),
        nbytes=np.array([8.0, 1e6, 1.0]),
        messages=np.array([1e6, 1.0, 1.0]),
        modelled=np.zeros(3),
    )

    def together(latency: float, per_byte: float) -> set[int]:
        machine = uneven_machine([[2], [2]], [per_byte / 10] * 2 + [per_byte], [latency / 10] * 2 + [latency])
        placement = place(graph, machine)
        return {
            r
            for r in range(4)
            if machine.node[placement.core_of_rank[r]] == machine.node[placement.core_of_rank[0]]
        }

    assert together(latency=1e-6, per_byte=1e-12) == {0, 1}
    assert together(latency=1e-9, per_byte=1e-6) == {0, 2}
