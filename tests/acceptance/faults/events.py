"""What happens again and again while jobs run: sync in every state, daemons that restart, lost nodes."""

from __future__ import annotations

import itertools
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from tests.acceptance.faults.site import ROOT, Site

COMMAND = str(ROOT / ".venv" / "bin" / "slurm-topo")


class Syncs:
    """How passes of sync ended: exit code and last line, counted. What is no clean end is kept apart."""

    def __init__(self) -> None:
        self.ends: Counter[str] = Counter()
        self.unclean: list[str] = []

    def count(self, what: str, code: int, said: str) -> None:
        self.ends[f"{what}: exit code {code}"] += 1
        if "internal error" in said or "Traceback" in said or code in (1, 70):
            self.unclean.append(f"{what}: {code}: {said[-300:]}")


def sync(
    site: Site, syncs: Syncs, what: str, kill_after: float | None = None, **environ: str
) -> subprocess.CompletedProcess[str] | None:
    """One pass as root."""
    process = subprocess.Popen(
        [COMMAND, "--config", str(site.lab.layout.etc("slurm-topo.toml")), "sync", "--quiet", "--wait", "0"],
        env={**site.env, **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd="/",
    )
    if kill_after is not None:
        time.sleep(kill_after)
        process.send_signal(signal.SIGKILL)
    try:
        out, err = process.communicate(timeout=120)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        syncs.unclean.append(f"{what}: hung")
        return None
    syncs.count(what, process.returncode, err)
    return subprocess.CompletedProcess([], process.returncode, out, err)


def _database_locked(site: Site, syncs: Syncs) -> None:
    holder = sqlite3.connect(site.lab.layout.history, isolation_level=None, timeout=30)
    try:
        holder.execute("BEGIN IMMEDIATE")
        sync(site, syncs, "database locked")
    finally:
        holder.close()


def _database_corrupt(site: Site, syncs: Syncs, number: int) -> None:
    """Rubbish in the place of the database, then the database again."""
    path = site.lab.layout.history
    away = path.with_name("away")
    away.mkdir(exist_ok=True)
    files = [p for p in path.parent.iterdir() if p.name.startswith(path.name)]
    for file in files:
        file.rename(away / file.name)
    try:
        content = (away / path.name).read_bytes()
        broken = (b"rubbish" * 1000, content[:5000], content[:4096] + os.urandom(20000), b"")[number % 4]
        path.write_bytes(broken)
        sync(site, syncs, "database corrupt")
    finally:
        for file in [p for p in path.parent.iterdir() if p.name.startswith(path.name)]:
            file.unlink()
        for file in away.iterdir():
            file.rename(path.parent / file.name)
        shutil.rmtree(away)


def _step(site: Site, name: str, syncs: Syncs, rng: random.Random, number: int) -> float:
    """Do it once; seconds until the next time."""
    if name == "sync runs":
        sync(site, syncs, name)
    elif name == "sync is killed":
        sync(site, syncs, name, kill_after=rng.uniform(0.1, 2.0))
    elif name == "sync with a clock that jumps":
        sync(site, syncs, name, LD_PRELOAD=str(site.work / "shift.so"))
    elif name == "database locked":
        _database_locked(site, syncs)
    elif name == "database corrupt":
        _database_corrupt(site, syncs, number)
    elif name == "slurmctld restarts":
        site.restart("slurmctld")
        # The nodes have to register in between, or no job would ever start.
        return 12.0
    elif name == "slurmd restarts":
        site.restart(f"slurmd@{rng.choice(site.lab.layout.nodes).name}")
        return 0.7
    else:
        site.lose(rng.choice(site.lab.layout.nodes).name)
        return 4.0
    return 0.3


@contextmanager
def happening(site: Site, names: list[str], syncs: Syncs, rng: random.Random) -> Iterator[Counter[str]]:
    """Each of these in a thread of its own, until the block ends; how often each happened."""
    stop = threading.Event()
    times: Counter[str] = Counter()
    errors: list[str] = []

    def repeat(name: str, seed: int) -> None:
        own = random.Random(seed)
        for number in itertools.count():
            try:
                pause = _step(site, name, syncs, own, number)
                times[name] += 1
            except Exception as error:
                errors.append(f"{name}: {type(error).__name__}: {error}")
                pause = 1.0
            if stop.wait(pause):
                return

    # Two passes of sync at once would only say that another one runs.
    threads = [threading.Thread(target=repeat, args=(name, rng.randrange(1 << 30))) for name in names]
    for thread in threads:
        thread.start()
    try:
        yield times
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        if errors:
            print(f"  harness: {len(errors)} events failed, for example {errors[0]}", flush=True)
