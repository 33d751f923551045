"""Single values as Slurm prints them: sentinels, wrapped numbers and words become None."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

from slurm_topo.errors import InputError
from slurm_topo.units import parse_size, parse_time

# NO_VAL and INFINITE of 32 bits; those of 64 bits are too large for a number anyway. (65534 may be a number.)
_NO_VALUES = {2**32 - 2, 2**32 - 1}
_NO_WORDS = {
    "",
    "Unknown",
    "None",
    "N/A",
    "(null)",
    "INVALID",
    "Partition_Limit",
    "UNLIMITED",
    "None assigned",
}
# States of a job that may still change.
OPEN_STATES = {
    "PENDING",
    "RUNNING",
    "SUSPENDED",
    "REQUEUED",
    "RESIZING",
    "CONFIGURING",
    "COMPLETING",
    "STOPPED",
}


def number(text: Any) -> float | None:
    """A number that is none of Slurm's sentinels (and not negative, which is a sentinel that wrapped)."""
    if isinstance(text, dict):
        # JSON of 23.02 and later: {"set": true, "infinite": false, "number": 8}.
        return number(text.get("number")) if text.get("set") and not text.get("infinite") else None
    if text is None or isinstance(text, bool):
        return None
    try:
        value = float(text)
    except (TypeError, ValueError):
        return None
    if not 0 <= value < 2.0**63 or value in _NO_VALUES:
        return None
    return value


def count(text: Any) -> int | None:
    """A whole number that is none of Slurm's sentinels."""
    value = number(text)
    return None if value is None else int(value)


def seconds(text: Any) -> float | None:
    """A time span such as ``1-02:03:04`` or ``00:02.806``, None where it is none."""
    if not isinstance(text, str):
        return number(text)
    if text in _NO_WORDS:
        return None
    try:
        return parse_time(text)
    except InputError:
        return None


def size(text: Any) -> float | None:
    """Bytes of ``112488K``; None where it is no size."""
    if not isinstance(text, str) or text in _NO_WORDS:
        return None
    try:
        return parse_size(text.rstrip("cn"))
    except InputError:
        return None


def moment(text: Any) -> int | None:
    """Seconds since the epoch of ``2024-11-13T11:08:00`` (UTC), a number or a time with an offset."""
    if not isinstance(text, str):
        value = count(text)
        return value or None
    if text in _NO_WORDS:
        return None
    if text.isdigit():
        return int(text) or None
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        return None
    return int((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp())


def energy(text: Any) -> float | None:
    """Joules, None where Slurm does not measure them: it then writes 0, an empty field or a sentinel."""
    return number(text) or None


def state(text: Any) -> str:
    """A state in capitals: of ``CANCELLED by 1000`` the first word, of a list the first entry."""
    if isinstance(text, (list, tuple)):
        text = text[0] if text else ""
    words = str(text or "").upper().replace("+", " ").split()
    return words[0] if words else "UNKNOWN"


def tres(text: str) -> dict[str, str]:
    """Entries of ``billing=6,cpu=6,gres/gpu:a100=1,mem=10000M``; what is no entry is left out."""
    pairs = (part.partition("=") for part in text.split(","))
    return {name.strip(): value.strip() for name, equal, value in pairs if equal and name.strip()}


def gpus(text: str) -> int | None:
    """GPUs in a TRES string: the untyped number, else the sum of the typed ones; None where none is named."""
    entries = tres(text)
    if "gres/gpu" in entries:
        return count(entries["gres/gpu"])
    typed = [count(value) for name, value in entries.items() if re.match(r"^gres/gpu:", name)]
    return sum(t for t in typed if t is not None) if typed else None
