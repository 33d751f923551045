"""Texts of other tools: read them, and tell which tool wrote them."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable

from slurm_topo.errors import MachineError
from slurm_topo.hwloc.files import read_bounded
from slurm_topo.machine.fabrics import (
    FabricText,
    is_ibnetdiscover,
    is_topology_conf,
    is_topology_yaml,
    parse_ibnetdiscover,
    parse_topology_conf,
    parse_topology_yaml,
)
from slurm_topo.machine.gpulinks import (
    is_gpu_list,
    is_nvlink_status,
    is_peer_matrix,
    is_rocm_topo,
    is_topo_matrix,
)

LARGEST_BYTES = 64 * 1024 * 1024


def read_text(path: str | os.PathLike[str]) -> str:
    """A text file, or standard input for ``-``; bytes that are no UTF-8 become replacement characters.

    Raises
    ------
    MachineError
        The file is missing, unreadable or larger than 64 MiB.
    """
    if str(path) == "-":
        return sys.stdin.buffer.read(LARGEST_BYTES).decode("utf-8-sig", "replace")
    data = read_bounded(path, LARGEST_BYTES, "output of a tool", "name another file")
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace")
    return data.decode("utf-8-sig", "replace")


def kind_of_text(text: str) -> str:
    """Which tool wrote a text.

    Returns
    -------
    str
        ``hwloc``, ``cluster``, ``nodes`` (scontrol show node), ``gres.conf``, ``topology.yaml``,
        ``topology.conf``, ``ibnetdiscover``, ``rocm-smi``, ``nvlink``, ``gpu-list``, ``p2p``, ``topo -m``.

    Raises
    ------
    MachineError
        It is none of these.
    """
    head = text.lstrip("\ufeff \t\r\n")[:400]
    if head.startswith("<") and ("<topology" in head or "<root" in head):
        return "hwloc"
    if head.startswith("{") and "slurm-topo-cluster" in head:
        return "cluster"
    tests: tuple[tuple[str, Callable[[str], bool]], ...] = (
        (
            "gres.conf",
            lambda t: bool(re.search(r"^[^#\n]*(?<!\w)Name=gpu\b", t, re.MULTILINE | re.IGNORECASE)),
        ),
        ("nodes", lambda t: bool(re.search(r"^\s*NodeName=\S+\s", t, re.MULTILINE))),
        ("topology.yaml", is_topology_yaml),
        ("topology.conf", is_topology_conf),
        ("ibnetdiscover", is_ibnetdiscover),
        ("rocm-smi", is_rocm_topo),
        ("nvlink", is_nvlink_status),
        ("gpu-list", is_gpu_list),
        ("p2p", is_peer_matrix),
        ("topo -m", is_topo_matrix),
    )
    for kind, fits in tests:
        if fits(text):
            return kind
    raise MachineError(
        "is no output that is known; it may be hwloc XML, scontrol show node, gres.conf, topology.conf, "
        "topology.yaml, scontrol show topology, ibnetdiscover, "
        "nvidia-smi topo -m | topo -p2p | nvlink -s | -L, or rocm-smi --showtopo"
    )


def parse_fabric(kind: str, text: str, topology: str = "") -> FabricText:
    """The fabric of a text of kind ``topology.yaml``, ``topology.conf`` or ``ibnetdiscover``.

    Raises
    ------
    MachineError
        The text is damaged, truncated or of another kind.
    """
    if kind == "topology.yaml":
        return parse_topology_yaml(text, topology)
    return parse_ibnetdiscover(text) if kind == "ibnetdiscover" else parse_topology_conf(text)


def one_line_a_node(text: str) -> str:
    """``scontrol show node`` as ``scontrol --oneliner show node`` would print it.

    Examples
    --------
    >>> one_line_a_node("NodeName=a Arch=x\\n   Sockets=2\\n\\nNodeName=b Arch=x\\n   Sockets=1\\n")
    'NodeName=a Arch=x Sockets=2\\nNodeName=b Arch=x Sockets=1'
    """
    lines: list[str] = []
    for line in text.replace("\r\n", "\n").split("\n"):
        if line.lstrip().startswith("NodeName="):
            lines.append(line.strip())
        elif lines and line.strip():
            lines[-1] += " " + line.strip()
    return "\n".join(lines)
