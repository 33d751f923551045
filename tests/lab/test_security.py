"""No user can affect another user's job, and root reads and writes no file of a user: attempts, on a lab."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from slurm_topo.lab.cluster import Lab
from slurm_topo.lab.integrate import command
from slurm_topo.model import CommGraph
from slurm_topo.trace import build_graph, graph_digest, write_graph

ATTACKER, VICTIM = "games", "nobody"
TELL = "sh -c 'echo rank $SLURM_PROCID $SLURMD_NODENAME'"
BLOCK = {0: "n1", 1: "n1", 2: "n2", 3: "n2"}
PLACED = {0: "n1", 2: "n1", 1: "n2", 3: "n2"}
# Prints which of our libraries the kernel mapped into it, and who it is.
SETUID = """
#include <stdio.h>
#include <string.h>
#include <unistd.h>
int main(void)
{
	char line[4096];
	FILE *maps = fopen("/proc/self/maps", "r");
	while (maps && fgets(line, sizeof(line), maps))
		if (strstr(line, "slurm_topo"))
			printf("mapped %s", line);
	printf("ran as %d\\n", (int)geteuid());
	return 0;
}
"""


def halves() -> CommGraph:
    """Four ranks, each with a partner two ranks away."""
    ranks = np.arange(4)
    return build_graph(4, ranks, (ranks + 2) % 4, np.full(4, 1e8), np.full(4, 100.0), None, {})


@dataclass
class Place:
    """Two users in a lab; the victim has a graph for four ranks that Slurm's block order does not suit."""

    lab: Lab
    folder: Path
    digest: str

    def spool(self, user: str) -> Path:
        return self.lab.layout.spool / str(pwd.getpwnam(user).pw_uid)

    def own_folder(self, user: str, *names: str) -> Path:
        account = pwd.getpwnam(user)
        path = self.spool(user)
        for part in (".", *names):
            path = path / part
            path.mkdir(mode=0o700, exist_ok=True)
            os.chown(path, account.pw_uid, account.pw_gid)
        return path

    def step(
        self, user: str, launch: str = TELL, srun: str = "srun --mpi=none", **env: str
    ) -> tuple[dict[int, str], str]:
        """Ranks by node and everything that a job of two nodes and four tasks printed."""
        exports = {"SLURM_TOPO_JOB_ARM": "enforce", **env}
        text = "".join(f"export {name}='{value}'\n" for name, value in exports.items())
        script = self.folder / f"job{len(list(self.folder.iterdir()))}"
        script.write_text(f"#!/bin/bash\nunset ${{!SLURM_TOPO_JOB_*}}\n{text}{srun} {launch} 2>&1\n")
        script.chmod(0o755)
        done = self.lab.run(["salloc", "-Q", "-N2", "-n4", str(script)], user=user, cwd="/tmp", timeout=120)
        assert done.returncode == 0, (done.stdout, done.stderr)
        rows = [line.split() for line in done.stdout.splitlines() if line.startswith("rank ")]
        return {int(rank): node for _, rank, node in rows}, done.stdout

    def sync(self) -> str:
        config = str(self.lab.layout.etc("slurm-topo.toml"))
        done = self.lab.run([command(), "--config", config, "sync", "--wait", "0"], cwd="/")
        assert done.returncode == 0, done.stderr
        return done.stderr

    def settle(self) -> None:
        """Until every node has ended its steps."""
        for _ in range(200):
            if not self.lab.run(["squeue", "-h"]).stdout.strip():
                return
            time.sleep(0.1)
        pytest.fail("a job does not end")

    def publish(self, user: str) -> Path:
        """The graph in a user's spool."""
        account = pwd.getpwnam(user)
        path = self.own_folder(user, "graphs") / f"{self.digest}.npz"
        write_graph(halves(), path)
        os.chown(path, account.pw_uid, account.pw_gid)
        path.chmod(0o600)
        return path


@pytest.fixture(scope="module")
def site(lab: Lab, lab_folder: Path) -> Iterator[Place]:
    folder = lab_folder.with_name(lab_folder.name + "-security")
    folder.mkdir()
    folder.chmod(0o755)
    place = Place(lab, folder, graph_digest(halves()))
    try:
        place.sync()
        yield place
    finally:
        for user in (ATTACKER, VICTIM):
            path = place.spool(user)
            path.unlink() if path.is_symlink() else shutil.rmtree(path, ignore_errors=True)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def place(site: Place) -> Place:
    """With empty spool folders, but for the victim's graph."""
    for user in (ATTACKER, VICTIM):
        path = site.spool(user)
        path.unlink() if path.is_symlink() else shutil.rmtree(path, ignore_errors=True)
    site.publish(VICTIM)
    return site


def test_victim_is_placed_when_nobody_attacks(place: Place) -> None:
    assert place.step(VICTIM, SLURM_TOPO_JOB_GRAPH=place.digest)[0] == PLACED


def test_graph_of_another_user_is_not_used(place: Place) -> None:
    ranks, text = place.step(ATTACKER, SLURM_TOPO_JOB_GRAPH=place.digest)
    assert ranks == BLOCK
    assert "stood down" in text
    for name in (f"../../{pwd.getpwnam(VICTIM).pw_uid}/graphs/{place.digest}", "/etc/shadow"):
        ranks, text = place.step(ATTACKER, SLURM_TOPO_JOB_GRAPH=name)
        assert (ranks, "is no digest" in text) == (BLOCK, True)


def test_link_to_the_graph_of_another_user_is_not_followed(place: Place) -> None:
    graphs = place.own_folder(ATTACKER, "graphs")
    (graphs / f"{place.digest}.npz").symlink_to(place.spool(VICTIM) / "graphs" / f"{place.digest}.npz")
    ranks, text = place.step(ATTACKER, SLURM_TOPO_JOB_GRAPH=place.digest)
    assert (ranks, "is missing" in text) == (BLOCK, True)


def test_plan_of_another_user_binds_nobody(place: Place) -> None:
    place.step(VICTIM, SLURM_TOPO_JOB_GRAPH=place.digest)
    (plan,) = (place.spool(VICTIM) / "plans").glob("*.plan")
    before = plan.read_bytes()
    srun = f"env SLURM_TOPO_JOB_PLAN={plan} srun --mpi=none --export=ALL,SLURM_TOPO_JOB_PLAN={plan}"
    ranks, _ = place.step(ATTACKER, srun=srun)
    assert ranks == BLOCK
    lines = [x for p in (place.spool(ATTACKER) / "records").glob("*.rec") for x in p.read_text().splitlines()]
    told = [json.loads(line) for line in lines]
    assert not [r for r in told if r["decision"] == "place"]
    assert plan.read_bytes() == before


def test_folder_that_somebody_made_for_the_victim_costs_the_placement_and_nothing_else(place: Place) -> None:
    """The most that one user can do to another (docs/spank.md)."""
    shutil.rmtree(place.spool(VICTIM))
    attacker = pwd.getpwnam(ATTACKER)
    for link in (False, True):
        if link:
            place.spool(VICTIM).rmdir()
            place.spool(VICTIM).symlink_to(place.own_folder(ATTACKER, "graphs"))
            os.chown(place.spool(VICTIM), attacker.pw_uid, attacker.pw_gid, follow_symlinks=False)
        else:
            place.spool(VICTIM).mkdir(mode=0o777)
            place.spool(VICTIM).chmod(0o777)
            os.chown(place.spool(VICTIM), attacker.pw_uid, attacker.pw_gid)
        ranks, text = place.step(VICTIM, SLURM_TOPO_JOB_GRAPH=place.digest)
        assert ranks == BLOCK
        assert text.count("slurm-topo: stood down: spool") == 1
        assert list(place.spool(VICTIM).iterdir()) == []
        place.sync()


def test_cluster_description_of_another_user_steers_no_job(place: Place) -> None:
    description = place.lab.layout.spool / "cluster.json"
    before = description.read_bytes()
    description.unlink()
    description.write_bytes(before.replace(b'"s1"', b'"x1"'))
    os.chown(description, pwd.getpwnam(ATTACKER).pw_uid, -1)
    ranks, text = place.step(VICTIM, SLURM_TOPO_JOB_GRAPH=place.digest)
    assert (ranks, "is no file that only root" in text) == (BLOCK, True)
    place.sync()
    assert description.stat().st_uid == 0
    assert description.read_bytes() == before
    assert place.step(VICTIM, SLURM_TOPO_JOB_GRAPH=place.digest)[0] == PLACED


@pytest.mark.parametrize("folder", ["traces", "records", "plans", "graphs", "rejected"])
def test_planted_link_leads_neither_slurmstepd_nor_sync_astray(place: Place, folder: str) -> None:
    target = place.folder / f"roots-{folder}"
    target.mkdir(mode=0o700)
    (target / "secret").write_text("secret")
    place.own_folder(ATTACKER, "traces")
    link = place.spool(ATTACKER) / folder
    if link.exists():
        link.rmdir()
    link.symlink_to(target)
    place.step(ATTACKER, SLURM_TOPO_JOB_TRACE="1", SLURM_TOPO_JOB_ARM="observe")
    place.settle()
    place.sync()
    assert [p.name for p in target.iterdir()] == ["secret"]
    assert (target / "secret").read_text() == "secret"


def test_race_between_folder_and_link_leads_root_nowhere(place: Place) -> None:
    """She swaps a folder and a link to root's folder as fast as she can, while steps end and sync runs."""
    target = place.folder / "roots-race"
    target.mkdir(mode=0o700)
    (target / "1.0.n1.rec").write_text("secret")
    user = pwd.getpwnam(ATTACKER)
    root = place.own_folder(ATTACKER)
    swap = (
        "import os, sys, time\n"
        "end = time.time() + 8; n = 0\n"
        "while time.time() < end:\n"
        "  for name in ('traces', 'records', 'plans', 'graphs', 'rejected'):\n"
        "    try:\n"
        "      if os.path.islink(name): os.unlink(name); os.mkdir(name, 0o700)\n"
        "      else:\n"
        "        if os.path.isdir(name): os.rename(name, f'old{n}')\n"
        "        os.symlink(sys.argv[1], name)\n"
        "    except OSError: pass\n"
        "    n += 1\n"
        "print(n)\n"
    )
    python = shutil.which("python3", path="/usr/bin:/bin") or "python3"
    racer = subprocess.Popen(
        [python, "-c", swap, str(target)], cwd=root, user=user.pw_uid, group=user.pw_gid, extra_groups=[],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    stop = threading.Event()
    said: list[str] = []

    def sync_again() -> None:
        while not stop.is_set():
            said.append(place.sync())

    thread = threading.Thread(target=sync_again)
    thread.start()
    try:
        steps = 0
        while racer.poll() is None:
            place.step(ATTACKER, SLURM_TOPO_JOB_TRACE="1", SLURM_TOPO_JOB_GRAPH=place.digest)
            steps += 1
    finally:
        stop.set()
        thread.join()
    place.settle()
    assert int(racer.stdout.read()) > 100  # type: ignore[union-attr]
    assert steps >= 1
    assert len(said) >= 1
    assert [p.name for p in target.iterdir()] == ["1.0.n1.rec"]
    assert (target / "1.0.n1.rec").read_text() == "secret"
    assert target.stat().st_mode & 0o777 == 0o700


def test_variables_that_point_at_another_users_folder_lead_nowhere(place: Place) -> None:
    """Also in the tracer itself, put into the program by the attacker's own LD_PRELOAD."""
    target = place.folder / "victims"
    target.mkdir(mode=0o700)
    os.chown(target, pwd.getpwnam(VICTIM).pw_uid, -1)
    tracer = Path(command()).parents[2] / "build" / "lib" / "libslurm_topo_trace.so"
    ranks, _ = place.step(
        ATTACKER,
        SLURM_TOPO_JOB_ARM="off",
        SLURM_TOPO_JOB_COUNTERS=str(target),
        SLURM_TOPO_JOB_LAUNCH=f"spool={target} place=/bin/false",
        LD_PRELOAD=str(tracer),
    )
    assert sorted(ranks) == [0, 1, 2, 3]
    assert list(target.iterdir()) == []


def test_setuid_program_in_a_traced_step_gets_none_of_our_code(place: Place) -> None:
    source = place.folder / "setuid.c"
    source.write_text(SETUID)
    program = place.folder / "setuid"
    subprocess.run(["gcc", "-o", str(program), str(source)], check=True)
    _, before = place.step(
        ATTACKER, launch=str(program), SLURM_TOPO_JOB_TRACE="1", SLURM_TOPO_JOB_ARM="observe"
    )
    assert before.count("mapped") > 0  # an ordinary program has it
    program.chmod(0o4755)
    _, text = place.step(
        ATTACKER, launch=str(program), SLURM_TOPO_JOB_TRACE="1", SLURM_TOPO_JOB_ARM="observe"
    )
    assert text.count("ran as 0") == 4
    assert "mapped" not in text
    place.settle()
    owners = {p.stat().st_uid for p in place.spool(ATTACKER).rglob("*")}
    assert owners <= {pwd.getpwnam(ATTACKER).pw_uid}
