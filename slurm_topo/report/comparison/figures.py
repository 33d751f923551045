"""Pictures of a comparison, in the SVG of :mod:`slurm_topo.report.svg`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from slurm_topo.model import Floats
from slurm_topo.report import svg
from slurm_topo.report.charts import WIDTH
from slurm_topo.report.text import digits
from slurm_topo.report.values import Value

if TYPE_CHECKING:
    from slurm_topo.report.comparison.result import Comparison

_BINS = 40


def histogram(difference: Floats, saving: Value) -> str:
    """Distribution of the paired differences as change of the time, with the interval of the median.

    Parameters
    ----------
    difference : float64 array, shape (m,)
        Differences of logarithms, after - before.
    saving : Value
        The effect with its interval.
    """
    low, high = (float(q) for q in np.quantile(difference, (0.01, 0.99)))
    low, high = min(low, -0.05), max(high, 0.05)
    counts, edges = np.histogram(np.clip(difference, low, high), bins=_BINS, range=(low, high))
    top, bottom, left, right = 6.0, 120.0, 8.0, WIDTH - 8.0

    def at(x: float) -> float:
        return left + (right - left) * (x - low) / (high - low)

    def body() -> Iterator[str]:
        if saving.low is not None and saving.high is not None:
            a, b = at(math.log1p(-saving.high)), at(math.log1p(-saving.low))
            yield svg.rect(a, top, b - a, bottom - top, "band")
        for count, one, other in zip(counts, edges, edges[1:], strict=False):
            tall = (bottom - top) * float(count) / float(counts.max())
            x, wide = at(float(one)), at(float(other)) - at(float(one))
            yield svg.rect(x + 0.4, bottom - tall, wide - 0.8, tall, "after", f"{count} pairs")
        yield svg.line(at(0), top, at(0), bottom, "axis")
        yield svg.line(left, bottom, right, bottom, "axis")
        if saving.value is not None:
            x = at(math.log1p(-saving.value))
            yield svg.line(x, top, x, bottom, "before-line")
        first, last = math.expm1(low), math.expm1(high)
        step = svg.nice_step((last - first) * 100, 6) / 100
        for i in range(math.ceil(first / step), math.floor(last / step) + 1):
            x = at(math.log1p(i * step))
            yield svg.line(x, bottom, x, bottom + 3, "axis")
            if left + 12 < x < right - 12:
                yield svg.text(x, bottom + 14, f"{i * step * 100:+.0f} %", "s", "middle")

    return svg.picture(WIDTH, bottom + 20, body(), "Paired differences of the time")


def tornado(c: Comparison) -> str:
    """Each amount with each input at both ends of its range."""
    # Amounts only: they have one unit.
    amounts = {line.name for line in c.costs.amounts}
    lines = [s for s in c.costs.sensitivity if s.name in amounts]
    row, left = 20.0, 172.0
    ends = [v for s in lines for v in (s.low, s.high)]
    low, high = min([0.0, *ends]), max([0.0, *ends])
    span = (high - low) or 1.0

    def at(x: float) -> float:
        return left + (WIDTH - left - 50) * (x - low) / span

    def body() -> Iterator[str]:
        for i, s in enumerate(lines):
            y = i * row
            a, b = sorted((s.low, s.high))
            name = s.name.removeprefix("by ").removesuffix(" and energy")
            yield svg.text(left - 8, y + 13, f"{name}: {s.input}", "s", "end")
            yield svg.rect(at(a), y + 4, max(at(b) - at(a), 1), 12, "after", f"{digits(a)} .. {digits(b)}", 2)
            yield svg.text(at(b) + 5, y + 13, digits(b), "s")
        yield svg.line(at(0), 0, at(0), len(lines) * row, "axis")

    return svg.picture(WIDTH, len(lines) * row + 4, body(), "Sensitivity of the amounts")
