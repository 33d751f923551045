"""``slurm-topo machine capture``: this node as files, and what changed since the last time."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path

import click

from slurm_topo.hwloc import Topology, reader
from slurm_topo.machine import read_cluster
from slurm_topo.machine.hardware import differences, hardware_digest
from slurm_topo.machine.local import node_class
from slurm_topo.machine.read import kind_of
from slurm_topo.output import write_output

# What drivers print of the links between GPUs, and the name of the file beside the XML.
_TOOLS = {
    "topo.txt": ["nvidia-smi", "topo", "-m"],
    "nvlink.txt": ["nvidia-smi", "nvlink", "-s"],
    "gpus.txt": ["nvidia-smi", "-L"],
    "rocm.txt": ["rocm-smi", "--showtopo"],
    "amd.txt": ["amd-smi", "topology"],
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
    write_output(path, data)
    written = [str(path)]
    for suffix, command in _TOOLS.items():
        text = _ask(command)
        if text:
            beside = path.with_name(f"{path.stem}.{suffix}")
            write_output(beside, text)
            written.append(str(beside))
    click.echo(f"written: {' '.join(written)}", err=True)


def _ask(command: list[str]) -> bytes:
    """Output of a driver's tool; empty where there is none, or it fails: a node without GPUs is no error."""
    try:
        done = subprocess.run(command, capture_output=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return b""
    return done.stdout if done.returncode == 0 else b""


def compare_machine(before: str, node: str = "") -> int:
    """Print what changed since a capture, or against a cluster description; 0 where nothing did, else 1.

    Raises
    ------
    MachineError
        The capture cannot be read, or the description has no node of this name.
    """
    now = reader.load_this_machine()
    if kind_of(before) == "cluster":
        changes = _against_cluster(before, node or socket.gethostname().partition(".")[0], now)
    else:
        changes = differences(reader.load_xml(before), now)
    for change in changes:
        click.echo(change)
    return 1 if changes else 0


def _against_cluster(description: str, node: str, now: Topology) -> list[str]:
    """By the XML of the node's class where it is still there, else by digests."""
    cluster = read_cluster(description)
    shape = cluster.shape(node)
    entry = cluster.classes[cluster.nodes[node]]
    xml = Path(description).parent / entry.hwloc
    if entry.hwloc and xml.is_file():
        return differences(reader.load_xml(xml), now)
    if entry.hardware:
        return (
            []
            if entry.hardware == hardware_digest(now)
            else [f"{node}: the hardware is not that of its class"]
        )
    here = node_class(now)
    if entry.counts:
        expected, found = sum(map(len, shape.pus)), sum(map(len, here.pus))
        return [] if expected == found else [f"{node}: {expected} CPUs in the description, {found} here"]
    return [] if here.digest == shape.digest else [f"{node}: cores are not arranged as in its class"]
