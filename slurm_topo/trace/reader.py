"""Trace files (docs/formats-trace.md): the counters of the ranks of one node."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slurm_topo.errors import GraphError
from slurm_topo.model import Floats

MAGIC = b"STTRACE\n"
RANK_MAGIC = b"STCOUNT\n"
VERSION = 1
BINS = 48
EPOCHS = 6
FLAG_SPAWNED, FLAG_OFF, FLAG_MEASURED = 1, 2, 4

_HEAD = np.dtype(
    [
        ("magic", "S8"),
        ("version", "<u4"),
        ("header_bytes", "<u4"),
        ("records", "<u4"),
        ("nodes", "<u4"),
        ("total_bytes", "<u8"),
        ("sum", "<u8"),
        ("weighted", "<u8"),
        ("start_ns", "<i8"),
        ("end_ns", "<i8"),
        ("skipped", "<u4"),
        ("flags", "<u4"),
        ("job", "S32"),
        ("step", "S32"),
        ("node", "S256"),
        ("keys", "S128"),
        ("plan", "S1024"),
        ("reason", "S128"),
        ("pad", "V376"),
    ]
)
_RANK = np.dtype(
    [
        ("magic", "S8"),
        ("version", "<u4"),
        ("header_bytes", "<u4"),
        ("slot_bytes", "<u4"),
        ("slots", "<u4"),
        ("rank", "<i4"),
        ("size", "<i4"),
        ("pid", "<u4"),
        ("state", "<u4"),
        ("thread_level", "<i4"),
        ("flags", "<u4"),
        ("start_ns", "<u8"),
        ("end_ns", "<u8"),
        ("wait_p2p_ticks", "<u8"),
        ("wait_coll_ticks", "<u8"),
        ("ticks_start", "<u8"),
        ("ticks_last", "<u8"),
        ("ns_start", "<u8"),
        ("ns_last", "<u8"),
        ("epoch_ns", "<u8"),
        ("epochs", "<u8"),
        ("foreign_messages", "<u8"),
        ("foreign_bytes", "<u8"),
        ("calls_p2p", "<u8"),
        ("calls_coll", "<u8"),
        ("calls_rma", "<u8"),
        ("spare", "<u8", (7,)),
        ("bins", "<u8", (BINS,)),
        ("cpus", "u1", (256,)),
        ("host", "S64"),
        ("world", "S64"),
        ("library", "S128"),
        ("executable", "S256"),
        ("script", "S256"),
        ("reason", "S128"),
        ("pad", "V288"),
    ]
)
_SLOT = np.dtype(
    [
        ("peer", "<u4"),
        ("reserved", "<u4"),
        ("p2p_messages", "<u8"),
        ("p2p_bytes", "<u8"),
        ("coll_messages", "<u8"),
        ("coll_bytes", "<u8"),
        ("out_messages", "<u8"),
        ("out_bytes", "<u8"),
        ("in_messages", "<u8"),
        ("in_bytes", "<u8"),
        ("epoch_bytes", "<u8", (EPOCHS,)),
        ("spare", "<u8"),
    ]
)


@dataclass(frozen=True, eq=False)
class RankTrace:
    """What one rank did.

    Attributes
    ----------
    rank, size : int
        In its MPI_COMM_WORLD, whose name (the same for all its ranks) is ``world``.
    host, executable, script, library : str
        Where and what ran; ``script`` is the first argument that is no option (what an interpreter runs).
    cpus : tuple of int
        OS numbers of the CPUs that the rank could run on when MPI_Init ended.
    spawned, finalized, measured : bool
        Started by MPI_Comm_spawn; came to the end of MPI_Finalize; collectives as the library itself reported
        them, not modelled.
    start_s, end_s : float
        MPI_Init and MPI_Finalize, seconds since the epoch; ``end_s`` is 0 where the program was ended before.
    wait_p2p_s, wait_coll_s : float
        Seconds inside blocking receives, waits and probes, and inside blocking collectives.
    phase_s : float
        Width of a phase (one of the six columns of ``epoch_bytes``), seconds.
    messages_of_size : float64 array, shape (48,)
        Point-to-point messages by size: bin b > 0 holds sizes 2**(b-1) .. 2**b - 1, bin 0 empty messages.
    reason : str
        Why counting stopped early; empty where it did not.
    sent : structured array, shape (partners,)
        ``peer`` and messages and bytes by kind: ``p2p_``, ``coll_`` (modelled, unless ``measured``), ``out_``
        (one-sided, to the peer), ``in_`` (one-sided, from the peer); ``epoch_bytes`` by phase.
    """

    rank: int
    size: int
    world: str
    host: str
    pid: int
    cpus: tuple[int, ...]
    executable: str
    script: str
    library: str
    thread_level: int
    spawned: bool
    finalized: bool
    measured: bool
    start_s: float
    end_s: float
    wait_p2p_s: float
    wait_coll_s: float
    phase_s: float
    collectives: int
    foreign_bytes: float
    messages_of_size: Floats
    reason: str
    sent: NDArray[Any]

    @property
    def program(self) -> str:
        """The script of an interpreter, else the executable; without its folder."""
        name = Path(self.executable).name
        return (
            Path(self.script).name
            if self.script and name.startswith(("python", "perl", "R", "julia"))
            else name
        )


@dataclass(frozen=True, eq=False)
class Trace:
    """One trace file: the ranks of one node in one step.

    Attributes
    ----------
    path, job, step, node, keys, plan : str
        Origin; empty where it is not known (a launch without Slurm).
    nodes : int
        Nodes of the step, 0 where not known.
    start_s, end_s : float
        The step, seconds since the epoch.
    skipped : int
        Counters that could not be read; ``reason`` tells why, where that is known.
    ranks : tuple of RankTrace
        In the order of (world, rank).
    """

    path: str
    job: str
    step: str
    node: str
    nodes: int
    keys: str
    plan: str
    start_s: float
    end_s: float
    skipped: int
    reason: str
    ranks: tuple[RankTrace, ...]


def is_trace(path: str | os.PathLike[str]) -> bool:
    """Whether the file begins as a trace does."""
    try:
        with Path(path).open("rb") as stream:
            return stream.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def read_trace(path: str | os.PathLike[str]) -> Trace:
    """One trace file.

    Raises
    ------
    GraphError
        The file is missing, of another format or version, truncated or corrupt.
    """
    file = Path(path)
    try:
        data = file.read_bytes()
    except OSError as error:
        raise GraphError(f"{file}: cannot be read ({error.strerror}); give a trace file") from error
    return parse_trace(data, str(file))


def parse_trace(data: bytes, source: str) -> Trace:
    """The trace in the bytes of a file; ``source`` names it in messages.

    Raises
    ------
    GraphError
        As :func:`read_trace`.
    """
    head = _checked_head(source, data)
    ranks, offset = [], _HEAD.itemsize
    for _ in range(int(head["records"])):
        record, offset = _record(source, data, offset)
        ranks.append(record)
    if offset != len(data):
        raise _damaged(source, "its records do not fill it")
    return Trace(
        path=source,
        job=_text(head["job"]),
        step=_text(head["step"]),
        node=_text(head["node"]),
        nodes=int(head["nodes"]),
        keys=_text(head["keys"]),
        plan=_text(head["plan"]),
        start_s=int(head["start_ns"]) / 1e9,
        end_s=int(head["end_ns"]) / 1e9,
        skipped=int(head["skipped"]),
        reason=_text(head["reason"]),
        ranks=tuple(sorted(ranks, key=lambda r: (r.world, r.rank))),
    )


def _damaged(file: str, what: str) -> GraphError:
    return GraphError(f"{file}: is a damaged trace ({what}); trace the program again")


def _checked_head(file: str, data: bytes) -> np.void:
    if not data.startswith(MAGIC):
        raise GraphError(f"{file}: is no trace; give a file of slurm-topo trace run or of the spool")
    if len(data) < _HEAD.itemsize:
        raise _damaged(file, f"{len(data)} bytes are less than its head")
    head: np.void = np.frombuffer(data, _HEAD, 1)[0]
    if head["version"] != VERSION or head["header_bytes"] != _HEAD.itemsize:
        raise GraphError(
            f"{file}: is a trace of version {head['version']}; this program reads version {VERSION}"
        )
    if head["total_bytes"] != len(data) or (len(data) - _HEAD.itemsize) % 8:
        raise _damaged(file, f"{len(data)} bytes instead of {head['total_bytes']}")
    words = np.frombuffer(data, "<u8", offset=_HEAD.itemsize)
    weights = np.arange(words.size, 0, -1, dtype=np.uint64)
    if (
        words.sum(dtype=np.uint64) != head["sum"]
        or (words * weights).sum(dtype=np.uint64) != head["weighted"]
    ):
        raise _damaged(file, "the checksum is wrong")
    return head


def _record(file: str, data: bytes, offset: int) -> tuple[RankTrace, int]:
    """The record at an offset, and where the next one begins."""
    if offset + _RANK.itemsize > len(data):
        raise _damaged(file, "a record is cut off")
    head = np.frombuffer(data, _RANK, 1, offset)[0]
    end = offset + _RANK.itemsize + int(head["slots"]) * _SLOT.itemsize
    if head["magic"] != RANK_MAGIC or head["slot_bytes"] != _SLOT.itemsize or end > len(data):
        raise _damaged(file, "a record is no rank")
    if not 0 <= head["rank"] < head["size"]:
        raise _damaged(file, f"rank {head['rank']} of {head['size']}")
    sent = np.frombuffer(data, _SLOT, int(head["slots"]), offset + _RANK.itemsize)
    if sent.size and int(sent["peer"].max()) >= int(head["size"]):
        raise _damaged(file, f"a partner of rank {head['rank']} is none of the {head['size']} ranks")
    return _rank_trace(head, sent), end


def _rank_trace(head: np.void, sent: NDArray[Any]) -> RankTrace:
    tick = _seconds_per_tick(head)
    if head["flags"] & FLAG_MEASURED:
        sent = _without_point_to_point(sent)
    return RankTrace(
        rank=int(head["rank"]),
        size=int(head["size"]),
        world=_text(head["world"]),
        host=_text(head["host"]),
        pid=int(head["pid"]),
        cpus=tuple(np.flatnonzero(np.unpackbits(head["cpus"], bitorder="little")).tolist()),
        executable=_text(head["executable"]),
        script=_text(head["script"]),
        library=_text(head["library"]),
        thread_level=int(head["thread_level"]),
        spawned=bool(head["flags"] & FLAG_SPAWNED),
        finalized=int(head["state"]) == 2,
        measured=bool(head["flags"] & FLAG_MEASURED),
        start_s=int(head["start_ns"]) / 1e9,
        end_s=int(head["end_ns"]) / 1e9,
        wait_p2p_s=int(head["wait_p2p_ticks"]) * tick,
        wait_coll_s=int(head["wait_coll_ticks"]) * tick,
        phase_s=int(head["epoch_ns"]) / 1e9,
        collectives=int(head["calls_coll"]),
        foreign_bytes=float(head["foreign_bytes"]),
        messages_of_size=head["bins"].astype(np.float64),
        reason=_text(head["reason"]),
        sent=sent,
    )


def _without_point_to_point(sent: NDArray[Any]) -> NDArray[Any]:
    """The library reports all messages: those of collectives are what is left of them."""
    left = sent.copy()
    for what in ("messages", "bytes"):
        both, own = sent[f"coll_{what}"], sent[f"p2p_{what}"]
        left[f"coll_{what}"] = np.where(both > own, both - own, 0)
    return left


def _seconds_per_tick(head: np.void) -> float:
    ticks = int(head["ticks_last"]) - int(head["ticks_start"])
    return (int(head["ns_last"]) - int(head["ns_start"])) / 1e9 / ticks if ticks > 0 else 0.0


def _text(field: bytes) -> str:
    return field.decode("utf-8", "replace")
