"""What the options of ``slurm-topo place`` say in words: cores, fixed ranks, start placements."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from slurm_topo.cli.place_table import VERSION
from slurm_topo.errors import InputError, MachineError, PlacementError
from slurm_topo.machine.gpulinks.matrix import LinkMatrix
from slurm_topo.machine.gpuslots import GpuPlace
from slurm_topo.model import Machine
from slurm_topo.units import expand_ints

LARGEST_BYTES = 64 << 20
_PAIR = re.compile(r"\s*([0-9]{1,9})\s*[=\s]\s*([0-9]{1,9})\s*")


def read_cores(machine: Machine, texts: Sequence[str]) -> list[int] | None:
    """Cores of ``--cores``: ``0-15,32`` of the machine, or ``HOST:0-7`` of a node; None where none are given.

    Raises
    ------
    InputError
        A list is malformed, or there is no such node or core.
    """
    if not texts:
        return None
    found: set[int] = set()
    for text in texts:
        host, colon, listed = text.rpartition(":")
        numbers = expand_ints(listed)
        if not numbers:
            raise InputError(f"--cores {text!r}: no core; write for example 0-15,32 or n1:0-7")
        if colon:
            numbers = _of_node(machine, host, numbers)
        if max(numbers) >= machine.cores:
            raise PlacementError(
                f"--cores {text}: the machine has cores 0..{machine.cores - 1}; name cores of it"
            )
        found.update(numbers)
    return sorted(found)


def _of_node(machine: Machine, host: str, numbers: Sequence[int]) -> list[int]:
    if host not in machine.node_names or not host:
        known = ", ".join(machine.node_names[:5]) or "none"
        raise PlacementError(f"--cores {host}: the machine has no such node; it has {known} ...")
    own = np.flatnonzero(machine.node == machine.node_names.index(host))
    if max(numbers) >= own.size:
        raise PlacementError(f"--cores {host}: core {max(numbers)} of 0..{own.size - 1}; name cores of it")
    return [int(core) for core in own[list(numbers)]]


def read_gpu_machine(text: str, links: str | None) -> tuple[Machine, tuple[GpuPlace, ...]]:
    """The GPUs of a node's hwloc XML or of a cluster description as the places of a machine.

    Raises
    ------
    MachineError
        The machine is neither or has no GPUs, or the links are not of its nodes.
    """
    from slurm_topo.machine import read_cluster, read_machine
    from slurm_topo.machine.gpus import gpus_of_topology, with_links
    from slurm_topo.machine.gpuslots import gpu_machine
    from slurm_topo.machine.read import kind_of

    matrix = _links(links) if links else None
    kind = "tree" if text.startswith("tree:") else kind_of(text)
    if kind == "xml":
        from slurm_topo.hwloc import reader

        return gpu_machine(read_machine(text), [gpus_of_topology(reader.load_xml(text), matrix)])
    if kind != "cluster":
        raise MachineError(f"--gpus: {text} has no devices; name a hwloc XML file or a cluster description")
    cluster = read_cluster(text)
    gpus = [cluster.gpus(node) for node in cluster.nodes]
    return gpu_machine(cluster.machine(), [with_links(g, matrix) if matrix else g for g in gpus])


def _links(file: str) -> LinkMatrix:
    from slurm_topo.machine.gpulinks import is_rocm_topo, parse_rocm_topo, parse_topo_matrix

    text = _text(file, "--links")
    return parse_rocm_topo(text) if is_rocm_topo(text) else parse_topo_matrix(text)


def read_fixed(texts: Sequence[str]) -> dict[int, int]:
    """Rank to core of ``--fix``: ``RANK=CORE``, or a file with one ``RANK CORE`` a line (# begins a comment).

    Raises
    ------
    InputError
        A text is neither, a file cannot be read, or a rank is given twice.
    """
    fixed: dict[int, int] = {}
    for text in texts:
        pairs = [(text, text)]
        if not _PAIR.fullmatch(text):
            if "=" in text and not Path(text).exists():
                raise InputError(f"--fix {text!r}: is no RANK=CORE; write for example 0=12")
            lines = [line.split("#")[0] for line in _text(text, "--fix").splitlines()]
            pairs = [(line, f"{text}, line {i}") for i, line in enumerate(lines, 1) if line.strip()]
        for line, where in pairs:
            match = _PAIR.fullmatch(line)
            if not match:
                raise InputError(
                    f"--fix {where}: {line.strip()[:40]!r} is no RANK CORE; write for example 0 12"
                )
            rank, core = int(match[1]), int(match[2])
            if fixed.setdefault(rank, core) != core:
                raise InputError(f"--fix {where}: rank {rank} is on core {fixed[rank]} already; give it one")
    return fixed


def read_start(file: str | None) -> list[int] | None:
    """Core of each rank of ``--start``; see :func:`read_placement`."""
    return None if file is None else read_placement(file, "--start")


def read_placement(file: str, option: str) -> list[int]:
    """Core of each rank: what ``place --format json`` printed, or the cores in order of ranks.

    Raises
    ------
    InputError
        The file cannot be read, is neither, or of a later version.
    """
    text = _text(file, option)
    if text.lstrip().startswith("{"):
        try:
            document = json.loads(text)
            listed, version = document["placement"], document.get("version", VERSION)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise InputError(
                f"{option} {file}: holds no placement; give what place --format json printed"
            ) from error
        if version != VERSION:
            raise InputError(
                f"{option} {file}: is of version {version!r}, {VERSION} is read here; "
                "write it with this slurm-topo"
            )
    else:
        listed = [int(w) if re.fullmatch(r"[0-9]{1,9}", w) else w for w in re.split(r"[\s,]+", text) if w]
    if not isinstance(listed, list) or not listed or not all(map(_is_core, listed)):
        raise InputError(
            f"{option} {file}: is no list of cores; write the core of each rank, in order of ranks"
        )
    return listed


def _is_core(value: object) -> bool:
    """Whether it can be a number of a core, here or on another machine."""
    return type(value) is int and abs(value) < 1 << 31


def _text(file: str, option: str) -> str:
    try:
        with open(file, "rb") as stream:
            data = stream.read(LARGEST_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{option} {file}: cannot be read ({reason}); name a file that is there") from error
    if len(data) > LARGEST_BYTES:
        raise InputError(f"{option} {file}: is larger than 64 MiB; that is no placement")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{option} {file}: is no text; write numbers") from error
