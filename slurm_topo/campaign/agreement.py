"""How well the optimiser's objectives and the judge's times agree, pattern by pattern."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from slurm_topo import config
from slurm_topo.campaign.patterns import all_to_all, halo, many_to_one, mesh, multigrid, pencils, side_by_side
from slurm_topo.judge.run import judge
from slurm_topo.judge.simgrid import Simulator
from slurm_topo.model import CommGraph, Floats, Ints, Machine
from slurm_topo.placement.baselines import baselines
from slurm_topo.placement.load import objective_value
from slurm_topo.placement.solve import place

Objective = Callable[[CommGraph, Machine, Ints], float]
# Where the slowest of all mappings takes so little longer than the quickest, there is nothing to rank.
INDIFFERENT = 0.02
# Shares of the ranks that change places in a mapping between the best and a random one.
STEPS = (0.02, 0.05, 0.1, 0.2, 0.4, 0.7)

PATTERNS: Mapping[str, Callable[[int, int], CommGraph]] = {
    "halo": lambda ranks, seed: halo(ranks),
    "halo with corners": lambda ranks, seed: halo(ranks, corners=True),
    "mesh partition": lambda ranks, seed: mesh(ranks, seed, "arbitrary"),
    "multigrid": lambda ranks, seed: multigrid(ranks),
    "FFT pencils": lambda ranks, seed: pencils(ranks),
    "all-to-all": lambda ranks, seed: all_to_all(ranks),
    "many-to-one": lambda ranks, seed: many_to_one(ranks),
    "jobs sharing uplinks": lambda ranks, seed: side_by_side(
        [halo(ranks // 2), pencils(ranks // 4), many_to_one(ranks // 4, roots=2)]
    ),
}
OBJECTIVES: Mapping[str, Objective] = {name: partial(objective_value, name) for name in config.OBJECTIVES}


@dataclass(frozen=True)
class Agreement:
    """One pattern.

    Attributes
    ----------
    correlation : mapping of str to float
        Spearman's rank correlation with the simulated time, by objective; NaN where the objective cannot tell
        the mappings apart.
    spread : float
        Slowest over quickest mapping, less one.
    mappings : int
        How many mappings were simulated.
    seconds : float64 array, shape (mappings,)
        Simulated time of each.
    """

    pattern: str
    correlation: Mapping[str, float]
    spread: float
    mappings: int
    seconds: Floats

    @property
    def indifferent(self) -> bool:
        """Whether it hardly matters where the ranks are."""
        return self.spread < INDIFFERENT


def mappings(graph: CommGraph, machine: Machine, count: int, seed: int) -> Iterator[Ints]:
    """Baselines, the optimised one, some on the way from it to random ones, random ones: `count` in all."""
    random = np.random.default_rng(seed)
    known = [
        *baselines(machine, graph.ranks).values(),
        place(graph, machine, objective="auto", seed=seed).core_of_rank,
    ]
    yield from known[:count]
    for number in range(count - len(known)):
        if number % 3 == 0:
            yield random.permutation(machine.cores)[: graph.ranks].astype(np.int32)
            continue
        start = known[number % len(known)]
        yield _disturbed(start, STEPS[number % len(STEPS)], random)


def agreement(
    pattern: str,
    graph: CommGraph,
    machine: Machine,
    count: int,
    seed: int,
    objectives: Mapping[str, Objective] = OBJECTIVES,
    rounds: int = 1,
) -> Agreement:
    """Simulate `count` mappings and rank them by each objective and by the judge.

    Raises
    ------
    LaunchError
        SimGrid is not here or failed.
    """
    simulator = Simulator.find()
    tried = list(mappings(graph, machine, count, seed))
    named = {str(i): mapping for i, mapping in enumerate(tried)}
    judged = judge(graph, machine, named, rounds=rounds, simulator=simulator)
    seconds = np.array([judged.seconds[name] for name in named])
    correlation = {
        name: rank_correlation(np.array([objective(graph, machine, m) for m in tried]), seconds)
        for name, objective in objectives.items()
    }
    least = float(seconds.min())
    return Agreement(
        pattern, correlation, float(seconds.max()) / least - 1 if least else 0.0, len(tried), seconds
    )


def rank_correlation(a: Floats, b: Floats) -> float:
    """Spearman's rank correlation; NaN where one of both is constant."""
    from scipy.stats import spearmanr

    # Values that differ in the last digits only are one.
    a, b = (np.array([float(f"{x:.9g}") for x in column]) for column in (a, b))
    if np.ptp(a) == 0 or np.ptp(b) == 0:
        return float("nan")
    return float(spearmanr(a, b).statistic)


def worst(found: Sequence[Agreement], objective: str) -> float:
    """The lowest correlation of an objective over the patterns where mapping matters."""
    return min((a.correlation[objective] for a in found if not a.indifferent), default=float("nan"))


def _disturbed(start: Ints, share: float, random: np.random.Generator) -> Ints:
    moved: NDArray[np.int32] = start.copy()
    chosen = random.choice(start.size, max(2, round(share * start.size)), replace=False)
    moved[chosen] = start[random.permutation(chosen)]
    return moved
