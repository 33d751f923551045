"""``ibnetdiscover``: the cables of an InfiniBand fabric, folded into a tree of switches."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from slurm_topo.errors import MachineError
from slurm_topo.machine.fabric import Switch
from slurm_topo.machine.fabrics.common import FabricText

SOURCE = "ibnetdiscover"
_HEAD = re.compile(r'^(Switch|Ca|Rt)\s+\d+\s+"([^"]+)"\s*(?:#\s*"([^"]*)")?')
_PORT = re.compile(r'^\[(\d+)\](?:\([0-9a-fA-F]+\))?\s+"([^"]+)"\[(\d+)\]')
# Descriptions of adapters that tell no host name.
_NAMELESS = re.compile(r"^(?:MT\d+|Mellanox|NVIDIA|ConnectX\S*)(?:\s|$)")


@dataclass
class _Device:
    kind: str
    guid: str
    description: str
    peers: list[str] = field(default_factory=list)


def is_ibnetdiscover(text: str) -> bool:
    """True for text that looks like the output of ibnetdiscover."""
    return bool(re.search(r'^(?:Switch|Ca)\s+\d+\s+"', text, re.MULTILINE))


def parse_ibnetdiscover(text: str) -> FabricText:
    """A tree of the switches that ibnetdiscover found.

    Raises
    ------
    MachineError
        There is no switch, or no switch has a host that tells its name, or cables end at devices that are not
        described (the text is truncated).

    Notes
    -----
    Hosts that hang on the same leaves (one a rail) form one group. Tier h joins what is connected through
    switches that are at most h cables away from a host; so the spines of a fat tree become one switch
    above its leaves.
    """
    devices = _read(text)
    switches = {guid: d for guid, d in devices.items() if d.kind == "Switch"}
    if not switches:
        raise MachineError(f"{SOURCE}: has no Switch; run it on a node that is on the fabric")
    lost = sorted({peer for d in devices.values() for peer in d.peers if peer not in devices})
    if lost:
        raise MachineError(
            f"{SOURCE}: a cable ends at {lost[0]}, which is not described: the text is truncated; "
            "use it whole"
        )
    hosts, nameless = _hosts(devices)
    if not hosts:
        raise MachineError(
            f"{SOURCE}: no adapter tells the name of its host; set node descriptions (rdma-ndd)"
        )
    names = _names(switches)
    groups = _rails(hosts)
    tree = _tree(switches, groups, names)
    notes = [f"{len(nameless)} adapters do not tell their host and are left out"] if nameless else []
    if any(len(leaves) > 1 for leaves in groups):
        notes.append("hosts with several adapters are grouped by the set of their leaf switches")
    return FabricText(SOURCE, tree, tuple(notes))


def _read(text: str) -> dict[str, _Device]:
    devices: dict[str, _Device] = {}
    current: _Device | None = None
    for line in text.replace("\r\n", "\n").split("\n"):
        head, port = _HEAD.match(line), _PORT.match(line)
        if head:
            current = devices.setdefault(head[2], _Device(head[1], head[2], (head[3] or "").strip()))
        elif port and current:
            current.peers.append(port[2])
        elif not line.strip():
            current = None
    return devices


def _hosts(devices: Mapping[str, _Device]) -> tuple[dict[str, set[str]], list[str]]:
    """Leaves of each named host, and adapters without a name."""
    leaves: dict[str, set[str]] = defaultdict(set)
    nameless = []
    # Cables are named at both ends; a truncated end must not lose a host.
    cables: dict[str, set[str]] = defaultdict(set)
    for device in devices.values():
        for peer in device.peers:
            cables[device.guid].add(peer)
            cables[peer].add(device.guid)
    for device in devices.values():
        if device.kind != "Ca":
            continue
        name = device.description.split()[0] if device.description.split() else ""
        if not name or _NAMELESS.match(device.description):
            nameless.append(device.guid)
            continue
        found = {peer for peer in cables[device.guid] if devices[peer].kind == "Switch"}
        if found:
            leaves[name] |= found
    return dict(leaves), nameless


def _names(switches: Mapping[str, _Device]) -> dict[str, str]:
    """Short and unique names: of ``MF0;name:MQM9701/U1`` the name, else the GUID."""
    short = {}
    for guid, device in switches.items():
        word = device.description.split(";")[-1].split(":")[0].strip()
        short[guid] = word if re.fullmatch(r"[\w.-]+", word) else guid
    counted = Counter(short.values())
    return {guid: name if counted[name] == 1 else f"{name}-{guid[-4:]}" for guid, name in short.items()}


def _rails(hosts: Mapping[str, set[str]]) -> dict[frozenset[str], list[str]]:
    """Hosts by their set of leaves; a host that misses some cables joins a group that has all of its own."""
    groups: dict[frozenset[str], list[str]] = defaultdict(list)
    for host, own in hosts.items():
        groups[frozenset(own)].append(host)
    for leaves in sorted(groups, key=len):
        wider = [other for other in groups if leaves < other]
        if wider:
            wider.sort(key=lambda other: (len(groups[other]), sorted(other)))
            groups[wider[-1]] += groups.pop(leaves)
    return {leaves: sorted(names, key=_natural) for leaves, names in groups.items()}


def _natural(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)]


def _tree(
    switches: Mapping[str, _Device], groups: Mapping[frozenset[str], list[str]], names: Mapping[str, str]
) -> tuple[Switch, ...]:
    ranks = _ranks(switches, {leaf for leaves in groups for leaf in leaves})
    found: list[Switch] = []
    # Members of a tier: the name of the subtree and the switches that it consists of.
    members: list[tuple[str, set[str]]] = []
    for leaves, hosts in sorted(groups.items(), key=lambda item: _natural(item[1][0])):
        label = "+".join(sorted((names[leaf] for leaf in leaves), key=_natural)[:2])
        label += f"+{len(leaves) - 2}" if len(leaves) > 2 else ""
        if any(switch.name == label for switch in found):
            label = f"{label}-{hosts[0]}"
        found.append(Switch(label, tuple(hosts)))
        members.append((label, set(leaves)))
    for tier in range(1, max(ranks.values(), default=1) + 1):
        allowed = {guid for guid, rank in ranks.items() if rank <= tier}
        members = _joined(members, allowed, switches, names, found, tier)
    return tuple(found)


def _ranks(switches: Mapping[str, _Device], leaves: set[str]) -> dict[str, int]:
    """Cables to the nearest leaf plus one."""
    ranks = dict.fromkeys(sorted(leaves), 1)
    edge = list(ranks)
    while edge:
        following = []
        for guid in edge:
            for peer in switches[guid].peers:
                if peer in switches and peer not in ranks:
                    ranks[peer] = ranks[guid] + 1
                    following.append(peer)
        edge = following
    return ranks


def _joined(
    members: list[tuple[str, set[str]]],
    allowed: set[str],
    switches: Mapping[str, _Device],
    names: Mapping[str, str],
    found: list[Switch],
    tier: int,
) -> list[tuple[str, set[str]]]:
    component = _components(allowed, switches)
    together: dict[str, list[tuple[str, set[str]]]] = defaultdict(list)
    for label, own in members:
        together[min(component[guid] for guid in own)].append((label, own))
    joined = []
    for root, group in together.items():
        if len(group) == 1:
            joined.append(group[0])
            continue
        inside = {guid for guid in allowed if component[guid] == root}
        label = _upper_name(inside - {g for _, own in group for g in own}, names, found, tier)
        found.append(Switch(label, (), tuple(name for name, _ in group)))
        joined.append((label, inside))
    return joined


def _upper_name(upper: Iterable[str], names: Mapping[str, str], found: list[Switch], tier: int) -> str:
    words = sorted((names[guid] for guid in upper), key=_natural)
    label = words[0] if len(words) == 1 else f"{words[0]}+{len(words) - 1}" if words else f"tier{tier}"
    taken = {switch.name for switch in found}
    number = 2
    unique = label
    while unique in taken:
        unique = f"{label}-{number}"
        number += 1
    return unique


def _components(allowed: set[str], switches: Mapping[str, _Device]) -> dict[str, str]:
    """The smallest GUID of the connected part that each switch is in."""
    component: dict[str, str] = {}
    for start in sorted(allowed):
        if start in component:
            continue
        component[start] = start
        edge = [start]
        while edge:
            guid = edge.pop()
            for peer in switches[guid].peers:
                if peer in allowed and peer not in component:
                    component[peer] = start
                    edge.append(peer)
    return component
