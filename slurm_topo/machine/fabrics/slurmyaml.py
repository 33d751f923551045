"""topology.yaml of Slurm 25.05 and later: several named topologies in one file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from slurm_topo.errors import MachineError
from slurm_topo.machine.fabric import Switch
from slurm_topo.machine.fabrics.common import FabricText, aggregate_blocks, hosts, without_doubles
from slurm_topo.machine.fabrics.yaml import load_yaml

SOURCE = "topology.yaml"


def is_topology_yaml(text: str) -> bool:
    """True for text that looks like topology.yaml."""
    return bool(re.search(r"^\s*-\s*topology\s*:", text, re.MULTILINE))


def parse_topology_yaml(text: str, topology: str = "") -> FabricText:
    """The switches or blocks of one topology of the file.

    Parameters
    ----------
    text : str
        The file.
    topology : str
        Name of the topology; by default the one with ``cluster_default: true``, else the first tree or block.

    Raises
    ------
    MachineError
        The file is malformed, has no such topology, or that topology is flat.
    """
    raw = load_yaml(text, SOURCE)
    if not isinstance(raw, list) or not all(isinstance(e, dict) and "topology" in e for e in raw):
        raise MachineError(f"{SOURCE}: is no list of '- topology: NAME'; see Slurm's topology.yaml")
    chosen = _choose(raw, topology)
    name = chosen["topology"]
    if isinstance(chosen.get("tree"), dict):
        switches: tuple[Switch, ...] = _tree(chosen["tree"], name)
    elif isinstance(chosen.get("block"), dict):
        switches = _blocks(chosen["block"], name)
    else:
        raise MachineError(
            f"{SOURCE}: topology {name} has no tree and no block: it is flat; name another topology"
        )
    kept, dropped = without_doubles(switches)
    others = [str(e["topology"]) for e in raw if e is not chosen]
    notes = (f"topology {name} of {len(raw)}, not {', '.join(others)}",) if others else ()
    return FabricText(SOURCE, kept, (*notes, *dropped))


def _choose(raw: list[dict[str, Any]], topology: str) -> dict[str, Any]:
    if topology:
        for entry in raw:
            if str(entry["topology"]) == topology:
                return entry
        known = ", ".join(str(entry["topology"]) for entry in raw)
        raise MachineError(f"{SOURCE}: has no topology {topology!r}; it has {known}")
    default = [entry for entry in raw if entry.get("cluster_default") is True]
    shaped = [entry for entry in raw if "tree" in entry or "block" in entry]
    return (default or shaped or raw)[0]


def _tree(tree: Mapping[str, Any], name: str) -> tuple[Switch, ...]:
    switches = []
    for entry in _entries(tree, "switches", "switch", name):
        switches.append(
            Switch(str(entry["switch"]), _hosts(entry.get("nodes")), _hosts(entry.get("children")))
        )
    return tuple(switches)


def _blocks(block: Mapping[str, Any], name: str) -> tuple[Switch, ...]:
    blocks = [(str(e["block"]), _hosts(e.get("nodes"))) for e in _entries(block, "blocks", "block", name)]
    sizes = block.get("block_sizes") or []
    sizes = sizes if isinstance(sizes, list) else [sizes]
    if not all(isinstance(size, int) and size > 0 for size in sizes):
        raise MachineError(f"{SOURCE}: block_sizes of {name} are not numbers from 1 up; correct them")
    return aggregate_blocks(blocks, sorted(set(sizes)))


def _entries(raw: Mapping[str, Any], key: str, word: str, name: str) -> list[dict[str, Any]]:
    entries = raw.get(key)
    if not isinstance(entries, list) or not all(
        isinstance(e, dict) and e.get(word) is not None for e in entries
    ):
        raise MachineError(
            f"{SOURCE}: {key} of {name} is no list of '- {word}: NAME'; see Slurm's topology.yaml"
        )
    return entries


def _hosts(value: Any) -> tuple[str, ...]:
    if isinstance(value, list):
        return tuple(name for item in value for name in hosts(SOURCE, str(item)))
    return hosts(SOURCE, "" if value is None else str(value))
