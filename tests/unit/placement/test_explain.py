"""``place --explain`` and ``--draw``: what is said is computed, what is drawn shows it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from graphs import cliques, graph_of, grid, shuffled, uneven_machine

from slurm_topo.cli.place import place as place_command
from slurm_topo.cli.place_draw import draw
from slurm_topo.cli.place_explain import explain_problem, explain_text
from slurm_topo.errors import InputError, MachineError
from slurm_topo.machine.tree import parse_tree
from slurm_topo.placement.cost import cost, cost_by_level
from slurm_topo.placement.explain import MOST_PAIRS, dearest_pairs, with_another
from slurm_topo.placement.problem import make_problem
from slurm_topo.placement.solve import place
from slurm_topo.trace import write_graph

MACHINE = uneven_machine([[2, 2], [2, 2]], [1.0, 5.0, 50.0], [0.1, 0.5, 5.0])


def test_a_copy_of_the_last_node_costs_what_that_node_costs() -> None:
    more = with_another(MACHINE, 1)
    assert (more.cores, more.node_names) == (12, ("n0", "n1", "n1+"))
    graph = graph_of([(0, 3, 2.0)], 4, messages=1.0)
    there, copied = (np.array([first, first + 1, first + 2, first + 3]) for first in (4, 8))
    assert cost(graph, more, copied) == cost(graph, more, there) == cost(graph, MACHINE, there)
    assert cost(graph, more, np.array([0, 1, 2, 8])) == cost(graph, MACHINE, np.array([0, 1, 2, 4]))


def test_another_switch_is_one_tier_dearer_than_those_below_the_old_root() -> None:
    more = with_another(MACHINE, 2)
    assert (more.cores, more.levels[-1].name, more.levels[-1].origin) == (16, "switch2", "assumed")
    assert len(np.unique(more.groups[2])) == 2


@pytest.mark.parametrize(("level", "text"), [(1, "above its root"), (2, "no switches")])
def test_what_nobody_knows_is_not_computed(level: int, text: str) -> None:
    with pytest.raises(MachineError, match=text):
        with_another(parse_tree("tree:4:2/1:2"), level)


def test_dearest_pairs_come_first_with_both_directions() -> None:
    graph = graph_of([(0, 4, 3.0), (4, 0, 5.0), (0, 1, 7.0), (2, 3, 1.0)], 8)
    placement = place(graph, MACHINE, fixed={rank: rank for rank in range(8)})
    pairs = dearest_pairs(graph, MACHINE, placement)
    assert [pair["ranks"] for pair in pairs] == [[0, 4], [0, 1], [2, 3]]
    assert pairs[0] | {"share": 0} == {
        "ranks": [0, 4], "level": "switch", "nbytes": 8.0, "seconds": 400.0, "share": 0
    }  # fmt: skip
    assert sum(pair["share"] for pair in pairs) == pytest.approx(1)


def test_everything_that_is_explained_is_computed() -> None:
    # Nine ranks that all talk: eight cores of two nodes cannot hold them well, a third node takes the load.
    problem = make_problem(shuffled(cliques(2, 6)), uneven_machine([[4], [4], [4]], [1.0, 5.0, 50.0]))
    placement = place(problem.graph, problem.machine, objective="auto")
    said = explain_problem(problem, placement, "launch")
    assert set(said["cost_by_level"]) == {"block:block", "block:cyclic", "cyclic", "placed"}
    levels = cost_by_level(problem.graph, problem.machine, placement.core_of_rank)
    assert said["cost_by_level"]["placed"] == levels.tolist()
    assert len(said["dearest_pairs"]) == MOST_PAIRS
    assert len(said["search"]["values"]) == len(said["search"]["work"]) == 4
    assert 0 <= said["search"]["estimated_value_after_an_hour"] <= placement.value
    node, switch = said["changed_machines"]
    assert (node["change"], node["cores"], switch["cores"]) == ("another node", 16, 24)
    # Never worse: the placement on the old cores is a start.
    assert node["value"] <= placement.value
    assert switch["value"] <= placement.value
    text = explain_text(problem, said)
    for words in ("pays most", "another hour of search", "another node (16 places)", "another switch (24"):
        assert words in text
    json.dumps(said)


def test_the_picture_shows_places_and_traffic() -> None:
    problem = make_problem(shuffled(grid(4, 4)), uneven_machine([[4], [4], [8]], [1.0, 5.0, 50.0]))
    svg = draw(problem, place(problem.graph, problem.machine))
    titles = [title.text for title in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}title")]
    assert sum(str(title).startswith("core ") for title in titles) == 2 * 16
    assert {f"rank {rank}" for rank in range(16)} <= {str(title).split(": ")[-1] for title in titles}


def run(folder: Path, *options: str) -> None:
    write_graph(shuffled(grid(4, 4)), folder / "g.npz")
    files = ["--graph", str(folder / "g.npz"), "--machine", "tree:4:2:2/1:5:50", "-o", str(folder / "out")]
    place_command.main([*files, *options], standalone_mode=False)


def test_the_command_explains_and_draws(tmp_path: Path) -> None:
    run(tmp_path, "--explain", "--format", "json", "--draw", str(tmp_path / "p.svg"))
    said = json.loads((tmp_path / "out").read_text())["explain"]
    node, switch = said["changed_machines"]
    assert (node["cores"], switch["reason"]) == (24, "a tree says nothing of what lies above its root")
    assert (tmp_path / "p.svg").read_text().startswith("<svg")


@pytest.mark.skipif(shutil.which("chromium") is None, reason="no chromium here")
def test_a_browser_shows_the_picture(tmp_path: Path) -> None:
    run(tmp_path, "--draw", str(tmp_path / "p.png"))
    data = (tmp_path / "p.png").read_bytes()
    width, height = (int.from_bytes(data[i : i + 4], "big") for i in (16, 20))
    assert data.startswith(b"\x89PNG")
    assert width > 700
    assert height > 500


@pytest.mark.parametrize(("name", "text"), [("p.gif", "neither"), ("no/p.svg", "does not exist")])
def test_pictures_that_cannot_be_are_one_line(name: str, text: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=text):
        run(tmp_path, "--draw", str(tmp_path / name))
    assert not (tmp_path / "out").exists()
