"""``slurm-topo place`` as its user sees it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from graphs import graph_of, grid, shuffled

from slurm_topo.cli.place import place as place_command
from slurm_topo.cli.place import termination_as_interrupt
from slurm_topo.errors import SlurmTopoError
from slurm_topo.machine.tree import parse_tree
from slurm_topo.placement.cost import check_placement
from slurm_topo.placement.solve import place
from slurm_topo.trace import write_graph

COMMAND = [sys.executable, "-m", "slurm_topo.cli.main", "place"]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=120)


@pytest.fixture(scope="module")
def graph_file(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("graph") / "g.npz"
    write_graph(shuffled(grid(8, 8)), file)
    return str(file)


def test_json_holds_what_is_documented(graph_file: str) -> None:
    done = run("--graph", graph_file, "--machine", "tree:4:4:4/1:10:100", "--format", "json", "--seed", "3")
    result = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")
    assert (result["format"], result["version"], result["seed"]) == ("slurm-topo-placement", 1, 3)
    assert set(result["baselines"]) == {"block:block", "block:cyclic", "cyclic"}
    assert sorted(result["placement"]) == list(range(64))
    assert result["levels"] == ["level1", "level2", "level3"]
    assert result["costs"] == dict.fromkeys(result["levels"], "given")
    assert result["cost"] == pytest.approx(np.dot(result["bytes_by_level"], [1, 10, 100]))


def test_json_shows_loads_and_the_objective(graph_file: str) -> None:
    options = ("--graph", graph_file, "--machine", "package:2 l3:4 core:8 pu:1", "--format", "json")
    result = json.loads(run(*options).stdout)
    assert result["objective"] == "auto"
    assert set(result["loads"]) == {"block:block", "block:cyclic", "cyclic", "placed"}
    assert all(result["value"] <= value for value in result["baseline_values"].values())
    placed = result["loads"]["placed"]
    assert placed["cost"] == result["cost"]
    assert sum(placed["share_by_level"]) == pytest.approx(1)
    assert {"level", "name", "direction", "nbytes", "seconds"} == set(placed["link"])
    other = json.loads(run(*options, "--objective", "sum").stdout)
    assert other["value"] == other["cost"] <= result["cost"]


def test_a_part_of_the_cores_several_a_rank_some_fixed_from_a_start(tmp_path: Path) -> None:
    file, start = tmp_path / "g.npz", tmp_path / "start"
    write_graph(shuffled(grid(3, 4)), file)
    cluster = tmp_path / "cluster.json"
    classes = {"c": {"sockets": 2, "cores_per_socket": 8}}
    nodes = [{"names": "n[1-3]", "class": "c"}]
    cluster.write_text(
        json.dumps({"format": "slurm-topo-cluster", "version": 1, "classes": classes, "nodes": nodes})
    )
    arguments = [
        "--graph", str(file), "--machine", str(cluster), "--cores-per-rank", "2", "--cores", "n1:0-7,12-15",
        "--cores", "32-46", "--fix", "3=47", "--format", "json",
    ]  # fmt: skip
    failed = run(*arguments)
    assert (failed.returncode, failed.stderr.count("\n")) == (7, 1)
    assert "fixed rank 3 on core 47" in failed.stderr
    arguments[arguments.index("3=47")] = "3=45"
    result = json.loads(run(*arguments).stdout)
    own = [core for cores in result["cores_of_rank"] for core in cores]
    assert len(set(own)) == 24
    assert set(own) <= {*range(8), *range(12, 16), *range(32, 47)}
    assert all(b == a + 1 for a, b in result["cores_of_rank"])
    assert 45 in result["cores_of_rank"][3]
    start.write_text(" ".join(str(core) for core in result["placement"]))
    again = json.loads(run(*arguments, "--start", str(start), "--seed", "9").stdout)
    assert again["value"] <= result["value"]
    assert again["cores_of_rank"][3] == result["cores_of_rank"][3]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--cores", "0-62"], "64 ranks do not fit on the 63 cores given"),
        (["--cores", "0-64"], "cores 0..63"),
        (["--cores", "x"], "no range"),
        (["--cores", ","], "no core"),
        (["--cores", "n1:0"], "no such node"),
        (["--cores-per-rank", "2"], "32 places of 2 cores"),
        (["--fix", "0=1", "--fix", "0=2"], "rank 0 is on core 1 already"),
        (["--fix", "0=1", "--fix", "1=1"], "given twice"),
        (["--fix", "0=x"], "no RANK=CORE"),
        (["--fix", "64=0"], "fixed rank 64"),
        (["--fix", "/no/such/file"], "cannot be read"),
        (["--start", "/no/such/file"], "cannot be read"),
        (["--start", os.devnull], "no list of cores"),
    ],
)
def test_wishes_that_cannot_be_are_one_line(options: list[str], text: str, graph_file: str) -> None:
    # In this process: an interpreter a case would take longer than all else here.
    with pytest.raises(SlurmTopoError) as failure:
        place_command.main(["--graph", graph_file, "--machine", "tree:64/1", *options], standalone_mode=False)
    assert text in str(failure.value)
    assert "\n" not in str(failure.value)


def test_table_shows_costs_levels_and_ranks(graph_file: str) -> None:
    done = run("--graph", graph_file, "--machine", "tree:4:4:4/1:10:100")
    for text in ("64 ranks on 64 cores", "block:cyclic", "bytes within", "level3", "rank  core"):
        assert text in done.stdout


def test_placement_says_whether_costs_are_assumed(graph_file: str) -> None:
    done = run("--graph", graph_file, "--machine", "package:2 l3:4 core:8 pu:1")
    assert "Costs of the levels: assumed for l3, " in done.stdout
    assert "machine calibrate" in done.stdout
    assert "given for level1" in run("--graph", graph_file, "--machine", "tree:64/1").stdout


def test_output_is_written_whole(graph_file: str, tmp_path: Path) -> None:
    file = tmp_path / "placement.json"
    done = run("--graph", graph_file, "--machine", "tree:64/1", "--format", "json", "-o", str(file))
    assert (done.returncode, done.stdout) == (0, "")
    assert json.loads(file.read_text())["ranks"] == 64
    assert [path.name for path in tmp_path.iterdir()] == ["placement.json"]


def test_output_that_cannot_be_written_is_one_line(graph_file: str, tmp_path: Path) -> None:
    done = run("--graph", graph_file, "--machine", "tree:64/1", "-o", str(tmp_path / "no" / "file"))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (4, "", 1)


@pytest.mark.parametrize(
    ("graph", "machine", "code"),
    [(None, "tree:8:4/1:10", 7), ("/no/such/file", "tree:8:8/1:10", 5), (None, "tree:8:8/1", 6)],
)
def test_errors_are_one_line_with_a_code_of_their_own(
    graph: str | None, machine: str, code: int, graph_file: str
) -> None:
    done = run("--graph", graph or graph_file, "--machine", machine)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (code, "", 1)


def test_a_graph_without_traffic_says_so(tmp_path: Path) -> None:
    write_graph(graph_of([(0, 1, 0.0)], 4), tmp_path / "g.npz")
    done = run("--graph", str(tmp_path / "g.npz"), "--machine", "tree:4/1")
    assert done.returncode == 0
    assert "No traffic" in done.stdout


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_gives_the_best_so_far(number: signal.Signals) -> None:
    graph, machine = shuffled(grid(24, 24, 24)), parse_tree("tree:8:4:54:8/1:5:10:100")
    # The search would go on for a minute; the signal comes while it runs.
    timer = threading.Timer(1.0, os.kill, (os.getpid(), number))
    with termination_as_interrupt():
        timer.start()
        placement = place(graph, machine, effort="best")
        timer.join()
    check_placement(graph, machine, placement.core_of_rank)
    assert placement.cost <= min(placement.baselines.values())
