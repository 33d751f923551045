"""Placements that sync finds ahead of time, and launches that start from them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from slurm_topo.config import Settings
from slurm_topo.errors import InputError
from slurm_topo.machine import read_cluster
from slurm_topo.machine.tree import parse_tree
from slurm_topo.model import CommGraph
from slurm_topo.placement.cost import cost
from slurm_topo.slurm.launch import plan_step
from slurm_topo.slurm.layout import StepLayout
from slurm_topo.slurm.start import format_start, rank_order, read_start, seat, shape_digest


def cliques(count: int, size: int) -> CommGraph:
    """Ranks with the same remainder by `count` talk among themselves."""
    ranks = count * size
    pairs = [(u, v) for u in range(ranks) for v in range(ranks) if u != v and not (u - v) % count]
    source, target = np.array(pairs, dtype=np.int32).T
    ones = np.ones(source.size)
    return CommGraph(ranks, source, target, ones, ones * 0, ones * 0)


def starts(site):
    return sorted((site.user_spool / "graphs").glob("*.start"))


def test_pass_writes_the_best_placement_for_the_nodes_of_the_newest_run(site):
    site.settings = replace(site.settings, ahead_s=5.0)
    site.trace(1, site.add_job(1, arm="observe"))
    assert site.sync().starts == 1
    (file,) = starts(site)
    order = read_start(file, 8)
    # In the trace each rank sends to its partner four ranks away: such a pair shares a node.
    assert {frozenset(order[i : i + 2]) for i in range(0, 8, 2)} == {frozenset((r, r + 4)) for r in range(4)}


def test_next_pass_searches_no_shape_twice(site):
    site.settings = replace(site.settings, ahead_s=5.0)
    site.trace(1, site.add_job(1, arm="observe"))
    site.sync()
    (file,) = starts(site)
    file.unlink()
    assert site.sync().starts == 0
    assert starts(site) == []


def test_nothing_is_searched_where_the_site_does_not_want_it(site):
    site.trace(1, site.add_job(1, arm="observe"))
    assert site.sync().starts == 0
    assert starts(site) == []


def test_launch_holds_what_was_found_even_without_time_to_search(site):
    site.trace(1, site.add_job(1, arm="observe"))
    site.sync()
    machine = read_cluster(site.settings.cluster_file).machine(["n1", "n2", "n3", "n4"])
    source, target = np.array([0, 1, 2, 3], dtype=np.int32), np.array([5, 7, 4, 6], dtype=np.int32)
    graph = CommGraph(8, source, target, np.full(4, 1e6), np.zeros(4), np.zeros(4))
    order = [0, 5, 1, 7, 2, 4, 3, 6]
    settings = Settings(budget_s=1e-9, objective="sum")
    known = plan_step(graph, "ab", machine, StepLayout([2] * 4), 1, "1", settings, order=order)
    assert (known.decision, known.solver) == ("place", "start")
    assert plan_step(graph, "ab", machine, StepLayout([2] * 4), 1, "1", settings).solver != "start"


def test_order_keeps_neighbours_together_on_another_shape():
    graph = cliques(8, 4)
    here, there = parse_tree("tree:4:2:4/1:10:100"), parse_tree("tree:8:4/1:100")
    placed = np.empty(32, dtype=np.int32)
    placed[[r for group in range(8) for r in range(group, 32, 8)]] = np.arange(32)
    moved = seat(rank_order(here, placed), there)
    assert cost(graph, there, moved) == 8 * 4 * 3
    assert seat(rank_order(here, placed), here).tolist() == placed.tolist()


def test_shape_is_that_of_the_tree_and_not_of_its_names():
    one = parse_tree("tree:2:2/1:10")
    assert shape_digest(one) == shape_digest(replace(one, groups=one.groups + 7))
    for text in ("tree:4:1/1:10", "tree:2:2/1:9", "tree:2:3/1:10"):
        assert shape_digest(one) != shape_digest(parse_tree(text))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff",
        b"slurm-topo-start 2\ngraph ab\norder 0 1 2\nend 3\n",
        format_start("ab", [0, 1, 1]),
        format_start("ab", [0, 1]),
        format_start("ab", [0, 1, 2])[:-4],
        format_start("ab", [0, 1, 2]) * 2,
    ],
)
def test_damaged_starts_are_named(tmp_path, content):
    file = tmp_path / "ab.start"
    file.write_bytes(content)
    with pytest.raises(InputError, match=r"ab\.start"):
        read_start(file, 3)


def test_start_is_read_back(tmp_path):
    file = tmp_path / "ab.start"
    assert read_start(file, 3) is None
    file.write_bytes(format_start("ab", [2, 0, 1]))
    assert read_start(file, 3) == [2, 0, 1]
