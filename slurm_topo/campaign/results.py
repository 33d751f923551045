"""What the campaign shows, with intervals over programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from slurm_topo.campaign.run import Outcome, decision_of
from slurm_topo.model import Floats

RESAMPLES = 2000
LEVEL = 0.95
# Simulated times are exact; a program counts as gaining or losing where its communication moves by this much.
NOISE = 0.01
# Figures published for a topology-aware scheduler at a centre of this kind: minutes, and shares of accesses.
PUBLISHED = {"completion_min": (48.2, 37.9), "cross_numa": (0.367, 0.121)}


@dataclass(frozen=True)
class Figure:
    """A mean before and after, and the change with its interval.

    Attributes
    ----------
    before, after : float
        Means, in the figure's unit.
    change, low, high : float
        after / before - 1, and the 95 % interval of that by bootstrap over programs.
    """

    before: float
    after: float
    change: float
    low: float
    high: float


@dataclass(frozen=True)
class Results:
    """All figures of a campaign.

    Attributes
    ----------
    figures : mapping of str to Figure
        Means ``completion_min``, ``run_min``, ``wait_min``, ``cost_per_job``; ``cross_numa``: share of bytes.
    jobs, programs : int
        How many there were.
    decisions : mapping of str to int
        Jobs by ``traced``, ``placed``, ``left alone``; they add up to `jobs`.
    gained, lost : int
        Placed jobs whose communication takes less or more time than with Slurm alone, beyond 1 %.
    worst : float
        Largest ratio of communication times of a placed job.
    by_kind : mapping of str to (int, float)
        Jobs of a kind, mean ratio of the communication times of those that were not traced.
    """

    figures: Mapping[str, Figure]
    jobs: int
    programs: int
    decisions: Mapping[str, int]
    gained: int
    lost: int
    worst: float
    by_kind: Mapping[str, tuple[int, float]]


def results_of(outcomes: Sequence[Outcome], price_node_hour: float, seed: int) -> Results:
    """The figures of a campaign.

    Parameters
    ----------
    outcomes : sequence of Outcome
        All jobs.
    price_node_hour : float
        Cost of a node for an hour, in any currency.
    seed : int
        Of the bootstrap.
    """
    names = [o.job.program.name for o in outcomes]
    _, cluster = np.unique(names, return_inverse=True)
    draws = _draws(cluster, seed)
    columns = {
        "completion_min": _pairs(outcomes, lambda o: (o.before.completion_s / 60, o.after.completion_s / 60)),
        "wait_min": _pairs(outcomes, lambda o: (_wait(o.before), _wait(o.after))),
        "run_min": _pairs(outcomes, lambda o: (o.before.run_s / 60, o.after.run_s / 60)),
        "cost_per_job": price_node_hour
        * _pairs(outcomes, lambda o: (_node_hours(o, o.before.run_s), _node_hours(o, o.after.run_s))),
        "cross_numa": _pairs(outcomes, _cross),
    }
    placed = [o.judged.ratio for o in outcomes if decision_of(o) == "placed"]
    decisions = [decision_of(o) for o in outcomes]
    return Results(
        figures={name: _figure(pairs, draws) for name, pairs in columns.items()},
        jobs=len(outcomes),
        programs=len(set(names)),
        decisions={name: decisions.count(name) for name in ("placed", "left alone", "traced")},
        gained=sum(ratio < 1 - NOISE for ratio in placed),
        lost=sum(ratio > 1 + NOISE for ratio in placed),
        worst=max(placed, default=1.0),
        by_kind=_by_kind(outcomes),
    )


def run_change_at(outcomes: Sequence[Outcome], share: float) -> float:
    """Change of the mean run time if communication took this share of every program's time.

    On the allocations of the campaign as it was placed.
    """
    run = np.array([o.job.run_s for o in outcomes])
    ratio = np.array([1.0 if o.traced else o.judged.ratio for o in outcomes])
    return float((run * (1 - share + share * ratio)).sum() / run.sum() - 1)


def _wait(run: object) -> float:
    return (run.start_s - run.job.submit_s) / 60  # type: ignore[attr-defined,no-any-return]


def _node_hours(outcome: Outcome, seconds: float) -> float:
    return outcome.job.program.nodes * seconds / 3600


def _cross(outcome: Outcome) -> tuple[float, float]:
    found = outcome.judged
    return found.cross_before, found.cross_before if outcome.traced else found.cross_after


def _pairs(outcomes: Sequence[Outcome], of: Callable[[Outcome], tuple[float, float]]) -> Floats:
    """float64 array, shape (jobs, 2)."""
    return np.array([of(outcome) for outcome in outcomes], dtype=np.float64)


def _draws(cluster: np.ndarray[tuple[int], np.dtype[np.intp]], seed: int) -> Floats:
    """How often each job counts in each resample of programs; float64 array, shape (RESAMPLES, jobs)."""
    random = np.random.default_rng(seed)
    programs = int(cluster.max()) + 1
    times = random.multinomial(programs, np.full(programs, 1 / programs), size=RESAMPLES)
    return times[:, cluster].astype(np.float64)


def _figure(pairs: Floats, draws: Floats) -> Figure:
    before, after = pairs.mean(axis=0)
    sums = draws @ pairs
    kept = sums[sums[:, 0] > 0]
    changes = kept[:, 1] / kept[:, 0] - 1 if kept.size else np.zeros(1)
    low, high = np.quantile(changes, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    change = after / before - 1 if before else 0.0
    return Figure(float(before), float(after), float(change), float(low), float(high))


def _by_kind(outcomes: Sequence[Outcome]) -> dict[str, tuple[int, float]]:
    kinds: dict[str, list[float]] = {}
    for outcome in outcomes:
        kinds.setdefault(outcome.job.program.kind, [])
        if not outcome.traced:
            kinds[outcome.job.program.kind].append(outcome.judged.ratio)
    counts = {kind: sum(o.job.program.kind == kind for o in outcomes) for kind in kinds}
    return {
        kind: (counts[kind], float(np.mean(r)) if r else float("nan")) for kind, r in sorted(kinds.items())
    }
