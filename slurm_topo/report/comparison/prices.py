"""What node-hours, energy and carbon are worth: given by the site, never assumed."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slurm_topo.errors import InputError
from slurm_topo.report.comparison.method import read_toml

# Name: (unit, default range as a share where the file gives none).
NAMES = {
    "node_hour": "per node-hour",
    "core_hour": "per core-hour",
    "gpu_hour": "per GPU-hour",
    "kwh": "per kWh",
    "pue": "ratio",
    "carbon_g_per_kwh": "g CO2e per kWh",
    "node_power_w": "W per node",
    "node_price": "per node",
    "node_life_years": "years",
    "utilisation": "ratio",
}
_RANGE = 0.2


@dataclass(frozen=True)
class Price:
    """One input of the costs.

    Attributes
    ----------
    name, unit : str
        Key of the file, and what it is counted in (prices: in the currency of the file).
    value, low, high : float
        The figure, and the range for the sensitivity.
    source : str
        Where it comes from.
    assumed_range : bool
        The range is plus and minus 20 % because the file gives none.
    """

    name: str
    unit: str
    value: float
    low: float
    high: float
    source: str = ""
    assumed_range: bool = True


@dataclass(frozen=True)
class Prices:
    """All inputs of the costs that the site gave.

    Attributes
    ----------
    currency, date : str
        For example ``EUR`` and ``2026-11-01``; empty where no prices were given.
    prices : mapping of str to Price
        By name; what is not in it is missing.
    """

    currency: str = ""
    date: str = ""
    prices: dict[str, Price] = field(default_factory=dict)

    def get(self, name: str) -> float | None:
        """A figure, None where it is missing."""
        return self.prices[name].value if name in self.prices else None


def read_prices(path: str | Path) -> Prices:
    """The prices in a TOML file (docs/compare.md).

    Raises
    ------
    InputError
        The file cannot be read, a key is unknown, or a value is out of range.
    """
    return make_prices(read_toml(path), str(path))


def make_prices(values: dict[str, Any], origin: str) -> Prices:
    """Prices of these values, checked.

    Raises
    ------
    InputError
        A key is unknown, a value is out of range, or currency and date are missing.
    """
    texts = {name: values.get(name, "") for name in ("currency", "date")}
    for name, text in texts.items():
        if not text or not isinstance(text, str):
            raise InputError(
                f'{origin}: {name} is missing; write for example currency = "EUR", date = "2026-11-01"'
            )
    made = {}
    for name, value in values.items():
        if name in texts:
            continue
        if name not in NAMES:
            raise InputError(f"{origin}: unknown key {name!r}; known are currency, date, {', '.join(NAMES)}")
        made[name] = _price(name, value, origin)
    return Prices(texts["currency"], texts["date"], made)


def _price(name: str, value: Any, origin: str) -> Price:
    table = value if isinstance(value, dict) else {"value": value}
    unknown = set(table) - {"value", "low", "high", "source"}
    if unknown or "value" not in table:
        raise InputError(f"{origin}: {name}: keys are value, low, high and source; value must be there")
    figures = [table["value"], table.get("low"), table.get("high")]
    for figure in figures:
        good = figure is None or (isinstance(figure, int | float) and not isinstance(figure, bool))
        if not good or (figure is not None and not 0 <= figure < float("inf")):
            raise InputError(f"{origin}: {name} = {figure!r} is no number from 0 up; write for example 1.5")
    middle, low, high = figures
    floor = 1.0 if name == "pue" else 0.0
    if min(middle, floor if low is None else low) < floor:
        raise InputError(
            f"{origin}: pue is below 1; no site uses less than its computers: write for example 1.3"
        )
    bottom = max(middle * (1 - _RANGE), floor) if low is None else low
    top = middle * (1 + _RANGE) if high is None else high
    if not bottom <= middle <= top:
        raise InputError(f"{origin}: {name}: low <= value <= high does not hold ({bottom}, {middle}, {top})")
    assumed = low is None or high is None
    source = table.get("source", "")
    return Price(name, NAMES[name], float(middle), float(bottom), float(top), str(source), assumed)
