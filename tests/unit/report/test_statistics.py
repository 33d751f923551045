"""Medians of many samples, checked against numpy and against their own claims."""

from __future__ import annotations

import numpy as np
import pytest

from slurm_topo.report.statistics import median_error, median_ratio, quantile, samples


@pytest.mark.parametrize("q", [0.0, 0.25, 0.5, 0.9, 1.0])
def test_quantiles_are_those_of_numpy(q: float) -> None:
    rng = np.random.default_rng(1)
    group = rng.integers(0, 9, 300)
    values = rng.normal(size=300)
    values[::17] = np.nan
    found = quantile(samples(values, group, 9), q)
    for k in range(9):
        assert found[k] == pytest.approx(np.nanquantile(values[group == k], q))


def test_a_sample_without_values_has_no_median() -> None:
    found = quantile(samples(np.array([np.nan, 1.0]), np.array([0, 1]), 3), 0.5)
    assert np.isnan(found[[0, 2]]).all()
    assert found[1] == 1.0


def test_the_error_of_a_median_needs_four_values() -> None:
    group = np.repeat([0, 1], [3, 4])
    error = median_error(samples(np.arange(7.0), group, 2))
    assert np.isnan(error[0])
    assert error[1] > 0


@pytest.mark.parametrize(("n", "m"), [(4, 4), (6, 30), (40, 40)])
def test_the_interval_of_a_ratio_covers_it_as_often_as_it_claims(n: int, m: int) -> None:
    rng, trials = np.random.default_rng(n), 2000
    top = rng.normal(np.log(0.8), 0.2, (trials, n))
    bottom = rng.normal(0.0, 0.2, (trials, m))
    ratio, low, high = median_ratio(
        samples(top.ravel(), np.repeat(np.arange(trials), n), trials),
        samples(bottom.ravel(), np.repeat(np.arange(trials), m), trials),
    )
    assert np.median(ratio) == pytest.approx(0.8, rel=0.02)
    # 2000 trials see a coverage of 95 % within one percent point; few values may make it wider, not narrower.
    assert np.mean((low <= 0.8) & (high >= 0.8)) >= 0.94
