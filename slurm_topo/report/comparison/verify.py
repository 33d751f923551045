"""Does the method keep its promise? Histories with a known effect, compared many times.

``python -m slurm_topo.report.comparison.verify`` prints the table of docs/compare.md.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace

import numpy as np

from slurm_topo.report.comparison.analysis import analyse
from slurm_topo.report.comparison.method import Method
from slurm_topo.report.synthetic import Design, synthetic_runs


@dataclass(frozen=True)
class Coverage:
    """What many comparisons of one design showed.

    Attributes
    ----------
    design : Design
        How the histories came about.
    repetitions : int
        Histories.
    covered : float
        Share of the intervals that held the true saving.
    called : float
        Share of the verdicts "saving" (for no effect: false ones).
    bias : float
        Mean saving found less the true one.
    width : float
        Median width of the intervals.
    """

    design: Design
    repetitions: int
    covered: float
    called: float
    bias: float
    width: float


def cover(design: Design, method: Method, repetitions: int, rng: np.random.Generator) -> Coverage:
    """Compare many histories of one design."""
    found = []
    for _ in range(repetitions):
        runs = synthetic_runs(design, rng)
        result = analyse(runs, replace(method, seed=int(rng.integers(1 << 31))))
        e = result.effect
        found.append((e.low <= design.effect <= e.high, result.verdict == "saving", e.saving, e.high - e.low))
    covered, called, saving, width = (
        np.array(column, dtype=np.float64) for column in zip(*found, strict=True)
    )
    return Coverage(
        design,
        repetitions,
        float(covered.mean()),
        float(called.mean()),
        float(saving.mean()) - design.effect,
        float(np.median(width)),
    )


def designs() -> list[Design]:
    """Effects of none, 5 % and 20 %, confounded by nothing, size, user and hour, few and many clusters."""
    plain = [
        Design(runs=600, programs=40, users=20, effect=effect, confounder=confounder)
        for effect in (0.0, 0.05, 0.2)
        for confounder in ("none", "size", "user", "hour")
    ]
    few = [Design(runs=300, programs=8, users=4, effect=effect) for effect in (0.0, 0.05)]
    varied = [
        Design(runs=600, programs=40, users=20, effect=effect, effect_spread=0.05) for effect in (0.0, 0.05)
    ]
    return [*plain, *few, *varied]


def cases() -> list[tuple[Design, str]]:
    """Each design with an estimand. Drawn arms with runs that stood down have a known effect only of none."""
    placed = [(design, "placed") for design in designs()]
    return placed + [(design, "assigned") for design, _ in placed if not design.effect]


def main(repetitions: int = 500) -> None:
    """Print the table."""
    head = "effect  spread  confounder  estimand  clusters  runs"
    print(f"{head}  covered  called saving    bias   width")
    for i, (design, estimand) in enumerate(cases()):
        method = Method(estimand=estimand, repetitions=400)
        c = cover(design, method, repetitions, np.random.default_rng(1000 + i))
        left = f"{design.effect:6.2f}  {design.effect_spread:6.2f}  {design.confounder:10s}  {estimand:8s}"
        right = f"{c.covered:7.3f}  {c.called:13.3f}  {c.bias:+.4f}  {c.width:.4f}"
        print(f"{left}  {design.programs:8d}  {design.runs:4d}  {right}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 500)
