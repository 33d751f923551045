"""Money, energy and carbon follow from the hours by stated formulas; what is not given is missing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from slurm_topo.errors import InputError
from slurm_topo.report.comparison.analysis import analyse
from slurm_topo.report.comparison.costs import Costs, costs_of
from slurm_topo.report.comparison.method import Method, make_method, read_method
from slurm_topo.report.comparison.prices import Prices, make_prices, read_prices
from slurm_topo.report.runs import Runs

METHOD = Method(estimand="placed", repetitions=200)
GIVEN = {
    "currency": "EUR", "date": "2026-11-01", "node_hour": 2.0, "core_hour": 0.05,
    "kwh": {"value": 0.2, "low": 0.1}, "pue": 1.5,
    "carbon_g_per_kwh": 400, "node_price": 10000, "node_life_years": 5, "utilisation": 0.8,
}  # fmt: skip


def values(costs: Costs) -> dict[str, float | None]:
    return {line.name: line.value.value for line in (*costs.quantities, *costs.amounts, *costs.intervention)}


def test_amounts_follow_from_quantities(runs: Runs) -> None:
    found = values(costs_of(runs, analyse(runs, METHOD), make_prices(GIVEN, "test")))
    hours, energy = found["node-hours"], found["energy at the nodes"]
    assert hours is not None
    assert energy is not None
    assert found["core-hours"] == pytest.approx(hours * 32)
    assert found["energy at the meter"] == pytest.approx(energy * 1.5)
    assert found["carbon"] == pytest.approx(energy * 1.5 * 0.4)
    assert found["by node-hour"] == pytest.approx(hours * 2)
    assert found["by core-hour"] == pytest.approx(hours * 32 * 0.05)
    assert found["by energy"] == pytest.approx(energy * 1.5 * 0.2)
    worn = hours * 10000 / (5 * 8766 * 0.8)
    assert found["by depreciation and energy"] == pytest.approx(worn + energy * 1.5 * 0.2)
    assert found["GPU-hours"] is None
    assert found["by GPU-hour"] is None


def test_avoided_hours_are_those_of_the_known_effect(runs: Runs) -> None:
    found = costs_of(runs, analyse(runs, METHOD), Prices())
    placed = float(runs.node_hours[runs.placed & runs.completed].sum())
    hours = found.quantities[0].value
    assert hours.value == pytest.approx(placed * 0.25, rel=0.15)
    assert hours.low is not None
    assert hours.high is not None
    assert hours.low < placed * 0.25 < hours.high
    energy = found.quantities[3].value
    assert energy.origin == "measured"
    assert energy.value == pytest.approx((hours.value or 0) * 0.35, rel=0.2)


def test_without_prices_amounts_are_missing_and_not_zero(runs: Runs) -> None:
    found = costs_of(runs, analyse(runs, METHOD), Prices())
    assert {line.value.origin for line in found.amounts} == {"missing"}
    assert found.sensitivity == ()


def test_energy_is_modelled_from_node_power_only_where_it_was_not_measured(runs: Runs) -> None:
    unmeasured = replace(runs, energy=np.full(len(runs), np.nan))
    prices = make_prices({"currency": "EUR", "date": "2026-11-01", "node_power_w": 400}, "test")
    analysis = analyse(unmeasured, METHOD)
    found = costs_of(unmeasured, analysis, prices).quantities[3].value
    assert found.origin == "modelled"
    assert found.value == pytest.approx((analysis.avoided.value or 0) * 0.4)
    assert costs_of(unmeasured, analysis, Prices()).quantities[3].value.origin == "missing"
    assert costs_of(runs, analysis, prices).quantities[3].value.origin == "measured"


def test_each_input_moves_its_amounts_alone(runs: Runs) -> None:
    found = costs_of(runs, analyse(runs, METHOD), make_prices(GIVEN, "test"))
    by = {(s.name, s.input): s for s in found.sensitivity}
    amount = values(found)["by energy"]
    assert amount is not None
    assert by["by energy", "kwh"].low == pytest.approx(amount / 2)
    assert by["by energy", "kwh"].high == pytest.approx(amount * 1.2)
    assert by["by energy", "pue"].low == pytest.approx(amount * 1.2 / 1.5)
    assert ("by node-hour", "kwh") not in by
    assert by["by node-hour", "node_hour"].assumed_range


def test_carbon_and_modelled_energy_move_with_each_of_their_inputs(runs: Runs) -> None:
    unmeasured = replace(runs, energy=np.full(len(runs), np.nan))
    prices = make_prices({**GIVEN, "node_power_w": {"value": 400, "low": 300, "high": 600}}, "test")
    found = costs_of(unmeasured, analyse(unmeasured, METHOD), prices)
    inputs: dict[str, set[str]] = {}
    for s in found.sensitivity:
        inputs.setdefault(s.name, set()).add(s.input)
    assert inputs["energy at the nodes"] == {"node_power_w"}
    assert inputs["energy at the meter"] == {"node_power_w", "pue"}
    assert inputs["carbon"] == {"node_power_w", "pue", "carbon_g_per_kwh"}
    assert inputs["by energy"] == {"node_power_w", "pue", "kwh"}
    everything = {"node_power_w", "pue", "kwh", "node_price", "node_life_years", "utilisation"}
    assert inputs["by depreciation and energy"] == everything
    by = {(s.name, s.input): s for s in found.sensitivity}
    carbon = values(found)["carbon"]
    assert carbon is not None
    assert by["carbon", "node_power_w"].high == pytest.approx(carbon * 1.5)
    assert by["carbon", "node_power_w"].unit == "kg CO2e"
    measured = costs_of(runs, analyse(runs, METHOD), prices)
    assert "node_power_w" not in {s.input for s in measured.sensitivity}


def test_the_intervention_has_its_price(runs: Runs) -> None:
    slower = runs.take(np.arange(len(runs)))
    traced = np.flatnonzero(~runs.placed & runs.completed)[::5]
    slower.traced[traced] = True
    slower.elapsed[traced] *= 1.1
    slower.wait[runs.placed] += 60
    found = values(costs_of(slower, analyse(slower, METHOD), Prices()))
    hours = float(slower.node_hours[traced].sum())
    assert found["tracing"] == pytest.approx(hours * (1 - 1 / 1.1), rel=0.35)
    assert found["added wait in the queue"] == pytest.approx(60, abs=60)
    used = runs.placed & runs.completed
    launches = 0.05 * float(runs.nodes[runs.placed].mean()) * used.sum() / 3600
    assert found["launches"] == pytest.approx(launches, rel=0.01)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"currency": ""}, "currency"),
        ({"euro": 1}, "unknown key"),
        ({"kwh": -1}, "from 0 up"),
        ({"kwh": "cheap"}, "from 0 up"),
        ({"pue": 0.9}, "below 1"),
        ({"kwh": {"value": 1, "low": 2}}, "low <= value <= high"),
        ({"kwh": {"value": 1, "mean": 2}}, "keys are value"),
        ({"kwh": True}, "from 0 up"),
    ],
)
def test_prices_that_cannot_be_are_refused(change: dict[str, object], word: str) -> None:
    with pytest.raises(InputError, match=word):
        make_prices({**GIVEN, **change}, "prices.toml")


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"estimand": "best"}, "allowed are"),
        ({"keys": ["user"]}, "unknown key"),
        ({"key": ["user"]}, "program and user"),
        ({"key": "user"}, "list of words"),
        ({"adjust": ["weather"]}, "allowed are"),
        ({"level": 1.2}, "level lies"),
        ({"repetitions": 10}, "at least 200"),
        ({"seed": 1.5}, "not possible"),
        ({"exclude_traced": 1}, "not possible"),
        ({"material": True}, "not possible"),
    ],
)
def test_methods_that_cannot_be_are_refused(change: dict[str, object], word: str) -> None:
    with pytest.raises(InputError, match=word):
        make_method(change, "method.toml")


def test_a_method_is_its_digest(tmp_path: Path) -> None:
    file = tmp_path / "method.toml"
    file.write_text('estimand = "placed"\nseed = 7\nkey = ["program", "user", "nodes"]\nmaterial = 0\n')
    method = read_method(file)
    assert (method.estimand, method.seed, method.key, method.material) == (
        "placed",
        7,
        ("program", "user", "nodes"),
        0.0,
    )
    assert method.digest == read_method(file).digest
    assert method.digest != replace(method, seed=8).digest
    for name, reader in (("none.toml", read_method), ("none.toml", read_prices)):
        with pytest.raises(InputError, match="cannot be read"):
            reader(tmp_path / name)
    file.write_text("seed = = 1")
    with pytest.raises(InputError, match="not valid TOML"):
        read_method(file)
