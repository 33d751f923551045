"""The judge with the real SimGrid: times that follow from the figures of the machine."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from slurm_topo.cli.main import cli
from slurm_topo.errors import InputError, LaunchError, PlacementError
from slurm_topo.judge.run import judge
from slurm_topo.judge.simgrid import SMPIRUN, Simulator
from slurm_topo.machine.tree import parse_tree
from slurm_topo.model import CommGraph, Level, Machine
from slurm_topo.trace import build_graph, write_graph


@pytest.fixture
def machine() -> Machine:
    """Four nodes of four cores under two switches."""
    levels = (
        Level("node", 1e-6, 1e-9),
        Level("switch", 3e-6, 4e-9),
        Level("switch2", 5e-6, 1e-8),
    )
    return replace(parse_tree("tree:4:2:2/1:1:1"), levels=levels)


def graph_of(*pairs: tuple[int, int], nbytes: float = 1e6) -> CommGraph:
    source, target = (np.array(column) for column in zip(*pairs, strict=True))
    return build_graph(8, source, target, np.full(len(pairs), nbytes), np.ones(len(pairs)))


def seconds(graph: CommGraph, machine: Machine, cores: list[int]) -> float:
    return judge(graph, machine, {"x": np.array(cores, dtype=np.int32)}).seconds["x"]


APART = [0, 4, 8, 12, 1, 5, 9, 13]


def test_a_message_alone_is_as_fast_as_a_core(machine: Machine) -> None:
    assert seconds(graph_of((0, 4)), machine, APART) == pytest.approx(1e6 * 1e-9 + 1e-6, rel=1e-3)
    # Across the switch: the node's link carries 4 x 0.25 GB/s, as much as one core sends.
    assert seconds(graph_of((0, 1)), machine, APART) == pytest.approx(1e-3 + 3e-6, rel=1e-3)
    assert seconds(graph_of((0, 2)), machine, APART) == pytest.approx(8e5**-1 * 1e3 + 5e-6, rel=0.01)


def test_messages_share_a_link_each_way(machine: Machine) -> None:
    alone = seconds(graph_of((0, 1)), machine, APART)
    assert seconds(graph_of((0, 1), (4, 5)), machine, APART) == pytest.approx(2 * alone, rel=0.01)
    assert seconds(graph_of((0, 1), (5, 4)), machine, APART) == pytest.approx(alone, rel=0.01)
    # Other nodes under the other switch: nothing shared.
    assert seconds(graph_of((0, 1), (2, 3)), machine, APART) == pytest.approx(alone, rel=0.01)


def test_many_to_one_waits_for_the_receiver(machine: Machine) -> None:
    found = seconds(graph_of(*[(rank, 0) for rank in range(1, 8)]), machine, list(range(8)))
    assert found == pytest.approx(7e-3, rel=0.01)


def test_iterations_are_multiplied(machine: Machine) -> None:
    once = build_graph(2, np.array([0]), np.array([1]), np.array([1e6]), np.array([1.0]))
    often = build_graph(2, np.array([0]), np.array([1]), np.array([1e8]), np.array([100.0]))
    assert seconds(often, machine, [0, 4]) == pytest.approx(100 * seconds(once, machine, [0, 4]), rel=1e-4)
    later = judge(often, machine, {"x": np.array([0, 4], dtype=np.int32)}, rounds=10)
    assert later.seconds["x"] == pytest.approx(seconds(often, machine, [0, 4]), rel=0.01)


def test_every_path_of_an_irregular_machine_has_the_latency_of_its_level(machine: Machine) -> None:
    groups = np.array([[0, 0, 0, 1, 2, 2, 3, 4], [0, 0, 0, 0, 1, 1, 1, 2], [0] * 8], dtype=np.int32)
    machine = replace(parse_tree("tree:8:1:1/1:1:1"), levels=machine.levels, groups=groups)
    for a in (0, 3, 4, 7):
        for b in range(8):
            if a == b:
                continue
            graph = build_graph(2, np.array([0]), np.array([1]), np.array([1.0]), np.array([1.0]))
            level = int((groups[:-1, a] != groups[:-1, b]).sum())
            # SimGrid sends some bytes of its own with each message.
            expected, tolerance = machine.levels[level].latency_s, 20 * machine.levels[level].seconds_per_byte
            assert seconds(graph, machine, [a, b]) == pytest.approx(expected, abs=tolerance), (a, b)


def test_a_graph_without_traffic_takes_no_time(machine: Machine) -> None:
    empty = build_graph(4, np.array([], int), np.array([], int), np.array([]))
    assert judge(empty, machine, {"x": np.arange(4, dtype=np.int32)}).seconds == {"x": 0.0}


def test_cores_that_are_not_there_are_refused(machine: Machine) -> None:
    with pytest.raises(PlacementError, match="16 cores"):
        seconds(graph_of((0, 1)), machine, [0, 1, 2, 3, 4, 5, 6, 16])


def test_without_simgrid_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(LaunchError, match=f"{SMPIRUN}.*libsimgrid-dev"):
        Simulator.find()


def test_a_simulator_that_fails_is_named(tmp_path: Path, machine: Machine) -> None:
    broken = tmp_path / "smpirun"
    broken.write_text("#!/bin/sh\necho it broke\nexit 3\n")
    broken.chmod(0o755)
    simulator = Simulator(str(broken), Simulator.find().library)
    with pytest.raises(LaunchError, match="ended with 3: it broke"):
        judge(graph_of((0, 1)), machine, {"x": np.arange(8, dtype=np.int32)}, simulator=simulator)


def run(*arguments: str) -> str:
    result = CliRunner().invoke(cli, ["judge", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_command_judges_slurm_and_the_placement(tmp_path: Path) -> None:
    file = tmp_path / "g.npz"
    # Neighbours far apart in rank order.
    write_graph(graph_of((0, 4), (4, 0), (1, 5), (5, 1), (2, 6), (6, 2), (3, 7), (7, 3)), file)
    found = json.loads(run("--graph", str(file), "--machine", "tree:2:2:2/1:10:100", "--format", "json"))
    assert set(found["seconds"]) == {"block:block", "block:cyclic", "cyclic", "placed"}
    assert found["ratio"] < 0.5
    assert "placed" in run("--graph", str(file), "--machine", "tree:2:2:2/1:10:100")


def test_the_command_takes_a_placement(tmp_path: Path) -> None:
    graph, placement = tmp_path / "g.npz", tmp_path / "p.json"
    write_graph(graph_of((0, 1)), graph)
    machine = "tree:2:2:2/1:10:100"
    placement.write_text(json.dumps({"placement": [0, 7, 1, 2, 3, 4, 5, 6]}))
    arguments = (
        "--graph",
        str(graph),
        "--machine",
        machine,
        "--placement",
        str(placement),
        "--format",
        "json",
    )
    assert json.loads(run(*arguments))["ratio"] > 1
    for text, error, words in (
        ("{", InputError, "holds no placement"),
        ("", InputError, "is no list of cores"),
        ("[]", InputError, "is no list of cores"),
        ('{"placement": [1, "x"]}', InputError, "is no list of cores"),
        ('{"placement": []}', InputError, "is no list of cores"),
        (json.dumps({"placement": [1 << 70] * 8}), InputError, "is no list of cores"),
        (json.dumps({"version": 9, "placement": [0] * 8}), InputError, "is of version 9"),
        ('{"placement": [-1]}', PlacementError, "placement of 1 ranks"),
    ):
        placement.write_text(text)
        result = CliRunner().invoke(cli, ["judge", *arguments])
        assert type(result.exception) is error, text
        assert words in str(result.exception)
    placement.unlink()
    assert type(CliRunner().invoke(cli, ["judge", *arguments]).exception) is InputError


def test_a_rounding_error_of_the_simulator_is_tried_again_with_another_tolerance(
    tmp_path: Path, machine: Machine
) -> None:
    flaky = tmp_path / "smpirun"
    flaky.write_text(
        '#!/bin/sh\ncase "$*" in *maxmin/precision:1e-5*)\n'
        'echo "x [root/CRITICAL] change the maxmin precision"; exit 134;; esac\n'
        f'exec {Simulator.find().smpirun} "$@"\n'
    )
    flaky.chmod(0o755)
    simulator = Simulator(str(flaky), Simulator.find().library)
    found = judge(graph_of((0, 1)), machine, {"x": np.array(APART, dtype=np.int32)}, simulator=simulator)
    assert found.seconds["x"] == pytest.approx(seconds(graph_of((0, 1)), machine, APART))
