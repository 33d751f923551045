"""Calibration: which cores play, what is fitted from the times, and the measuring program itself."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from slurm_topo.cli.machine import machine
from slurm_topo.errors import InputError, LaunchError, MachineError
from slurm_topo.machine import NodeShape, Switch, build_cluster, read_cluster, read_machine, write_cluster
from slurm_topo.machine.calibrate import choose_pairs, fit_levels, parse_results, plan_text
from slurm_topo.machine.calibrate.fit import measured_levels, oddities
from slurm_topo.machine.calibrate.pairs import SIZES

SOURCE = Path(__file__).resolve().parents[3] / "slurm_topo" / "machine" / "calibrate" / "pingpong.c"


def cluster():
    shapes = [NodeShape(f"n{i}", 2, 4, 1) for i in range(6)]
    switches = [Switch(f"leaf{i}", (f"n{2 * i}", f"n{2 * i + 1}")) for i in range(3)]
    return build_cluster(shapes, [*switches, Switch("top", (), ("leaf0", "leaf1", "leaf2"))])


def meeting(model, a, b):
    rows = zip(model.levels, model.groups, strict=True)
    return next(level.name for level, groups in rows if groups[a] == groups[b])


@pytest.mark.parametrize(
    "text", ["package:2 numa:2 l3:2 core:2 pu:2", "package:2 core:1 pu:1", "core:5 pu:1"]
)
@pytest.mark.parametrize("slots", ["core", "pu"])
def test_pairs_of_a_level_meet_there_and_are_disjoint(text, slots):
    model = read_machine(text, slots)
    plan = choose_pairs(model)
    assert plan.levels == tuple(level.name for level in model.levels)
    for name, pairs in zip(plan.levels, plan.pairs, strict=True):
        assert 1 <= len(pairs) <= 4
        cores = [core for pair in pairs for core in pair]
        assert len(set(cores)) == len(cores)
        assert {meeting(model, a, b) for a, b in pairs} == {name}


def test_pairs_between_nodes_share_the_links_of_two_nodes():
    model = cluster().machine()
    plan = choose_pairs(model)
    assert plan.levels == ("package", "node", "switch", "switch2")
    for name, pairs in zip(plan.levels, plan.pairs, strict=True):
        assert len(pairs) == 4
        assert {meeting(model, a, b) for a, b in pairs} == {name}
        if name.startswith("switch"):
            assert (
                len({int(model.node[a]) for a, _ in pairs})
                == len({int(model.node[b]) for _, b in pairs})
                == 1
            )
    assert len(plan.hosts) <= 4


def test_levels_without_a_pair_are_skipped_and_a_single_core_is_an_error():
    model = build_cluster([NodeShape("a"), NodeShape("b")]).machine()
    plan = choose_pairs(model)
    assert (plan.levels, plan.skipped) == (("switch",), ("node",))
    with pytest.raises(MachineError, match="single core"):
        choose_pairs(build_cluster([NodeShape("a")]).machine())
    with pytest.raises(MachineError, match="at least one"):
        choose_pairs(model, 0)


def test_plan_names_every_rank_once_by_host_and_number():
    model = cluster().machine()
    plan = choose_pairs(model)
    lines = plan_text(plan, model).splitlines()
    places = [line.split()[1:3] for line in lines if line.startswith("place")]
    known = {f"{host}:{local}" for host, local in places}
    assert len(known) == len(places) == len(plan.ranks)
    tests = [line.split() for line in lines if line.startswith("test")]
    assert [int(words[1]) for words in tests] == [1, 4] * 4
    assert all(set(words[2:]) <= known for words in tests)
    assert lines[-1] == "end"


def made_up(plan, costs, repeats=(1.0, 1.02, 1.3)):
    """Output of a machine that costs exactly this; pairs that play together share the bandwidth."""
    lines = ["unbound 0"]
    for i, (latency, bandwidth) in enumerate(costs):
        for test, pairs in ((2 * i, 1), (2 * i + 1, len(plan.pairs[i]))):
            for pair in range(pairs):
                for size in SIZES:
                    seconds = latency + size * pairs / bandwidth
                    times = " ".join(f"{seconds * r:.9e}" for r in repeats)
                    lines.append(f"result {test} {pair} {size} {times}")
    return "\n".join([*lines, f"end {2 * len(costs)}"])


COSTS = [(2e-7, 1e10), (7e-7, 4e9), (1.5e-6, 1.25e8), (3e-6, 6e7)]


def test_fit_finds_the_costs_that_made_the_times():
    model = cluster().machine()
    plan = choose_pairs(model)
    times, unbound = parse_results(made_up(plan, COSTS))
    fits = fit_levels(plan, times)
    assert unbound == 0
    for fit, (latency, bandwidth) in zip(fits, COSTS, strict=True):
        assert fit.latency_s == pytest.approx(latency, rel=0.1)
        assert fit.one_pair == pytest.approx(bandwidth, rel=0.01)
        assert fit.total == pytest.approx(bandwidth, rel=0.05)
        assert fit.share == pytest.approx(bandwidth / 4, rel=0.05)
        assert fit.spread == pytest.approx(0.3 / 1.02)
    assert oddities(fits) == []
    assert oddities(fits[::-1]) != []


def test_stored_levels_are_never_cheaper_than_the_one_inside():
    plan = choose_pairs(cluster().machine())
    noisy = [COSTS[0], COSTS[2], COSTS[1], COSTS[3]]
    fits = fit_levels(plan, parse_results(made_up(plan, noisy))[0])
    levels = measured_levels(fits, "now", "test")
    assert [level.latency_s for level in levels] == sorted(level.latency_s for level in levels)
    assert levels[2].seconds_per_byte == levels[1].seconds_per_byte
    assert levels[2].meta["latency_s"] == fits[2].latency_s < levels[2].latency_s


@pytest.mark.parametrize(
    "text", ["", "hello", "result 0 0 8 1e-6", "result 0 x 8 1\nend 1", "unbound\nend 0"]
)
def test_incomplete_output_is_an_error(text):
    with pytest.raises(MachineError, match="calibration"):
        parse_results(text)


def test_missing_and_impossible_times_are_errors():
    plan = choose_pairs(cluster().machine())
    text = made_up(plan, COSTS)
    with pytest.raises(MachineError, match="no times of level switch2"):
        fit_levels(
            plan, parse_results("\n".join(t for t in text.split("\n") if not t.startswith("result 7")))[0]
        )
    with pytest.raises(MachineError, match="not above 0"):
        fit_levels(plan, parse_results(text.replace("result 0 0 8 ", "result 0 0 8 0 "))[0])


def fake_launcher(folder: Path, output: str, code: int = 0) -> str:
    """A launcher that prints recorded output instead of starting ranks."""
    (folder / "out").write_text(output)
    script = folder / "launcher"
    script.write_text(f'#!/bin/sh\n[ -x "$3" ] && [ -r "$4" ] || exit 9\ncat {folder}/out\nexit {code}\n')
    script.chmod(0o755)
    return f"{script} {{hosts}} {{ranks}}"


needs_compiler = pytest.mark.skipif(not shutil.which("mpicc"), reason="needs mpicc")


@needs_compiler
def test_measured_costs_are_stored_with_date_method_and_spread(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path, out = tmp_path / "cluster.json", tmp_path / "out.json"
    write_cluster(cluster(), path)
    plan = choose_pairs(cluster().machine())
    launch = fake_launcher(tmp_path, made_up(plan, COSTS))
    arguments = ["calibrate", str(path), "--launch", launch, "-o", str(out)]
    result = CliRunner().invoke(machine, arguments, catch_exceptions=False)
    assert "share of a pair" in result.stdout
    again = read_cluster(out)
    assert [level.origin for level in again.levels] == ["measured"] * 4
    model = again.machine()
    assert model.meta["costs"] == "measured"
    assert model.levels[2].bandwidth == pytest.approx(1.25e8 / 4, rel=0.05)
    meta = json.loads(out.read_text())["levels"][2]["meta"]
    assert meta["total_bandwidth"] == pytest.approx(1.25e8, rel=0.05)
    assert {"date", "method", "spread", "pairs", "one_pair_bandwidth"} < set(meta)
    write_cluster(again, path)
    assert json.loads(path.read_text())["levels"] == json.loads(out.read_text())["levels"], "meta survives"
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".slurm-topo")], "nothing is left behind"


@needs_compiler
def test_failures_of_the_launch_are_one_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "cluster.json"
    write_cluster(cluster(), path)

    def run(*arguments):
        return CliRunner().invoke(machine, ["calibrate", *arguments], catch_exceptions=False)

    with pytest.raises(LaunchError, match="failed with 3"):
        run(str(path), "--launch", fake_launcher(tmp_path, "", 3))
    with pytest.raises(LaunchError, match="cannot be started"):
        run(str(path), "--launch", "/no/such/launcher")
    with pytest.raises(LaunchError, match="cannot be started"):
        run(str(path), "--compiler", "/no/such/mpicc")
    with pytest.raises(LaunchError, match="took longer"):
        run(str(path), "--launch", "sh -c 'sleep 60' {hosts}", "--timeout", "0.2")
    with pytest.raises(InputError, match="known are"):
        run(str(path), "--launch", "x {nonsense}")
    with pytest.raises(InputError, match="only a cluster description"):
        run("-o", str(tmp_path / "x.json"))
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".slurm-topo")]


@pytest.fixture(scope="module")
def program(tmp_path_factory) -> Path:
    if not shutil.which("mpicc") or not shutil.which("mpirun"):
        pytest.skip("needs mpicc and mpirun")
    path = tmp_path_factory.mktemp("pingpong") / "pingpong"
    subprocess.run(
        ["mpicc", "-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-o", str(path), str(SOURCE)],
        check=True,
        timeout=120,
    )
    return path


def mpirun(program: Path, plan: Path, ranks: int = 2) -> subprocess.CompletedProcess[str]:
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    command = [
        "mpirun",
        *root,
        "--oversubscribe",
        "--bind-to",
        "none",
        "-n",
        str(ranks),
        str(program),
        str(plan),
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.mpi
def test_program_measures_every_pair_of_the_plan(program, tmp_path):
    host = socket.gethostname().partition(".")[0]
    plan = tmp_path / "plan"
    plan.write_text(
        f"slurm-topo-pingpong-1\nsizes 2 8 4096\nrepeats 3\nseconds 0.001\nplace {host} 0 "
        f"0\nplace {host} 1 0\n"
        f"place {host} 2 -1\ntest 1 {host}:0 {host}:1\ntest 1 {host}:1 {host}:2\nend\n"
    )
    done = mpirun(program, plan, 3)
    assert done.returncode == 0, done.stderr
    times, unbound = parse_results(done.stdout)
    assert unbound == 0
    assert {(t, p, s) for t in times for p in times[t] for s in times[t][p]} == {
        (t, 0, s) for t in (0, 1) for s in (8, 4096)
    }
    assert all(len(times[t][0][s]) == 3 and min(times[t][0][s]) > 0 for t in times for s in (8, 4096))


@pytest.mark.mpi
@pytest.mark.parametrize("text", ["", "other 1", "slurm-topo-pingpong-1\ntest 1 nowhere:0 nowhere:1\nend\n"])
def test_program_refuses_a_plan_that_is_not_for_its_ranks(program, tmp_path, text):
    plan = tmp_path / "plan"
    plan.write_text(text)
    done = mpirun(program, plan)
    assert done.returncode != 0
    assert "the plan cannot be read" in done.stderr
