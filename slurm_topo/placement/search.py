"""The search: many starts, then annealing at the heat that pays on this graph, within counted work."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slurm_topo.model import Ints
from slurm_topo.placement.native import Control, Instance, Style


@dataclass(frozen=True)
class Effort:
    """How much work a search is worth, and how it is shared out.

    Attributes
    ----------
    seconds_at_128, growth : float
        The work for n ranks is ``seconds_at_128 * (n / 128) ** growth`` seconds of the machine that the work
        was calibrated on; it is counted, never timed.
    starts : float
        Share of the work for multisections.
    trial : float
        Share of the work for the first trial of each heat.
    heats : tuple of float
        By what share the cost is raised before it is annealed down again: little for graphs whose
        multisection is perfect already (grids), a lot for those without structure.
    rounds : int
        After each round the heats that did well go on with three times the work, the hottest of them at last.
    tolerance : float
        How much worse than the best trial a trial may be to do well.
    """

    seconds_at_128: float
    growth: float
    starts: float
    trial: float
    rounds: int
    tolerance: float
    heats: tuple[float, ...]

    def work(self, ranks: int) -> float:
        """Work for this number of ranks, in calibrated seconds."""
        return float(self.seconds_at_128 * (max(ranks, 16) / 128) ** self.growth)


LAUNCH = Effort(
    seconds_at_128=0.068, growth=0.77, starts=0.2, trial=0.07, rounds=1, tolerance=0.012, heats=(0.02, 0.2)
)
BEST = Effort(
    seconds_at_128=1.4,
    growth=0.8,
    starts=0.1,
    trial=0.03,
    rounds=1,
    tolerance=0.03,
    heats=(0.0, 0.02, 0.1, 0.3),
)

# Rises of the restarts for few ranks.
HOTTEST, WARM, MILD = 1.0, 0.3, 0.02
# A long annealing proposes LONG_RUN swaps a vertex, or a number of times the vertices where that is less:
# several shorter ones find better placements of few ranks than a long one.
LONG_RUN, SHORT_RUN, SHORTEST_RUN, MOST_RUNS, FEW = 40_000, 50, 20, 100, 256
MOST_HEATS = 3
COLD, COLD_FALL, WARM_FALL = 0.3, 300.0, 7.0

# The best of ten for the first cuts, which cost most; in pairs or clusters; with a taste for edges of some
# weights.
STYLES = (
    Style(tries=10, deep=4, cycles=0, join=True, taste=0.0),
    Style(tries=1, deep=64, cycles=0, join=False, taste=0.0, shuffle=True),
    Style(tries=3, deep=64, cycles=0, join=True, taste=1.0, shuffle=True),
    Style(tries=3, deep=64, cycles=1, join=True, taste=0.0, shuffle=True),
    Style(tries=1, deep=64, cycles=0, join=True, taste=3.0, growths=1, shuffle=True),
    Style(tries=10, deep=4, cycles=0, join=False, taste=0.0, shuffle=True),
)
DEEP = Style(tries=10, deep=4, cycles=0, join=True, taste=0.0, shuffle=True)


class Search:
    """One search on one instance. `best` is a valid placement from the first start on.

    Attributes
    ----------
    best : int32 array, shape (vertices,)
        Core of each vertex of the instance.
    best_cost : float
        Its cost in the kernel's unit.
    best_name : str
        Which start and which refinements it came from.
    """

    def __init__(
        self, instance: Instance, control: Control, seed: int, fixed: NDArray[np.uint8] | None = None
    ) -> None:
        self.instance = instance
        self.control = control
        self.fixed = fixed
        self.best = np.empty(0, dtype=np.int32)
        self.best_cost = math.inf
        self.best_name = ""
        self._random = np.random.SeedSequence(seed)
        self._draws = 0

    def offer(self, placement: Ints, name: str) -> float:
        """Keep the placement if it is the best so far; its cost."""
        cost = self.instance.cost(placement)
        # The first is kept whatever its cost: there is always a placement to give.
        if not self.best.size or cost < self.best_cost:
            self.best, self.best_cost, self.best_name = placement.copy(), cost, name
        return cost

    def run(self, effort: Effort, ranks: int) -> None:
        """Spend the work of `effort`."""
        work = effort.work(ranks)
        self._starts(work * effort.starts)
        left = work * (1 - effort.starts)
        heats, share = list(effort.heats), work * effort.trial
        for _ in range(effort.rounds):
            results = {heat: self._anneal(heat, share) for heat in heats}
            left -= share * len(heats)
            if self.control.expired():
                return
            # Short trials are kind to the cold: what comes near them wins when the annealing is long.
            enough = min(results.values()) * (1 + effort.tolerance)
            heats = sorted(heat for heat in heats if results[heat] <= enough)[-MOST_HEATS:]
            share *= 3
        self._long(heats[-1], left * 0.85)
        self._anneal(min(heats[-1], MILD), left * 0.1)
        self._anneal(0.0, left * 0.05)

    def _starts(self, work: float) -> None:
        """Multisections of all styles while the work lasts, at least one."""
        spent, turn = 0.0, 0
        while turn == 0 or (spent < work and not self.control.expired()):
            style = STYLES[turn % len(STYLES)]
            if turn and spent + self.multisection_work(style) > work:
                break
            self._multisection(style)
            spent += self.multisection_work(style)
            turn += 1

    def _multisection(self, style: Style) -> Ints:
        placement = self.instance.multisect(style, self._seed(), self.control)
        self._respect_fixed(placement)
        self.instance.descend(placement, self.fixed, self.control)
        self.offer(placement, "multisection+swap")
        return placement

    def _long(self, heat: float, work: float) -> None:
        """One long annealing, or for fewer ranks several, from starts of their own."""
        vertices = self.instance.vertices
        few = vertices <= FEW
        run = vertices * min(LONG_RUN, (SHORTEST_RUN if few else SHORT_RUN) * vertices) * self.move_work()
        runs = max(1, min(MOST_RUNS, int(work / run)))
        heats = [heat, 0.0, HOTTEST, 0.0, WARM, MILD] if few else [min(heat, MILD), heat]
        if runs == 1:
            heats = [heat]
        for turn in range(runs):
            if self.control.expired():
                return
            # For few ranks every other run goes on from the best.
            fresh = None
            if few and turn % 2:
                fresh = self._multisection(STYLES[turn // 2 % len(STYLES)])
            elif not few and runs > 1:
                fresh = self._multisection(DEEP)
            self._anneal(heats[turn % len(heats)], work / runs, fresh)

    def _anneal(self, rise: float, work: float, start: Ints | None = None) -> float:
        """Anneal the best placement, or a start; the cost that this reached."""
        placement = self.best.copy() if start is None else start
        moves = int(work / self.move_work())
        fall = WARM_FALL if rise else COLD_FALL
        origin = self.best_name if start is None else "multisection+swap"
        name = origin.removesuffix("+anneal") + "+anneal"
        self.instance.anneal(placement, self.fixed, moves, COLD, fall, rise, self._seed(), self.control)
        self.instance.descend(placement, self.fixed, self.control)
        return self.offer(placement, name)

    def move_work(self) -> float:
        """Calibrated seconds of one proposal."""
        # Beyond some thousand vertices the graph leaves the nearer caches.
        far = 1 + 0.2 * max(0.0, math.log2(self.instance.vertices / 2048))
        return (42e-9 + 4.8e-9 * self.instance.degree) * far

    def multisection_work(self, style: Style) -> float:
        """Calibrated seconds of one multisection."""
        depth = max(1.0, math.log2(self.instance.vertices / 8))
        # Cuts of small parts have one try.
        tried = min(depth, math.log2(style.deep) + 1)
        return (
            60e-9
            * self.instance.vertices
            * (self.instance.degree + 8)
            * (depth + 0.6 * (style.tries - 1) * tried)
        )

    def _seed(self) -> int:
        self._draws += 1
        return int(self._random.generate_state(self._draws, np.uint64)[-1])

    def _respect_fixed(self, placement: Ints) -> None:
        """Bring fixed vertices back to the cores that the first start gives them."""
        if self.fixed is None:
            return
        at = np.empty_like(placement)
        at[placement] = np.arange(placement.size, dtype=np.int32)
        for vertex in np.flatnonzero(self.fixed):
            core, left = self.best[vertex], placement[vertex]
            other = at[core]
            placement[other], at[left] = left, other
            placement[vertex], at[core] = core, vertex
