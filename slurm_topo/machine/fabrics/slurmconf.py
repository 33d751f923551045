"""topology.conf (tree and block) and ``scontrol show topology``."""

from __future__ import annotations

import re

from slurm_topo.errors import MachineError
from slurm_topo.machine.fabric import Switch
from slurm_topo.machine.fabrics.common import FabricText, aggregate_blocks, hosts, without_doubles

_PAIR = re.compile(r"(\w+)\s*=\s*(\S+)")
_KNOWN = {
    "switchname",
    "switches",
    "nodes",
    "level",
    "linkspeed",
    "blockname",
    "blocksizes",
    "blocksize",
    "blockindex",
    "aggregatedblock",
}
_PRINTED = {"level", "blockindex", "aggregatedblock"}


def is_topology_conf(text: str) -> bool:
    """True for text that looks like topology.conf or ``scontrol show topology``."""
    return bool(re.search(r"^\s*(?:SwitchName|BlockName)\s*=", text, re.MULTILINE | re.IGNORECASE))


def parse_topology_conf(text: str) -> FabricText:
    """The switches or blocks of a topology.conf, or of what scontrol prints of one.

    Raises
    ------
    MachineError
        A line is no list of ``Key=Value``, a key is unknown, a name is missing, or there is no switch at all.
    """
    source = "topology.conf"
    switches: list[Switch] = []
    blocks: list[tuple[str, tuple[str, ...]]] = []
    sizes: list[int] = []
    for number, fields in _lines(text):
        if "level" in fields or "blockindex" in fields:
            source = "scontrol show topology"
        if "switchname" in fields:
            below = hosts(source, fields.get("switches", ""))
            # scontrol lists all nodes below an upper switch; they belong to the leaves.
            nodes = () if below else hosts(source, fields.get("nodes", ""))
            switches.append(Switch(fields["switchname"], nodes, below))
        elif "blockname" in fields:
            blocks.append((fields["blockname"], hosts(source, fields.get("nodes", ""))))
        elif "aggregatedblock" in fields:
            sizes.append(_size(fields.get("blocksize", "0"), number))
        if "blocksizes" in fields:
            sizes = [_size(part, number) for part in fields["blocksizes"].split(",")]
        elif "blocksize" in fields and not sizes:
            sizes = [_size(fields["blocksize"], number)]
    if blocks and switches:
        raise MachineError(f"{source}: has switches and blocks; keep the lines of the topology plugin in use")
    if blocks:
        switches = list(aggregate_blocks(blocks, sorted(set(sizes))))
    if not switches:
        raise MachineError(f"{source}: has no SwitchName and no BlockName; name a topology.conf")
    kept, dropped = without_doubles(switches)
    return FabricText(source, _declared(kept), dropped)


def _lines(text: str) -> list[tuple[int, dict[str, str]]]:
    found = []
    joined = re.sub(r"\\[ \t]*\r?\n", lambda m: " \x00", text)
    number = 0
    for line in joined.split("\n"):
        number += 1 + line.count("\x00")
        plain = line.replace("\x00", " ").partition("#")[0].strip()
        if not plain:
            continue
        if plain.lower().startswith("include "):
            raise MachineError(
                f"topology.conf, line {number}: {plain[:60]!r}; paste the included file in its place"
            )
        fields = {key.lower(): value for key, value in _PAIR.findall(plain)}
        rest = _PAIR.sub("", plain).strip()
        if rest or not fields:
            raise MachineError(
                f"topology.conf, line {number}: {(rest or plain)[:60]!r} is no Key=Value; correct it"
            )
        unknown = set(fields) - _KNOWN
        # What scontrol prints is Slurm's own word: a later version may say more there.
        if unknown and not fields.keys() & _PRINTED:
            raise MachineError(f"topology.conf, line {number}: unknown key {sorted(unknown)[0]!r}; remove it")
        found.append((number, fields))
    return found


def _size(text: str, number: int) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise MachineError(
            f"topology.conf, line {number}: block size {text!r} is no number from 1 up; correct it"
        )
    return int(text)


def _declared(switches: tuple[Switch, ...]) -> tuple[Switch, ...]:
    names = {switch.name for switch in switches}
    for switch in switches:
        lost = [child for child in switch.switches if child not in names]
        if lost:
            raise MachineError(
                f"topology.conf: switch {switch.name} has {lost[0]} below it, which has no line of its own: "
                "the file is truncated; use the whole file"
            )
    return switches
