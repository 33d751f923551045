"""Placement of ranks whose nodes are given: inside the nodes it is never worse than Slurm."""

from __future__ import annotations

import numpy as np
import pytest
from graphs import graph_of, shuffled

from slurm_topo.errors import PlacementError
from slurm_topo.model import CommGraph, Level, Machine
from slurm_topo.placement.cost import check_placement, cost
from slurm_topo.placement.inside import place_inside


def machine(nodes: int) -> Machine:
    """Nodes of two packages of four cores."""
    core = np.arange(8 * nodes)
    levels = tuple(Level(n, s, s / 1e3) for n, s in (("package", 1e-7), ("node", 1e-6), ("switch", 1e-5)))
    return Machine(
        levels=levels,
        groups=np.stack([core // 4, core // 8, core * 0]).astype(np.int32),
        node=(core // 8).astype(np.int32),
        node_names=tuple(f"n{i}" for i in range(nodes)),
        pus=tuple((int(c) % 8,) for c in core),
        numa=np.zeros(core.size, dtype=np.int32),
    )


def pairs(ranks: int, apart: int) -> CommGraph:
    """Rank r exchanges with the one whose number differs by the bit `apart`."""
    return graph_of([(r, r ^ apart, 1e6) for r in range(ranks) if r ^ apart < ranks], ranks)


@pytest.mark.parametrize("way", ["block", "cyclic"])
def test_partners_on_a_node_come_into_one_package(way: str) -> None:
    node = np.arange(16) // 8 if way == "block" else np.arange(16) % 2
    # Neither of Slurm's two ways has all of them in one package.
    partners = ((0, 7), (1, 2), (3, 4), (5, 6))
    ranks = [np.flatnonzero(node == n) for n in range(2)]
    graph = graph_of([(int(r[a]), int(r[b]), 1e6) for r in ranks for a, b in partners], 16)
    placement = place_inside(graph, machine(2), node)
    check_placement(graph, machine(2), placement.core_of_rank)
    assert (machine(2).node[placement.core_of_rank] == node).all()
    assert placement.cost < 0.5 * min(placement.baselines.values())
    assert placement.cost == cost(graph, machine(2), placement.core_of_rank)


def test_what_cannot_be_bettered_is_slurms_way() -> None:
    placement = place_inside(pairs(16, 8), machine(2), np.arange(16) // 8)
    assert placement.cost == min(placement.baselines.values())


@pytest.mark.parametrize("seed", range(3))
def test_random_graphs_are_never_worse(seed: int) -> None:
    rng = np.random.default_rng(seed)
    node = rng.permutation(np.arange(16) // 8)
    graph = shuffled(pairs(16, 4), seed)
    placement = place_inside(graph, machine(2), node, seed=seed)
    assert (machine(2).node[placement.core_of_rank] == node).all()
    assert placement.cost <= min(placement.baselines.values())


def test_more_ranks_than_cores_of_a_node_is_an_error() -> None:
    with pytest.raises(PlacementError, match="node n0: 9 ranks on 8 cores"):
        place_inside(pairs(9, 1), machine(2), np.zeros(9, dtype=int))


def test_time_that_is_up_is_told() -> None:
    assert place_inside(pairs(16, 4), machine(2), np.arange(16) // 8, budget_s=1e-9).ended == "budget"
