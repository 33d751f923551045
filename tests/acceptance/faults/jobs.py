"""Submitting jobs, waiting for their ends, and what each left behind."""

from __future__ import annotations

import json
import random
import re
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.acceptance.faults.site import Site, User

# kind -> (share, script, how its program is launched, name of the program)
KINDS: dict[str, tuple[int, str, str, str]] = {
    "batch": (49, "batch.sh", "", ""),
    "array": (3, "batch.sh", "", ""),
    "srun": (30, "job.sh", "srun --mpi=none", "tell"),
    "srun MPI": (6, "job.sh", "srun --mpi=pmix", "pairs"),
    "mpirun": (4, "job.sh", "mpirun", "pairs"),
    "traced MPI": (8, "new", "srun --mpi=pmix", "pairs"),
}
ARRAY = 3
_SAID = re.compile(r"slurm-topo: (stood down|not recorded): (.*)")
_RANK = re.compile(r"^rank (\d+) (\S+) cpus (\S+) (right|wrong)$", re.MULTILINE)


@dataclass
class Job:
    """One submission."""

    user: str
    kind: str
    faults: tuple[str, ...]
    output: Path
    number: int = 0
    rejected: str = ""
    tries: int = 0
    hung: bool = False
    text: str = ""
    records: list[dict[str, object]] = field(default_factory=list)
    states: list[tuple[str, str, str]] = field(default_factory=list)  # job or step, state, exit code
    comment: str = ""

    @property
    def size(self) -> int:
        """Jobs that it is."""
        return ARRAY if self.kind == "array" else 1

    @property
    def said(self) -> list[tuple[str, str]]:
        """What srun or mpirun said of us: (stood down | not recorded, reason)."""
        return _SAID.findall(self.text)

    @property
    def ranks(self) -> dict[int, tuple[str, str]]:
        """Rank -> (node, CPUs)."""
        return {int(r): (node, cpus) for r, node, cpus, word in _RANK.findall(self.text) if word == "right"}

    @property
    def marked(self) -> str:
        """The arm in its environment."""
        found = re.search(r"^arm (\S+) graph (\S+)", self.text, re.MULTILINE)
        return found[1] if found else "none"

    @property
    def graph(self) -> bool:
        found = re.search(r"^arm \S+ graph (\S+)", self.text, re.MULTILINE)
        return bool(found and found[1] != "none")

    @property
    def complete(self) -> bool:
        """It printed everything that it prints when nothing is wrong."""
        if self.kind in ("batch", "array"):
            return self.text.count("end 0\n") == self.size
        return "end 0\n" in self.text and sorted(self.ranks) == [0, 1, 2, 3]


class Poller:
    """Asks slurmctld which jobs are not over, for all lanes."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.active: set[int] = set()
        self.asked = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(0.25):
            begun = time.monotonic()
            done = subprocess.run(
                ["squeue", "-h", "-o", "%F"], env=self.site.env, capture_output=True, text=True, check=False
            )
            # slurmctld may be away: what was known stays.
            if done.returncode == 0:
                self.active = {int(word) for word in done.stdout.split() if word.isdigit()}
                self.asked = begun

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def wait(self, numbers: Sequence[int], seconds: float) -> set[int]:
        """Wait until these are over; those that are not in time."""
        since, deadline = time.monotonic(), time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self.asked > since and not self.active.intersection(numbers):
                return set()
            time.sleep(0.1)
        return self.active.intersection(numbers)


def choose(rng: random.Random) -> str:
    """A kind of job by its share."""
    return rng.choices(list(KINDS), weights=[share for share, *_ in KINDS.values()])[0]


def submit(site: Site, user: User, kind: str, faults: tuple[str, ...], fault: str, delay: int = 0) -> Job:
    """Submit one job as the user."""
    _, script, launch, program = KINDS[kind]
    user.count += 1
    output = user.folder / f"{user.count}.out"
    path = site.work / script
    if script == "new":
        # Nothing is known of this text: the job is traced.
        path = user.folder / f"{user.count}.sh"
        text = (site.work / "job.sh").read_text()
        path.write_text(text.replace("code=$?", f"code=$?\n: {user.count}", 1))
    job = Job(user.name, kind, faults, output)
    command = ["sbatch", "--parsable", f"--output={output}", "--open-mode=append", "--time=5"]
    command += [f"--job-name={kind.split()[0]}{'-new' + str(user.count) if script == 'new' else ''}"]
    if kind == "array":
        command += [f"--array=1-{ARRAY}"]
    environ = {
        **site.env,
        "HOME": "/tmp",
        "USER": user.name,
        "FAULT": fault,
        "LAUNCH": launch,
        "PROGRAM": str(site.work / program) + (f" {delay}" if delay and program == "tell" else ""),
    }
    for _ in range(20):
        done = subprocess.run(
            [*command, str(path)],
            env=environ,
            cwd=str(user.folder),
            user=user.uid,
            group=user.gid,
            extra_groups=[],
            capture_output=True,
            text=True,
            check=False,
        )
        job.tries += 1
        if done.returncode == 0:
            job.number = int(done.stdout.strip().split(";")[0])
            return job
        job.rejected = done.stderr.strip()
        if not re.search("[Uu]nable to contact|[Cc]onnection|[Tt]imed out|[Cc]ommunication", job.rejected):
            return job
        time.sleep(1)
    return job


def harvest(user: User, jobs: Sequence[Job]) -> None:
    """Outputs and records of jobs that are over; the records are taken away, so that the disk stays empty."""
    by_number = {job.number: job for job in jobs}
    for job in jobs:
        try:
            job.text = job.output.read_text(errors="replace")
        except OSError:
            job.text = ""
    folder = user.spool / "records"
    if folder.is_symlink() or not folder.is_dir():
        return
    for path in folder.glob("*.rec"):
        job_of_file = by_number.get(int(path.name.split(".")[0]))
        if job_of_file is None:
            continue
        try:
            lines = path.read_text(errors="replace").splitlines()
            path.unlink()
        except OSError:
            continue  # sync was faster: the history has them
        for line in lines:
            try:
                job_of_file.records.append(json.loads(line))
            except ValueError:
                continue
    for kind in ("traces", "rejected"):
        for path in (user.spool / kind).glob("*"):
            if path.name.split(".")[0].isdigit() and int(path.name.split(".")[0]) in by_number:
                path.unlink(missing_ok=True)
