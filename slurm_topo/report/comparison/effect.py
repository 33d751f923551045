"""The effect: median difference of adjusted pairs, with a bootstrap over programs and users."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from slurm_topo.model import Floats
from slurm_topo.report.comparison.baseline import Baseline, solve
from slurm_topo.report.runs import Indices


@dataclass(frozen=True, eq=False)
class Pairs:
    """Each run after with the run before of the same key at the same place in the order of time.

    Attributes
    ----------
    after, before : intp arrays, shape (m,)
        Positions of the two runs; a run before may serve several.
    cluster : int64 array, shape (m,)
        Program and user, dense from 0.
    difference : float64 array, shape (m,)
        Difference of the logarithms of the adjusted outcomes, after - before.
    change : float64 array, shape (m, p)
        Difference of the adjustments.
    """

    after: Indices
    before: Indices
    cluster: NDArray[np.int64]
    difference: Floats
    change: Floats


@dataclass(frozen=True)
class Effect:
    """An effect on a positive outcome, as the share that is saved.

    Attributes
    ----------
    saving, low, high : float
        1 - ratio, and its confidence interval; NaN where there is none.
    error : float
        Standard error of the logarithm of the ratio.
    pairs, clusters : int
        Pairs, and clusters in them.
    effective_clusters : float
        Clusters of equal size that would carry the same information.
    faster : float
        Share of the pairs in which the run after was faster.
    standardised : float
        Median difference over the spread of the differences (1.4826 MAD).
    power : float
        Chance that a saving of the method's target is found at this level.
    detectable : float
        Smallest saving that is found with a chance of 80 %.
    """

    saving: float
    low: float
    high: float
    error: float
    pairs: int
    clusters: int
    effective_clusters: float
    faster: float
    standardised: float
    power: float
    detectable: float


_NAN = math.nan
NO_EFFECT = Effect(_NAN, _NAN, _NAN, _NAN, 0, 0, 0.0, _NAN, _NAN, _NAN, _NAN)


def partners(start: Floats, after: NDArray[np.bool_], key: NDArray[np.int64]) -> tuple[Indices, Indices]:
    """For each run after the run before of the same key at the same place in the order of time.

    With r runs after and s before, the i-th after (from 0) meets the ``floor((i + 1/2) s / r)``-th before:
    runs before are used evenly, and runs that alternate in time meet their neighbours.

    Parameters
    ----------
    start : float64 array, shape (n,)
        Seconds since the epoch; runs without a start count as started at 0.
    after : bool array, shape (n,)
        Side.
    key : int64 array, shape (n,)
        Every key has runs on both sides; dense from 0.

    Returns
    -------
    after, before : intp arrays, shape (m,)
        Positions.
    """
    count = int(key.max(initial=-1)) + 1
    order = np.lexsort((np.arange(len(start)), np.nan_to_num(start), after, key))
    sizes = [np.bincount(key[after == side], minlength=count) for side in (False, True)]
    # In this order each key has its runs before, then its runs after.
    first = np.cumsum(sizes[0] + sizes[1]) - sizes[0] - sizes[1]
    mine = np.flatnonzero(after[order])
    of = key[order[mine]]
    place = mine - first[of] - sizes[0][of]
    other = first[of] + ((2 * place + 1) * sizes[0][of]) // (2 * sizes[1][of])
    return order[mine], order[other]


def make_pairs(
    start: Floats,
    outcome: Floats,
    matrix: Floats,
    after: NDArray[np.bool_],
    key: NDArray[np.int64],
    cluster: NDArray[np.int64],
    slopes: Floats,
) -> Pairs:
    """Adjusted pairs; parameters as in :func:`~slurm_topo.report.comparison.baseline.fit`."""
    one, other = partners(start, after, key)
    change = matrix[one] - matrix[other]
    difference = np.log(outcome[one]) - np.log(outcome[other]) - change @ slopes
    return Pairs(one, other, cluster[one], difference, change)


Draws = NDArray[np.uint8]


def resamples(clusters: int, repetitions: int, rng: np.random.Generator) -> Draws:
    """How often each cluster is drawn, at most 255 times; shape (repetitions, clusters)."""
    found = np.empty((repetitions, clusters), dtype=np.uint8)
    for i in range(repetitions):
        counts = np.bincount(rng.integers(0, clusters, clusters), minlength=clusters)
        found[i] = np.minimum(counts, 255)
    return found


def median_effect(pairs: Pairs, baseline: Baseline, draws: Draws, level: float, target: float) -> Effect:
    """Median paired difference with an interval over resampled clusters.

    Parameters
    ----------
    pairs : Pairs
        m pairs in g clusters.
    baseline : Baseline
        Its sums by cluster let every resample fit the adjustments again.
    draws : uint8 array, shape (repetitions, g)
        From :func:`resamples`.
    level : float
        Of the interval.
    target : float
        Saving for which the power is stated.

    Notes
    -----
    In each resample the slopes are fitted again; the median moves with them to first order, by the mean
    change of the adjustments of the pairs around it. Few clusters: the quantiles are widened from the normal
    to Student's distribution (expanded percentile interval), with the effective number of clusters
    ``(sum m_g)^2 / sum m_g^2``.

    References
    ----------
    T. C. Hesterberg, What teachers should know about the bootstrap, Am. Stat. 69 (2015),
    doi:10.1080/00031305.2015.1089789
    """
    m = len(pairs.difference)
    g = draws.shape[1]
    sizes = np.bincount(pairs.cluster, minlength=g).astype(np.float64)
    effective = float(sizes.sum() ** 2 / (sizes**2).sum()) if m else 0.0
    if not m:
        return NO_EFFECT
    order = np.argsort(pairs.difference, kind="stable")
    ordered, cluster = pairs.difference[order], pairs.cluster[order]
    centre = float(np.median(ordered))
    gradient = _gradient(pairs.change[order])
    found = np.empty(len(draws))
    for i, draw in enumerate(draws):
        found[i] = _weighted_median(ordered, draw[cluster])
        if len(gradient):
            again = solve(np.tensordot(draw.astype(float), baseline.squares, 1), draw @ baseline.products)
            found[i] -= float(gradient @ (again - baseline.slopes))
    return _effect(centre, found, pairs, sizes, effective, level, target)


def _weighted_median(ordered: Floats, weight: NDArray[np.integer]) -> float:
    """Median of sorted values that occur ``weight`` times."""
    total = np.cumsum(weight, dtype=np.int64)
    half = total[-1] / 2
    at = int(np.searchsorted(total, half))
    if total[at] == half:
        after = int(np.searchsorted(total, half, side="right"))
        return float(ordered[at] + ordered[after]) / 2
    return float(ordered[at])


def _gradient(change: Floats) -> Floats:
    """Mean change of the adjustments among the pairs around the median, shape (p,)."""
    m = len(change)
    half = max(1, round(m**0.8 / 2))
    mean: Floats = change[max(0, m // 2 - half) : m // 2 + half + 1].mean(axis=0)
    return mean


def _effect(
    centre: float,
    found: Floats,
    pairs: Pairs,
    sizes: Floats,
    effective: float,
    level: float,
    target: float,
) -> Effect:
    clusters = int((sizes > 0).sum())
    low, high = widened(found, effective, level)
    error = float(found.std(ddof=1)) * math.sqrt(effective / max(effective - 1, 1e-9))
    spread = 1.4826 * float(np.median(np.abs(pairs.difference - centre)))
    power, detectable = power_of(error, effective - 1, level, target)
    return Effect(
        saving=1 - math.exp(centre),
        low=1 - math.exp(high),
        high=1 - math.exp(low),
        error=error,
        pairs=len(pairs.difference),
        clusters=clusters,
        effective_clusters=effective,
        faster=float(np.mean(pairs.difference < 0)),
        standardised=centre / spread if spread else math.nan,
        power=power,
        detectable=detectable,
    )


def widened(found: Floats, effective: float, level: float) -> tuple[float, float]:
    """Expanded percentile interval of bootstrap values; NaN with fewer than two effective clusters."""
    if effective < 2 or not np.isfinite(found).all():
        return math.nan, math.nan
    t = float(special.stdtrit(effective - 1, (1 + level) / 2)) * math.sqrt(effective / (effective - 1))
    tail = float(special.ndtr(-t))
    low, high = np.quantile(found, (tail, 1 - tail))
    # The outermost values of few resamples cannot reach far tails: at least the normal width there.
    centre, error = float(np.median(found)), float(found.std(ddof=1))
    return min(float(low), centre - t * error), max(float(high), centre + t * error)


def power_of(error: float, freedom: float, level: float, target: float) -> tuple[float, float]:
    """Power for a target saving, and the saving that is found with a chance of 80 %."""
    if not error > 0 or freedom <= 0:
        return math.nan, math.nan
    t = float(special.stdtrit(freedom, (1 + level) / 2))
    size = -math.log1p(-target)
    power = float(special.stdtr(freedom, size / error - t) + special.stdtr(freedom, -t - size / error))
    return power, 1 - math.exp(-(t + float(special.stdtrit(freedom, 0.8))) * error)


def median_interval(
    values: Floats, cluster: NDArray[np.int64], draws: Draws, level: float
) -> tuple[float, float, float]:
    """Median of values and its interval over resampled clusters; parameters as :func:`total_interval`."""
    order = np.argsort(values, kind="stable")
    ordered, where = values[order], cluster[order]
    sizes = np.bincount(cluster, minlength=draws.shape[1]).astype(np.float64)
    effective = float(sizes.sum() ** 2 / (sizes**2).sum()) if len(values) else 0.0
    drawn = [draw for draw in draws if draw[where].any()]
    if not len(values) or len(drawn) < len(draws) / 2:
        return math.nan, math.nan, math.nan
    found = np.array([_weighted_median(ordered, draw[where]) for draw in drawn])
    return float(np.median(values)), *widened(found, effective, level)


def total_interval(
    saved: Floats, cluster: NDArray[np.int64], draws: Draws, level: float
) -> tuple[float, float, float]:
    """A sum over runs and its interval over resampled clusters.

    Parameters
    ----------
    saved : float64 array, shape (m,)
        What each run saved.
    cluster : int64 array, shape (m,)
        Its cluster.
    draws : uint8 array, shape (repetitions, g)
        From :func:`resamples`.
    """
    g = draws.shape[1]
    by_cluster = np.bincount(cluster, saved, minlength=g)
    sizes = np.bincount(cluster, minlength=g).astype(np.float64)
    effective = float(sizes.sum() ** 2 / (sizes**2).sum()) if len(saved) else 0.0
    # Row by row: the whole product would first make floats of all draws.
    found = np.array([float(draw @ by_cluster) for draw in draws])
    return float(saved.sum()), *widened(found, effective, level)
