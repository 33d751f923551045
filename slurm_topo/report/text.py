"""Figures as people read them: short, with a unit, the origin marked."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from slurm_topo.report.values import MISSING, MODELLED, Value
from slurm_topo.units import format_size

# What stands behind a modelled figure, and in place of a missing one.
MODELLED_MARK, MISSING_MARK = "~", "-"
LEGEND = "~ modelled, - missing, everything else measured."


def costs_of_levels(origins: Iterable[tuple[str, str]]) -> str:
    """What the modelled costs rest on, in one line.

    Examples
    --------
    >>> costs_of_levels([("node", "assumed"), ("switch", "measured"), ("switch2", "measured")])
    'Costs of the levels: assumed for node; measured for switch, switch2.'
    """
    names: dict[str, list[str]] = {}
    for level, origin in origins:
        names.setdefault(origin, []).append(level)
    said = "; ".join(f"{origin} for {', '.join(levels)}" for origin, levels in sorted(names.items()))
    return f"Costs of the levels: {said}."


def seconds(value: float, like: float | None = None) -> str:
    """A span of time with three significant digits, in the unit that suits ``like`` (by default itself).

    Examples
    --------
    >>> [seconds(t) for t in (0.00012, 4.54, 300, 9000, 400000)]
    ['0.12 ms', '4.54 s', '5.00 min', '2.50 h', '4.63 d']
    >>> seconds(5400, like=9000)
    '1.50 h'
    """
    measure = abs(value if like is None else like)
    unit, size = next((unit, size) for limit, unit, size in _SPANS if measure < limit)
    return f"{digits(value / size)} {unit}"


_SPANS = (
    (1.0, "ms", 1e-3),
    (120.0, "s", 1.0),
    (7200.0, "min", 60.0),
    (172800.0, "h", 3600.0),
    (math.inf, "d", 86400.0),
)


def digits(value: float) -> str:
    """About three significant digits without an exponent, thousands separated.

    Examples
    --------
    >>> [digits(v) for v in (0.00123, 0.01234, 1.5, 45.67, 1234.5, 0)]
    ['0.0012', '0.012', '1.50', '45.7', '1,234', '0']
    """
    if value == 0:
        return "0"
    size = abs(value)
    if size < 0.0995:
        return f"{value:.{min(9, 1 - math.floor(math.log10(size)))}f}"
    places = 0 if size >= 99.95 else 1 if size >= 9.995 else 2
    return f"{value:,.{places}f}"


def percent(ratio: float) -> str:
    """A ratio in percent.

    Examples
    --------
    >>> percent(0.423), percent(-0.004), percent(-0.0001)
    ('42.3 %', '-0.4 %', '0.0 %')
    """
    # Adding 0.0 turns a negative zero into zero.
    return f"{round(ratio * 100, 1) + 0.0:.1f} %"


def number(value: float, unit: str) -> str:
    """A figure with its unit.

    Examples
    --------
    >>> number(1536, "B"), number(0.5, "ratio"), number(12.34, "node-h")
    ('1.5 KiB', '50.0 %', '12.3 node-h')
    """
    if unit == "s":
        return seconds(value)
    if unit == "B":
        return format_size(value)
    if unit == "ratio":
        return percent(value)
    return f"{digits(value)} {unit}"


def counted(n: int, noun: str) -> str:
    """A number of things.

    Examples
    --------
    >>> counted(1, "run"), counted(1200, "run")
    ('1 run', '1,200 runs')
    """
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def figure(value: Value, unit: bool = True, like: Value | None = None) -> str:
    """A value with unit and mark; a time in the unit that suits ``like``.

    Examples
    --------
    >>> figure(Value(2.0, "s", "modelled")), figure(Value(None, "s", "missing"))
    ('2.00 s~', '-')
    """
    if value.value is None or value.origin == MISSING:
        return MISSING_MARK
    if value.unit == "s" and like is not None and like.value is not None:
        shown = seconds(value.value, like.value)
    else:
        shown = number(value.value, value.unit) if unit else digits(value.value)
    return shown + (MODELLED_MARK if value.origin == MODELLED else "")


def interval(value: Value) -> str:
    """The interval of a value in short, empty where there is none.

    Examples
    --------
    >>> interval(Value(0.2, "ratio", "measured", 0.15, 0.25))
    '15.0 .. 25.0 %'
    """
    if value.low is None or value.high is None:
        return ""
    if value.unit == "ratio":
        return f"{value.low * 100:.1f} .. {value.high * 100:.1f} %"
    if value.unit in ("s", "B"):
        return f"{number(value.low, value.unit)} .. {number(value.high, value.unit)}"
    return f"{digits(value.low)} .. {digits(value.high)}"


def day(time: float) -> str:
    """The UTC date of a time.

    Examples
    --------
    >>> day(0)
    '1970-01-01'
    """
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d")


def clip(text: str, width: int) -> str:
    """The text, cut to the width with a mark where it is longer; control characters become blanks."""
    plain = "".join(c if c.isprintable() else " " for c in text)
    return plain if len(plain) <= width else plain[: width - 1] + "+"


def columns(
    header: Sequence[str], rows: Sequence[Sequence[str]], widths: Sequence[int], indent: int = 0
) -> list[str]:
    """Lines of a table: a positive width is left aligned, a negative one right aligned."""
    made = []
    for row in (header, *rows):
        cells = [
            clip(cell, abs(width)).ljust(width) if width > 0 else clip(cell, -width).rjust(-width)
            for cell, width in zip(row, widths, strict=True)
        ]
        made.append((" " * indent + " ".join(cells)).rstrip())
    return made
