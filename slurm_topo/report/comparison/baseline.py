"""The baseline model: what a run would have taken without us, adjusted for what differs between runs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slurm_topo.model import Floats
from slurm_topo.report.runs import Runs


@dataclass(frozen=True, eq=False)
class Baseline:
    """Log-linear model of the runs before: one level a key, common slopes.

    Attributes
    ----------
    terms : tuple of str
        Names of the p adjustments.
    slopes : float64 array, shape (p,)
        Their coefficients in the logarithm of the time.
    squares, products : float64 arrays, shapes (g, p, p) and (g, p)
        Sums of squares within keys, by cluster: what the bootstrap needs to fit again.
    cv_rmse, nmbe : float
        Goodness on the runs before, each predicted without itself; ratios.
    runs, keys : int
        Runs and keys that the model was fitted on.
    predicted : float64 array, shape (m,)
        Adjusted baseline of each run after, in the unit of the outcome.
    """

    terms: tuple[str, ...]
    slopes: Floats
    squares: Floats
    products: Floats
    cv_rmse: float
    nmbe: float
    runs: int
    keys: int
    predicted: Floats


def covariates(runs: Runs, wanted: tuple[str, ...]) -> tuple[tuple[str, ...], Floats, tuple[str, ...]]:
    """The adjustments that are known for every run.

    Returns
    -------
    terms : tuple of str
        Names of the columns.
    matrix : float64 array, shape (n, p)
        The columns: logarithms of size, input and clock; load; sine and cosine of the hour of the day.
    unknown : tuple of str
        Wanted ones that are not known for every run.
    """
    terms: list[str] = []
    columns: list[Floats] = []
    unknown: list[str] = []
    for name in wanted:
        values = runs.start if name == "hour" else getattr(runs, name)
        positive = name in ("hour", "load") or bool((values > 0).all())
        if not len(values) or not np.isfinite(values).all() or not positive:
            unknown.append(name)
        elif name == "hour":
            angle = 2 * np.pi * (values % 86400) / 86400
            terms += ["hour (cosine)", "hour (sine)"]
            columns += [np.cos(angle), np.sin(angle)]
        else:
            terms.append(name if name == "load" else f"log {name}")
            columns.append(values if name == "load" else np.log(values))
    matrix = np.stack(columns, axis=1) if columns else np.zeros((len(runs), 0))
    return tuple(terms), matrix, tuple(unknown)


def fit(
    terms: tuple[str, ...],
    matrix: Floats,
    outcome: Floats,
    after: NDArray[np.bool_],
    key: NDArray[np.int64],
    cluster: NDArray[np.int64],
) -> Baseline:
    """Fit the model on the runs before, predict the runs after.

    Parameters
    ----------
    terms : tuple of str, length p
        Names of the columns of ``matrix``.
    matrix : float64 array, shape (n, p)
        Adjustments.
    outcome : float64 array, shape (n,)
        Positive: seconds or joules.
    after : bool array, shape (n,)
        Side of each run.
    key, cluster : int64 arrays, shape (n,)
        Key and cluster of each run, dense from 0; every key has runs on both sides and lies in one cluster.

    Notes
    -----
    ``log t = level[key] + x b + e``; b from deviations within keys, so that differences between programs,
    users and shapes never enter. Goodness is by leave-one-out (``e / (1 - h)``) on the runs of keys with two
    or more; predictions are brought back with Duan's smearing factor.
    """
    y = np.log(outcome)
    before = ~after
    count = np.bincount(key[before], minlength=int(key.max(initial=-1)) + 1)
    level_y, level_x = _means(y, matrix, key, before, count)
    dx, dy = matrix[before] - level_x[key[before]], y[before] - level_y[key[before]]
    g = int(cluster.max(initial=-1)) + 1
    squares, products = _sums(dx, dy, cluster[before], g)
    total = squares.sum(axis=0)
    slopes = solve(total, products.sum(axis=0))
    error = dy - dx @ slopes
    cv_rmse, nmbe = _goodness(y[before], error, dx, total, count[key[before]])
    smear = float(np.mean(np.exp(error))) if len(error) else 1.0
    mine = key[after]
    predicted = np.exp(level_y[mine] + (matrix[after] - level_x[mine]) @ slopes) * smear
    return Baseline(
        terms=terms,
        slopes=slopes,
        squares=squares,
        products=products,
        cv_rmse=cv_rmse,
        nmbe=nmbe,
        runs=int(before.sum()),
        keys=int((count > 0).sum()),
        predicted=predicted,
    )


def solve(squares: Floats, products: Floats) -> Floats:
    """Slopes of least squares; zero along directions that do not vary."""
    if not len(products):
        return np.zeros(0)
    slopes: Floats = np.linalg.pinv(squares, rcond=1e-10, hermitian=True) @ products
    return slopes


def _means(
    y: Floats, x: Floats, key: NDArray[np.int64], rows: NDArray[np.bool_], count: NDArray[np.int64]
) -> tuple[Floats, Floats]:
    """Means of the rows by key, shapes (k,) and (k, p)."""
    n = np.maximum(count, 1)
    mean_y = np.bincount(key[rows], y[rows], minlength=len(count)) / n
    columns = [np.bincount(key[rows], c[rows], minlength=len(count)) / n for c in x.T]
    return mean_y, np.stack(columns, axis=1) if columns else np.zeros((len(count), 0))


def _sums(dx: Floats, dy: Floats, cluster: NDArray[np.int64], g: int) -> tuple[Floats, Floats]:
    p = dx.shape[1]
    squares, products = np.zeros((g, p, p)), np.zeros((g, p))
    for i in range(p):
        products[:, i] = np.bincount(cluster, dx[:, i] * dy, minlength=g)
        for j in range(i, p):
            squares[:, i, j] = squares[:, j, i] = np.bincount(cluster, dx[:, i] * dx[:, j], minlength=g)
    return squares, products


def _goodness(
    y: Floats, error: Floats, dx: Floats, squares: Floats, size: NDArray[np.int64]
) -> tuple[float, float]:
    """CV(RMSE) and NMBE of leave-one-out predictions; NaN without a key of two runs."""
    rows = size >= 2
    if rows.sum() < 3:
        return float("nan"), float("nan")
    inverse = np.linalg.pinv(squares, rcond=1e-10, hermitian=True) if dx.shape[1] else squares
    lever = 1.0 / size[rows] + np.einsum("ij,jk,ik->i", dx[rows], inverse, dx[rows])
    left_out = error[rows] / np.maximum(1.0 - lever, 0.05)
    actual = np.exp(y[rows])
    plain = np.exp(y[rows] - left_out)
    miss = actual - plain * float(np.mean(np.exp(error)))
    freedom = max(int(rows.sum()) - dx.shape[1] - 1, 1)
    mean = float(actual.mean())
    return float(np.sqrt((miss**2).sum() / freedom)) / mean, float(miss.sum()) / freedom / mean
