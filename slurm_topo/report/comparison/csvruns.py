"""Runs from two CSV files: one of the time before, one of the time after."""

from __future__ import annotations

import csv
import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from slurm_topo.errors import InputError
from slurm_topo.report.runs import Labels, Program, Records, no_traffic, runs_of

REQUIRED = ("program", "user", "elapsed_s", "start")
# Column of the file: column of the runs.
NUMBERS = {
    "elapsed_s": "elapsed",
    "wait_s": "wait",
    "nodes": "nodes",
    "cores": "cores",
    "gpus": "gpus",
    "ranks": "ranks",
    "energy_j": "energy",
    "size": "size",
    "input": "input",
    "clock_ghz": "clock",
    "load": "load",
}
TEXTS = ("program", "user", "account", "partition", "state")
OTHERS = ("job", "start", "traced")
# Slurm's "no value" in 32 and 64 bits: not an energy.
_SENTINELS = (4294967294.0, 4294967295.0, 18446744073709551614.0, 18446744073709551615.0)


def read_csv_runs(before: str | Path, after: str | Path) -> Records:
    """Runs of both files; those of the second are the ones that were placed.

    Raises
    ------
    InputError
        A file cannot be read, a column is missing or unknown, a value is malformed.
    """
    sides = [_read(Path(path)) for path in (before, after)]
    rows = [row for side in sides for row in side]
    placed = [i for i, side in enumerate(sides) for _ in side]
    names: dict[tuple[str, str], int] = {}
    program = [names.setdefault((row["program"], row["user"]), len(names) + 1) for row in rows]
    columns: dict[str, Any] = {
        "row": np.arange(1, len(rows) + 1),
        "job": [int(row["job"]) if row.get("job") else i + 1 for i, row in enumerate(rows)],
        "program": program,
        "start": [row["start"] for row in rows],
        "traced": [bool(row["traced"]) for row in rows],
        "placed": placed,
        "eligible": np.ones(len(rows)),
        "arm": Labels(np.array(placed, dtype=np.int32), ("observe", "enforce")),
        "decision": Labels(np.array(placed, dtype=np.int32), ("none", "place")),
        "user": [row["user"] for row in rows],
        "account": [row.get("account", "") for row in rows],
        "partition": [row.get("partition", "") for row in rows],
        "state": [row.get("state") or "COMPLETED" for row in rows],
    }
    for name, column in NUMBERS.items():
        columns[column] = [row.get(name, math.nan) for row in rows]
    # A file without these columns has runs of one node and one size: equal numbers pair.
    for column in ("nodes", "ranks"):
        if all(math.isnan(v) for v in columns[column]):
            columns[column] = [1.0] * len(rows)
    known = {number: Program(number, name, user, "") for (name, user), number in names.items()}
    return Records(runs_of(columns), known, no_traffic())


def _read(path: Path) -> list[dict[str, Any]]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:
            reader = csv.DictReader(stream, strict=True)
            _check_header(path, reader.fieldnames or [])
            return [_row(path, reader.line_num, row) for row in reader]
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); name another file") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: is no CSV in UTF-8 ({error}); see docs/compare.md") from error


def _check_header(path: Path, header: Any) -> None:
    known = {*REQUIRED, *NUMBERS, *TEXTS, *OTHERS}
    lacking = [name for name in REQUIRED if name not in header]
    unknown = [name for name in header if name not in known]
    if lacking:
        raise InputError(f"{path}: column {lacking[0]} is missing; needed are {', '.join(REQUIRED)}")
    if unknown:
        raise InputError(f"{path}: unknown column {unknown[0]!r}; known are {', '.join(sorted(known))}")
    if len(set(header)) < len(header):
        raise InputError(f"{path}: a column stands twice; name every column once")


def _row(path: Path, line: int, row: dict[str, Any]) -> dict[str, Any]:
    where = f"{path}: line {line}"
    if None in row or None in row.values():
        raise InputError(f"{where}: has another number of fields than the header; correct it")
    made: dict[str, Any] = {name: row[name].strip() for name in TEXTS if name in row}
    if not made["program"] or not made["user"]:
        raise InputError(f"{where}: program or user is empty; name both")
    if made.get("state"):
        # "CANCELLED by 1000" is CANCELLED.
        made["state"] = made["state"].split()[0].upper()
    for name in NUMBERS:
        if name in row:
            made[name] = _number(where, name, row[name])
    if made.get("energy_j") in (0.0, *_SENTINELS):
        made["energy_j"] = math.nan
    if row.get("job") and not row["job"].strip().isdigit():
        raise InputError(f"{where}: job {row['job']!r} is no number; write Slurm's raw job id")
    made["job"] = (row.get("job") or "").strip()
    made["start"] = _start(where, row["start"])
    made["traced"] = (row.get("traced") or "0").strip() in ("1", "true", "yes")
    return made


def _number(where: str, name: str, text: str) -> float:
    if not text.strip():
        return math.nan
    try:
        value = float(text)
    except ValueError:
        raise InputError(
            f"{where}: {name} {text!r} is no number; leave it empty where it is unknown"
        ) from None
    if not math.isfinite(value) or value < 0:
        raise InputError(
            f"{where}: {name} {text!r} is no number from 0 up; leave it empty where it is unknown"
        )
    return value


def _start(where: str, text: str) -> float:
    """Seconds since the epoch of a number or an ISO date and time (UTC unless it names a zone)."""
    word = text.strip()
    try:
        return float(word)
    except ValueError:
        pass
    try:
        parsed = datetime.fromisoformat(word)
    except ValueError:
        raise InputError(
            f"{where}: start {text!r} is no time; write for example 2026-11-30T12:00:00"
        ) from None
    return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()
