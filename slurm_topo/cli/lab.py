"""``slurm-topo lab``: a throwaway multi-node Slurm cluster on this machine."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from slurm_topo.lab import report
from slurm_topo.lab.cluster import Lab
from slurm_topo.lab.host import check_root
from slurm_topo.lab.options import LabOptions, default_cpus

_DEFAULTS = LabOptions()

folder_option = click.option(
    "--dir",
    "folder",
    envvar="SLURM_TOPO_LAB_DIR",
    default="lab",
    show_default="./lab",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder of the lab; several labs run beside each other.",
)
user_option = click.option(
    "--user", metavar="NAME", help="Run as this user of the machine, for example nobody."
)


@click.group()
def lab() -> None:
    """A throwaway multi-node Slurm cluster on this machine."""


def _as_root() -> None:
    """Start again under sudo when we are not root; LabError when it asks for a password."""
    if os.geteuid() != 0 and shutil.which("sudo") and _run("sudo", "-n", "true") == 0:
        # -P: nothing from the current directory runs as root.
        python = [sys.executable, "-P", "-m", "slurm_topo.cli.main"]
        os.execvp("sudo", ["sudo", "-n", "--preserve-env", *python, *sys.argv[1:]])
    check_root()


def _run(*command: str) -> int:
    return subprocess.run(command, capture_output=True).returncode


def _say(start: float) -> Callable[[str], None]:
    return lambda text: click.echo(f"[{time.monotonic() - start:5.1f} s] {text}", err=True)


@lab.command()
@folder_option
@click.option("--nodes", default=_DEFAULTS.nodes, show_default=True, help="Compute nodes.")
@click.option("--switches", default=_DEFAULTS.switches, show_default=True, help="Leaf switches.")
@click.option("--cpus", default=default_cpus, show_default="2", type=int, help="CPUs of each node.")
@click.option("--link-speed", default=_DEFAULTS.link_speed, show_default=True, help="Speed of node links.")
@click.option("--uplink-speed", default=_DEFAULTS.uplink_speed, show_default=True, help="Speed of uplinks.")
@click.option(
    "--memory", default=_DEFAULTS.memory, show_default=True, metavar="MIB", help="Memory of each node."
)
@click.option("--gpus", default=_DEFAULTS.gpus, show_default=True, help="GPUs of each node, for Slurm alone.")
@click.option(
    "--integrate/--plain", default=True, show_default=True, help="With slurm_topo, or a bare Slurm."
)
@click.option("--library-dir", default="", help="Where slurm_topo.so and the tracer are; empty: searched.")
def up(folder: Path, **options: Any) -> None:
    """Bring the lab up; one that runs already is left alone, or repaired."""
    _as_root()
    start = time.monotonic()
    cluster = Lab(folder)
    say = _say(start)
    started = cluster.up(LabOptions(**options), say)
    for line in report.notes(cluster):
        click.echo(f"note: {line}", err=True)
    if started:
        say("the lab is up")
    else:
        click.echo(f"{cluster.folder}: the lab runs already", err=True)
    click.echo(report.hints(cluster), err=True)


@lab.command()
@folder_option
@click.option("--purge", is_flag=True, help="Delete the folder, too: logs, accounting and history.")
def down(folder: Path, purge: bool) -> None:
    """Take the lab down; nothing is left but its folder."""
    _as_root()
    cluster = Lab(folder)
    ran = cluster.down(_say(time.monotonic()), purge)
    text = "the lab is down" if ran else "the lab did not run"
    click.echo(f"{cluster.folder}: {text}{'; the folder is deleted' if purge else ''}", err=True)


@lab.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@folder_option
@user_option
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def run(folder: Path, user: str | None, command: tuple[str, ...]) -> None:
    """Run COMMAND on the lab's login host and exit with its code: slurm-topo lab run -- srun -n8 hostname."""
    _enter(folder, user, list(command))


@lab.command()
@folder_option
@user_option
def shell(folder: Path, user: str | None) -> None:
    """Open a shell on the lab's login host."""
    _enter(folder, user, [os.environ.get("SHELL", "/bin/sh")])


def _enter(folder: Path, user: str | None, command: list[str]) -> None:
    _as_root()
    cluster = Lab(folder)
    argv = cluster.argv(command, user or os.environ.get("SUDO_USER"))
    sys.stdout.flush()
    os.execvpe(argv[0], argv, cluster.env)


@lab.command()
@folder_option
def env(folder: Path) -> None:
    """Print exports for this shell: eval "$(slurm-topo lab env)"."""
    for name, value in Lab(folder).exports().items():
        click.echo(f"export {name}={shlex.quote(value)}")


@lab.command()
@folder_option
@click.option("--format", "form", type=click.Choice(["table", "json"]), default="table", show_default=True)
def status(folder: Path, form: str) -> None:
    """Daemons, nodes, links, and where logs and databases are."""
    _as_root()
    values = report.status(Lab(folder))
    click.echo(json.dumps(values, indent=1) if form == "json" else report.table(values))


@lab.command()
@folder_option
@click.option("-n", "--lines", default=40, show_default=True, help="Lines from the end.")
@click.argument("name", required=False)
def logs(folder: Path, lines: int, name: str | None) -> None:
    """List the logs, or print the end of one (slurmctld, slurmdbd, mariadbd, munged, machine, n1 ...)."""
    click.echo(report.logs(Lab(folder), name, lines))
