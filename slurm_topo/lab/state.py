"""What is written down about a lab: its options, its number, how far it has come."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from slurm_topo.errors import LabError
from slurm_topo.lab.options import LabOptions

FORMAT = "slurm-topo-lab"
VERSION = 1
_FILE = "lab.json"
_LOCK = ".lock"
_LOCK_SECONDS = 0.5


@dataclass(frozen=True)
class State:
    """Contents of ``lab.json``; `complete` is true once the lab has come up."""

    options: LabOptions
    number: int
    complete: bool


def read(folder: Path) -> State | None:
    """The state in a folder; None where no lab has been, or a crash cut the file short."""
    try:
        values = json.loads((folder / _FILE).read_text())
        return State(LabOptions.from_json(values["options"]), int(values["number"]), bool(values["complete"]))
    except (OSError, ValueError, KeyError, TypeError, LabError):
        return None


def write(folder: Path, state: State) -> None:
    """Replace the state file in one step."""
    values = {
        "format": FORMAT,
        "version": VERSION,
        "options": state.options.to_json(),
        "number": state.number,
        "complete": state.complete,
    }
    write_file(folder / _FILE, json.dumps(values, indent=1) + "\n")


def write_file(path: Path, text: str | bytes, mode: int = 0o644) -> None:
    """Write a file under a temporary name with its final mode and rename it."""
    temporary = path.with_name(f".{path.name}.new")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with open(descriptor, "wb") as stream:
        os.fchmod(stream.fileno(), mode)
        stream.write(text.encode() if isinstance(text, str) else text)
    temporary.rename(path)


def claim(folder: Path) -> None:
    """Make a folder a lab's.

    Raises
    ------
    LabError
        Something else is in it.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        strangers = set(os.listdir(folder)) - {_LOCK}
    except OSError as error:
        raise LabError(f"{folder}: cannot be a lab's folder ({error.strerror}); give another --dir") from None
    if strangers and not is_lab(folder):
        raise LabError(f"{folder}: holds files that are not a lab's; give an empty folder with --dir")


def is_lab(folder: Path) -> bool:
    """Whether a folder is a lab's, be it running or not."""
    return (folder / _FILE).exists() or (folder / f".{_FILE}.new").exists()


@contextmanager
def lock(folder: Path) -> Iterator[None]:
    """Only one `up` or `down` at a time works on a lab; the kernel drops the lock of one that is killed.

    Raises
    ------
    LabError
        Another one is at work.
    """
    try:
        descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise LabError(f"{folder}: cannot be written ({error.strerror}); give another --dir") from None
    try:
        # One that was killed while it started a process lends that its lock for some milliseconds.
        end = time.monotonic() + _LOCK_SECONDS
        while not _try_lock(descriptor):
            if time.monotonic() > end:
                raise LabError(f"{folder}: another `lab up` or `lab down` is at work there; wait for it")
            time.sleep(0.05)
        yield
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
