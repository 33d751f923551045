"""The simulated judge beside a second one: the same programs, really run on the shaped links of a lab."""

from __future__ import annotations

import json
import re
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_topo.judge.run import judge
from slurm_topo.lab.cluster import Lab
from slurm_topo.lab.options import LabOptions
from slurm_topo.machine import read_cluster
from slurm_topo.model import CommGraph, Ints, Machine
from slurm_topo.placement.baselines import baselines
from slurm_topo.placement.solve import place
from slurm_topo.trace import read_graph

HERE = Path(__file__).resolve().parent
COMMAND = [sys.executable, "-m", "slurm_topo.cli.main"]
RANKS, RUNS = 8, 3
TOLERANCE = 0.15
# One flow each way on a link: TCP gets 80 to 90 % of it, not always the same. Links shared by more are full.
TOLERANCES = {"ring": 0.3}
# Bytes of a message and iterations: runs of some seconds, beside which the bursts of shapers do not count.
# What no mapping keeps off the network: inside a node the lab has two cores for all, and measures these.
PATTERNS = {"mesh": (800_000, 8), "transpose": (150_000, 10), "gather": (300_000, 8), "ring": (1_000_000, 16)}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    folder = Path(f"/tmp/stlab-judge-{tmp_path_factory.getbasetemp().name}")
    lab = Lab(folder)
    try:
        lab.up(LabOptions())
        yield lab
    finally:
        if folder.exists():
            lab.down(purge=True)


@pytest.fixture(scope="module")
def work(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("work")
    shutil.copy(HERE / "exchange.c", folder)
    subprocess.run(["mpicc", "-O2", "-o", "exchange", "exchange.c"], cwd=folder, check=True)
    return folder


@pytest.fixture(scope="module")
def machine(lab: Lab, work: Path) -> Machine:
    """The lab as it was measured, nothing assumed."""
    for name, command in (
        ("nodes", ["scontrol", "--oneliner", "show", "node"]),
        ("topology", ["scontrol", "show", "topology"]),
    ):
        (work / f"{name}.txt").write_text(lab.run(command).stdout)
    files = [str(work / name) for name in ("nodes.txt", "topology.txt")]
    subprocess.run([*COMMAND, "machine", "import", *files, "-o", str(work / "cluster.json")], check=True)
    result = lab.run(
        [*COMMAND, "machine", "calibrate", "cluster.json", "--pairs", "2", "-o", "measured.json"],
        cwd=str(work),
    )
    assert result.returncode == 0, result.stderr
    found = read_cluster(work / "measured.json").machine()
    assert {level.origin for level in found.levels} == {"measured"}
    return found


def measured(lab: Lab, work: Path, machine: Machine, pattern: str, cores: Ints) -> float:
    """Seconds by the program's own clock, median of some runs with these ranks on these nodes."""
    hosts = work / "hosts"
    hosts.write_text("".join(f"{machine.node_names[machine.node[core]]}\n" for core in cores))
    nbytes, iterations = PATTERNS[pattern]
    argv = ["salloc", "--quiet", f"--nodes={len(machine.node_names)}", f"--ntasks={RANKS}", "--exclusive"]
    argv += ["env", f"SLURM_HOSTFILE={hosts}", "srun", "--distribution=arbitrary", f"--ntasks={RANKS}"]
    argv += ["--topo=off", "./exchange", pattern, str(nbytes), str(iterations)]
    seconds = []
    for _ in range(RUNS):
        result = lab.run(argv, cwd=str(work))
        found = re.search(r"seconds ([\d.]+)", result.stdout)
        assert found, result.stdout + result.stderr
        seconds.append(float(found[1]))
    return statistics.median(seconds)


@pytest.fixture(scope="module")
def graphs(work: Path) -> dict[str, CommGraph]:
    """Each pattern as the tracer sees it."""
    found = {}
    for pattern, (nbytes, iterations) in PATTERNS.items():
        program = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(RANKS), "./exchange"]
        command = [*COMMAND, "trace", "run", "-o", f"{pattern}.npz", "--", *program, pattern]
        subprocess.run([*command, str(nbytes), str(iterations)], cwd=work, check=True, capture_output=True)
        found[pattern] = read_graph(work / f"{pattern}.npz")
    return found


@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_judge_tells_what_the_network_does(
    lab: Lab, work: Path, machine: Machine, graphs: dict[str, CommGraph], pattern: str
) -> None:
    graph = graphs[pattern]
    tried = {name: baselines(machine, RANKS)[name] for name in ("block:block", "cyclic")}
    tried["placed"] = place(graph, machine, effort="best").core_of_rank
    simulated = judge(graph, machine, tried, rounds=4).seconds
    real = {name: measured(lab, work, machine, pattern, cores) for name, cores in tried.items()}
    print(json.dumps({"pattern": pattern, "simulated": simulated, "measured": real}))
    for name in ("cyclic", "placed"):
        ratio = {
            "simulated": simulated[name] / simulated["block:block"],
            "measured": real[name] / real["block:block"],
        }
        assert ratio["simulated"] == pytest.approx(
            ratio["measured"], rel=TOLERANCES.get(pattern, TOLERANCE)
        ), ratio
