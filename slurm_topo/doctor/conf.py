"""Slurm's configuration files as text: slurm.conf with what it includes, and the files beside it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from glob import glob
from pathlib import Path

from slurm_topo.units import expand_hostlist

_WORD = re.compile(r"([A-Za-z][\w.]*)\s*=\s*(\"[^\"]*\"|\S+)")
_MOST_DEPTH = 5


@dataclass(frozen=True)
class NodeLine:
    """What slurm.conf says of one node; names of fields in small letters."""

    name: str
    fields: Mapping[str, str]

    def number(self, key: str) -> int | None:
        """A whole number, None where it is not given or none."""
        digits = re.match(r"\d+", self.fields.get(key, ""))
        return int(digits[0]) if digits else None


@dataclass(frozen=True)
class SlurmConf:
    """slurm.conf, and the text of the files beside it (None: not there or not readable).

    Attributes
    ----------
    path : Path
        slurm.conf.
    values : mapping of str to str
        Settings by their name in small letters; of those given twice the last.
    nodes : tuple of NodeLine
        Nodes in the order of the file, with what NodeName=DEFAULT gives.
    beside : mapping of str to (str or None)
        gres.conf, topology.conf, cgroup.conf, job_submit.lua.
    errors : mapping of str to str
        Why a file could not be read.
    """

    path: Path
    values: Mapping[str, str]
    nodes: tuple[NodeLine, ...]
    beside: Mapping[str, str | None]
    errors: Mapping[str, str] = field(default_factory=dict)

    def get(self, key: str, default: str = "") -> str:
        """A setting by its name."""
        return self.values.get(key.lower(), default)

    def words(self, key: str) -> list[str]:
        """A setting that is a list with commas, in small letters."""
        return [word.strip().lower() for word in self.get(key).split(",") if word.strip()]

    def file(self, name: str) -> Path:
        """A file beside slurm.conf."""
        return self.path.with_name(name)


BESIDE = ("gres.conf", "topology.conf", "cgroup.conf", "job_submit.lua")


def read_slurm_conf(path: Path) -> SlurmConf:
    """slurm.conf and what lies beside it.

    Raises
    ------
    OSError
        slurm.conf itself cannot be read.
    """
    values: dict[str, str] = {}
    nodes: list[NodeLine] = []
    default: dict[str, str] = {}
    for line in _lines(path, 0):
        pairs = [(key.lower(), value.strip('"')) for key, value in _WORD.findall(line)]
        if not pairs:
            continue
        kind = pairs[0][0]
        if kind == "nodename":
            fields = dict(pairs[1:])
            if pairs[0][1].upper() == "DEFAULT":
                default.update(fields)
            else:
                nodes += [NodeLine(name, {**default, **fields}) for name in _names(pairs[0][1])]
        elif kind not in ("partitionname", "downnodes", "frontendname", "nodeset", "switchname"):
            values.update(pairs)
    beside: dict[str, str | None] = {}
    errors: dict[str, str] = {}
    for name in BESIDE:
        try:
            beside[name] = path.with_name(name).read_text(errors="replace")
        except OSError as error:
            beside[name], errors[name] = None, error.strerror or "cannot be read"
    return SlurmConf(path, values, tuple(nodes), beside, errors)


def _lines(path: Path, depth: int) -> Iterator[str]:
    """Lines without comments, continued ones joined, included files in their place."""
    text = path.read_text(errors="replace").replace("\\\n", " ")
    for raw in text.splitlines():
        line = raw.split("#")[0].strip()
        include = re.match(r"(?i)include\s+(\S+)", line)
        if not include:
            yield line
        elif depth < _MOST_DEPTH:
            for file in sorted(glob(str(path.parent / include[1]))):
                yield from _lines(Path(file), depth + 1)


def _names(text: str) -> list[str]:
    try:
        return list(expand_hostlist(text))
    except Exception:  # a name that Slurm itself would refuse
        return [text]


def pairs_of(text: str) -> dict[str, str]:
    """``Name=value`` lines of cgroup.conf and the like; names in small letters."""
    return {
        key.lower(): value.strip('"')
        for line in text.splitlines()
        for key, value in _WORD.findall(line.split("#")[0])
    }


@dataclass(frozen=True)
class PluginLine:
    """A line of plugstack.conf that names our plugin."""

    file: Path
    kind: str
    plugin: Path
    arguments: Mapping[str, str]


def read_plugstack(conf: SlurmConf) -> tuple[Path, list[PluginLine], str]:
    """plugstack.conf's path, its lines that name the plugin, and why it could not be read (or nothing)."""
    path = Path(conf.get("PlugStackConfig") or conf.file("plugstack.conf"))
    found: list[PluginLine] = []
    try:
        for file, line in _plugstack_lines(path, 0):
            words = line.split()
            if (
                len(words) >= 2
                and words[0] in ("required", "optional")
                and "slurm_topo" in Path(words[1]).name
            ):
                arguments = dict(word.partition("=")[::2] for word in words[2:])
                found.append(PluginLine(file, words[0], Path(words[1]), arguments))
    except OSError as error:
        return path, [], error.strerror or "cannot be read"
    return path, found, ""


def _plugstack_lines(path: Path, depth: int) -> Iterator[tuple[Path, str]]:
    for raw in path.read_text(errors="replace").splitlines():
        line = raw.split("#")[0].strip()
        if line.startswith("include") and depth < _MOST_DEPTH:
            for file in sorted(glob(str(path.parent / line.split(None, 1)[-1]))):
                yield from _plugstack_lines(Path(file), depth + 1)
        elif line:
            yield path, line
