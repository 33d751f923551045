"""The effect on these very programs: no claim about others, so that a few programs are enough."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy import special

from slurm_topo.model import Floats
from slurm_topo.report.comparison.effect import NO_EFFECT, Effect, power_of
from slurm_topo.report.statistics import FEWEST, median_error, quantile, samples


def conditional_effect(
    adjusted: Floats,
    after: NDArray[np.bool_],
    key: NDArray[np.int64],
    level: float,
    target: float,
) -> Effect:
    """Mean over the keys of the difference of medians, weighted by the runs after.

    Parameters
    ----------
    adjusted : float64 array, shape (n,)
        Logarithms of the outcome less the adjustments.
    after : bool array, shape (n,)
        Side.
    key : int64 array, shape (n,)
        Key, dense from 0.
    level, target : float
        As in :func:`~slurm_topo.report.comparison.effect.median_effect`.

    Notes
    -----
    Only runs vary, programs do not. Keys with fewer than four runs on a side are left out. The variance of
    each median is that of Price and Bonett; degrees of freedom by Satterthwaite.
    """
    k = int(key.max(initial=-1)) + 1
    sides = [samples(adjusted[after == side], key[after == side], k) for side in (False, True)]
    enough = (sides[0].counts >= FEWEST) & (sides[1].counts >= FEWEST)
    if not enough.any():
        return NO_EFFECT
    difference = (quantile(sides[1], 0.5) - quantile(sides[0], 0.5))[enough]
    weight = sides[1].counts[enough] / sides[1].counts[enough].sum()
    parts = [(weight * median_error(side)[enough]) ** 2 for side in sides]
    variance = float(sum(part.sum() for part in parts))
    bottom = sum(
        float((part**2 / (side.counts[enough] - 1)).sum()) for part, side in zip(parts, sides, strict=True)
    )
    freedom = variance**2 / bottom if bottom else 1.0
    centre, error = float(weight @ difference), math.sqrt(variance)
    width = float(special.stdtrit(freedom, (1 + level) / 2)) * error
    power, detectable = power_of(error, freedom, level, target)
    return Effect(
        saving=1 - math.exp(centre),
        low=1 - math.exp(centre + width),
        high=1 - math.exp(centre - width),
        error=error,
        pairs=int(sides[1].counts[enough].sum()),
        clusters=int(enough.sum()),
        effective_clusters=float(enough.sum()),
        faster=float(np.average(difference < 0, weights=weight)),
        standardised=centre / _spread(adjusted, after, key, k),
        power=power,
        detectable=detectable,
    )


def _spread(adjusted: Floats, after: NDArray[np.bool_], key: NDArray[np.int64], k: int) -> float:
    """Median absolute deviation of the runs before from the median of their key, scaled to a normal one."""
    before = ~after
    middle = quantile(samples(adjusted[before], key[before], k), 0.5)
    return 1.4826 * float(np.median(np.abs(adjusted[before] - middle[key[before]]))) or math.nan
