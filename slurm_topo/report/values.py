"""A number, its unit, its uncertainty, and where it comes from."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

MEASURED, MODELLED, MISSING = "measured", "modelled", "missing"


@dataclass(frozen=True)
class Value:
    """One figure of a report.

    Attributes
    ----------
    value : float or None
        The figure; None where it is missing.
    unit : str
        ``s``, ``B``, ``node-h``, ``J``, ``ratio`` ...
    origin : str
        ``measured`` (clocks and counters), ``modelled`` (computed with a model) or ``missing``.
    low, high : float or None
        95 % confidence interval; None where there are too few runs for one.
    n : int
        Observations behind the figure.
    """

    value: float | None
    unit: str
    origin: str = MEASURED
    low: float | None = None
    high: float | None = None
    n: int = 0

    @property
    def known(self) -> bool:
        """Whether there is a figure at all."""
        return self.value is not None

    def as_json(self) -> dict[str, Any]:
        """The value as a JSON object; keys without content are left out."""
        items: dict[str, Any] = {"value": self.value, "unit": self.unit, "origin": self.origin}
        if self.low is not None and self.high is not None:
            items["interval"] = [self.low, self.high]
        if self.n:
            items["n"] = self.n
        return items


def missing(unit: str) -> Value:
    """A figure that nobody knows."""
    return Value(None, unit, MISSING)


def known(
    value: float | None,
    unit: str,
    origin: str = MEASURED,
    n: int = 0,
    interval: tuple[float, float] | None = None,
) -> Value:
    """A figure, or :func:`missing` where ``value`` is None or no finite number."""
    if value is None or not math.isfinite(value):
        return missing(unit)
    low, high = interval if interval and all(map(math.isfinite, interval)) else (None, None)
    return Value(float(value), unit, origin, low, high, n)
