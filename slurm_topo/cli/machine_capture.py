"""``slurm-topo machine capture``: this node as files, and what changed since the last time."""

from __future__ import annotations

import subprocess
from pathlib import Path

import click

from slurm_topo.errors import MachineError
from slurm_topo.hwloc import reader
from slurm_topo.machine.hardware import differences

# What drivers print of the links between GPUs, and the name of the file beside the XML.
_TOOLS = {
    "topo.txt": ["nvidia-smi", "topo", "-m"],
    "nvlink.txt": ["nvidia-smi", "nvlink", "-s"],
    "gpus.txt": ["nvidia-smi", "-L"],
    "rocm.txt": ["rocm-smi", "--showtopo"],
}
_SECONDS = 30


def capture_machine(output: str) -> None:
    """Write this machine's XML; where ``output`` names a file, the drivers' outputs beside it.

    Raises
    ------
    MachineError
        libhwloc cannot discover the machine, or the file cannot be written.
    """
    data = reader.export_this_machine()
    if not output:
        click.echo(data.decode(), nl=False)
        return
    path = Path(output)
    _write(path, data)
    written = [str(path)]
    for suffix, command in _TOOLS.items():
        text = _ask(command)
        if text:
            beside = path.with_name(f"{path.stem}.{suffix}")
            _write(beside, text)
            written.append(str(beside))
    click.echo(f"written: {' '.join(written)}", err=True)


def _write(path: Path, data: bytes) -> None:
    temporary = path.with_name(f".{path.name}.new")
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise MachineError(f"{path}: cannot be written ({error.strerror}); choose another place") from error


def _ask(command: list[str]) -> bytes:
    """Output of a driver's tool; empty where there is none, or it fails: a node without GPUs is no error."""
    try:
        done = subprocess.run(command, capture_output=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return b""
    return done.stdout if done.returncode == 0 else b""


def compare_machine(before: str) -> int:
    """Print what changed since a capture; 0 where nothing did, else 1."""
    changes = differences(reader.load_xml(before), reader.load_this_machine())
    for change in changes:
        click.echo(change)
    return 1 if changes else 0
