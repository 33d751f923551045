"""A real history: eighty jobs of a real Slurm, arms drawn at submission, reported and compared end to end.

Ten minutes on free cores, so it runs when it is named. Nothing is made up but the speed of the links: times
come from slurmdbd, bytes from the tracer, arms from the submit hook; the comparison is the default method.
``LAB_HISTORY_KEEP=FOLDER`` keeps the history and the audit folder there.
"""

from __future__ import annotations

import csv
import json
import os
import pwd
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from slurm_topo.lab.cluster import Lab
from slurm_topo.lab.host import missing_packages
from slurm_topo.lab.integrate import command
from slurm_topo.lab.options import LabOptions

ROOT = Path(__file__).resolve().parents[2]
# Eight programs, each with a script and an executable of its own: steps of the solver.
STEPS = (36, 40, 44, 48, 52, 56, 60, 64)
RUNS = 9
SCRIPT = """#!/bin/bash
#SBATCH --job-name={name} --nodes=4 --ntasks=8 --output=/dev/null
srun ./{name} {steps}
"""
PRICES = """currency = "EUR"
date = "2026-11-01"
node_hour = 1.1
kwh = {value = 0.22, low = 0.15, high = 0.35, source = "supply contract"}
pue = 1.25
carbon_g_per_kwh = 330
node_power_w = 420
node_price = 14000
node_life_years = 5
utilisation = 0.85
"""


@dataclass
class Told:
    """What came out of the run."""

    folder: Path
    accounting: list[list[str]]
    report: dict[str, Any]
    comparison: dict[str, Any]
    records: list[dict[str, str]]
    headline: str


class Site:
    """A lab, and what its administrator and its users type."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.lab, self.folder = lab, folder
        self.settings = lab.layout.etc("slurm-topo.toml")

    def ours(self, *words: str) -> str:
        run = self.lab.run([command(), "--config", str(self.settings), *words], timeout=600)
        assert run.returncode == 0, run.stderr
        return run.stdout

    def submit(self, name: str, user: str, *options: str) -> None:
        sbatch = ["sbatch", "--parsable", *options, f"{name}.sh"]
        run = self.lab.run(sbatch, user=user, cwd=str(self.folder), timeout=600)
        assert run.returncode == 0, run.stderr

    def wait(self) -> None:
        end = time.monotonic() + 3600
        while self.lab.run(["squeue", "--noheader"]).stdout.strip():
            assert time.monotonic() < end
            time.sleep(2)
        # Slurm hands a job to its accounting some seconds after its end.
        time.sleep(8)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    if os.geteuid() != 0 or missing_packages():
        pytest.skip("only root can bring up a lab, with Slurm installed")
    folder = Path(f"/tmp/stlab-history-{os.getpid()}")
    work = folder.with_name(folder.name + "-work")
    work.mkdir(mode=0o755)
    lab = Lab(folder)
    try:
        lab.up(LabOptions())
        yield _run(Site(lab, work))
    finally:
        lab.down(purge=True)
        shutil.rmtree(work, ignore_errors=True)


def _run(site: Site) -> Told:
    source = ROOT / "slurm_topo" / "lab" / "demo" / "halo3d.c"
    binary = site.folder / "halo3d"
    subprocess.run(["mpicc", "-O2", "-o", str(binary), str(source), "-lm"], check=True)
    other = "nobody" if site.lab.run([command(), "--version"], user="nobody").returncode == 0 else "root"
    os.chown(site.folder, pwd.getpwnam(other).pw_uid, -1)
    users = {f"slab{steps}": ("root", other)[i % 2] for i, steps in enumerate(STEPS)}
    for steps in STEPS:
        name = f"slab{steps}"
        shutil.copy(binary, site.folder / name)
        (site.folder / f"{name}.sh").write_text(SCRIPT.format(name=name, steps=steps))
        site.submit(name, users[name])
    site.wait()
    # Now that the graphs are known, half of the runs stay as Slurm alone runs them.
    site.settings.write_text(site.settings.read_text().replace("holdout = 0.0", "holdout = 0.5"))
    site.ours("sync")
    for _ in range(RUNS):
        for name, user in users.items():
            site.submit(name, user)
    site.wait()
    site.ours("sync")
    audit = site.folder / "audit"
    (site.folder / "prices.toml").write_text(PRICES)
    compare = ["compare", "--prices", str(site.folder / "prices.toml")]
    fields = "--format=JobIDRaw,User,State,ElapsedRaw,AdminComment%400"
    sacct = site.lab.run(["sacct", "-a", "-X", "-n", "-P", "--starttime=now-1day", fields]).stdout
    result = Told(
        audit,
        [line.split("|") for line in sacct.splitlines()],
        json.loads(site.ours("report", "--format", "json")),
        json.loads(site.ours(*compare, "--format", "json", "-o", str(audit))),
        list(csv.DictReader((audit / "records.csv").open())),
        site.ours(*compare),
    )
    kept = os.environ.get("LAB_HISTORY_KEEP")
    if kept:
        shutil.copytree(audit, Path(kept) / "audit", dirs_exist_ok=True)
        shutil.copy(site.lab.layout.history, Path(kept) / "history.sqlite")
        (Path(kept) / "table.txt").write_text(site.ours("report") + "\n" + result.headline)
    return result


def test_every_job_of_the_accounting_is_a_run_with_one_fate(told: Told) -> None:
    assert len(told.accounting) == len(STEPS) * (RUNS + 1)
    assert {row[2] for row in told.accounting} == {"COMPLETED"}
    fates = told.report["fates"]
    assert told.report["runs"] == len(told.accounting) == sum(fates.values())
    assert fates["traced"] == len(STEPS)
    assert fates["placed"] + fates["observed"] == len(STEPS) * RUNS


def test_arms_are_those_that_the_hook_drew_at_submission(told: Told) -> None:
    drawn = {row[0]: row[4].partition("arm=")[2].split()[0] for row in told.accounting}
    assert {row["job"]: row["arm"] for row in told.records} == drawn
    sides = Counter(drawn.values())
    # A fair coin gives fewer than 20 of 72 to a side once in ten thousand histories.
    assert min(sides["observe"], sides["enforce"]) >= 20


def test_times_are_those_of_slurms_accounting(told: Told) -> None:
    wall = {row[0]: float(row[3]) for row in told.accounting}
    for row in told.records:
        assert 0 < float(row["elapsed"]) <= wall[row["job"]]


def test_the_default_method_finds_the_saving_and_says_how_sure_it_is(told: Told) -> None:
    comparison = told.comparison
    runs = comparison["runs"]
    assert runs["all"] == runs["before"] + runs["after"] + sum(runs["excluded"].values())
    assert comparison["method"]["estimand"] == "assigned"
    saving = comparison["saving"]
    assert saving["interval"][0] > 0.1, told.headline
    # On a machine with other work the times of equal runs differ more than the method allows, and it says so.
    quiet = comparison["baseline"]["cv_rmse"] <= comparison["method"]["cv_rmse_limit"]
    assert comparison["verdict"] == ("saving" if quiet else "inconclusive"), told.headline
    assert quiet or comparison["because"].startswith("CV(RMSE)"), told.headline


def test_report_and_comparison_agree_on_what_was_placed(told: Told) -> None:
    placed = sum(row["placed"] == "1" for row in told.records)
    assert placed == told.report["placed"] == told.report["fates"]["placed"]
    savings = [p["saving"]["value"] for p in told.report["programs"] if p["saving"]["value"] is not None]
    assert len(savings) >= 5
    assert sorted(savings)[len(savings) // 2] > 0.1


def test_the_audit_folder_is_whole(told: Told) -> None:
    subprocess.run(["sha256sum", "--quiet", "-c", "SHA256SUMS"], cwd=told.folder, check=True)
