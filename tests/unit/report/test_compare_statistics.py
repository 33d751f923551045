"""The statistics of a comparison, against brute force and against what they claim."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_topo.report.comparison.analysis import INCONCLUSIVE, LOSS, SAME, SAVING, analyse, judge
from slurm_topo.report.comparison.baseline import covariates, fit
from slurm_topo.report.comparison.effect import (
    NO_EFFECT,
    _weighted_median,
    make_pairs,
    median_effect,
    partners,
    power_of,
    resamples,
    widened,
)
from slurm_topo.report.comparison.method import Method
from slurm_topo.report.comparison.verify import cover
from slurm_topo.report.runs import Runs
from slurm_topo.report.synthetic import Design, synthetic_runs

PLACED = Method(estimand="placed", repetitions=300)


@given(st.integers(0, 10_000), st.integers(2, 60))
@settings(max_examples=60, deadline=None)
def test_partners_share_the_key_and_are_used_evenly_in_the_order_of_time(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    key = rng.integers(0, 4, n)
    after = rng.random(n) < 0.5
    start = rng.integers(0, 30, n).astype(float)
    both = [k for k in range(4) if after[key == k].any() and (~after[key == k]).any()]
    rows = np.isin(key, both)
    key, after, start = np.unique(key[rows], return_inverse=True)[1], after[rows], start[rows]
    one, other = partners(start, after, key)
    assert sorted(one) == np.flatnonzero(after).tolist()
    assert not after[other].any()
    assert (key[one] == key[other]).all()
    for k in range(len(both)):
        mine = key[one] == k
        assert (np.diff(start[one[mine]]) >= 0).all()
        assert (np.diff(start[other[mine]]) >= 0).all()
        uses = np.bincount(other[mine], minlength=len(key))[~after & (key == k)]
        assert uses.max() - uses.min() <= 1


@given(st.lists(st.tuples(st.floats(-10, 10), st.integers(0, 4)), min_size=1, max_size=40))
def test_a_weighted_median_is_that_of_repeated_values(pairs: list[tuple[float, int]]) -> None:
    values = np.array(sorted(v for v, _ in pairs))
    weights = np.array([w for _, w in pairs], dtype=np.int32)
    if weights.sum():
        expected = float(np.median(np.repeat(values, weights)))
        assert _weighted_median(values, weights) == pytest.approx(expected)


def test_the_model_finds_the_slopes_and_predicts_what_was_avoided() -> None:
    rng = np.random.default_rng(4)
    n, keys = 4000, 30
    key = rng.integers(0, keys, n)
    after = rng.random(n) < 0.5
    x = rng.normal(size=(n, 2))
    truth = np.exp(rng.normal(5, 1, keys)[key] + x @ np.array([0.5, -0.2]) + rng.normal(0, 0.1, n))
    model = fit(("a", "b"), x, np.where(after, truth * 0.8, truth), after, key, key)
    np.testing.assert_allclose(model.slopes, [0.5, -0.2], atol=0.01)
    assert model.predicted.sum() == pytest.approx(truth[after].sum(), rel=0.01)
    assert model.cv_rmse < 0.25
    assert abs(model.nmbe) < 0.01


def test_goodness_is_that_of_predictions_without_the_run_itself() -> None:
    rng = np.random.default_rng(8)
    key = np.repeat([0, 1, 2], [5, 6, 7])
    y = np.exp(rng.normal(3, 0.5, len(key)))
    after = np.zeros(len(key), dtype=bool)
    none = np.zeros((len(key), 0))
    model = fit((), none, y, after, key, key)
    logs = np.log(y)
    smear = np.mean(np.exp([logs[i] - logs[key == key[i]].mean() for i in range(len(key))]))
    others = [logs[(key == key[i]) & (np.arange(len(key)) != i)].mean() for i in range(len(key))]
    miss = y - np.exp(others) * smear
    freedom = len(y) - 1
    assert model.cv_rmse == pytest.approx(math.sqrt((miss**2).sum() / freedom) / y.mean())
    assert model.nmbe == pytest.approx(miss.sum() / freedom / y.mean())


def test_refitting_to_first_order_is_close_to_refitting_exactly() -> None:
    runs = synthetic_runs(
        Design(runs=900, programs=30, users=15, confounder="size"), np.random.default_rng(6)
    )
    found = analyse(runs, PLACED)
    assert found.baseline is not None
    used = runs.take(found.rows)
    s = found.selection
    after, key, cluster = (c[found.rows] for c in (s.after, s.key, s.cluster))
    terms, matrix, _ = covariates(used, PLACED.adjust)
    draws = resamples(int(cluster.max()) + 1, 60, np.random.default_rng(0))
    pairs = make_pairs(used.start, used.elapsed, matrix, after, key, cluster, found.baseline.slopes)
    quick = median_effect(pairs, found.baseline, draws, 0.95, 0.05)
    exact = []
    for draw in draws:
        squares = np.tensordot(draw, found.baseline.squares, 1)
        slopes = np.linalg.pinv(squares, hermitian=True, rcond=1e-10) @ (draw @ found.baseline.products)
        again = make_pairs(used.start, used.elapsed, matrix, after, key, cluster, slopes)
        order = np.argsort(again.difference)
        exact.append(_weighted_median(again.difference[order], draw[again.cluster[order]]))
    assert terms
    error = float(np.std(exact, ddof=1))
    assert quick.error == pytest.approx(error, rel=0.15)


def test_fewer_clusters_widen_the_interval() -> None:
    values = np.random.default_rng(2).normal(size=2000)
    widths = [high - low for low, high in (widened(values, g, 0.95) for g in (200.0, 20.0, 5.0, 3.0))]
    assert widths == sorted(widths)
    assert widths[0] == pytest.approx(2 * 1.96, rel=0.07)
    assert all(math.isnan(v) for v in widened(values, 1.5, 0.95))


def test_power_grows_with_precision_and_matches_the_detectable_saving() -> None:
    power, detectable = power_of(0.02, 30, 0.95, 0.05)
    assert power == pytest.approx(power_of(0.02, 30, 0.95, 0.05)[0])
    assert power_of(0.01, 30, 0.95, 0.05)[0] > power
    assert power_of(0.02, 30, 0.95, detectable)[0] == pytest.approx(0.8, abs=0.01)


# Fixed seeds, so that these never fail by chance; 500 repetitions of more designs are in docs/compare.md.
@pytest.mark.parametrize("confounder", ["none", "size", "user", "hour"])
def test_the_interval_covers_the_truth_and_no_effect_is_seldom_called_a_saving(confounder: str) -> None:
    quick = replace(PLACED, repetitions=200)
    null = cover(Design(400, 30, 15, 0.0, confounder=confounder), quick, 60, np.random.default_rng(21))
    assert null.covered >= 0.90
    assert null.called <= 0.08
    real = cover(Design(400, 30, 15, 0.2, confounder=confounder), quick, 60, np.random.default_rng(22))
    assert real.covered >= 0.88
    assert abs(real.bias) < 0.01


def test_without_pairing_and_adjustment_a_confounded_history_would_mislead() -> None:
    runs = synthetic_runs(Design(3000, 30, 15, 0.0, confounder="size"), np.random.default_rng(1))
    placed, observed = runs.placed, runs.arm.isin(("observe",))
    naive = 1 - np.median(runs.elapsed[placed]) / np.median(runs.elapsed[observed])
    assert naive < -0.1
    found = analyse(runs, PLACED)
    assert found.effect.low <= 0.0 <= found.effect.high


def test_runs_alone_are_enough_for_a_claim_about_these_programs(runs: Runs) -> None:
    few = runs.take(runs.program <= 2)
    assert analyse(few, PLACED).verdict == INCONCLUSIVE
    assert "effective programs" in analyse(few, PLACED).because
    found = analyse(few, replace(PLACED, inference="runs"))
    assert found.verdict == SAVING
    assert found.effect.low < 0.2 < found.effect.high


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [(0.02, 0.1, SAVING), (-0.1, -0.02, LOSS), (-0.05, 0.05, INCONCLUSIVE), (-0.005, 0.008, SAME)],
)
def test_the_verdict_follows_from_the_interval(runs: Runs, low: float, high: float, verdict: str) -> None:
    found = analyse(runs, PLACED)
    assert found.baseline is not None
    effect = replace(found.effect, low=low, high=high)
    assert judge(effect, found.baseline, PLACED)[0] == verdict
    poor = replace(found.baseline, cv_rmse=0.5)
    assert judge(effect, poor, PLACED)[0] == INCONCLUSIVE
    assert "CV(RMSE)" in judge(effect, poor, PLACED)[1]
    unknown = replace(found.baseline, cv_rmse=math.nan)
    assert judge(effect, unknown, PLACED)[0] == INCONCLUSIVE


def test_nothing_to_compare_is_inconclusive(runs: Runs) -> None:
    found = analyse(runs.take(runs.placed), PLACED)
    assert found.verdict == INCONCLUSIVE
    assert found.effect == NO_EFFECT
    assert sum(found.selection.counts().values()) == int(runs.placed.sum())
