"""Graphs from traces of others: Open MPI's monitoring, IPM, OTF2, SimGrid's actions, matrices."""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np

from slurm_topo.errors import GraphError
from slurm_topo.model import CommGraph
from slurm_topo.trace.graph_io import MOST_RANKS, build_graph, is_graph, read_graph
from slurm_topo.trace.ipm import IncompleteError, is_ipm, read_report
from slurm_topo.trace.simgrid import Sends, read_actions

HEAD = 16384
_PROF = re.compile(r"^[EI]\t(\d+)\t(\d+)\t(\d+) bytes\t(\d+) msgs sent")
_PROF_NAME = re.compile(r"^(.*\.)(\d+)\.prof$")
_ACTION = re.compile(r"^\s*\d+\s+[a-zA-Z_]+(\s|$)")


def read_foreign(path: str | os.PathLike[str]) -> CommGraph:
    """The graph in a trace of another tool.

    Parameters
    ----------
    path
        One of the ``.prof`` files of Open MPI's monitoring (its sisters are found beside it) or their folder;
        a report of IPM in full mode; the anchor file of an OTF2 archive (``traces.otf2``) or its folder; a
        SimGrid time-independent trace (the list of its files, or one file with all actions); Matrix Market,
        SciPy ``.npz``, or a trace of our own.

    Raises
    ------
    GraphError
        The file is of another kind, or damaged.
    """
    file = Path(path)
    if file.is_dir():
        anchors, profiles = sorted(file.glob("*.otf2")), sorted(file.glob("*.prof"))
        if len(anchors) == 1 and not profiles:
            return _otf2(anchors[0])
        if not profiles or anchors:
            raise GraphError(
                f"{file}: holds no .prof file and no OTF2 archive, or both; give the files of one run"
            )
        return _monitoring(profiles)
    if file.suffix == ".prof":
        return _monitoring(_sisters(file))
    if file.suffix == ".otf2":
        return _otf2(file)
    head = _head(file)
    if is_graph(head):
        return read_graph(file)
    if is_ipm(head):
        return _ipm(file)
    if head.lstrip().startswith(b"@ mpiP"):
        raise GraphError(
            f"{file}: is a report of mpiP, which tells how much each call site sent and not to whom; "
            "trace the program with slurm-topo trace run"
        )
    return _simgrid(file)


def _head(file: Path) -> bytes:
    try:
        with file.open("rb") as stream:
            return stream.read(HEAD).removeprefix(codecs.BOM_UTF8)
    except OSError as error:
        raise GraphError(f"{file}: cannot be read ({error.strerror}); give a trace file") from error


def _lines(file: Path, encoding: str = "utf-8-sig") -> Iterator[str]:
    try:
        # utf-8-sig: editors of other systems put a byte order mark in front.
        with file.open(encoding=encoding) as stream:
            yield from stream
    except OSError as error:
        raise GraphError(f"{file}: cannot be read ({error.strerror}); give a trace file") from error
    except UnicodeDecodeError as error:
        raise GraphError(f"{file}: is no text; give a trace of a known kind") from error


def _sisters(file: Path) -> list[Path]:
    """All ranks' files of the run that a file belongs to."""
    match = _PROF_NAME.match(file.name)
    if not match:
        return [file]
    found = [p for p in file.parent.iterdir() if (m := _PROF_NAME.match(p.name)) and m[1] == match[1]]
    return sorted(found) or [file]


def _monitoring(files: Iterable[Path]) -> CommGraph:
    """E lines are point-to-point, I lines the messages of collectives (C lines tell the same again)."""
    rows: list[tuple[int, int, float, float, float]] = []
    size = 0
    for file in files:
        name = _PROF_NAME.match(file.name)
        size = max(size, int(name[2]) + 1 if name else 0)
        for line in _lines(file):
            match = _PROF.match(line)
            if not match:
                continue
            source, target, nbytes, messages = (int(g) for g in match.groups())
            size = max(size, source + 1, target + 1)
            rows.append((source, target, nbytes, messages, nbytes if line[0] == "I" else 0.0))
            if size > MOST_RANKS or nbytes >= 1 << 63:
                raise GraphError(f"{file}: is damaged ({line.strip()[:80]!r}); write it again")
    if not rows:
        raise GraphError("no message in the .prof files; run with --mca pml_monitoring_enable_output 3")
    table = np.array(rows)
    return build_graph(
        size,
        table[:, 0].astype(np.int32),
        table[:, 1].astype(np.int32),
        table[:, 2],
        table[:, 3],
        table[:, 4],
        {"origin": "Open MPI monitoring"},
    )


def _otf2(file: Path) -> CommGraph:
    from slurm_topo.trace.otf2_archive import read_archive

    _head(file)
    return read_archive(file)


def _ipm(file: Path) -> CommGraph:
    """Messages between two ranks; of collectives a report does not tell who sends to whom."""
    try:
        report = read_report(_lines(file, "latin-1"))
    except IncompleteError as error:
        raise GraphError(f"{file}: {error}; run the program again with IPM_LOG=full") from error
    except ValueError as error:
        raise GraphError(f"{file}: is a damaged report of IPM ({error}); write it again") from error
    pairs = np.array(list(report.sends), np.int32).reshape(-1, 2)
    sums = np.array(list(report.sends.values())).reshape(-1, 2)
    meta = {
        "origin": "IPM",
        "collective_calls": dict(sorted(report.collectives.items())),
        "collective_bytes": report.collective_bytes,
        "partners_of_world": report.translated,
    }
    return build_graph(report.ranks, pairs[:, 0], pairs[:, 1], sums[:, 0], sums[:, 1], None, meta)


def _simgrid(file: Path) -> CommGraph:
    """A list of files (relative to the list), or all actions in one."""
    first = [line for line in _lines(file) if line.strip()]
    if not first:
        raise GraphError(f"{file}: is empty; give a trace file")
    if _ACTION.match(first[0]):
        actions: list[str] = first
    else:
        actions = [line for name in first for line in _lines(file.parent / name.strip())]
    if not any(_ACTION.match(line) for line in actions):
        raise GraphError(f"{file}: is of no kind that is known; see slurm-topo trace import --help")
    sends = _checked(file, read_actions, actions)
    return build_graph(
        sends.ranks,
        np.array(sends.source, np.int32),
        np.array(sends.target, np.int32),
        np.array(sends.nbytes, np.float64),
        np.array(sends.messages, np.float64),
        np.array(sends.modelled, np.float64),
        {"origin": "SimGrid"},
    )


def _checked(file: Path, read: Callable[[list[str]], Sends], actions: list[str]) -> Sends:
    try:
        return read(actions)
    except (ValueError, IndexError) as error:
        raise GraphError(f"{file}: is a damaged time-independent trace ({error}); make it again") from error
