"""Pictures of the figures: bars, series, runs over time. Each returns one SVG of 360 units width."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from slurm_topo.model import Floats
from slurm_topo.report import svg
from slurm_topo.report.numbers import GroupFigures, LevelFigures
from slurm_topo.report.runs import Mask
from slurm_topo.report.text import day, digits, figure, percent, seconds
from slurm_topo.report.values import Value

WIDTH = 360.0
_WIDEST = 40.0


def level_bars(levels: Sequence[LevelFigures]) -> str:
    """Share of the bytes that meet at each level, before and after; innermost first."""
    totals = [
        sum(v.value or 0.0 for v in side) or 1.0
        for side in zip(*((x.before, x.after) for x in levels), strict=True)
    ]
    row, left, right = 34.0, 66.0, 106.0
    # The longest bar fills the place.
    shares = [(v.value or 0.0) / t for x in levels for v, t in zip((x.before, x.after), totals, strict=True)]
    wide = (WIDTH - left - right) / (max(shares, default=0.0) or 1.0)

    def body() -> Iterator[str]:
        for i, level in enumerate(levels):
            y = i * row
            yield svg.text(left - 8, y + 20, level.level, "t", "end")
            for j, (value, css) in enumerate(((level.before, "before"), (level.after, "after"))):
                top = y + 3 + j * 14
                if value.value is None:
                    yield svg.text(left + 2, top + 10, "not known", "s")
                    continue
                share = value.value / totals[j]
                yield svg.rect(left, top, wide * share, 11, css, f"{level.level}: {figure(value)}", 2)
                yield svg.text(left + wide * share + 5, top + 9.5, f"{percent(share)}  {figure(value)}", "s")
        yield svg.line(left, 0, left, len(levels) * row, "axis")

    return svg.picture(WIDTH, len(levels) * row, body(), "Bytes by level, before and after")


def reason_bars(reasons: Sequence[tuple[str, int]]) -> str:
    """Runs that were left alone, by reason."""
    most = max((count for _, count in reasons), default=1)
    row, left = 22.0, 118.0
    wide = WIDTH - left - 56

    def body() -> Iterator[str]:
        for i, (reason, count) in enumerate(reasons):
            y = i * row
            yield svg.text(left - 8, y + 14, reason[:18], "t", "end")
            yield svg.rect(left, y + 3, max(wide * count / most, 1), 14, "quiet", reason, 2)
            yield svg.text(left + wide * count / most + 6, y + 14, f"{count:,}", "t")

    return svg.picture(WIDTH, max(len(reasons), 1) * row, body(), "Runs left alone by reason")


def _axis(top: float, bottom: float, high: float, left: float) -> Iterator[str]:
    step = svg.nice_step(high, 4)
    for i in range(int(high / step) + 1):
        y = bottom - (bottom - top) * i * step / high
        yield svg.line(left, y, WIDTH, y, "rule")
        yield svg.text(left - 5, y + 3.5, f"{i * step:,.0f}" if step >= 1 else digits(i * step), "s", "end")


def run_series(points: Sequence[GroupFigures]) -> str:
    """Runs in each period: placed, and not."""
    high = max((p.runs for p in points), default=1) or 1
    top, bottom, left = 8.0, 138.0, 44.0
    slot = (WIDTH - left) / max(len(points), 1)

    def body() -> Iterator[str]:
        yield from _axis(top, bottom, high, left)
        for i, p in enumerate(points):
            wide = min(slot * 0.76, _WIDEST)
            x = left + (i + 0.5) * slot - wide / 2
            placed = (bottom - top) * p.placed / high
            rest = (bottom - top) * (p.runs - p.placed) / high
            hint = f"{p.name}: {p.placed:,} of {p.runs:,} runs placed"
            yield svg.rect(x, bottom - placed, wide, placed, "after", hint)
            yield svg.rect(x, bottom - placed - rest, wide, rest, "quiet", hint)
        yield from _names(points, left, slot, bottom)

    return svg.picture(WIDTH, bottom + 20, body(), "Runs over time, placed and not")


def saving_series(points: Sequence[GroupFigures]) -> str:
    """Node-hours saved in each period, with their interval."""
    tops = [max(p.saved.high or 0.0, p.saved.value or 0.0) for p in points]
    high, low = (
        max([*tops, 1e-9]),
        min([0.0, *(min(p.saved.low or 0.0, p.saved.value or 0.0) for p in points)]),
    )
    top, bottom, left = 8.0, 138.0, 44.0
    slot = (WIDTH - left) / max(len(points), 1)

    def at(value: float) -> float:
        return bottom - (bottom - top) * (value - low) / (high - low)

    def body() -> Iterator[str]:
        step = svg.nice_step(high - low, 4)
        for i in range(int(np.ceil(low / step)), int(np.floor(high / step)) + 1):
            yield svg.line(left, at(i * step), WIDTH, at(i * step), "rule")
            yield svg.text(left - 5, at(i * step) + 3.5, digits(i * step), "s", "end")
        for i, p in enumerate(points):
            if p.saved.value is None:
                continue
            x = left + (i + 0.5) * slot
            y = sorted((at(p.saved.value), at(0.0)))
            hint = f"{p.name}: {figure(p.saved)} saved"
            css = "good" if p.saved.value >= 0 else "bad"
            wide = min(slot * 0.76, _WIDEST)
            yield svg.rect(x - wide / 2, y[0], wide, y[1] - y[0], css, hint)
            if p.saved.low is not None and p.saved.high is not None:
                yield svg.line(x, at(p.saved.low), x, at(p.saved.high), "whisker", 0, hint)
        yield svg.line(left, at(0.0), WIDTH, at(0.0), "axis")
        yield from _names(points, left, slot, bottom)

    return svg.picture(WIDTH, bottom + 20, body(), "Node-hours saved over time")


def _names(points: Sequence[GroupFigures], left: float, slot: float, bottom: float) -> Iterator[str]:
    """Names below the axis, as many as fit; what the year or the day before them says already is left out."""
    every = max(1, int(np.ceil(len(points) * 62 / (WIDTH - left))))
    for i in range(0, len(points), every):
        name = points[i].name
        shown = name
        for cut in (11, 5):
            if i and len(name) > cut and name[:cut] == points[i - every].name[:cut]:
                shown = name[cut:]
                break
        # 2026-12-01 14:00 is too long for its place.
        x = left + (i + 0.5) * slot
        yield svg.text(
            min(x, WIDTH - 14), bottom + 14, shown[5:] if len(shown) > 10 else shown, "s", "middle"
        )


def run_times(start: Floats, elapsed: Floats, placed: Mask) -> str:
    """Time of each completed run of a program over the calendar, with the medians of both sides.

    Parameters
    ----------
    start, elapsed : float64 arrays, shape (n,)
        Seconds since the epoch; seconds.
    placed : bool array, shape (n,)
        Placed or not.
    """
    top, bottom, left = 8.0, 150.0, 52.0
    # A few very long runs must not press all others onto the axis.
    high = float(np.quantile(elapsed, 0.98)) * 1.1
    first, last = float(start.min()), float(start.max())
    span = (last - first) or 1.0

    def at(x: float, y: float) -> tuple[float, float]:
        return left + 4 + (WIDTH - left - 8) * (x - first) / span, max(
            bottom - (bottom - top) * y / high, top
        )

    def body() -> Iterator[str]:
        for i in range(5):
            y = bottom - (bottom - top) * i / 4
            yield svg.line(left, y, WIDTH, y, "rule")
            yield svg.text(left - 5, y + 3.5, seconds(high * i / 4, high), "s", "end")
        for x, y, one in zip(start, elapsed, placed, strict=True):
            hint = f"{day(x)}: {seconds(y)}, {'placed' if one else 'not placed'}"
            yield svg.dot(*at(float(x), float(y)), 2.2, "after dim" if one else "before dim", hint)
        for side, css in ((False, "before-line"), (True, "after-line")):
            mine = placed == side
            if mine.any():
                y = at(first, float(np.median(elapsed[mine])))[1]
                yield svg.line(left, y, WIDTH, y, css)
        yield svg.text(left, bottom + 14, day(first), "s")
        yield svg.text(WIDTH, bottom + 14, day(last), "s", "end")

    return svg.picture(WIDTH, bottom + 20, body(), "Time of each run, placed and not placed")


def forest(value: Value, low: float, high: float) -> str:
    """A saving and its interval on a common scale, small enough for a line of a table."""
    wide, middle = 130.0, 8.0

    def at(x: float) -> float:
        return 5 + (wide - 10) * (min(max(x, low), high) - low) / (high - low)

    def body() -> Iterator[str]:
        yield svg.line(at(0), 0, at(0), 16, "axis")
        if value.value is None:
            return
        css = "unsure"
        if value.low is not None and value.high is not None:
            css = "good" if value.low > 0 else "bad" if value.high < 0 else "unsure"
            yield svg.line(at(value.low), middle, at(value.high), middle, f"{css}-line", 2.5)
        yield svg.dot(at(value.value), middle, 4, css)

    return svg.picture(wide, 16, body(), f"saving {figure(value)}")
