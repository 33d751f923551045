"""Slurm's times, sizes and hostlists: parse and format."""

from __future__ import annotations

import re
from collections.abc import Iterable

from slurm_topo.errors import InputError

_SIZE = re.compile(r"^(\d+(?:\.\d+)?)\s*([KMGTPE]?)(i?B?)$", re.IGNORECASE | re.ASCII)
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}
_TIME = re.compile(r"^(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?(?:\.(\d+))?$", re.ASCII)


def parse_size(text: str) -> float:
    """Bytes of a Slurm size such as ``512K``, ``1.5G`` or ``1024`` (powers of 1024).

    Raises
    ------
    InputError
        The text is no size.

    Examples
    --------
    >>> parse_size("1.5K")
    1536.0
    """
    match = _SIZE.match(text.strip())
    if not match:
        raise InputError(
            f"size {text!r}: not a number with an optional K, M, G, T, P or E; write for example 512M"
        )
    return float(match[1]) * 1024.0 ** _POWERS[match[2].upper()]


def format_size(nbytes: float) -> str:
    """Bytes for people, in binary units.

    Examples
    --------
    >>> format_size(1536)
    '1.5 KiB'
    """
    value = float(nbytes)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB", "PiB"):
        if abs(value) < 1024 or unit == "PiB":
            break
        value /= 1024
    return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"


def format_rate(bandwidth: float) -> str:
    """Bytes per second for people, in decimal units as links are sold, with three digits.

    Examples
    --------
    >>> format_rate(23.9e6), format_rate(4e9)
    ('23.9 MB/s', '4.00 GB/s')
    """
    value = float(bandwidth)
    for unit in ("B/s", "kB/s", "MB/s", "GB/s"):
        if abs(value) < 999.5 or unit == "GB/s":
            break
        value /= 1000
    digits = 0 if abs(value) >= 99.95 else 1 if abs(value) >= 9.995 else 2
    return f"{value:.{digits}f} {unit}"


def parse_time(text: str) -> float:
    """Seconds of a Slurm time: ``MM``, ``MM:SS``, ``HH:MM:SS``, ``D-HH``, ``D-HH:MM``, ``D-HH:MM:SS[.f]``.

    Raises
    ------
    InputError
        The text is no time.

    Examples
    --------
    >>> parse_time("1-02:03:04")
    93784.0
    """
    match = _TIME.match(text.strip())
    if not match:
        raise InputError(f"time {text!r}: not a Slurm time; write for example 90, 1:30:00 or 2-12:00:00")
    days, first, second, third, fraction = match.groups()
    parts = [int(p) for p in (first, second, third) if p is not None]
    if days is not None:
        hours, minutes, seconds = [*parts, 0, 0][:3]
    elif len(parts) == 3:
        hours, minutes, seconds = parts
    else:
        hours, (minutes, seconds) = 0, (*parts, 0)[:2]
    whole = ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds
    return whole + (float(f"0.{fraction}") if fraction else 0.0)


def _split_hostlist(text: str) -> list[str]:
    """Split at the commas that are not inside brackets."""
    parts, depth, start = [], 0, 0
    for i, char in enumerate(text):
        depth += (char == "[") - (char == "]")
        if depth not in (0, 1):
            raise InputError(f"hostlist {text!r}: brackets do not match; write for example n[1-4,7]")
        if char == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    if depth:
        raise InputError(f"hostlist {text!r}: a bracket is not closed; write for example n[1-4,7]")
    parts.append(text[start:])
    return [p for p in (part.strip() for part in parts) if p]


def _is_number(text: str) -> bool:
    """ASCII digits, not too many: isdigit() alone also takes superscripts, which int() does not."""
    return text.isascii() and text.isdigit() and len(text) <= 20


def _expand_range(text: str, whole: str) -> list[str]:
    low, dash, high = text.partition("-")
    if not _is_number(low) or (dash and (not _is_number(high) or int(high) < int(low))):
        raise InputError(f"hostlist {whole!r}: {text!r} is no range; write for example n[1-4,7]")
    if dash and int(high) - int(low) > 1_000_000:
        raise InputError(
            f"hostlist {whole!r}: {text!r} names more than a million hosts; write a smaller range"
        )
    return [str(i).zfill(len(low)) for i in range(int(low), int(high or low) + 1)]


def expand_hostlist(text: str) -> list[str]:
    """Host names of a Slurm hostlist, in order.

    Raises
    ------
    InputError
        Brackets or ranges are malformed.

    Examples
    --------
    >>> expand_hostlist("n[01-02,5],login")
    ['n01', 'n02', 'n5', 'login']
    """
    hosts: list[str] = []
    for part in _split_hostlist(text):
        names = [""]
        for piece in re.split(r"(\[[^\]]*\])", part):
            if piece.startswith("["):
                values = [v for r in piece[1:-1].split(",") for v in _expand_range(r.strip(), text)]
            else:
                values = [piece]
            names = [name + value for name in names for value in values]
        hosts.extend(names)
    return hosts


def fold_hostlist(hosts: Iterable[str]) -> str:
    """A short Slurm hostlist of the names, order of first appearance kept.

    Examples
    --------
    >>> fold_hostlist(["n1", "n2", "n3", "login"])
    'n[1-3],login'
    """
    groups: dict[tuple[str, int], list[int]] = {}
    order: list[tuple[str, int] | str] = []
    for host in hosts:
        match = re.match(r"^(.*?)([0-9]+)$", host)
        if not match:
            order.append(host)
            continue
        # A zero alone is a number; in front of others it is padding.
        width = len(match[2]) if match[2].startswith("0") and match[2] != "0" else 0
        key = (match[1], width)
        if key not in groups:
            groups[key] = []
            order.append(key)
        groups[key].append(int(match[2]))
    return ",".join(item if isinstance(item, str) else _fold_group(item, groups[item]) for item in order)


def _fold_group(key: tuple[str, int], numbers: list[int]) -> str:
    prefix, width = key
    pieces = fold_ints(numbers, width)
    return f"{prefix}{pieces}" if len(numbers) == 1 else f"{prefix}[{pieces}]"


def fold_ints(numbers: Iterable[int], width: int = 0) -> str:
    """A list such as ``0-3,8`` of the numbers, sorted, duplicates dropped.

    Examples
    --------
    >>> fold_ints([0, 1, 2, 8])
    '0-2,8'
    """
    ordered = sorted(set(numbers))
    runs: list[list[int]] = []
    for number in ordered:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(
        str(a).zfill(width) if a == b else f"{str(a).zfill(width)}-{str(b).zfill(width)}" for a, b in runs
    )


def expand_ints(text: str) -> list[int]:
    """Numbers of a list such as ``0-3,8`` (Linux CPU lists, Slurm's CPU_IDs).

    Raises
    ------
    InputError
        The text is no such list.

    Examples
    --------
    >>> expand_ints("0-2,8")
    [0, 1, 2, 8]
    """
    return [int(v) for part in text.split(",") if part.strip() for v in _expand_range(part.strip(), text)]
