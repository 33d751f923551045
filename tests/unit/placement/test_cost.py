"""The objective against a plain double loop, and the baselines against Slurm's rules."""

from __future__ import annotations

import numpy as np
import pytest
from graphs import graph_of, grid, uneven_machine

from slurm_topo.errors import PlacementError
from slurm_topo.machine.tree import parse_tree
from slurm_topo.placement.baselines import baseline_costs, baselines
from slurm_topo.placement.cost import bytes_by_level, cost, cost_by_level


def test_cost_is_the_sum_over_ordered_pairs() -> None:
    random = np.random.default_rng(3)
    machine = uneven_machine([[2, 3], [4], [1, 1, 1]], [1.0, 7.0, 40.0], [0.25, 2.0, 8.0])
    pairs = [(u, v, float(random.integers(1, 100))) for u in range(9) for v in range(9) if u != v]
    graph = graph_of(pairs, 9, messages=3.0)
    cores = random.permutation(machine.cores)[:9]
    expected = 0.0
    for u, v, nbytes in pairs:
        level = next(i for i in range(3) if machine.groups[i, cores[u]] == machine.groups[i, cores[v]])
        expected += 3.0 * machine.levels[level].latency_s + nbytes * machine.levels[level].seconds_per_byte
    assert cost(graph, machine, cores) == pytest.approx(expected)
    assert cost_by_level(graph, machine, cores).sum() == pytest.approx(expected)
    assert bytes_by_level(graph, machine, cores).sum() == pytest.approx(sum(pair[2] for pair in pairs))


@pytest.mark.parametrize(
    ("cores", "text"), [([0, 1, 1, 2], "core 1 has 2 ranks"), ([0, 1, 2, 8], "core 8"), ([0, 1], "2 ranks")]
)
def test_cost_refuses_what_is_no_placement(cores: list[int], text: str) -> None:
    with pytest.raises(PlacementError, match=text):
        cost(grid(2, 2), parse_tree("tree:2:4/1:10"), np.array(cores))


def test_block_fills_node_after_node() -> None:
    machine = uneven_machine([[2, 2], [1, 3], [2]], [1.0, 10.0, 100.0])
    placements = baselines(machine, 9)
    assert placements["block:block"].tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8]


def test_block_cyclic_deals_out_to_the_sockets_of_a_node() -> None:
    machine = uneven_machine([[2, 2], [1, 3], [2]], [1.0, 10.0, 100.0])
    assert baselines(machine, 9)["block:cyclic"].tolist() == [0, 2, 1, 3, 4, 5, 6, 7, 8]


def test_cyclic_leaves_full_nodes_out() -> None:
    machine = uneven_machine([[2, 2], [1, 3], [2]], [1.0, 10.0, 100.0])
    assert baselines(machine, 9)["cyclic"].tolist() == [0, 4, 8, 1, 5, 9, 2, 6, 3]


def test_the_network_of_a_tree_begins_at_the_last_step_of_ten() -> None:
    # Two sockets of four cores are a node: rank 1 goes to the second socket, or to the second node.
    placements = baselines(parse_tree("tree:4:2:4/1:10:100"), 32)
    assert placements["block:cyclic"].tolist()[:3] == [0, 4, 1]
    assert placements["cyclic"].tolist()[:3] == [0, 8, 16]


def test_a_tree_without_such_a_step_is_one_node() -> None:
    placements = baselines(parse_tree("tree:4:2:2/1:5:10"), 16)
    assert placements["block:cyclic"].tolist()[:3] == [0, 8, 1]
    assert placements["cyclic"].tolist() == list(range(16))


def test_baseline_costs_are_those_of_the_objective() -> None:
    graph, machine = grid(4, 4), parse_tree("tree:2:2:4/1:10:100")
    placements = baselines(machine, 16)
    assert baseline_costs(graph, machine) == {
        name: cost(graph, machine, placement) for name, placement in placements.items()
    }


def test_recorded_baselines_are_reproduced(shared_data) -> None:  # type: ignore[no-untyped-def]
    import json

    from slurm_topo.trace import read_graph

    folder = shared_data / "placement-bench"
    if not (folder / "cases.json").exists():
        pytest.skip("no recorded cases here")
    for case in json.loads((folder / "cases.json").read_text()):
        graph = read_graph(folder / "graphs" / f"{case['graph']}.npz")
        found = baseline_costs(graph, parse_tree(case["machine"]))
        known = case["baselines"]
        assert found["block:block"] == pytest.approx(known["block:block"])
        assert found["block:cyclic"] == pytest.approx(known["block:cyclic"])
        assert found["cyclic"] == pytest.approx(known["cyclic(nodes)"])
