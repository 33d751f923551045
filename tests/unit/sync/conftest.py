"""A site without Slurm: a strict fake of its commands, a spool, and traces made byte by byte."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import select

from slurm_topo.config import Settings
from slurm_topo.history.schema import metadata
from slurm_topo.history.store import History, open_history
from slurm_topo.history.sync.run import SyncResult, sync_once
from slurm_topo.slurm.fingerprint import fingerprint_keys
from slurm_topo.slurm.plan import Plan, RankPlace, format_plan
from slurm_topo.slurm.sacct import FIELDS
from slurm_topo.trace import reader

NOW = 1_796_100_000
UID = os.getuid()
NODES = """\
NodeName=n1 CoresPerSocket=2 Sockets=1 ThreadsPerCore=1
NodeName=n2 CoresPerSocket=2 Sockets=1 ThreadsPerCore=1
NodeName=n3 CoresPerSocket=2 Sockets=1 ThreadsPerCore=1
NodeName=n4 CoresPerSocket=2 Sockets=1 ThreadsPerCore=1
"""
TOPOLOGY = """\
SwitchName=s1 Level=0 LinkSpeed=1 Nodes=n[1-2]
SwitchName=s2 Level=0 LinkSpeed=1 Nodes=n[3-4]
SwitchName=top Level=1 LinkSpeed=1 Nodes=n[1-4] Switches=s[1-2]
"""
# Slurm's block distribution of 8 ranks; and the partners (r, r + 4) on one node.
BLOCK = [(f"n{r // 2 + 1}", r % 2) for r in range(8)]
PARTNERS = [(f"n{r % 4 + 1}", r // 4) for r in range(8)]


def stamp(seconds: int | None) -> str:
    return "Unknown" if seconds is None else str(np.datetime64(seconds, "s"))


def trace_bytes(
    job: int,
    step: str,
    node: str,
    keys: str,
    ranks: Mapping[int, tuple[int, Mapping[int, int]]],
    size: int,
    world: str = "",
) -> bytes:
    """A trace file: rank -> (CPU, {peer: bytes}), one message a peer."""
    body = b""
    for rank, (cpu, sent) in ranks.items():
        head = np.zeros(1, reader._RANK)
        head["magic"], head["version"], head["header_bytes"] = reader.RANK_MAGIC, 1, reader._RANK.itemsize
        head["slot_bytes"], head["slots"] = reader._SLOT.itemsize, len(sent)
        head["rank"], head["size"], head["state"] = rank, size, 2
        head["start_ns"], head["end_ns"] = NOW * 10**9, (NOW + 5) * 10**9
        head["cpus"][0, cpu // 8] = 1 << (cpu % 8)
        head["host"], head["executable"] = node.encode(), b"/home/ada/halo"
        head["world"] = (world or f"{job}.{step}").encode()
        slots = np.zeros(len(sent), reader._SLOT)
        slots["peer"], slots["p2p_bytes"] = list(sent), list(sent.values())
        slots["p2p_messages"] = 1
        body += head.tobytes() + slots.tobytes()
    head = np.zeros(1, reader._HEAD)
    head["magic"], head["version"], head["header_bytes"] = reader.MAGIC, 1, reader._HEAD.itemsize
    head["records"], head["nodes"], head["total_bytes"] = len(ranks), 4, reader._HEAD.itemsize + len(body)
    words = np.frombuffer(body, "<u8")
    head["sum"] = words.sum(dtype=np.uint64)
    head["weighted"] = (words * np.arange(words.size, 0, -1, dtype=np.uint64)).sum(dtype=np.uint64)
    head["job"], head["step"], head["node"], head["keys"] = (
        str(job).encode(),
        step.encode(),
        node.encode(),
        keys.encode(),
    )
    return head.tobytes() + body


@dataclass
class Site:
    """What a test sets up and looks at."""

    folder: Path
    uid: int = UID
    now: int = NOW
    jobs: dict[int, list[dict[str, str]]] = field(default_factory=dict)
    calls: list[list[str]] = field(default_factory=list)
    fail: str = ""
    settings: Settings = field(init=False)

    def __post_init__(self) -> None:
        self.settings = Settings(
            database=str(self.folder / "history.sqlite"),
            spool=str(self.folder / "spool"),
            advice_dir=str(self.folder / "advice"),
            kill_switch=str(self.folder / "disabled"),
            arm="enforce",
            holdout=0.1,
            ahead_s=0.0,
        )
        Path(self.settings.spool).mkdir(mode=0o1777)
        self.user_spool.mkdir(mode=0o700)

    @property
    def user_spool(self) -> Path:
        return Path(self.settings.spool) / str(self.uid)

    def run(self, argv: Sequence[str]) -> str:
        """Slurm's commands."""
        self.calls.append(list(argv))
        if argv[0] == "sacct":
            return self._sacct(argv)
        if list(argv[1:4]) == ["--oneliner", "show", "node"]:
            return NODES
        if list(argv[1:]) == ["show", "topology"]:
            return TOPOLOGY
        if list(argv[1:]) == ["show", "config"]:
            return "ClusterName = lab\n"
        raise AssertionError(f"unknown command {argv}")

    def _sacct(self, argv: Sequence[str]) -> str:
        from slurm_topo.errors import SlurmError

        if self.fail:
            raise SlurmError(self.fail)
        options = dict(word.split("=", 1) for word in argv if word.startswith("--") and "=" in word)
        ids = argv[argv.index("--jobs") + 1].split(",") if "--jobs" in argv else None
        start = np.datetime64(argv[argv.index("--starttime") + 1]).astype(int)
        until = argv[argv.index("--endtime") + 1] if "--endtime" in argv else "9999-01-01"
        lines = []
        for job, rows in self.jobs.items():
            end = rows[0]["End"]
            inside = end == "Unknown" or np.datetime64(end).astype(int) >= start
            inside = inside and np.datetime64(rows[0]["Submit"]) <= np.datetime64(until)
            if (ids is None and inside) or (ids is not None and str(job) in ids):
                lines += [
                    options["--delimiter"].join(row.get(f, "") for f in options["--format"].split(","))
                    for row in rows
                ]
        return "".join(line + "\n" for line in lines)

    def add_job(
        self,
        job: int,
        user: str = "ada",
        script: bytes = b"srun ./halo",
        name: str = "halo",
        executable: bytes | None = b"./halo",
        arm: str = "enforce",
        seconds: int = 60,
        end: int | None = NOW - 100,
        state: str = "COMPLETED",
        account: str = "physics",
        uid: int | None = None,
        comment: str | None = None,
        steps: Sequence[str] = ("batch", "0"),
        submitted: int | None = None,
        **values: str,
    ) -> str:
        """A job of 8 tasks on 4 nodes in the accounting; returns its keys."""
        uid = self.uid if uid is None else uid
        keys = ":".join(
            fingerprint_keys(str(uid), "8x1", script, name.encode(), account.encode(), executable)
        )
        start = (end if end is not None else self.now) - seconds
        base = dict.fromkeys(FIELDS, "") | {
            "JobName": name,
            "Account": account,
            "Cluster": "lab",
            "Submit": stamp(start - 10 if submitted is None else submitted),
            "Start": stamp(start),
            "End": stamp(end),
            "State": state if end is not None else "RUNNING",
            "ExitCode": "0:0",
            "NNodes": "4",
            "NCPUS": "8",
            "NodeList": "n[1-4]",
            "ElapsedRaw": str(seconds),
        }
        mark = f"slurm-topo:1 arm={arm} keys={keys}" if comment is None else comment
        head = {"JobIDRaw": str(job), "JobID": str(job), "User": user, "UID": str(uid), "Partition": "batch"}
        rows = [base | head | {"AdminComment": mark} | values]
        for step in steps:
            tasks = "8" if step.isdigit() else "1"
            rows.append(base | {"JobIDRaw": f"{job}.{step}", "JobName": step, "NTasks": tasks})
        self.jobs[job] = rows
        return keys

    def write(self, folder: str, name: str, content: bytes | str) -> Path:
        """A file in the user's spool."""
        path = self.user_spool / folder / name
        path.parent.mkdir(mode=0o700, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        os.utime(path, (self.now - 50, self.now - 50))
        if UID == 0 and self.uid != 0:
            for made in (self.user_spool, path.parent, path):
                os.chown(made, self.uid, self.uid)
        return path

    def trace(
        self,
        job: int,
        keys: str = "",
        step: str = "0",
        places: Sequence[tuple[str, int]] = BLOCK,
        nbytes: int = 1000,
        nodes: Sequence[str] = (),
        world: str = "",
        size: int = 8,
    ) -> None:
        """Traces of a step in which ranks r and r + half of their number exchange bytes."""
        for node in nodes or sorted({host for host, _ in places}):
            ranks = {
                r: (cpu, {(r + size // 2) % size: nbytes})
                for r, (host, cpu) in enumerate(places)
                if host == node
            }
            content = trace_bytes(job, step, node, keys, ranks, size, world)
            self.write("traces", f"{job}.{step}.{node}.trace", content)

    def trace_of(self, job: int, keys: str, sent: Sequence[Mapping[int, int]]) -> None:
        """Traces of step 0, its ranks in blocks on the nodes: for each rank, peer -> bytes."""
        size = len(sent)
        for number in range(4):
            mine = range(number * size // 4, (number + 1) * size // 4)
            content = trace_bytes(job, "0", f"n{number + 1}", keys, {r: (r % 2, sent[r]) for r in mine}, size)
            self.write("traces", f"{job}.0.n{number + 1}.trace", content)

    def trace_without_ranks(self, job: int, keys: str = "") -> None:
        """Traces of a step that was no MPI program."""
        for node in ("n1", "n2"):
            self.write("traces", f"{job}.0.{node}.trace", trace_bytes(job, "0", node, keys, {}, 8))

    def record(self, job: int, decision: str, reason: str, when: int = NOW - 159, **values: Any) -> None:
        """srun's record of one launch."""
        told = {
            "format": "slurm-topo-record",
            "version": 1,
            "time": when,
            "where": "srun",
            "job": job,
            "ranks": 8,
        }
        told |= {"arm": "enforce", "decision": decision, "reason": reason, "seconds": 0.01, **values}
        self.write("records", f"{job}.4711.n1.rec", json.dumps(told) + "\n")

    def plan(self, job: int, graph: str, places=PARTNERS) -> str:
        """A plan; returns its path."""
        plan = Plan(
            job=str(job),
            ranks=8,
            cpus_per_task=1,
            decision="place",
            reason="cost",
            graph=graph,
            machine="m",
            solver="bisection",
            cost=0.5,
            baselines={"block:block": 2.0, "block:cyclic": 3.0, "cyclic": 4.0},
            nodes=("n1", "n2", "n3", "n4"),
            places=tuple(RankPlace(int(host[1]) - 1, (cpu,)) for host, cpu in places),
        )
        self.write("plans", f"{job}-8x1-abc.hosts", "n1\n")
        return str(self.write("plans", f"{job}-8x1-abc.plan", format_plan(plan)))

    def sync(self, **values: Any) -> SyncResult:
        """One pass."""
        return sync_once(self.settings, run=self.run, clock=lambda: self.now, **values)

    def history(self) -> History:
        return open_history(self.settings.database)

    def dump(self) -> dict[str, list[Any]]:
        """Everything in the database."""
        with self.history() as history, history.engine.connect() as connection:
            return {
                name: sorted((tuple(r) for r in connection.execute(select(table))), key=repr)
                for name, table in metadata.tables.items()
            }

    def advice(self) -> dict[str, dict[str, str]]:
        """Advice files by key."""
        found = {}
        for path in Path(self.settings.advice_dir).glob("??/*"):
            lines = path.read_text().splitlines()
            assert lines[0] == "slurm-topo-advice 1"
            assert lines[-1] == "end"
            found[path.name] = dict(line.split(" ", 1) for line in lines[1:-1])
            assert found[path.name]["key"] == path.name
            assert path.parent.name == path.name[1:3]
        return found

    def spool_files(self) -> list[str]:
        """Files in the user's spool, without what was published: graphs and the advice for steps."""
        return sorted(
            str(p.relative_to(self.user_spool))
            for p in self.user_spool.rglob("*")
            if p.is_file() and p.suffix != ".npz" and p.parent.name != "advice"
        )


@pytest.fixture
def site(tmp_path) -> Site:
    return Site(tmp_path)


@pytest.fixture
def make_site(tmp_path):
    """More sites than one: ``make_site(name)``."""

    def make(name: str, **values: Any) -> Site:
        folder = tmp_path / name
        folder.mkdir()
        return Site(folder, **values)

    return make
