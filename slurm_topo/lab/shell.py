"""Running commands: on this machine, on the login host and on the nodes of a lab."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from slurm_topo.errors import LabError
from slurm_topo.lab.processes import MARKER, ROLE

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def enter(pid: int, command: Sequence[str]) -> list[str]:
    """Arguments that run a command in all the namespaces of a process."""
    return ["nsenter", "--target", str(pid), "--mount", "--uts", "--ipc", "--net", "--pid", "--", *command]


def clean_environment(folder: Path, role: str = "", extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of what belongs to the lab, whoever starts it."""
    marks = {MARKER: str(folder), **({ROLE: role} if role else {})}
    return {"PATH": _PATH, "LANG": "C.UTF-8", "HOME": "/root", **marks, **(extra or {})}


def run(
    command: Sequence[str],
    *,
    environ: Mapping[str, str] | None = None,
    check: bool = True,
    timeout: float = 60,
    what: str = "",
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end and capture what it prints.

    Raises
    ------
    LabError
        It is missing, takes too long or (with `check`) fails; the message ends with its last line.
    """
    name = what or command[0]
    try:
        result = subprocess.run(
            command,
            env=environ,
            timeout=timeout,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            capture_output=True,
        )
    except FileNotFoundError:
        raise LabError(
            f"{command[0]}: is not installed; `slurm-topo lab up` says which packages are needed"
        ) from None
    except subprocess.TimeoutExpired:
        raise LabError(f"{name}: did not end within {timeout:.0f} s; see `slurm-topo lab logs`") from None
    if check and result.returncode:
        raise LabError(
            f"{name}: failed ({last_line(result.stderr or result.stdout)}); see `slurm-topo lab logs`"
        )
    return result


def last_line(text: str) -> str:
    """The last line that says something."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "no message")


def wait_until(
    done: Callable[[], bool], seconds: float, what: str, failed: Callable[[], str | None] = lambda: None
) -> None:
    """Poll until something holds.

    Raises
    ------
    LabError
        It does not hold in time, or `failed` says why it never will.
    """
    end = time.monotonic() + seconds
    while not done():
        reason = failed()
        if reason:
            raise LabError(f"{what}: {reason}; see `slurm-topo lab logs`")
        if time.monotonic() > end:
            raise LabError(f"{what}: not ready after {seconds:.0f} s; see `slurm-topo lab logs`")
        time.sleep(0.03)
