"""Distances that are no tree: the cost against a double loop, the search against enumeration, files."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse
from graphs import graph_of, grid, shuffled, uneven_machine
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_topo.cli.place import place as place_command
from slurm_topo.errors import MachineError, PlacementError
from slurm_topo.machine.distances import machine_of_distances, read_distances, with_distances
from slurm_topo.model import CommGraph, Machine
from slurm_topo.placement.cost import check_placement, cost, cost_by_level, cost_of_pairs, cost_parts
from slurm_topo.placement.native import Assignment, Control
from slurm_topo.placement.slots import all_slots
from slurm_topo.placement.solve import place


def symmetric(random: np.random.Generator, size: int) -> np.ndarray:
    matrix = random.integers(0, 20, (size, size)).astype(float)
    return matrix + matrix.T


def plain_cost(graph: CommGraph, machine: Machine, cores: np.ndarray) -> float:
    assert machine.distances is not None
    total = 0.0
    for u, v, nbytes, messages in zip(graph.source, graph.target, graph.nbytes, graph.messages, strict=True):
        a, b = cores[u], cores[v]
        level = next(i for i in range(len(machine.levels)) if machine.groups[i, a] == machine.groups[i, b])
        one, two = machine.distances.row[[a, b]]
        per_byte = machine.levels[level].seconds_per_byte
        if one != two:
            per_byte = machine.distances.seconds_per_byte[one, two]
        total += nbytes * per_byte + messages * machine.levels[level].latency_s
    return total


@st.composite
def problems(draw: st.DrawFn) -> tuple[CommGraph, Machine]:
    random = np.random.default_rng(draw(st.integers(0, 10**6)))
    if draw(st.booleans()):
        machine = machine_of_distances(symmetric(random, draw(st.integers(2, 12))))
    else:
        machine = uneven_machine([[2, 1], [3], [1, 2, 1]], [1.0, 5.0, 20.0], [0.5, 1.0, 3.0])
        machine = with_distances(machine, symmetric(random, draw(st.sampled_from([3, 10]))))
    ranks = draw(st.integers(2, machine.cores))
    pairs = [(int(a), int(b), float(random.integers(0, 50))) for a, b in random.integers(0, ranks, (30, 2))]
    return graph_of(pairs, ranks, messages=draw(st.sampled_from([0.0, 2.0]))), machine


@settings(max_examples=20, deadline=None)
@given(problems(), st.integers(0, 9), st.data())
def test_costs_and_searches_on_distances(problem: tuple[CommGraph, Machine], seed: int, data) -> None:
    graph, machine = problem
    start = np.array(data.draw(st.permutations(range(machine.cores)))[: graph.ranks])
    expected = plain_cost(graph, machine, start)
    assert cost(graph, machine, start) == pytest.approx(expected)
    assert cost_by_level(graph, machine, start).sum() == pytest.approx(expected)
    assert cost_of_pairs(graph, machine, start).sum() == pytest.approx(expected)
    assert sum(cost_parts(graph, machine, start)) == pytest.approx(expected)
    ranks = data.draw(st.lists(st.integers(0, graph.ranks - 1), unique=True, max_size=2))
    fixed = {rank: int(start[rank]) for rank in ranks}
    placement, again = (place(graph, machine, seed=seed, start=start, fixed=fixed) for _ in range(2))
    check_placement(graph, machine, placement.core_of_rank)
    assert placement.core_of_rank.tolist() == again.core_of_rank.tolist()
    assert placement.cost == cost(graph, machine, placement.core_of_rank)
    assert placement.cost <= expected
    assert {rank: int(placement.core_of_rank[rank]) for rank in fixed} == fixed
    if not fixed:
        assert all(placement.cost <= baseline for baseline in placement.baselines.values())


@settings(max_examples=20, deadline=None)
@given(problems(), st.integers(0, 9))
def test_the_kernel_counts_as_the_cost_function_does(problem: tuple[CommGraph, Machine], seed: int) -> None:
    graph, machine = problem
    placement = np.random.default_rng(seed).permutation(machine.cores).astype(np.int32)
    with Assignment(graph, machine) as kernel:
        for hot in (0.0, 1.0):
            before = kernel.cost(placement)
            assert before == pytest.approx(cost(graph, machine, placement[: graph.ranks]))
            kernel.anneal(placement, None, 2000, hot, 100.0, seed, Control())
            assert sorted(placement) == list(range(machine.cores))
            assert kernel.cost(placement) <= before * (1 + 1e-9)
    # Nothing that a single swap would better is left.
    found = cost(graph, machine, placement[: graph.ranks])
    for a, b in itertools.combinations(range(machine.cores), 2):
        other = placement.copy()
        other[[a, b]] = other[[b, a]]
        assert cost(graph, machine, other[: graph.ranks]) >= found * (1 - 1e-9)


@pytest.mark.parametrize(("ranks", "cores"), [(7, 7), (8, 8), (9, 9), (5, 9)])
def test_small_problems_are_solved_exactly(ranks: int, cores: int) -> None:
    random = np.random.default_rng(ranks * cores)
    machine = machine_of_distances(symmetric(random, cores))
    pairs = [(u, v, float(random.integers(0, 9))) for u in range(ranks) for v in range(ranks) if u != v]
    graph = graph_of(pairs, ranks)
    assert machine.distances is not None
    weight = np.zeros((ranks, ranks))
    weight[graph.source, graph.target] = graph.nbytes
    placements = np.array(list(itertools.permutations(range(cores), ranks)), dtype=np.int8)
    costs = np.zeros(len(placements))
    for u, v in itertools.permutations(range(ranks), 2):
        costs += weight[u, v] * machine.distances.seconds_per_byte[placements[:, u], placements[:, v]]
    assert place(graph, machine).cost == pytest.approx(costs.min())


def test_a_ring_finds_its_way_on_a_torus() -> None:
    # Hop counts of a 4 x 4 torus, which no tree has: a grid of the same shape lies on it without a detour.
    at = np.array(list(itertools.product(range(4), repeat=2)))
    step = np.abs(at[:, None] - at[None, :])
    hops = np.minimum(step, 4 - step).sum(-1).astype(float)
    graph = shuffled(grid(4, 4))
    placement = place(graph, machine_of_distances(hops), effort="best")
    assert placement.cost == graph.nbytes.sum()
    assert placement.cost < min(placement.baselines.values())


@pytest.mark.parametrize("nbytes", [2.3e-309, 1e-300, 1e300])
def test_bytes_at_the_ends_of_a_double_have_a_cost(nbytes: float) -> None:
    machine = uneven_machine([[2, 1], [3]], [1.0, 5.0, 20.0], [0.5, 1.0, 3.0])
    machine = with_distances(machine, symmetric(np.random.default_rng(1), 6))
    graph = graph_of([(0, 1, nbytes), (2, 3, nbytes)], 6, messages=1.0)
    cores = np.arange(6, dtype=np.int32)
    with Assignment(graph, machine) as kernel:
        assert kernel.cost(cores) == pytest.approx(cost(graph, machine, cores))


def test_links_are_not_known_from_distances() -> None:
    machine = machine_of_distances(symmetric(np.random.default_rng(1), 4))
    with pytest.raises(PlacementError, match="objective load"):
        place(grid(2, 2), machine, objective="load")


def test_slots_of_several_cores_keep_their_rows() -> None:
    machine = with_distances(uneven_machine([[4], [4]], [1.0, 2.0, 9.0]), np.array([[0.0, 5.0], [5.0, 0.0]]))
    slots = all_slots(machine, None, 2)
    assert slots.machine.distances is not None
    assert slots.machine.distances.row.tolist() == [0, 0, 1, 1]
    assert cost(graph_of([(0, 3, 2.0)], 4), slots.machine, np.arange(4)) == 10.0
    assert cost(graph_of([(0, 3, 2.0)], 4), replace(slots.machine, distances=None), np.arange(4)) == 18.0


def test_files_of_every_kind_hold_the_same_matrix(tmp_path: Path) -> None:
    matrix = symmetric(np.random.default_rng(2), 6)
    np.savez(tmp_path / "dense.npz", matrix)
    scipy.sparse.save_npz(tmp_path / "sparse.npz", scipy.sparse.csr_matrix(matrix))
    scipy.io.mmwrite(tmp_path / "array.mtx", matrix)
    scipy.io.mmwrite(tmp_path / "sparse.mtx", scipy.sparse.coo_matrix(matrix))
    for file in tmp_path.iterdir():
        assert (read_distances(file) == matrix).all()


@pytest.mark.parametrize(
    ("matrix", "text"),
    [
        (np.zeros((2, 3)), "square"),
        (np.array([[0.0, 1.0], [2.0, 0.0]]), "[0, 1] is 1, [1, 0] is 2"),
        (np.array([[0.0, -1.0], [-1.0, 0.0]]), "negative"),
        (np.array([[0.0, np.inf], [np.inf, 0.0]]), "not finite"),
    ],
)
def test_what_is_no_distance_is_refused(matrix: np.ndarray, text: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", matrix)
    with pytest.raises(MachineError) as failure:
        read_distances(tmp_path / "d.npz")
    assert text in str(failure.value)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04damaged", b"%%MatrixMarket nonsense\n", b"1 2 3"])
def test_damaged_files_are_one_line(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "d").write_bytes(content)
    with pytest.raises(MachineError, match="is no matrix") as failure:
        read_distances(tmp_path / "d")
    assert "\n" not in str(failure.value)


def test_a_matrix_of_another_size_is_refused() -> None:
    with pytest.raises(MachineError, match="3 rows: the machine has 8 cores and 2 nodes"):
        with_distances(uneven_machine([[4], [4]], [1.0, 2.0, 9.0]), np.zeros((3, 3)))


def test_the_command_takes_distances_alone(tmp_path: Path) -> None:
    from slurm_topo.trace import write_graph

    write_graph(grid(2, 3), tmp_path / "g.npz")
    np.savez(tmp_path / "d.npz", symmetric(np.random.default_rng(3), 7))
    files = ["--graph", str(tmp_path / "g.npz"), "--distances", str(tmp_path / "d.npz")]
    place_command.main([*files, "--format", "json", "-o", str(tmp_path / "out")], standalone_mode=False)
    result = json.loads((tmp_path / "out").read_text())
    assert (result["objective"], result["cores"]) == ("sum", 7)
    machine = machine_of_distances(read_distances(tmp_path / "d.npz"))
    assert result["cost"] == cost(grid(2, 3), machine, np.array(result["placement"]))
