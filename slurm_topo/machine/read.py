"""``--machine`` of the command line: whatever it names, a :class:`slurm_topo.model.Machine`."""

from __future__ import annotations

import os
from pathlib import Path

from slurm_topo.errors import MachineError
from slurm_topo.machine.build import build_machine
from slurm_topo.machine.clusterfile import read_cluster
from slurm_topo.model import Machine


def read_machine(text: str, slots: str = "core") -> Machine:
    """The machine that a text names.

    Parameters
    ----------
    text : str
        ``tree:a1:...:ak/d1:...:dk``; path of a hwloc XML file or of a cluster description (JSON or TOML); or
        a hwloc synthetic string such as ``package:2 l3:4 core:8 pu:2``.
    slots : str
        ``core`` (one slot a core) or ``pu`` (one a hardware thread); without meaning for a tree.

    Raises
    ------
    MachineError
        The file cannot be read, or the text is nothing of these.
    """
    if text.startswith("tree:"):
        from slurm_topo.machine.tree import parse_tree

        return parse_tree(text)
    kind = kind_of(text)
    if kind == "cluster":
        return read_cluster(text).machine(slots=slots)
    # Imported here: a launch that needs no XML must not load libhwloc.
    from slurm_topo.hwloc import reader
    from slurm_topo.machine.local import node_class

    topology = reader.load_xml(text) if kind == "xml" else reader.load_synthetic(text)
    meta = {"source": text if kind == "xml" else f"synthetic {text}"}
    return build_machine([""], [node_class(topology)], [], {}, slots, meta)


def kind_of(text: str) -> str:
    """``cluster``, ``xml`` or ``synthetic``.

    Raises
    ------
    MachineError
        The text looks like a path and there is no such file.
    """
    path = Path(text)
    try:
        there = path.exists()
    except (OSError, ValueError):
        there = False
    if there:
        return "cluster" if path.suffix in (".json", ".toml") or _starts_with_brace(path) else "xml"
    if os.sep in text or path.suffix in (".xml", ".json", ".toml"):
        raise MachineError(f"{text}: no such file; name a hwloc XML file or a cluster description")
    return "synthetic"


def _starts_with_brace(path: Path) -> bool:
    try:
        with path.open("rb") as stream:
            return stream.read(64).lstrip()[:1] == b"{"
    except OSError:
        return False
