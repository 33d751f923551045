"""Read and write the cluster description (docs/formats-cluster.md): JSON, or TOML with the same keys."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from slurm_topo.errors import InputError, MachineError
from slurm_topo.hwloc.files import read_bounded
from slurm_topo.machine.cluster import ClassEntry, Cluster, hwloc_entry, synthetic_entry
from slurm_topo.machine.fabric import Fabric, Switch
from slurm_topo.machine.gpus import gpus_json, parse_gpus
from slurm_topo.machine.levels import ORIGINS, MeasuredLevel, is_level
from slurm_topo.machine.shape import INSIDE, MOST_CORES, NodeClass, from_counts, renumber
from slurm_topo.model import Level
from slurm_topo.output import write_output
from slurm_topo.units import expand_hostlist, fold_hostlist

FORMAT = "slurm-topo-cluster"
VERSION = 1
MOST_LINKS = 1 << 20
LARGEST_BYTES = 256 * 1024 * 1024
_TOP = ("format", "version", "name", "classes", "nodes", "switches", "levels", "meta")
_CLASS = (
    "hwloc",
    "sha256",
    "hardware",
    "synthetic",
    "sockets",
    "cores_per_socket",
    "threads_per_core",
    "resolved",
    "gpus",
    "meta",
)
_LEVEL = ("name", "latency_s", "bandwidth", "seconds_per_byte", "origin", "link_bandwidth", "links", "meta")


def read_cluster(path: str | os.PathLike[str]) -> Cluster:
    """The cluster that a description file describes.

    Raises
    ------
    MachineError
        The file is missing, unreadable, malformed, of another version, or contradicts itself.
    """
    file = Path(path)
    instead = "write it with `slurm-topo sync` or `slurm-topo machine import`"
    data = read_bounded(file, LARGEST_BYTES, "cluster description", instead)
    return parse_cluster(data, str(file), file.parent, toml=file.suffix == ".toml")


def parse_cluster(data: bytes, source: str, folder: Path, toml: bool = False) -> Cluster:
    """The cluster that the bytes of a description describe; hwloc paths in it are relative to ``folder``.

    Raises
    ------
    MachineError
        As :func:`read_cluster`.
    """
    try:
        raw = tomllib.loads(data.decode("utf-8-sig")) if toml else json.loads(data)
    except (ValueError, RecursionError) as error:
        kind = "TOML" if toml else "JSON"
        raise MachineError(f"{source}: is not valid {kind} ({error}); write it again") from error
    try:
        return _cluster(raw, source, folder, hashlib.sha256(data).hexdigest()[:16])
    except MachineError as error:
        if str(error).startswith(source):
            raise
        raise MachineError(f"{source}: {error}") from error
    except InputError as error:
        raise MachineError(f"{source}: {error}") from error


def _cluster(raw: Any, source: str, folder: Path, digest: str) -> Cluster:
    _keys(raw, _TOP, "the description")
    if raw.get("format") != FORMAT:
        raise MachineError(f'is no cluster description; its first key is "format": "{FORMAT}"')
    if raw.get("version") != VERSION:
        raise MachineError(
            f"is of version {raw.get('version')!r}, this program reads {VERSION}; upgrade slurm-topo"
        )
    classes = {
        name: _with_gpus(_class(name, entry, folder), entry, f"class {name}")
        for name, entry in _mapping(raw, "classes", "the description").items()
    }
    nodes: dict[str, str] = {}
    for entry in _list(raw, "nodes"):
        _keys(entry, ("names", "class"), "an entry of nodes")
        chosen = _string(entry, "class", "an entry of nodes")
        if chosen not in classes:
            raise MachineError(
                f"nodes {entry.get('names')}: class {chosen!r} is not described; add it to classes"
            )
        for host in expand_hostlist(_string(entry, "names", "an entry of nodes")):
            if host in nodes:
                raise MachineError(f"node {host}: described twice; remove one of the two")
            nodes[host] = chosen
    if not nodes:
        raise MachineError("has no node; add one to nodes")
    switches = [_switch(entry) for entry in _list(raw, "switches")]
    levels = tuple(_level(entry) for entry in _list(raw, "levels"))
    return Cluster(_string(raw, "name", "", ""), classes, nodes, Fabric(switches), levels, source, digest)


def _class(name: str, entry: Any, folder: Path) -> ClassEntry:
    what = f"class {name}"
    _keys(entry, _CLASS, what)
    given = [k for k in ("hwloc", "synthetic", "sockets") if k in entry]
    if len(given) != 1:
        raise MachineError(f"{what}: give one of hwloc, synthetic, or sockets (with cores_per_socket)")
    if given == ["sockets"]:
        counts = (
            _int(entry, "sockets", what),
            _int(entry, "cores_per_socket", what),
            _int(entry, "threads_per_core", what, 1),
        )
        return ClassEntry(from_counts(*counts), counts=counts)
    if given == ["synthetic"]:
        text = _string(entry, "synthetic", what)
        if "resolved" in entry:
            return ClassEntry(_resolved(entry["resolved"], what), synthetic=text)
        return synthetic_entry(text)
    return _hwloc_class(entry, what, folder)


def _with_gpus(entry: ClassEntry, raw: Mapping[str, Any], what: str) -> ClassEntry:
    """The class with the GPUs that the description names; what it names overrules hwloc."""
    gpus = parse_gpus(raw, what)
    return replace(entry, gpus=gpus) if gpus else entry


def _hwloc_class(entry: Mapping[str, Any], what: str, folder: Path) -> ClassEntry:
    """The resolved shape where it still belongs to the XML beside the description, else from the XML."""
    written = _string(entry, "hwloc", what)
    path = folder / written
    if "resolved" in entry:
        digest = _string(entry, "sha256", what)
        if not path.exists() or hashlib.sha256(path.read_bytes()).hexdigest() == digest:
            hardware = _string(entry, "hardware", what, "")
            return ClassEntry(_resolved(entry["resolved"], what), written, digest, hardware)
    return hwloc_entry(written, path)


def _resolved(raw: Any, what: str) -> NodeClass:
    _keys(raw, ("pus", "numa", "groups", "threads", "hbm"), f"{what}, resolved")
    numa, pus = raw.get("numa"), raw.get("pus")
    groups = _mapping(raw, "groups", f"{what}, resolved")
    lists = [numa, *groups.values()]
    if not all(isinstance(v, list) and all(type(i) is int for i in v) for v in lists):
        raise MachineError(f"{what}, resolved: numa and groups are lists of integers; remove resolved")
    if not isinstance(pus, list) or not all(
        isinstance(p, list) and all(type(i) is int and 0 <= i < MOST_CORES for i in p) for p in pus
    ):
        raise MachineError(f"{what}, resolved: pus is a list of lists of CPU numbers; remove resolved")
    hbm = raw.get("hbm") or []
    if not isinstance(hbm, list) or not all(
        isinstance(near, list) and all(type(i) is int and i >= 0 for i in near) for near in hbm
    ):
        raise MachineError(f"{what}, resolved: hbm is a list of lists of NUMA nodes; remove resolved")
    if len({len(v) for v in (pus, *lists, *([hbm] if hbm else []))}) != 1 or not 0 < len(pus) <= MOST_CORES:
        raise MachineError(f"{what}, resolved: its lists differ in length or are empty; remove resolved")
    unknown = [g for g in groups if g not in INSIDE]
    if unknown:
        raise MachineError(f"{what}, resolved: unknown level {unknown[0]!r}; known are {', '.join(INSIDE)}")
    ordered = sorted(groups.items(), key=lambda item: INSIDE.index(item[0]))
    for (inner, fine), (outer, coarse) in itertools.pairwise(ordered):
        if len(set(zip(fine, coarse, strict=True))) != len(set(fine)):
            raise MachineError(f"{what}, resolved: {inner} is not nested in {outer}; remove resolved")
    return NodeClass(
        tuple(tuple(p) for p in pus),
        tuple(numa or ()),
        tuple((g, renumber(v)) for g, v in ordered),
        max(_int(raw, "threads", f"{what}, resolved", 1), 1),
        tuple(tuple(near) for near in hbm),
    )


def _switch(entry: Any) -> Switch:
    _keys(entry, ("name", "nodes", "switches", "meta"), "an entry of switches")
    name = _string(entry, "name", "an entry of switches")
    what = f"switch {name}"
    return Switch(
        name,
        tuple(expand_hostlist(_string(entry, "nodes", what, ""))),
        tuple(expand_hostlist(_string(entry, "switches", what, ""))),
    )


def _level(entry: Any) -> Level:
    _keys(entry, _LEVEL, "an entry of levels")
    name = _string(entry, "name", "an entry of levels")
    what = f"level {name}"
    if not is_level(name):
        raise MachineError(f"{what}: unknown; known are {', '.join(INSIDE)}, node, switch, switch2 and so on")
    if ("bandwidth" in entry) == ("seconds_per_byte" in entry):
        raise MachineError(f"{what}: give one of bandwidth (B/s) and seconds_per_byte")
    if "bandwidth" in entry:
        bandwidth = _number(entry, "bandwidth", what)
        if bandwidth <= 0:
            raise MachineError(f"{what}: bandwidth = {bandwidth} is not above 0; write it in B/s")
        per_byte = 1.0 / bandwidth
    else:
        per_byte = _number(entry, "seconds_per_byte", what)
    origin = _string(entry, "origin", what, "given")
    if origin not in ORIGINS:
        raise MachineError(f"{what}: origin {origin!r} is unknown; it is one of {', '.join(ORIGINS)}")
    latency = _number(entry, "latency_s", what)
    link = _number(entry, "link_bandwidth", what) if "link_bandwidth" in entry else 0.0
    links = entry.get("links", 1)
    if type(links) is not int or not 0 < links <= MOST_LINKS:
        raise MachineError(f"{what}: links = {links!r} is no number of links; write 1 to {MOST_LINKS}")
    if "link_bandwidth" in entry and link <= 0:
        raise MachineError(f"{what}: link_bandwidth = {link} is not above 0; write it in B/s")
    if "links" in entry and "link_bandwidth" not in entry:
        raise MachineError(f"{what}: links without link_bandwidth; give both, or neither")
    if entry.get("meta"):
        meta = _mapping(entry, "meta", what)
        return MeasuredLevel(name, latency, per_byte, origin, link, links, meta)
    return Level(name, latency, per_byte, origin, link, links)


def _keys(raw: Any, known: Sequence[str], what: str) -> None:
    if not isinstance(raw, dict):
        raise MachineError(f"{what} is not a table of keys; see docs/formats-cluster.md")
    for key in raw:
        if key not in known:
            raise MachineError(f"{what}: unknown key {key!r}; known are {', '.join(known)}")


def _mapping(raw: Mapping[str, Any], key: str, what: str) -> dict[str, Any]:
    value = raw.get(key, {})
    if not isinstance(value, dict):
        raise MachineError(f"{what}: {key} is not a table of keys; see docs/formats-cluster.md")
    return value


def _list(raw: Mapping[str, Any], key: str) -> list[Any]:
    value = raw.get(key, [])
    if not isinstance(value, list):
        raise MachineError(f"{key} is not a list; see docs/formats-cluster.md")
    return value


def _string(raw: Mapping[str, Any], key: str, what: str, default: str | None = None) -> str:
    value = raw.get(key, default)
    if not isinstance(value, str):
        raise MachineError(f"{what}: {key} is missing or not a string; write it in quotes")
    return value


def _int(raw: Mapping[str, Any], key: str, what: str, default: int | None = None) -> int:
    value = raw.get(key, default)
    if type(value) is not int:
        raise MachineError(f"{what}: {key} is missing or not an integer; write for example 2")
    return value


def _number(raw: Mapping[str, Any], key: str, what: str) -> float:
    value = raw.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise MachineError(f"{what}: {key} is missing or no number from 0 up; write for example 1e-6")
    return float(value)


def cluster_json(cluster: Cluster) -> str:
    """The description as JSON, shapes resolved, so that a launch needs neither XML nor libhwloc."""
    document = {
        "format": FORMAT,
        "version": VERSION,
        "name": cluster.name,
        "classes": {name: _class_json(entry) for name, entry in cluster.classes.items()},
        "nodes": _node_runs(cluster.nodes),
        "switches": [_switch_json(s) for s in cluster.fabric.switches],
        "levels": [_level_json(level) for level in cluster.levels],
    }
    lines = [f"{json.dumps(k)}: {_block(v)}" for k, v in document.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _block(value: Any) -> str:
    """One line an entry: readable, and a diff shows what changed."""
    if isinstance(value, dict) and value:
        inner = ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in value.items())
        return "{\n" + inner + "\n}"
    if isinstance(value, list) and value:
        return "[\n" + ",\n".join(f"  {json.dumps(v)}" for v in value) + "\n]"
    return json.dumps(value)


def _class_json(entry: ClassEntry) -> dict[str, Any]:
    gpus = {"gpus": gpus_json(entry.gpus)} if entry.gpus else {}
    return {**_hardware_json(entry), **gpus}


def _hardware_json(entry: ClassEntry) -> dict[str, Any]:
    if entry.counts:
        return dict(zip(("sockets", "cores_per_socket", "threads_per_core"), entry.counts, strict=True))
    shape = entry.shape
    resolved = {
        "pus": [list(p) for p in shape.pus],
        "numa": list(shape.numa),
        "groups": {name: list(groups) for name, groups in shape.groups},
        "threads": shape.threads,
        **({"hbm": [list(near) for near in shape.hbm]} if shape.hbm else {}),
    }
    if entry.synthetic:
        return {"synthetic": entry.synthetic, "resolved": resolved}
    given = {"hwloc": entry.hwloc, "sha256": entry.sha256, "hardware": entry.hardware}
    return {**given, "resolved": resolved}


def _node_runs(nodes: Mapping[str, str]) -> list[dict[str, str]]:
    """Neighbours of one class in one entry; Slurm's order is kept."""
    runs: list[tuple[str, list[str]]] = []
    for host, name in nodes.items():
        if runs and runs[-1][0] == name:
            runs[-1][1].append(host)
        else:
            runs.append((name, [host]))
    return [{"names": ordered_hostlist(hosts), "class": name} for name, hosts in runs]


def ordered_hostlist(hosts: Iterable[str]) -> str:
    """A hostlist that expands to the names in this very order."""
    names = list(hosts)
    folded = fold_hostlist(names)
    return folded if expand_hostlist(folded) == names else ",".join(names)


def _switch_json(switch: Switch) -> dict[str, str]:
    entry = {"name": switch.name}
    if switch.nodes:
        entry["nodes"] = ordered_hostlist(switch.nodes)
    if switch.switches:
        entry["switches"] = ordered_hostlist(switch.switches)
    return entry


def _level_json(level: Level) -> dict[str, Any]:
    document: dict[str, Any] = {
        "name": level.name,
        "latency_s": level.latency_s,
        "seconds_per_byte": level.seconds_per_byte,
        "origin": level.origin,
    }
    if level.link_bandwidth:
        document.update(link_bandwidth=level.link_bandwidth, links=level.links)
    if isinstance(level, MeasuredLevel) and level.meta:
        document["meta"] = dict(level.meta)
    return document


def write_cluster(cluster: Cluster, path: str | os.PathLike[str]) -> None:
    """Write the description under a temporary name and rename it, readable by all.

    Raises
    ------
    InputError
        The folder is missing, not writable or full.
    """
    write_output(path, cluster_json(cluster).encode(), mode=0o644, sync=True, plain=True)
