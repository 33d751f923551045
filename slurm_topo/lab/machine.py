"""The ground a lab stands on: namespaces, switches, links. All of it goes when process 1 is killed."""

from __future__ import annotations

import signal
import subprocess
from functools import partial
from pathlib import Path

from slurm_topo.errors import LabError
from slurm_topo.lab import nodeconf, shell
from slurm_topo.lab.layout import MAX_LABS, Layout
from slurm_topo.lab.options import LabOptions
from slurm_topo.lab.processes import find_keepers, find_starters, is_alive, kill, members

_NAMESPACES = ["--mount", "--uts", "--ipc", "--net", "--propagation", "slave"]
_KEEPER = "while :; do sleep infinity & wait; done"
_SECONDS = 20
_NET = Path("/sys/class/net")


def start_keeper(folder: Path) -> int:
    """Start process 1 of a lab in new namespaces and return its id on this machine."""
    with (folder / "log" / "machine.log").open("wb") as log:
        process = subprocess.Popen(
            ["unshare", "--pid", "--fork", *_NAMESPACES, "--mount-proc", "sh", "-c", _KEEPER],
            env=shell.clean_environment(folder, "keeper"),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            start_new_session=True,
        )
    reason = (
        "its namespaces could not be made; root in a virtual machine or a privileged container can make them"
    )
    shell.wait_until(
        lambda: any(_is_ready(pid) for pid in find_keepers(folder)),
        _SECONDS,
        "lab",
        lambda: reason if process.poll() is not None else None,
    )
    return next(iter(find_keepers(folder)))


def _is_ready(keeper: int) -> bool:
    # Its shell runs: /proc has been mounted before.
    return any(process.inner_pid > 1 for process in members(keeper))


def connect(folder: Path, options: LabOptions, keeper: int) -> Layout:
    """Take the first number that is free on this machine and link the machine with the lab.

    The interface is the claim: the kernel lets only one lab have it, and takes it away with the lab.
    """
    for number in range(MAX_LABS):
        layout = Layout(folder, number, options)
        if shell.run(["ip", "-4", "route", "show", "root", layout.network]).stdout.strip():
            continue
        command = (
            f"ip link add {layout.host_interface} type veth peer name {nodeconf.HOST_PORT} netns {keeper}"
        )
        result = shell.run(command.split(), check=False)
        if result.returncode == 0:
            address = f"{layout.host_address}/24"
            shell.run(["ip", "link", "set", layout.host_interface, "alias", str(folder), "up"])
            shell.run(["ip", "addr", "add", address, "dev", layout.host_interface])
            return layout
        if "exists" not in result.stderr:
            raise LabError(
                f"{layout.host_interface}: cannot be made ({shell.last_line(result.stderr)}); "
                "the kernel needs network namespaces and veth"
            )
    raise LabError(f"{MAX_LABS} labs run already; take one down")


def make_login(layout: Layout, keeper: int) -> None:
    """Make the login host and the switches."""
    command = shell.enter(keeper, ["sh", "-c", nodeconf.login_script(layout)])
    shell.run(command, environ=shell.clean_environment(layout.folder), what="switches")


def make_nodes(layout: Layout, keeper: int) -> None:
    """Make the namespaces and links of all nodes."""
    log = layout.log("machine")
    for node in layout.nodes:
        script = f'"$@" </dev/null >>{log} 2>&1 &'
        unshare = ["unshare", *_NAMESPACES, "sh", "-c", nodeconf.node_script(layout, node)]
        shell.run(
            shell.enter(keeper, ["sh", "-c", script, "sh", *unshare]),
            environ=shell.clean_environment(layout.folder, f"holder@{node.name}"),
        )
    wanted = [layout.run(f"{node.name}.ready") for node in layout.nodes]
    failed = [layout.run(f"{node.name}.failed") for node in layout.nodes]
    shell.wait_until(
        lambda: all(path.exists() for path in wanted),
        _SECONDS,
        "nodes",
        lambda: _complaint(log) if any(path.exists() for path in failed) else None,
    )


def _complaint(log: Path) -> str:
    return shell.last_line(log.read_text(errors="replace"))


def destroy(folder: Path) -> None:
    """End every process of a lab and wait until the kernel has taken its namespaces and links away.

    Raises
    ------
    LabError
        A process does not go (it hangs in the kernel).
    """
    _end_processes(folder)
    # One that an `up` has left behind and that has not come to start process 1 yet; or it did so right now.
    starters = find_starters(folder)
    for starter in starters:
        kill(starter, signal.SIGKILL)
    if starters:
        _end_processes(folder)
    for interface in _interfaces(folder):
        try:
            shell.wait_until(partial(_gone_link, interface), _SECONDS, interface)
        except LabError:
            # Somebody outside holds the lab's namespaces open (an nsenter by hand): take at least the link.
            shell.run(["ip", "link", "delete", interface], check=False)


def _end_processes(folder: Path) -> None:
    for keeper in find_keepers(folder):
        # Whoever started process 1 reaps it and ends, too.
        rest = [*(process.pid for process in members(keeper)), *find_starters(folder)]
        kill(keeper, signal.SIGKILL)
        shell.wait_until(partial(_gone, rest), _SECONDS, "processes of the lab")


def _gone(pids: list[int]) -> bool:
    return not any(map(is_alive, pids))


def _gone_link(interface: str) -> bool:
    return not (_NET / interface).exists()


def _interfaces(folder: Path) -> list[str]:
    found = []
    for path in _NET.glob("stlab*"):
        try:
            alias = (path / "ifalias").read_text().strip()
        except OSError:
            continue
        if alias == str(folder):
            found.append(path.name)
    return found
