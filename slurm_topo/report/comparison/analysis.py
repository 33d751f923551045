"""From runs and a method to the effect and the verdict. Pure, and the same every time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from slurm_topo.model import Floats
from slurm_topo.report.comparison.baseline import Baseline, covariates, fit
from slurm_topo.report.comparison.conditional import conditional_effect
from slurm_topo.report.comparison.effect import (
    NO_EFFECT,
    Draws,
    Effect,
    Pairs,
    make_pairs,
    median_effect,
    resamples,
    total_interval,
)
from slurm_topo.report.comparison.method import Method
from slurm_topo.report.comparison.selection import Selection, select
from slurm_topo.report.runs import Indices, Runs
from slurm_topo.report.values import MEASURED, Value, known, missing

# Runs before, beyond one a key, that each slope of the baseline model needs.
_RUNS_A_TERM = 10
SAVING, LOSS, SAME, INCONCLUSIVE = "saving", "loss", "no material difference", "inconclusive"


@dataclass(frozen=True, eq=False)
class Analysis:
    """What a comparison found.

    Attributes
    ----------
    method : Method
        What was fixed beforehand.
    selection : Selection
        The fate of every run.
    rows : intp array, shape (n,)
        Positions of the runs that are compared.
    baseline : Baseline or None
        The model; None where nothing can be compared.
    unknown : tuple of str
        Adjustments that are not known for every run, or that there are too few runs for.
    pairs : Pairs or None
        Pairs; positions are into ``rows``.
    effect : Effect
        Of the time, by the method.
    verdict, because : str
        The verdict, and why.
    avoided : Value
        Node-hours that the runs after would have taken more.
    avoided_hours : float64 array, shape (m,)
        The same for each run after.
    draws : uint8 array, shape (repetitions, g)
        The resamples, so that all intervals rest on the same ones.
    """

    method: Method
    selection: Selection
    rows: Indices
    baseline: Baseline | None
    unknown: tuple[str, ...]
    pairs: Pairs | None
    effect: Effect
    verdict: str
    because: str
    avoided: Value
    avoided_hours: Floats
    draws: Draws


def analyse(runs: Runs, method: Method) -> Analysis:
    """Compare the runs as the method says.

    Parameters
    ----------
    runs : Runs
        All runs of the window, whatever their fate.
    method : Method
        What was fixed beforehand.
    """
    selection = select(runs, method)
    rows = np.flatnonzero(selection.used)
    if not len(rows):
        none = "no run has a partner: nothing can be compared"
        empty = np.zeros(0)
        return Analysis(
            method,
            selection,
            rows,
            None,
            (),
            None,
            NO_EFFECT,
            INCONCLUSIVE,
            none,
            missing("node-h"),
            empty,
            np.zeros((0, 0), dtype=np.uint8),
        )
    used = runs.take(rows)
    after, key, cluster = selection.after[rows], selection.key[rows], selection.cluster[rows]
    terms, matrix, unknown = covariates(used, method.adjust)
    if int((~after).sum()) - int(key.max() + 1) < _RUNS_A_TERM * len(terms):
        # A model with a slope for every few runs explains everything and predicts nothing.
        unknown = (*unknown, *(f"{term} (too few runs)" for term in terms))
        terms, matrix = (), matrix[:, :0]
    baseline = fit(terms, matrix, used.elapsed, after, key, cluster)
    pairs = make_pairs(used.start, used.elapsed, matrix, after, key, cluster, baseline.slopes)
    draws = resamples(int(cluster.max()) + 1, method.repetitions, np.random.default_rng(method.seed))
    if method.inference == "programs":
        effect = median_effect(pairs, baseline, draws, method.level, method.target)
    else:
        adjusted = np.log(used.elapsed) - matrix @ baseline.slopes
        effect = conditional_effect(adjusted, after, key, method.level, method.target)
    verdict, because = judge(effect, baseline, method)
    hours = (baseline.predicted - used.elapsed[after]) * used.nodes[after] / 3600.0
    return Analysis(
        method=method,
        selection=selection,
        rows=rows,
        baseline=baseline,
        unknown=unknown,
        pairs=pairs,
        effect=effect,
        verdict=verdict,
        because=because,
        avoided=_avoided(hours, cluster[after], draws, method.level),
        avoided_hours=hours,
        draws=draws,
    )


def _avoided(hours: Floats, cluster: Indices, draws: Draws, level: float) -> Value:
    if not np.isfinite(hours).all():
        return missing("node-h")
    total, low, high = total_interval(hours, cluster, draws, level)
    return known(total, "node-h", MEASURED, len(hours), (low, high))


def judge(effect: Effect, baseline: Baseline, method: Method) -> tuple[str, str]:
    """Verdict and reason. Every rule was fixed by the method.

    The time must clearly fall (rise) for a saving (loss): the whole interval lies on one side of zero, on
    enough pairs and programs, with a baseline model within its limits.
    """
    lacks = _lacks(effect, baseline, method)
    if lacks:
        return INCONCLUSIVE, "; ".join(lacks)
    if -method.material <= effect.low and effect.high <= method.material:
        return SAME, f"the interval lies within {method.material:.1%} of no change"
    if effect.low > 0:
        return SAVING, "the whole interval lies above zero"
    if effect.high < 0:
        return LOSS, "the whole interval lies below zero"
    return INCONCLUSIVE, "the interval holds zero"


def _lacks(effect: Effect, baseline: Baseline, method: Method) -> list[str]:
    lacks = []
    if effect.pairs < method.fewest_pairs:
        lacks.append(f"{effect.pairs} pairs, at least {method.fewest_pairs} are needed")
    if method.inference == "programs" and effect.effective_clusters < method.fewest_clusters:
        lacks.append(
            f"{effect.effective_clusters:.1f} effective programs, "
            f"at least {method.fewest_clusters} are needed"
        )
    if not np.isfinite([effect.low, effect.high]).all():
        lacks.append("too few programs or runs for an interval")
    if not baseline.cv_rmse <= method.cv_rmse_limit:
        lacks.append(f"CV(RMSE) {_percent(baseline.cv_rmse)} is not within {method.cv_rmse_limit:.0%}")
    if not abs(baseline.nmbe) <= method.nmbe_limit:
        lacks.append(f"NMBE {_percent(baseline.nmbe)} is not within {method.nmbe_limit:.0%}")
    return lacks


def _percent(value: float) -> str:
    return f"{value:.1%}" if np.isfinite(value) else "not known"


def alternatives(runs: Runs, method: Method) -> Iterator[tuple[str, Analysis]]:
    """The same comparison by other methods: does the result hang on a choice? At most 200 resamples each."""
    method = replace(method, repetitions=min(method.repetitions, 200))
    changes: dict[str, dict[str, Any]] = {
        "estimand": {"estimand": "assigned" if method.estimand == "placed" else "placed"},
        "inference": {"inference": "runs" if method.inference == "programs" else "programs"},
        "no adjustment": {"adjust": ()},
        "another seed": {"seed": method.seed + 1},
    }
    for name, change in changes.items():
        word = change.get(name)
        yield (f"{name} {word}" if word else name), analyse(runs, replace(method, **change))
