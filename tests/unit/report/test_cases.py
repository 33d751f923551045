"""A run in full: levels, links and matrix agree with the graph and the placement."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import update

from slurm_topo.history.database import open_engine, transaction
from slurm_topo.history.schema import decisions, graphs
from slurm_topo.machine.clusterfile import parse_cluster
from slurm_topo.model import Ints
from slurm_topo.placement.cost import bytes_by_level, cost_by_level
from slurm_topo.report.attribution import attributions
from slurm_topo.report.case_load import load_cases, parents_of
from slurm_topo.report.cases import MATRIX_ROWS, link_bytes, matrix_of, side_of
from slurm_topo.report.runs import Runs
from slurm_topo.report.synthetic import Design, synthetic_runs, write_history
from slurm_topo.report.synthetic_case import cluster_text, halo, write_case


@pytest.fixture
def placed(tmp_path: Path) -> tuple[Path, Runs]:
    """A history in which program 1 has a run in full."""
    runs = synthetic_runs(Design(runs=60, programs=2, users=2), np.random.default_rng(3))
    path = tmp_path / "cases.sqlite"
    engine = open_engine(str(path))
    write_history(engine, runs)
    write_case(engine, int(runs.row[np.flatnonzero((runs.program == 1) & runs.placed)[-1]]))
    engine.dispose()
    return path, runs


def test_links_carry_what_crosses_them() -> None:
    rng = np.random.default_rng(5)
    names = ["a", "b", "c", "d", "alone"]
    parents = {"a": "s1", "b": "s1", "c": "s2", "d": "s2", "s1": "top", "s2": "top"}
    source, target = rng.integers(0, 5, 200), rng.integers(0, 5, 200)
    nbytes = rng.random(200)
    found = link_bytes(source, target, nbytes, names, parents)
    below = {"a": {0}, "b": {1}, "c": {2}, "d": {3}, "alone": {4}, "s1": {0, 1}, "s2": {2, 3}}
    below["top"] = {0, 1, 2, 3}
    for name, members in below.items():
        expected = sum(
            w for s, t, w in zip(source, target, nbytes, strict=True) if (s in members) != (t in members)
        )
        assert found[name] == pytest.approx(expected)


@pytest.mark.parametrize("order", ["rank", "reversed"])
def test_a_side_keeps_all_bytes_and_agrees_with_the_objective(order: str) -> None:
    cluster = parse_cluster(cluster_text(2, 4, 8).encode(), "test", Path("/"))
    machine, graph = cluster.machine(), halo((4, 4, 4), np.arange(64, dtype=np.int32))
    cores: Ints = np.arange(64, dtype=np.int32)
    if order == "reversed":
        cores = cores[::-1].copy()
    side = side_of(graph, machine, cores, parents_of(cluster))
    np.testing.assert_allclose(side.nbytes, bytes_by_level(graph, machine, cores))
    np.testing.assert_allclose(side.latency_s + side.transfer_s, cost_by_level(graph, machine, cores))
    assert side.matrix.sum() == pytest.approx(graph.nbytes.sum())
    inside = sum(side.inside.values())
    assert inside + sum(side.links[n] for n in machine.node_names) / 2 == pytest.approx(graph.nbytes.sum())
    assert side.borders == tuple(range(8, 64, 8))


def test_a_large_matrix_is_added_up_in_blocks() -> None:
    graph = halo((10, 10, 10), np.arange(1000, dtype=np.int32))
    matrix = matrix_of(graph, np.arange(1000))
    assert matrix.shape == (MATRIX_ROWS, MATRIX_ROWS)
    assert matrix.sum() == pytest.approx(graph.nbytes.sum())
    assert np.trace(matrix) > matrix.sum() / 4


def test_a_placed_run_is_found_and_communicates_less_over_switches(placed: tuple[Path, Runs]) -> None:
    path, runs = placed
    engine = open_engine(str(path), create=False)
    cases = load_cases(engine, [1, 2], 8)
    engine.dispose()
    assert list(cases) == [1]
    case = cases[1]
    assert case.after is not None
    assert case.after.links["leaf1"] < case.before.links["leaf1"] / 2
    assert case.before.nbytes.sum() == pytest.approx(case.after.nbytes.sum())
    both = attributions(runs, cases)
    assert [one.placed for one in both] == [False, True]
    for one in both:
        inside = [p for p in one.parts if p.name != "queue"]
        assert sum(p.seconds.value or 0 for p in inside) >= (one.time.value or 0) * 0.999
        assert one.dominant == max(inside, key=lambda p: p.seconds.value or 0).name
        assert one.dominant_communication.startswith("bandwidth")


@pytest.mark.parametrize("damage", ["plan", "graph", "missing"])
def test_damage_costs_a_picture_and_never_the_report(placed: tuple[Path, Runs], damage: str) -> None:
    path, _ = placed
    engine = open_engine(str(path), create=False)
    with transaction(engine) as connection:
        if damage == "plan":
            connection.execute(update(decisions).values(plan="slurm-topo-plan 1\nrubbish"))
        elif damage == "graph":
            connection.execute(update(graphs).values(content=b"PK\x03\x04 torn"))
        else:
            connection.execute(update(decisions).values(graph="0" * 16))
    assert load_cases(engine, [1, 2], 8) == {}
    engine.dispose()


def test_generated_halo_has_six_neighbours_inside() -> None:
    graph = halo((3, 3, 3), np.arange(27, dtype=np.int32))
    counts = np.bincount(graph.source, minlength=27)
    corners = [9 * i + 3 * j + k for i, j, k in itertools.product((0, 2), repeat=3)]
    assert counts[13] == 6
    assert {int(counts[c]) for c in corners} == {3}
