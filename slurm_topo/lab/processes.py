"""Which processes belong to a lab: those in its process namespace, found through /proc and never by name.

Process 1 of the namespace carries the lab's folder in its environment. That alone identifies a lab, so
nothing has to be written down before it exists, and a crash at any point leaves nothing that cannot be
found. When process 1 dies, the kernel ends every other process of the namespace, and with the last process
go the network, mount, UTS and IPC namespaces, the bridges, the links and the mounts.
"""

from __future__ import annotations

import contextlib
import os
import signal
from dataclasses import dataclass
from pathlib import Path

MARKER = "STLAB_FOLDER"
ROLE = "STLAB_ROLE"


@dataclass(frozen=True)
class Process:
    """A process of a lab: its id on this machine and its id in the lab."""

    pid: int
    inner_pid: int


def _inner_pids(pid: int) -> list[int]:
    """Ids of a process from our namespace inwards; empty when it has gone."""
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("NSpid:"):
                return [int(word) for word in line.split()[1:]]
    except (OSError, ValueError):
        pass
    return []


def environment_of(pid: int) -> dict[str, str]:
    """The environment that a process was started with; empty when it has gone or is not ours to read."""
    try:
        text = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")
    except OSError:
        return {}
    return dict(item.split("=", 1) for item in text.split("\0") if "=" in item)


def _all_pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _namespace(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")
    except OSError:
        return ""


def find_keepers(folder: Path | None = None) -> dict[int, Path]:
    """Process 1 of the lab in that folder (of every lab for None): its id on this machine -> the folder."""
    found = {}
    for pid in _all_pids():
        inner = _inner_pids(pid)
        # One namespace below ours: a container in a job has a process 1 further down.
        if inner[1:] == [1]:
            marked = environment_of(pid).get(MARKER)
            if marked and folder in (None, Path(marked)):
                found[pid] = Path(marked)
    return found


def find_starters(folder: Path) -> list[int]:
    """Processes that are about to start the lab's process 1, or wait for its end."""
    marks = (str(folder), "keeper")
    return [
        pid
        for pid in _all_pids()
        if len(_inner_pids(pid)) == 1 and tuple(map(environment_of(pid).get, (MARKER, ROLE))) == marks
    ]


def members(keeper: int) -> list[Process]:
    """The processes in the namespace of a keeper, itself included; empty when it has gone."""
    space = _namespace(keeper)
    found = []
    for pid in _all_pids() if space else []:
        if _namespace(pid) == space:
            inner = _inner_pids(pid)
            if len(inner) >= 2:
                found.append(Process(pid, inner[1]))
    return found


def kill(pid: int, number: signal.Signals) -> None:
    """Send a signal; a process that has gone is fine."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def is_alive(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except (OSError, IndexError):
        return False
