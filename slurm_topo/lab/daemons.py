"""The daemons of a lab: how each is started, when it is ready, whether it is alive."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from slurm_topo.errors import LabError
from slurm_topo.lab import shell
from slurm_topo.lab.layout import LOGIN, Layout
from slurm_topo.lab.processes import ROLE, Process, environment_of, is_alive, members

_START_SECONDS = 60
SLURMCTLD_PORT = 6817
SLURMDBD_PORT = 6819


@dataclass(frozen=True)
class Daemon:
    """One daemon.

    Attributes
    ----------
    role : str
        Its name in the lab, also in its environment: ``slurmctld``, ``slurmd@n1``.
    host : str
        Host whose namespaces it runs in.
    command : tuple of str
        What starts it; it goes to the background by itself unless `foreground`.
    pid_file, log : Path
        Where it writes its process id (as seen in the lab) and its messages.
    ready : callable
        Whether it answers.
    foreground : bool
        It stays in the foreground, so whoever starts it must put it in the background.
    """

    role: str
    host: str
    command: tuple[str, ...]
    pid_file: Path
    log: Path
    ready: Callable[[], bool]
    foreground: bool = False


def _listens_at(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(str(path))
        except OSError:
            return False
    return True


def _answers(address: str, port: int) -> bool:
    try:
        with socket.create_connection((address, port), timeout=1):
            return True
    except OSError:
        return False


def daemons(layout: Layout) -> list[Daemon]:
    """All daemons in the order in which they are started."""
    return [
        *(_munged(layout), _mariadbd(layout), _slurmdbd(layout), _slurmctld(layout)),
        *(_slurmd(layout, node.name) for node in layout.nodes),
    ]


def _munged(layout: Layout) -> Daemon:
    command = (
        "munged",
        f"--socket={layout.munge_socket}",
        f"--key-file={layout.etc('munge.key')}",
        f"--pid-file={layout.run('munged.pid')}",
        f"--log-file={layout.log('munged')}",
        f"--seed-file={layout.run('munged.seed')}",
        "--num-threads=4",
        # A folder in a directory that others may write to is no reason to refuse: the key itself is 0400.
        "--force",
    )
    return Daemon(
        *("munged", LOGIN, command, layout.run("munged.pid"), layout.log("munged")),
        ready=lambda: _listens_at(layout.munge_socket),
    )


def _mariadbd(layout: Layout) -> Daemon:
    program = next((p for p in ("mariadbd", "mysqld") if shutil.which(p)), "mariadbd")
    command = (program, f"--defaults-file={layout.etc('mariadb.cnf')}")
    return Daemon(
        *("mariadbd", LOGIN, command, layout.run("mariadbd.pid"), layout.log("mariadbd")),
        ready=lambda: _listens_at(layout.database_socket),
        foreground=True,
    )


def _slurmdbd(layout: Layout) -> Daemon:
    return Daemon(
        *("slurmdbd", LOGIN, ("slurmdbd",), layout.run("slurmdbd.pid"), layout.log("slurmdbd")),
        ready=lambda: _answers(layout.login_address, SLURMDBD_PORT),
    )


def _slurmctld(layout: Layout) -> Daemon:
    # -i: a state that a crash cut short is no reason not to start.
    return Daemon(
        *("slurmctld", LOGIN, ("slurmctld", "-i"), layout.run("slurmctld.pid"), layout.log("slurmctld")),
        ready=lambda: _answers(layout.login_address, SLURMCTLD_PORT),
    )


def _slurmd(layout: Layout, node: str) -> Daemon:
    pid_file = layout.run(f"{node}.slurmd.pid")
    return Daemon(
        *(f"slurmd@{node}", node, ("slurmd", "-N", node), pid_file, layout.log(node)),
        ready=lambda: _is_written(pid_file),
    )


def holder(layout: Layout, host: str, lab: list[Process]) -> Process | None:
    """The process that holds the namespaces of a host."""
    if host == LOGIN:
        return next((process for process in lab if process.inner_pid == 1), None)
    return _from_pid_file(layout.run(f"{host}.pid"), f"holder@{host}", lab)


def tenants(layout: Layout, node: str, lab: list[Process]) -> list[Process]:
    """Everything that runs on a node but the holder of its namespaces: slurmd, its steps, their tasks."""
    own = holder(layout, node, lab)
    if own is None:
        return []
    found = []
    for process in lab:
        with contextlib.suppress(OSError):
            there = os.readlink(f"/proc/{process.pid}/ns/net") == os.readlink(f"/proc/{own.pid}/ns/net")
            # A process without environment is a zombie, or on its way.
            if there and process.pid != own.pid and environment_of(process.pid):
                found.append(process)
    return found


def _from_pid_file(file: Path, role: str, lab: list[Process]) -> Process | None:
    try:
        inner = int(file.read_text())
    except (OSError, ValueError):
        return None
    for process in lab:
        if process.inner_pid == inner and is_alive(process.pid):
            # The id may have been given to another process since.
            return process if environment_of(process.pid).get(ROLE) == role else None
    return None


def find(daemon: Daemon, lab: list[Process]) -> Process | None:
    """The process of a daemon, if it is alive."""
    return _from_pid_file(daemon.pid_file, daemon.role, lab)


def start(layout: Layout, daemon: Daemon, keeper: int) -> None:
    """Start a daemon; it need not be ready afterwards.

    Raises
    ------
    LabError
        Its host is gone, or it ended with an error at once.
    """
    host = holder(layout, daemon.host, members(keeper))
    if host is None:
        raise LabError(f"{daemon.host}: its namespaces are gone; run `slurm-topo lab down`, then `lab up`")
    daemon.pid_file.unlink(missing_ok=True)
    extra = {
        "SLURM_CONF": str(layout.etc("slurm.conf")),
        "MYSQL_UNIX_PORT": str(layout.database_socket),
    }
    environ = shell.clean_environment(layout.folder, daemon.role, extra)
    # The shell ends, so that process 1 of the lab becomes the parent of what stays.
    background = " &" if daemon.foreground else ""
    script = f'"$@" </dev/null >{daemon.log}.start 2>&1{background}'
    result = subprocess.run(
        shell.enter(host.pid, ["sh", "-c", script, "sh", *daemon.command]),
        env=environ,
        stdin=subprocess.DEVNULL,
        timeout=_START_SECONDS,
    )
    if result.returncode:
        raise LabError(f"{daemon.role}: did not start ({_complaint(daemon)}); see `slurm-topo lab logs`")


def _complaint(daemon: Daemon) -> str:
    for file in (Path(f"{daemon.log}.start"), daemon.log):
        try:
            text = file.read_text(errors="replace")
        except OSError:
            continue
        if text.strip():
            return shell.last_line(text)
    return "no message"


def _is_written(pid_file: Path) -> bool:
    """Whether the number is there: a daemon creates the file first and fills it a moment later."""
    try:
        return bool(pid_file.read_text().strip())
    except OSError:
        return False


def wait_ready(daemon: Daemon, keeper: int) -> None:
    """Wait until a daemon answers.

    Raises
    ------
    LabError
        It does not in time, or has ended.
    """

    def ended() -> str | None:
        # In this order: a daemon that has just written its pid file is in the list that is read after it.
        started = _is_written(daemon.pid_file)
        lab = members(keeper)
        return _complaint(daemon) if not lab or (started and find(daemon, lab) is None) else None

    shell.wait_until(daemon.ready, _START_SECONDS, daemon.role, ended)
