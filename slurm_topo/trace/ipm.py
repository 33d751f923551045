"""Reports of IPM in full mode: XML whose hash entries name the partner of each call."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from slurm_topo.trace.graph_io import MOST_RANKS

_ELEMENT = re.compile(r"<(/?)(task|taskcopy|hash|hent)\b([^>]*)>")
_ATTRIBUTE = re.compile(r'(\w+)="([^"]*)"')
# What sends to the partner that its entry names; the receiver's entries tell the same messages again.
_SENDS = frozenset(
    ("send", "ssend", "rsend", "bsend", "isend", "issend", "irsend", "ibsend", "sendrecv", "sendrecv_replace")
)
_COLLECTIVES = frozenset(
    (
        *("barrier", "bcast", "reduce", "reduce_scatter", "scan", "gather", "gatherv", "scatter", "scatterv"),
        *("allgather", "allgatherv", "allreduce", "alltoall", "alltoallv"),
        *("ibcast", "ireduce", "iallreduce", "ialltoallv", "iscatterv"),
    )
)


@dataclass
class Report:
    """What a report tells.

    Attributes
    ----------
    ranks : int
        Size of MPI_COMM_WORLD.
    sends : dict
        (sender, partner as the report has it) -> [bytes, messages].
    collectives : Counter
        Calls by name, over all ranks.
    collective_bytes : float
        Bytes that ranks gave to collectives.
    translated : bool
        Whether partners are ranks of MPI_COMM_WORLD: IPM 2 notes the rank in the communicator of the call,
        and not which communicator that was.
    """

    ranks: int = 0
    sends: dict[tuple[int, int], list[float]] = field(default_factory=dict)
    collectives: Counter[str] = field(default_factory=Counter)
    collective_bytes: float = 0.0
    translated: bool = True


class IncompleteError(ValueError):
    """A whole report, written without what is needed."""


def is_ipm(head: bytes) -> bool:
    """Whether a file begins as a report of IPM does."""
    return head.lstrip().startswith(b"<") and (b"<ipm_job_profile" in head or b"<task ipm_version" in head)


def read_report(lines: Iterable[str]) -> Report:
    """The messages of all ranks.

    Not read as XML: command lines in these files are not escaped.

    Raises
    ------
    IncompleteError
        The report has no hash entries, or some ranks are only said to be like others.
    ValueError
        It is damaged: a task without an end, a rank without a task, an entry without its numbers.
    """
    report, seen, rank, hashes = Report(), set[int](), -1, 0
    for number, line in enumerate(lines, 1):
        for closing, name, rest in _ELEMENT.findall(line):
            values = dict(_ATTRIBUTE.findall(rest))
            if name == "taskcopy":
                raise IncompleteError("its ranks are clustered: some are only said to be like others")
            if name == "task" and not closing:
                if rank >= 0:
                    raise ValueError(f"line {number}: a task begins in another one")
                rank = _begin_task(report, values, number)
                if rank in seen:
                    raise ValueError(f"line {number}: rank {rank} has two tasks")
            elif name == "task":
                seen.add(rank)
                rank = -1
            elif name == "hash":
                hashes += not closing
            elif name == "hent" and not closing:
                if rank < 0:
                    raise ValueError(f"line {number}: an entry outside of any task")
                _take_entry(report, rank, values, number)
    _check_whole(report, seen, rank, hashes)
    return report


def _begin_task(report: Report, values: dict[str, str], number: int) -> int:
    rank, size = _count(values, "mpi_rank", number), _count(values, "mpi_size", number)
    if report.ranks not in (0, size) or rank >= size or size > MOST_RANKS:
        raise ValueError(f"line {number}: rank {rank} of {size} ranks does not fit with the others")
    report.ranks = size
    report.translated = report.translated and values.get("ipm_version", "").startswith("0.")
    return rank


def _take_entry(report: Report, rank: int, values: dict[str, str], number: int) -> None:
    call = values.get("call", "").lower().removeprefix("mpi_").removeprefix("mpe_")
    calls = _count(values, "count", number)
    if call in _COLLECTIVES:
        report.collectives[call] += calls
        report.collective_bytes += calls * _count(values, "bytes", number)
    if call not in _SENDS:
        return
    if re.fullmatch(r"-\d{1,12}", values.get("orank", "")):
        return  # MPI_PROC_NULL: nothing is sent
    partner, nbytes = _count(values, "orank", number), _count(values, "bytes", number)
    if partner >= report.ranks:
        raise ValueError(f"line {number}: partner {partner} in a world of {report.ranks} ranks")
    sums = report.sends.setdefault((rank, partner), [0.0, 0.0])
    sums[0] += float(calls) * nbytes
    sums[1] += calls


def _check_whole(report: Report, seen: set[int], rank: int, hashes: int) -> None:
    if rank >= 0:
        raise ValueError(f"it ends in the task of rank {rank}")
    missing = report.ranks - len(seen)
    if not seen or missing:
        raise ValueError(f"{missing or 'all'} ranks have no task")
    if not hashes:
        raise IncompleteError("it holds no hash entries, so nobody's partners")


def _count(values: dict[str, str], name: str, number: int) -> int:
    text = values.get(name, "")
    if not re.fullmatch(r"[0-9]{1,18}", text):
        raise ValueError(f"line {number}: {name} is {text!r}, no number")
    return int(text)
