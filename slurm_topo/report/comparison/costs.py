"""What was avoided, in hours, energy, carbon and money; and what the intervention itself took."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from slurm_topo.model import Floats
from slurm_topo.report.comparison.analysis import Analysis
from slurm_topo.report.comparison.baseline import covariates, fit
from slurm_topo.report.comparison.effect import make_pairs, median_interval, total_interval
from slurm_topo.report.comparison.prices import Price, Prices
from slurm_topo.report.comparison.selection import select
from slurm_topo.report.runs import Labels, Runs
from slurm_topo.report.values import MEASURED, MODELLED, Value, known, missing

_JOULES_PER_KWH = 3.6e6
_HOURS_PER_YEAR = 8766.0
# Fewer traced runs tell nothing about the tracer.
_FEWEST_TRACED = 4


@dataclass(frozen=True)
class Line:
    """One figure of the costs, with how it came about.

    Attributes
    ----------
    name : str
        What it is.
    value : Value
        The figure; avoided is positive.
    how : str
        Its formula in words.
    """

    name: str
    value: Value
    how: str


@dataclass(frozen=True)
class Sensitivity:
    """A figure of the costs at the low and the high end of one input."""

    name: str
    input: str
    low_input: float
    high_input: float
    low: float
    high: float
    assumed_range: bool
    unit: str


@dataclass(frozen=True)
class Costs:
    """All costs of a comparison.

    Attributes
    ----------
    quantities : tuple of Line
        Node-, core-, GPU-hours, energy at the nodes and at the meter, carbon.
    amounts : tuple of Line
        Money by node-hour, core-hour, GPU-hour, energy, and depreciation with energy. They are alternatives:
        never add them up.
    intervention : tuple of Line
        What placing itself took: launches, tracing, added wait.
    sensitivity : tuple of Sensitivity
        Energy, carbon and each amount with one input changed.
    """

    quantities: tuple[Line, ...]
    amounts: tuple[Line, ...]
    intervention: tuple[Line, ...]
    sensitivity: tuple[Sensitivity, ...]


def costs_of(runs: Runs, analysis: Analysis, prices: Prices) -> Costs:
    """Costs of a comparison at the prices that were given."""
    hours = _hours(runs, analysis)
    measured = {line.name: line.value for line in hours} | {_ENERGY: _energy(runs, analysis)}
    energy = _energy_line(measured, prices)
    by_name = measured | {_ENERGY: energy.value}
    return Costs(
        quantities=(*hours, energy, *_meter(by_name, prices)),
        amounts=_amounts(by_name, prices),
        intervention=_intervention(runs, analysis),
        sensitivity=_sensitivity(measured, prices),
    )


_ENERGY = "energy at the nodes"


def _hours(runs: Runs, analysis: Analysis) -> tuple[Line, ...]:
    hours = "sum over the runs after of (adjusted baseline - measured time) x "
    return (
        Line("node-hours", analysis.avoided, hours + "nodes"),
        Line("core-hours", _resource(runs, analysis, runs.cores, "core-h"), hours + "cores"),
        Line("GPU-hours", _resource(runs, analysis, runs.gpus, "GPU-h"), hours + "GPUs"),
    )


def _energy_line(measured: dict[str, Value], prices: Prices) -> Line:
    """Measured where it was, else from the power of a node."""
    power = prices.get("node_power_w")
    if not measured[_ENERGY].known and power is not None:
        modelled = _scaled(measured["node-hours"], power / 1000.0, "kWh", MODELLED)
        return Line(_ENERGY, modelled, "node-hours avoided x node power")
    how = "baseline model fitted on the joules of the runs before; only runs whose energy was measured"
    return Line(_ENERGY, measured[_ENERGY], how)


def _resource(runs: Runs, analysis: Analysis, count: Floats, unit: str) -> Value:
    """Avoided hours of another resource than nodes; missing where its number is not known."""
    if analysis.baseline is None:
        return missing(unit)
    rows = analysis.rows[analysis.selection.after[analysis.rows]]
    held = count[rows]
    if not np.isfinite(held).all() or not (held > 0).any():
        return missing(unit)
    hours = (analysis.baseline.predicted - runs.elapsed[rows]) * held / 3600.0
    cluster = analysis.selection.cluster
    total, low, high = total_interval(hours, cluster[rows], analysis.draws, analysis.method.level)
    return known(total, unit, MEASURED, len(rows), (low, high))


def _energy(runs: Runs, analysis: Analysis) -> Value:
    """Avoided energy in kWh from measured joules; missing where too few runs have them."""
    rows = analysis.rows[np.isfinite(runs.energy[analysis.rows]) & (runs.energy[analysis.rows] > 0)]
    selection = analysis.selection
    after, key = selection.after[rows], selection.key[rows]
    if not len(rows):
        return missing("kWh")
    count = int(key.max()) + 1
    both = np.bincount(key[after], minlength=count) * np.bincount(key[~after], minlength=count) > 0
    rows = rows[both[key]]
    if len(rows) < analysis.method.fewest_pairs or len(rows) < len(analysis.rows) / 2:
        return missing("kWh")
    after = selection.after[rows]
    key, cluster = np.unique(selection.key[rows], return_inverse=True)[1], selection.cluster[rows]
    terms, matrix, _ = covariates(runs.take(rows), analysis.method.adjust)
    model = fit(terms, matrix, runs.energy[rows], after, key, cluster)
    saved = (model.predicted - runs.energy[rows][after]) / _JOULES_PER_KWH
    total, low, high = total_interval(saved, cluster[after], analysis.draws, analysis.method.level)
    return known(total, "kWh", MEASURED, int(after.sum()), (low, high))


def _scaled(value: Value, factor: float | None, unit: str, origin: str) -> Value:
    if value.value is None or factor is None:
        return missing(unit)
    interval = None
    if value.low is not None and value.high is not None:
        interval = (value.low * factor, value.high * factor)
    return known(value.value * factor, unit, origin, value.n, interval)


def _meter(of: dict[str, Value], prices: Prices) -> tuple[Line, ...]:
    meter = _scaled(of["energy at the nodes"], prices.get("pue"), "kWh", MODELLED)
    carbon = prices.get("carbon_g_per_kwh")
    kilograms = _scaled(meter, None if carbon is None else carbon / 1000.0, "kg CO2e", MODELLED)
    return (
        Line("energy at the meter", meter, "energy at the nodes x PUE"),
        Line("carbon", kilograms, "energy at the meter x carbon intensity"),
    )


def _depreciation(prices: Prices) -> float | None:
    """Money that a node-hour takes from the price of the node."""
    price, years, use = (prices.get(n) for n in ("node_price", "node_life_years", "utilisation"))
    if price is None or not years or not use:
        return None
    return price / (years * _HOURS_PER_YEAR * use)


def _amounts(of: dict[str, Value], prices: Prices) -> tuple[Line, ...]:
    unit = prices.currency or "currency"
    energy_price = _product(prices.get("kwh"), prices.get("pue"))
    energy = _scaled(of["energy at the nodes"], energy_price, unit, MODELLED)
    worn = _scaled(of["node-hours"], _depreciation(prices), unit, MODELLED)
    return (
        Line(
            "by node-hour", _scaled(of["node-hours"], prices.get("node_hour"), unit, MODELLED), "x node_hour"
        ),
        Line(
            "by core-hour", _scaled(of["core-hours"], prices.get("core_hour"), unit, MODELLED), "x core_hour"
        ),
        Line("by GPU-hour", _scaled(of["GPU-hours"], prices.get("gpu_hour"), unit, MODELLED), "x gpu_hour"),
        Line("by energy", energy, "energy at the nodes x PUE x kwh"),
        Line(
            "by depreciation and energy",
            _sum(worn, energy, unit),
            "node-hours x node_price / (node_life_years x hours x utilisation) + by energy",
        ),
    )


def _product(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a * b


def _sum(a: Value, b: Value, unit: str) -> Value:
    if a.value is None or b.value is None:
        return missing(unit)
    interval = None
    if None not in (a.low, a.high, b.low, b.high):
        # Both rise and fall with the same time: their intervals add.
        interval = ((a.low or 0.0) + (b.low or 0.0), (a.high or 0.0) + (b.high or 0.0))
    return known(a.value + b.value, unit, MODELLED, a.n, interval)


def _sensitivity(measured: dict[str, Value], prices: Prices) -> tuple[Sensitivity, ...]:
    """Each figure with each of its inputs at both ends of its range, the others as given."""
    found = []
    for name, price in prices.prices.items():
        ends = [_at(measured, prices, price, value) for value in (price.low, price.high)]
        for one, other in zip(*ends, strict=True):
            low, high = one.value.value, other.value.value
            if low is not None and high is not None and low != high:
                ranges = price.low, price.high, low, high, price.assumed_range
                found.append(Sensitivity(one.name, name, *ranges, one.value.unit))
    return tuple(found)


def _at(measured: dict[str, Value], prices: Prices, price: Price, value: float) -> tuple[Line, ...]:
    """Everything that hangs on the inputs, with one of them changed."""
    changed = replace(prices, prices={**prices.prices, price.name: replace(price, value=value)})
    energy = _energy_line(measured, changed)
    of = measured | {_ENERGY: energy.value}
    return (energy, *_meter(of, changed), *_amounts(of, changed))


def _intervention(runs: Runs, analysis: Analysis) -> tuple[Line, ...]:
    wait, launches, tracing = _added_wait(runs, analysis), _launches(runs, analysis), _tracing(runs, analysis)
    return (
        Line("launches", launches, "mean seconds of our part in srun x nodes, for every placed run"),
        Line("tracing", tracing, "traced runs against runs before of their key, median, on their node-hours"),
        Line("added wait in the queue", wait, "median paired difference of the wait, after - before"),
    )


def _launches(runs: Runs, analysis: Analysis) -> Value:
    rows = np.isfinite(runs.overhead) & np.isfinite(runs.nodes)
    if not rows.any():
        return missing("node-h")
    one = float((runs.overhead * runs.nodes)[rows].mean()) / 3600.0
    placed = int((runs.placed & analysis.selection.used).sum())
    return known(one * placed, "node-h", MODELLED, int(rows.sum()))


def _tracing(runs: Runs, analysis: Analysis) -> Value:
    """Node-hours that the tracer cost, from traced runs that have a run before with the same key."""
    method = analysis.method
    if not runs.traced.any():
        return missing("node-h")
    arm = np.where(runs.traced, 1, 0).astype(np.int32)
    before = runs.arm.isin(("observe",)) | runs.traced
    relabelled = replace(
        runs,
        arm=Labels(np.where(before, arm, 2).astype(np.int32), ("observe", "enforce", "off")),
        traced=np.zeros(len(runs), dtype=bool),
        eligible=np.ones(len(runs), dtype=bool),
    )
    chosen = select(relabelled, replace(method, estimand="assigned"))
    rows = np.flatnonzero(chosen.used)
    after = chosen.after[rows]
    if after.sum() < _FEWEST_TRACED:
        return missing("node-h")
    none = np.zeros((len(rows), 0))
    pairs = make_pairs(
        runs.start[rows], runs.elapsed[rows], none, after, chosen.key[rows], chosen.cluster[rows], np.zeros(0)
    )
    share = 1 - float(np.exp(-np.median(pairs.difference)))
    hours = float(np.nansum(runs.node_hours[runs.traced]))
    return known(share * hours, "node-h", MEASURED, len(pairs.difference))


def _added_wait(runs: Runs, analysis: Analysis) -> Value:
    if analysis.pairs is None:
        return missing("s")
    rows = analysis.rows
    difference = runs.wait[rows[analysis.pairs.after]] - runs.wait[rows[analysis.pairs.before]]
    finite = np.isfinite(difference)
    if not finite.any():
        return missing("s")
    median, low, high = median_interval(
        difference[finite], analysis.pairs.cluster[finite], analysis.draws, analysis.method.level
    )
    return known(median, "s", MEASURED, int(finite.sum()), (low, high))
