"""The raw records behind a comparison, their digests, and what changed in them since."""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import numpy as np

from slurm_topo.errors import InputError
from slurm_topo.report.comparison.analysis import Analysis
from slurm_topo.report.comparison.selection import AFTER, BEFORE, REASONS
from slurm_topo.report.runs import Labels, Mask, Runs

# What was measured; every change of one of these changes the digest of the record.
RAW = (
    "row", "job", "program", "user", "account", "partition", "arm", "decision", "state", "start", "elapsed",
    "wait", "nodes", "cores", "gpus", "ranks", "energy", "size", "input", "clock", "load", "placed", "traced",
    "eligible",
)  # fmt: skip
DECIDED = ("side", "fate", "pair")
_CHUNK = 5_000


def _text(runs: Runs, name: str, rows: slice) -> list[str]:
    """A column as texts that are the same on every machine."""
    values = getattr(runs, name)
    if isinstance(values, Labels):
        return [values.names[code] for code in values.codes[rows]]
    part = values[rows]
    if part.dtype == bool:
        return ["1" if value else "0" for value in part.tolist()]
    if part.dtype.kind == "f":
        return ["" if value != value else repr(value) for value in part.tolist()]
    return [str(value) for value in part.tolist()]


class _Lines(list[str]):
    """What a csv writer writes, one line an entry."""

    def write(self, line: str) -> None:
        """Called by the writer, once a row."""
        self.append(line[:-1])


def raw_lines(runs: Runs) -> Iterator[str]:
    """Each record as one line of CSV without its end, in the order of the runs."""
    for first in range(0, len(runs), _CHUNK):
        part = slice(first, first + _CHUNK)
        lines = _Lines()
        columns = (_text(runs, name, part) for name in RAW)
        csv.writer(lines, lineterminator="\n").writerows(zip(*columns, strict=True))
        yield from lines


def digest_of_raw(runs: Runs) -> str:
    """SHA-256 over all raw records, one line each."""
    digest = hashlib.sha256()
    for line in raw_lines(runs):
        digest.update(line.encode() + b"\n")
    return digest.hexdigest()


def digest_of_assignment(runs: Runs, after: Mask) -> str:
    """SHA-256 over job and side of every run: what was fixed before a run began."""
    digest = hashlib.sha256()
    for row, job, side in zip(runs.row.tolist(), runs.job.tolist(), after.tolist(), strict=True):
        digest.update(f"{row},{job},{AFTER if side else BEFORE}\n".encode())
    return digest.hexdigest()


def digest_of_text(text: str) -> str:
    """SHA-256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def digest_of_file(path: Path) -> str:
    """SHA-256 of a file.

    Raises
    ------
    InputError
        It cannot be read.
    """
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); name another file") from error


def digest_of_code() -> str:
    """SHA-256 over the sources of the reports, so that a report names the code that made it."""
    digest = hashlib.sha256()
    for name, content in sorted(_sources("slurm_topo.report")):
        digest.update(name.encode() + b"\0" + content + b"\0")
    return digest.hexdigest()


def _sources(package: str) -> Iterator[tuple[str, bytes]]:
    for entry in resources.files(package).iterdir():
        if entry.name.endswith((".py", ".css")):
            yield f"{package}/{entry.name}", entry.read_bytes()
        elif entry.is_dir() and entry.joinpath("__init__.py").is_file():
            yield from _sources(f"{package}.{entry.name}")


def write_records(path: Path, runs: Runs, analysis: Analysis) -> str:
    """Write records.csv: every run, its fate, its partner and its digest; returns the SHA-256 of the file."""
    partner = np.full(len(runs), -1, dtype=np.int64)
    if analysis.pairs is not None:
        rows = analysis.rows
        partner[rows[analysis.pairs.after]] = runs.row[rows[analysis.pairs.before]]
    digest = hashlib.sha256()
    with path.open("wb") as stream:
        header = ",".join((*RAW, *DECIDED, "sha256")) + "\n"
        stream.write(header.encode())
        digest.update(header.encode())
        sides = analysis.selection.after.tolist()
        fates = analysis.selection.reason.tolist()
        for line, side, fate, pair in zip(raw_lines(runs), sides, fates, partner.tolist(), strict=True):
            own = hashlib.sha256(line.encode()).hexdigest()[:16]
            fate_word = "used" if fate < 0 else REASONS[fate]
            words = f"{AFTER if side else BEFORE},{fate_word},{pair if pair >= 0 else ''}"
            data = f"{line},{words},{own}\n".encode()
            stream.write(data)
            digest.update(data)
    return digest.hexdigest()


@dataclass(frozen=True)
class Difference:
    """A record that is not what it was."""

    row: str
    job: str
    what: str


def changed_records(path: Path, runs: Runs) -> list[Difference]:
    """Records of an earlier records.csv that changed, vanished or are new.

    Raises
    ------
    InputError
        The file cannot be read or is no records.csv.
    """
    before = _read_records(path)
    found = []
    for line in raw_lines(runs):
        fields = next(csv.reader([line]))
        old = before.pop(fields[0], None)
        if old is None:
            found.append(Difference(fields[0], fields[1], "is new"))
        elif old != fields:
            parts = [
                f"{name} {was or '(not known)'} -> {now or '(not known)'}"
                for name, was, now in zip(RAW, old, fields, strict=True)
                if was != now
            ]
            found.append(Difference(fields[0], fields[1], ", ".join(parts)))
    found += [Difference(row, old[1], "is gone") for row, old in before.items()]
    return found


def _read_records(path: Path) -> dict[str, list[str]]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:
            reader = csv.reader(stream)
            header = next(reader, [])
            if header != [*RAW, *DECIDED, "sha256"]:
                raise InputError(f"{path}: is no records.csv of this release; name the one of a comparison")
            rows = {}
            for fields in reader:
                if len(fields) != len(header):
                    raise InputError(f"{path}: line {reader.line_num} is not whole; restore the file")
                rows[fields[0]] = fields[: len(RAW)]
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); name another file") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: is no CSV ({error}); restore the file") from error
    return rows
