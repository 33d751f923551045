"""The whole chain on a real Slurm: an unchanged script is traced, then placed; parts are broken."""

from __future__ import annotations

import json
import os
import pwd
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from slurm_topo.lab.cluster import Lab
from slurm_topo.lab.integrate import command
from slurm_topo.slurm.plan import Plan, read_plan
from slurm_topo.trace import read_graph

ROOT = Path(__file__).resolve().parents[2]

# The second step shows where its ranks run; it has the shape of the first one, so it has its placement, too.
SCRIPT = """#!/bin/bash
#SBATCH --job-name=chain
#SBATCH --nodes=4 --ntasks=8
srun ./halo3d 8
srun --mpi=none sh -c 'echo rank $SLURM_PROCID $SLURMD_NODENAME $(grep Cpus_allowed_list: /proc/self/status)'
"""
BLOCK = {r: (f"n{r // 2 + 1}", str(r % 2)) for r in range(8)}


@dataclass
class Job:
    """A finished job: its number and what it printed."""

    number: str
    output: str
    plan: Plan | None = None

    @property
    def ranks(self) -> dict[int, tuple[str, str]]:
        """Rank -> (node, CPU list) as the ranks saw it themselves."""
        rows = re.findall(r"^rank (\d+) (\S+) Cpus_allowed_list: (\S+)$", self.output, re.MULTILINE)
        return {int(rank): (node, cpus) for rank, node, cpus in rows}

    @property
    def result(self) -> list[str]:
        """What the program computed."""
        return [line for line in self.output.splitlines() if line.startswith("step")]

    @property
    def reasons(self) -> list[str]:
        """What the job was told about us."""
        return [line for line in self.output.splitlines() if "slurm-topo" in line]


class Chain:
    """A user's folder in the lab, and the administrator's commands."""

    def __init__(self, lab: Lab, folder: Path, user: str) -> None:
        self.lab, self.folder, self.user = lab, folder, user
        self.uid = pwd.getpwnam(user).pw_uid
        self.layout = lab.layout
        self.spool = self.layout.spool / str(self.uid)
        self.settings = self.layout.etc("slurm-topo.toml")

    def submit(self, *options: str) -> Job:
        run = self.lab.run(
            ["sbatch", "--wait", "--parsable", "--output=%j.out", *options, "job.sh"],
            user=self.user,
            cwd=str(self.folder),
            timeout=240,
        )
        number = run.stdout.strip().split(";")[0]
        assert run.returncode == 0, (run.stdout, run.stderr)
        plans = list((self.spool / "plans").glob(f"{number}-*.plan"))
        return Job(
            number, (self.folder / f"{number}.out").read_text(), read_plan(plans[0]) if plans else None
        )

    def sync(self) -> None:
        run = self.lab.run([command(), "--config", str(self.settings), "sync"], timeout=240)
        assert run.returncode == 0, run.stderr

    def report(self) -> dict[str, object]:
        run = self.lab.run([command(), "--config", str(self.settings), "report", "--format", "json"])
        assert run.returncode == 0, run.stderr
        values: dict[str, object] = json.loads(run.stdout)
        return values

    def controller_lines(self, job: Job) -> list[str]:
        """What slurmctld logged about us since the job before this one."""
        lines = self.layout.log("slurmctld").read_text(errors="replace").splitlines()
        here = next(i for i, line in enumerate(lines) if f"JobId={job.number} " in line)
        return [line for line in lines[max(0, here - 8) : here + 1] if "slurm-topo" in line]


@pytest.fixture(scope="module")
def chain(lab: Lab, lab_folder: Path) -> Iterator[Chain]:
    """A user with a compiled solver and a script, in a lab that knows nothing yet."""
    folder = lab_folder.with_name(lab_folder.name + "-chain")
    folder.mkdir()
    source = ROOT / "slurm_topo" / "lab" / "demo" / "halo3d.c"
    subprocess.run(["mpicc", "-O2", "-o", str(folder / "halo3d"), str(source), "-lm"], check=True)
    (folder / "job.sh").write_text(SCRIPT)
    # A checkout below a home of mode 0700 cannot be used by others.
    user = "nobody" if lab.run([command(), "--version"], user="nobody").returncode == 0 else "root"
    os.chown(folder, pwd.getpwnam(user).pw_uid, -1)
    try:
        yield Chain(lab, folder, user)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def story(chain: Chain) -> dict[str, Job]:
    """The same script: before anything is known, after a sync, and with the user's word against it."""
    first = chain.submit()
    chain.sync()
    jobs = {"first": first, "second": chain.submit()}
    jobs["off"] = chain.submit("--topo=off")
    chain.sync()
    return jobs


def test_first_run_is_slurms_own_and_is_traced(story: dict[str, Job], chain: Chain) -> None:
    assert story["first"].ranks == BLOCK
    assert story["first"].reasons == []
    # Beside it lie graphs that are predicted for other numbers of ranks.
    graphs = [read_graph(path).ranks for path in (chain.spool / "graphs").glob("*.npz")]
    assert graphs.count(len(BLOCK)) == 1


def test_second_run_is_where_the_plan_says(story: dict[str, Job]) -> None:
    plan = story["second"].plan
    assert plan is not None
    assert plan.decision == "place"
    expected = {
        rank: (plan.nodes[place.node], ",".join(map(str, place.cpus)))
        for rank, place in enumerate(plan.places)
    }
    assert story["second"].ranks == expected
    assert story["second"].ranks != BLOCK
    assert story["second"].reasons == []


def test_partners_that_exchange_most_share_a_node(story: dict[str, Job]) -> None:
    ranks = story["second"].ranks
    assert all(ranks[r][0] == ranks[r + 4][0] for r in range(4))


def test_results_are_the_same_to_the_last_digit(story: dict[str, Job]) -> None:
    assert story["first"].result
    assert story["first"].result == story["second"].result == story["off"].result


def test_user_who_says_off_is_left_alone(story: dict[str, Job]) -> None:
    assert story["off"].ranks == BLOCK


def test_report_shows_bytes_leaving_the_switches(story: dict[str, Job], chain: Chain) -> None:
    (program,) = [p for p in chain.report()["programs"] if p["name"] == "chain"]  # type: ignore[attr-defined]
    traffic = {level["level"]: level for level in program["levels"]}
    before, after = (traffic["switch2"][side]["value"] for side in ("before", "after"))
    assert before > 0
    assert after <= 0.4 * before
    assert traffic["node"]["after"]["value"] >= traffic["node"]["before"]["value"] + 0.6 * before


@contextmanager
def replaced(path: Path, content: bytes | None) -> Iterator[None]:
    """A file with other content (None: without the file), and as before afterwards."""
    status, before = path.stat(), path.read_bytes()
    path.unlink()
    if content is not None:
        path.write_bytes(content)
        os.chown(path, status.st_uid, status.st_gid)
        path.chmod(status.st_mode & 0o7777)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        path.write_bytes(before)
        os.chown(path, status.st_uid, status.st_gid)
        path.chmod(status.st_mode & 0o7777)


def _files(chain: Chain, which: str) -> list[Path]:
    return {
        "advice": lambda: [f for f in chain.layout.advice.rglob("[snux]*") if f.is_file()],
        "graph": lambda: list((chain.spool / "graphs").glob("*.npz")),
        "cluster": lambda: [chain.layout.spool / "cluster.json"],
    }[which]()


@contextmanager
def damaged(chain: Chain, which: str, content: bytes | None) -> Iterator[None]:
    """Every file of a kind replaced."""
    found = _files(chain, which)
    assert found
    managers = [replaced(f, content) for f in found]
    for manager in managers:
        manager.__enter__()
    try:
        yield
    finally:
        for manager in managers:
            manager.__exit__(None, None, None)


@contextmanager
def plugin_with(chain: Chain, **arguments: Path) -> Iterator[None]:
    """The plugin with other arguments."""
    file = chain.layout.etc("plugstack.conf")
    before = file.read_text()
    text = before
    for name, value in arguments.items():
        text, count = re.subn(rf" {name}=\S+", f" {name}={value}", text)
        assert count == 1
    file.write_text(text)
    try:
        yield
    finally:
        file.write_text(before)


@contextmanager
def python_broken(chain: Chain, text: str) -> Iterator[None]:
    """`slurm-topo` as a script of this text."""
    script = chain.folder / "slurm-topo"
    script.write_text(text)
    script.chmod(0o755)
    with plugin_with(chain, place=script):
        yield


FULL = """set -e
mount -t tmpfs -o size=512k,mode=1777 none {small}
cp -a {spool}/. {small}
cat /dev/zero > {small}/filler 2> /dev/null || true
"""


@contextmanager
def spool_full(chain: Chain) -> Iterator[None]:
    """No room in the spool: a small file system on every node, filled to the last byte."""
    small = chain.folder / "small"
    small.mkdir()
    everywhere = ["srun", "--nodes=4", "--ntasks-per-node=1", "--mpi=none", "sh", "-c"]
    fill = chain.lab.run([*everywhere, FULL.format(small=small, spool=chain.layout.spool)])
    assert fill.returncode == 0, fill.stderr
    try:
        with plugin_with(chain, spool=small):
            yield
    finally:
        chain.lab.run([*everywhere, f"umount -l {small}"])
        small.rmdir()


RUBBISH = bytes(range(256)) * 4
DAMAGE: dict[str, Callable[[Chain], AbstractContextManager[None]]] = {
    "advice emptied": lambda c: damaged(c, "advice", b""),
    "advice rubbish": lambda c: damaged(c, "advice", RUBBISH),
    "graph removed": lambda c: damaged(c, "graph", None),
    "graph emptied": lambda c: damaged(c, "graph", b""),
    "graph rubbish": lambda c: damaged(c, "graph", RUBBISH),
    "cluster removed": lambda c: damaged(c, "cluster", None),
    "cluster rubbish": lambda c: damaged(c, "cluster", RUBBISH),
    "spool removed": lambda c: plugin_with(c, spool=c.folder / "no-spool"),
    "spool full": spool_full,
    "python missing": lambda c: python_broken(c, "#!/no/such/python\n"),
    "python without modules": lambda c: python_broken(
        c, "#!/usr/bin/python3 -IS\nimport slurm_topo.cli.main\n"
    ),
    "python emptied": lambda c: python_broken(c, ""),
    "python rubbish": lambda c: python_broken(c, "\x7fELF\x01"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_job_runs_as_without_us_and_one_line_says_why(story: dict[str, Job], chain: Chain, name: str) -> None:
    with DAMAGE[name](chain):
        job = chain.submit()
    assert job.result == story["first"].result
    assert job.ranks == BLOCK, job.output
    told = job.reasons or chain.controller_lines(job)
    # Two steps in the job: each says it once.
    assert 1 <= len(told) <= 2, (job.output, told)


def test_removed_advice_means_a_program_that_is_not_known(story: dict[str, Job], chain: Chain) -> None:
    with damaged(chain, "advice", None):
        job = chain.submit()
    assert (job.ranks, job.result) == (BLOCK, story["first"].result)


@pytest.mark.parametrize("content", [None, b"", RUBBISH], ids=["removed", "emptied", "rubbish"])
def test_broken_tracer_leaves_a_traced_job_alone(
    story: dict[str, Job], chain: Chain, content: bytes | None, tmp_path: Path
) -> None:
    folder = chain.folder / "tracer"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name in ("libslurm_topo_trace.so", "libslurm_topo_trace_openmpi.so"):
        if content is not None:
            (folder / name).write_bytes(content)
    with damaged(chain, "advice", None), plugin_with(chain, tracer=folder):
        job = chain.submit()
    assert (job.ranks, job.result) == (BLOCK, story["first"].result)
    assert len(job.reasons) <= 2


def test_after_all_of_it_the_job_is_placed_again(story: dict[str, Job], chain: Chain) -> None:
    assert chain.submit().ranks == story["second"].ranks
