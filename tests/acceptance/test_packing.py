"""On a real Slurm: a program that is faster when its ranks are packed is tried both ways, and then packed."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slurm_topo.lab.cluster import Lab
from slurm_topo.lab.host import missing_packages
from slurm_topo.lab.integrate import command
from slurm_topo.lab.options import LabOptions

HERE = Path(__file__).resolve().parent
NODES, CPUS, RUNS = 4, 4, 24
JOB = """#!/bin/bash
#SBATCH --job-name=trade --nodes=2 --ntasks=4 --ntasks-per-node=2 --exclusive
srun ./trade 60 25
"""
# Each node as two NUMA nodes of two cores: its two ranks lie in both, or in the first.
CLUSTER = {
    "format": "slurm-topo-cluster",
    "version": 1,
    "classes": {"node": {"synthetic": "package:1 numa:2 core:2 pu:1"}},
    "nodes": [{"names": f"n[1-{NODES}]", "class": "node"}],
    "switches": [
        {"name": "s1", "nodes": "n[1-2]"},
        {"name": "s2", "nodes": "n[3-4]"},
        {"name": "top", "switches": "s[1-2]"},
    ],
}


class Site:
    """A lab whose administrator lets programs be placed, and half of their jobs try the other way."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.lab, self.folder = lab, folder
        self.settings = lab.layout.etc("slurm-topo.toml")
        (folder / "cluster.json").write_text(json.dumps(CLUSTER))
        wanted = {"arm": '"enforce"', "holdout": "0.0", "trial": "0.5", "cluster": f'"{folder}/cluster.json"'}
        kept = [
            line
            for line in self.settings.read_text().splitlines()
            if line.partition(" =")[0].strip() not in wanted
        ]
        self.settings.write_text("\n".join([*(f"{k} = {v}" for k, v in wanted.items()), *kept]) + "\n")

    def submit(self, count: int) -> list[str]:
        """So many jobs, as many at a time as there are pairs of nodes; what each printed."""
        jobs = []
        for _ in range(count):
            argv = ["sbatch", "--parsable", "--output=%j.out", "job.sh"]
            done = self.lab.run(argv, cwd=str(self.folder), timeout=60)
            assert done.returncode == 0, done.stderr
            jobs.append(done.stdout.strip())
        waiting = f"while squeue -h -j {','.join(jobs)} 2>/dev/null | grep -q .; do sleep 0.5; done"
        assert self.lab.run(["sh", "-c", waiting], timeout=600).returncode == 0
        return [(self.folder / f"{job}.out").read_text() for job in jobs]

    def tool(self, *arguments: str) -> str:
        done = self.lab.run([command(), "--config", str(self.settings), *arguments], timeout=240)
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    def advice(self) -> str:
        """The advice of the only program."""
        (text,) = {
            re.sub(r"key .*\n", "", f.read_text())
            for f in self.lab.layout.advice.rglob("s*")
            if f.name != "site"
        }
        return text


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    """Four nodes of four cores under two switches, links of 200 Mb/s."""
    missing = [] if os.geteuid() == 0 else ["root's rights"]
    missing += missing_packages()
    if missing:
        word = f"the lab needs {', '.join(missing)}"
        pytest.fail(word) if os.environ.get("SLURM_TOPO_REQUIRE_LAB") else pytest.skip(word)
    folder, work = Path(f"/tmp/stlab-test-{os.getpid()}-packing"), Path(f"/tmp/st-packing-{os.getpid()}")
    lab = Lab(folder)
    try:
        work.mkdir()
        subprocess.run(["mpicc", "-O2", "-o", str(work / "trade"), str(HERE / "trade.c")], check=True)
        (work / "job.sh").write_text(JOB)
        lab.up(LabOptions(nodes=NODES, cpus=CPUS))
        yield Site(lab, work)
    finally:
        shutil.rmtree(work, ignore_errors=True)
        if folder.exists():
            lab.down(purge=True)


@pytest.fixture(scope="module")
def program(site: Site) -> dict[str, Any]:
    """The program in the report, after a traced run, one placed run, and runs of both ways."""
    site.submit(1)
    site.tool("sync")
    assert "variant" not in site.advice()
    site.submit(1)
    site.tool("sync")
    # Its ranks can lie in two ways: from now on both are tried.
    assert "variant spread\ntrial 0.5\n" in site.advice()
    site.submit(RUNS)
    said = site.tool("sync")
    (found,) = json.loads(site.tool("report", "--format", "json"))["programs"]
    return {**found, "said": said}


def test_both_ways_are_tried_and_timed(program: dict[str, Any]) -> None:
    spread, packed = program["variants"]
    assert (spread["variant"], packed["variant"]) == ("spread", "packed")
    # Half of 24: six standard deviations are 15, of which one has to allow for less than all.
    assert spread["runs"] + packed["runs"] == RUNS + 1
    assert packed["runs"] >= 4
    assert packed["time"]["value"] < spread["time"]["value"]


def test_faster_way_is_chosen_and_the_report_says_why(program: dict[str, Any], site: Site) -> None:
    assert program["variant"] == "packed"
    assert re.search(r"packed runs take \S+ s where spread ones take \S+ s", program["said"])
    assert program["variant_reason"] in program["said"]
    assert "variant packed\n" in site.advice()
    text = site.tool("report")
    assert "ranks packed" in text
    assert "in use: packed" in text


def test_jobs_that_follow_are_packed(program: dict[str, Any], site: Site) -> None:
    site.settings.write_text(site.settings.read_text().replace("trial = 0.5", "trial = 0.0"))
    site.tool("sync")
    assert all("packed 1" in text for text in site.submit(2))
