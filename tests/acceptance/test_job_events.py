"""Real jobs that are requeued, preempted, suspended, cut by their time limit, or lose a node, on a lab."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_topo.lab.cluster import Lab
from slurm_topo.lab.host import missing_packages
from slurm_topo.lab.integrate import command
from slurm_topo.lab.options import LabOptions
from slurm_topo.slurm.plan import read_plan

ROOT = Path(__file__).resolve().parents[2]
TELL = "echo rank $SLURM_PROCID $SLURMD_NODENAME $(grep Cpus_allowed_list: /proc/self/status)"
# The same text in every run, so that the program is known. What it does beyond its steps stands in files.
JOB = f"""#!/bin/bash
#SBATCH --job-name=events --nodes=2 --ntasks=4 --requeue --open-mode=append --output=out
srun ./halo3d 4
srun --mpi=none sh -c '{TELL}; cat pause 2>/dev/null && sleep 6 && {TELL}'
if [ -e wait ] && [ -z "$SLURM_RESTART_COUNT" ]; then touch ready; sleep 300; fi
"""
PREEMPTION = """
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=high Nodes=n[1-4] PriorityTier=10 State=UP
"""


class Site:
    """A lab in which the program of :data:`JOB` is known."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.lab, self.folder = lab, folder
        self.spool = lab.layout.spool / "0"

    def run(self, *argv: str, timeout: int = 120) -> str:
        done = self.lab.run(list(argv), cwd=str(self.folder), timeout=timeout)
        assert done.returncode == 0, (argv, done.stdout, done.stderr)
        return done.stdout.strip()

    def sync(self) -> None:
        self.run(command(), "--config", str(self.lab.layout.etc("slurm-topo.toml")), "sync")

    def submit(self, *options: str) -> str:
        for name in ("out", "ready"):
            (self.folder / name).unlink(missing_ok=True)
        return self.run("sbatch", "--parsable", *options, "job.sh")

    def until(self, what: str, met) -> None:  # type: ignore[no-untyped-def]
        end = time.monotonic() + 150
        while not met():
            assert time.monotonic() < end, f"{what} does not come: {self.run('squeue')}"
            time.sleep(0.3)

    def finish(self, job: str) -> None:
        self.until("the end", lambda: not self.run("squeue", "-h", "-j", job))

    def ranks(self) -> list[dict[int, tuple[str, str]]]:
        """Rank -> (node, CPUs) of each time that all four ranks told it."""
        out = self.folder / "out"
        text = out.read_text() if out.exists() else ""
        rows = re.findall(r"^rank (\d+) (\S+) Cpus_allowed_list: (\S+)$", text, re.MULTILINE)
        return [{int(r): (n, c) for r, n, c in rows[i : i + 4]} for i in range(0, len(rows) - 3, 4)]

    def plans(self, job: str) -> list[dict[int, tuple[str, str]]]:
        """What the plans of a job say, oldest first."""
        paths = sorted((self.spool / "plans").glob(f"{job}-*.plan"), key=lambda p: p.stat().st_mtime)
        return [
            {r: (plan.nodes[p.node], ",".join(map(str, p.cpus))) for r, p in enumerate(plan.places)}
            for plan in map(read_plan, paths)
        ]

    def records(self, job: str) -> list[dict[str, object]]:
        lines = [x for p in self.spool.glob(f"records/{job}.*.rec") for x in p.read_text().splitlines()]
        found = [json.loads(line) for line in lines]
        return sorted((r for r in found if r["where"] == "srun"), key=lambda r: r["time"])


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    missing = [] if os.geteuid() == 0 else ["root's rights"]
    missing += missing_packages()
    if missing:
        word = f"the lab needs {', '.join(missing)}"
        pytest.fail(word) if os.environ.get("SLURM_TOPO_REQUIRE_LAB") else pytest.skip(word)
    folder, work = Path(f"/tmp/stlab-test-{os.getpid()}-events"), Path(f"/tmp/st-events-{os.getpid()}")
    lab = Lab(folder)
    try:
        work.mkdir()
        source = ROOT / "slurm_topo" / "lab" / "demo" / "halo3d.c"
        subprocess.run(["mpicc", "-O2", "-o", str(work / "halo3d"), str(source), "-lm"], check=True)
        (work / "job.sh").write_text(JOB)
        lab.up(LabOptions())
        found = Site(lab, work)
        found.finish(found.submit())
        time.sleep(1)
        found.sync()
        yield found
    finally:
        shutil.rmtree(work, ignore_errors=True)
        if folder.exists():
            lab.down(purge=True)


@pytest.fixture
def waiting(site: Site) -> Iterator[str]:
    """A placed job that waits in its first run."""
    (site.folder / "wait").touch()
    job = site.submit()
    try:
        site.until("the wait", (site.folder / "ready").exists)
        yield job
    finally:
        (site.folder / "wait").unlink(missing_ok=True)
        site.lab.run(["scancel", job])
        site.finish(job)


def begin_again(site: Site, job: str) -> None:
    """Slurm lets a requeued job wait for two minutes; then it runs to its end."""
    site.until("the queue", lambda: site.run("squeue", "-h", "-j", job, "-o", "%T") == "PENDING")
    (site.folder / "wait").unlink(missing_ok=True)
    site.lab.run(["scontrol", "update", f"jobid={job}", "starttime=now"])
    site.finish(job)


def test_requeued_job_is_placed_anew_on_its_other_nodes(site: Site, waiting: str) -> None:
    (first,) = site.ranks()
    site.run("scontrol", "update", "nodename=n[1-2]", "state=drain", "reason=test")
    try:
        site.run("scontrol", "requeue", waiting)
        begin_again(site, waiting)
    finally:
        site.run("scontrol", "update", "nodename=n[1-2]", "state=resume")
    again = site.ranks()[-1]
    assert {node for node, _ in first.values()} == {"n1", "n2"}
    assert {node for node, _ in again.values()} == {"n3", "n4"}
    assert site.plans(waiting) == [first, again]
    assert {r["decision"] for r in site.records(waiting)} == {"place"}


def test_preempted_job_is_placed_anew(site: Site, waiting: str) -> None:
    path = site.lab.layout.etc("slurm.conf")
    before = path.read_text()
    path.write_text(before + PREEMPTION)
    try:
        site.run("scontrol", "reconfigure")
        site.run("srun", "-p", "high", "-N4", "-n8", "--mpi=none", "true")
        begin_again(site, waiting)
    finally:
        path.write_text(before)
        site.run("scontrol", "reconfigure")
    assert site.run("sacct", "-n", "-X", "-D", "-j", waiting, "-o", "state%12").split() == [
        "PREEMPTED",
        "COMPLETED",
    ]
    assert site.plans(waiting) == site.ranks()


def test_suspended_job_keeps_its_masks(site: Site) -> None:
    """What gang scheduling and preemption by suspension do to a job."""
    (site.folder / "pause").write_text("")
    try:
        job = site.submit()
        site.until(
            "the first ranks",
            lambda: "rank" in ((site.folder / "out").read_text() if (site.folder / "out").exists() else ""),
        )
        site.run("scontrol", "suspend", job)
        time.sleep(2)
        site.run("scontrol", "resume", job)
        site.finish(job)
    finally:
        (site.folder / "pause").unlink()
    told = site.ranks()
    assert len(told) == 2
    assert told[0] == told[1] == site.plans(job)[0]


def test_trace_of_a_job_that_its_time_limit_ends(site: Site) -> None:
    # Another program: that of the other jobs is known, and not traced.
    shutil.copy(site.folder / "halo3d", site.folder / "endless")
    (site.folder / "long.sh").write_text(
        "#!/bin/bash\n#SBATCH --job-name=long -N2 -n4 -t1 -o long.out\nsrun ./endless 100000000\n"
    )
    job = site.run("sbatch", "--parsable", "long.sh")
    site.finish(job)
    assert site.run("sacct", "-n", "-X", "-j", job, "-o", "state%12") == "TIMEOUT"
    time.sleep(1)
    assert sorted(p.name for p in site.spool.glob(f"traces/{job}.0.*")) == [
        f"{job}.0.n1.trace",
        f"{job}.0.n2.trace",
    ]
    before = len(list(site.spool.glob("graphs/*.npz")))
    site.sync()
    assert len(list(site.spool.glob("graphs/*.npz"))) > before


def test_job_that_goes_on_without_a_node_runs_as_slurm_alone_runs_it(site: Site) -> None:
    """Its variables name the lost node still; a step of ours there would fail."""
    (site.folder / "lost.sh").write_text(
        "#!/bin/bash\n#SBATCH -J events -o lost.out\nsrun --mpi=none true\n"
        "scontrol update nodename=n4 state=down reason=test\nsleep 1\nsrun -n6 --mpi=none hostname\n"
    )
    job = site.run("sbatch", "--parsable", "--no-kill", "-N4", "-n8", "lost.sh")
    site.finish(job)
    names = [
        line for line in (site.folder / "lost.out").read_text().splitlines() if re.fullmatch(r"n\d", line)
    ]
    assert sorted(names) == ["n1", "n1", "n2", "n2", "n3", "n3"]
    assert {str(r["reason"]) for r in site.records(job)} <= {"shape: a job with --no-kill", "graph unknown"}


def test_dependent_job_is_placed_like_any_other(site: Site) -> None:
    first = site.submit()
    second = site.run("sbatch", "--parsable", f"--dependency=afterok:{first}", "job.sh")
    site.finish(second)
    assert site.plans(first) == [site.ranks()[0]]
    assert site.plans(second) == [site.ranks()[1]]
