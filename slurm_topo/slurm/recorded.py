"""Accounting saved to a file: ``sacct -P`` with its header, ``sacct --json``, Standard Workload Format."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from slurm_topo.errors import InputError, SlurmError
from slurm_topo.slurm import values
from slurm_topo.slurm.sacct import FIELDS, AccountingRow, parse_sacct, parse_sacct_json

# Other names of the same column.
_ALIASES = {"AllocCPUS": "NCPUS", "AllocNodes": "NNodes"}
_NEEDED = ("JobIDRaw", "Submit", "State")
# Status of the Standard Workload Format, field 11.
_SWF_STATES = {0: "FAILED", 1: "COMPLETED", 2: "COMPLETED", 3: "COMPLETED", 4: "FAILED", 5: "CANCELLED"}
_SWF_FIELDS = 18


def read_accounting_file(path: str | os.PathLike[str]) -> Iterator[AccountingRow]:
    """Jobs and steps in a file; what it is, is seen from its first bytes.

    Times without an offset are taken as UTC: save with ``TZ=UTC sacct --parsable2 ...``.

    Raises
    ------
    InputError
        The file cannot be read, or is none of the three.
    """
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8-sig", errors="replace")
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror}); give a file of accounting") from error
    try:
        yield from _rows(text, file.stem)
    except SlurmError as error:
        raise InputError(f"{file}: {error}") from error


def _rows(text: str, name: str) -> Iterator[AccountingRow]:
    first = next((line for line in text.split("\n", 100) if line.strip()), "")
    if first.lstrip().startswith("{"):
        return parse_sacct_json(text)
    if first.startswith(";") or _is_swf(first):
        return parse_swf(text, name)
    return _parse_table(text)


def _is_swf(line: str) -> bool:
    words = line.split()[:_SWF_FIELDS]
    return len(words) == _SWF_FIELDS and all(re.fullmatch(r"-?\d+(\.\d+)?", word) for word in words)


def _parse_table(text: str) -> Iterator[AccountingRow]:
    """``sacct --parsable2``, with any delimiter, or ``--parsable`` (one more at the end of each line)."""
    header, _, body = text.partition("\n")
    found = re.match(r"^\w+([^\w\s]+|\t)\w", header)
    if not found:
        raise SlurmError(
            "is no accounting: its first line names no columns; save it with `sacct --parsable2`"
        )
    delimiter = found[1]
    fields = [_ALIASES.get(name, name) for name in header.strip("\r").split(delimiter)]
    missing = [name for name in _NEEDED if name not in fields]
    if missing:
        columns = ",".join(FIELDS)
        raise SlurmError(f"has no column {missing[0]}; save it with `sacct --parsable2 --format={columns}`")
    rows = parse_sacct(body.replace("\r\n", "\n"), fields, delimiter)
    if "ElapsedRaw" in fields:
        return rows
    return (replace(row, elapsed_s=_span(row)) for row in rows)


def _span(row: AccountingRow) -> float | None:
    return float(row.ended - row.started) if row.ended and row.started else None


def parse_swf(text: str, name: str = "") -> Iterator[AccountingRow]:
    """Jobs of a Standard Workload Format log.

    Parameters
    ----------
    text : str
        The log; lines with ``;`` are its header. Fields after the eighteenth are ignored.
    name : str
        Name of the cluster where the header has no ``Computer``.

    Raises
    ------
    SlurmError
        A line is no job.

    References
    ----------
    S. J. Chapin et al., Benchmarks and standards for the evaluation of parallel job schedulers, 1999,
    doi:10.1007/3-540-47954-6_4.
    """
    header = dict(re.findall(r"^;\s*(\w+):\s*(.*?)\s*$", text, re.MULTILINE))
    start = values.count(header.get("UnixStartTime")) or 0
    cluster = (header.get("Computer") or name)[:255]
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith(";"):
            continue
        if not _is_swf(line):
            raise SlurmError(
                f"line {number} has not {_SWF_FIELDS} numbers ({line[:40]!r}); correct or remove it"
            )
        yield _swf_row([float(word) for word in line.split()[:_SWF_FIELDS]], start, cluster)


def _swf_row(fields: list[float], start: int, cluster: str) -> AccountingRow:
    # -1 means that a value is not known.
    job, submit, wait, run, cpus, cpu_s, memory_kb, asked = (None if f < 0 else f for f in fields[:8])
    submitted = start + int(submit or 0)
    started = submitted + int(wait) if wait is not None else None
    ended = started + int(run) if started is not None and run is not None else None
    processors = cpus or asked
    user, group, program, queue, partition = (f"{f:.0f}" if f >= 0 else "" for f in fields[11:16])
    return AccountingRow(
        job=int(job or 0),
        step="",
        name=program,
        user=user,
        uid=None,
        account=group,
        partition=partition or queue,
        cluster=cluster,
        submitted=submitted,
        started=started,
        ended=ended if ended is not None else submitted,
        elapsed_s=run,
        state=_SWF_STATES.get(int(fields[10]), "UNKNOWN"),
        exit_code="",
        nodes=None,
        cpus=int(processors) if processors else None,
        tasks=None,
        gpus=None,
        node_list="",
        alloc_tres="",
        usage="",
        energy_j=None,
        max_rss=memory_kb * 1024 if memory_kb is not None else None,
        average_cpu_s=cpu_s,
        cpu_s=cpu_s * processors if cpu_s is not None and processors else None,
        admin_comment="",
        comment="",
    )
