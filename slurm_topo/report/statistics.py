"""Medians of many samples at once, their spread and their uncertainty; no distribution is assumed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from slurm_topo.model import Floats

# Fewer values than this give no standard error of a median.
FEWEST = 4


@dataclass(frozen=True, eq=False)
class Samples:
    """k samples, each sorted.

    Attributes
    ----------
    values : float64 array, shape (n,)
        The finite values, sample after sample, ascending within one.
    starts, counts : int64 array, shape (k,)
        Where each sample begins and how many values it has.
    """

    values: Floats
    starts: NDArray[np.int64]
    counts: NDArray[np.int64]

    def at(self, rank: NDArray[np.int64]) -> Floats:
        """The ``rank``-th smallest value (from 0) of each sample, NaN where there is none; shape (k,)."""
        inside = (rank >= 0) & (rank < self.counts)
        found = np.full(len(self.counts), np.nan)
        found[inside] = self.values[(self.starts + rank)[inside]]
        return found


def samples(values: Floats, group: NDArray[np.integer], k: int) -> Samples:
    """Sort the finite values into their samples.

    Parameters
    ----------
    values : float64 array, shape (n,)
        Values; those that are not finite are dropped.
    group : integer array, shape (n,)
        Sample of each value, 0..k-1.
    k : int
        Number of samples.
    """
    finite = np.isfinite(values)
    values, group = values[finite], group[finite]
    order = np.lexsort((values, group))
    counts = np.bincount(group, minlength=k).astype(np.int64)
    return Samples(values[order], np.cumsum(counts) - counts, counts)


def quantile(sample: Samples, q: float) -> Floats:
    """The q-quantile of each sample (linear interpolation), NaN for an empty one; shape (k,).

    Examples
    --------
    >>> quantile(samples(np.array([1.0, 2.0, 4.0]), np.zeros(3, dtype=int), 1), 0.5).tolist()
    [2.0]
    """
    position = q * (sample.counts - 1)
    low = np.floor(position).astype(np.int64)
    high = np.ceil(position).astype(np.int64)
    left = sample.at(low)
    found: Floats = left + (position - low) * (sample.at(high) - left)
    return found


def median_error(sample: Samples) -> Floats:
    """Standard error of the median of each sample; NaN for fewer than four values; shape (k,).

    Notes
    -----
    ``(y[n-a+1] - y[a]) / (2 z)``, with ``a = round((n + 1) / 2 - sqrt(n))`` and z from the binomial
    probability of the interval between these two order statistics.

    References
    ----------
    R. M. Price, D. G. Bonett, Estimating the variance of the sample median, J. Stat. Comput. Simul. 68
    (2001), doi:10.1080/00949650108812071
    """
    n = sample.counts
    a = np.maximum(1, np.rint((n + 1) / 2 - np.sqrt(n))).astype(np.int64)
    distinct, where = np.unique(n, return_inverse=True)
    lowest = np.maximum(1, np.rint((distinct + 1) / 2 - np.sqrt(distinct)))
    z = -special.ndtri(special.bdtr(lowest - 1, np.maximum(distinct, 1), 0.5))[where]
    error: Floats = (sample.at(n - a) - sample.at(a - 1)) / (2.0 * np.where(z > 0, z, np.nan))
    error[n < FEWEST] = np.nan
    return error


def median_ratio(after: Samples, before: Samples, level: float = 0.95) -> tuple[Floats, Floats, Floats]:
    """Ratios of the medians of positive samples, given as logarithms, and their confidence intervals.

    Returns
    -------
    ratio, low, high : float64 arrays, shape (k,)
        The interval is NaN where one of the samples has fewer than four values.

    References
    ----------
    R. M. Price, D. G. Bonett, Distribution-free confidence intervals for difference and ratio of medians,
    J. Stat. Comput. Simul. 72 (2002), doi:10.1080/00949650212140
    """
    centre = quantile(after, 0.5) - quantile(before, 0.5)
    # Few values: Student's quantile with the freedom of the smaller sample instead of the normal one.
    freedom = np.maximum(np.minimum(after.counts, before.counts) - 1, 1)
    width = special.stdtrit(freedom, (1 + level) / 2) * np.hypot(median_error(after), median_error(before))
    return np.exp(centre), np.exp(centre - width), np.exp(centre + width)
