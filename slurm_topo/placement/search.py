"""The search: several starts, refinement of the best, all within a limit of counted work."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slurm_topo.model import Ints
from slurm_topo.placement.native import Control, Instance


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
        self.best: Ints | None = None
        self.best_cost = float("inf")
        self.best_name = ""
        self._seeds = np.random.SeedSequence(seed)
        self._draws = 0

    def offer(self, placement: Ints, name: str) -> bool:
        """Keep the placement if it is the best so far."""
        cost = self.instance.cost(placement)
        if self.best is not None and cost >= self.best_cost:
            return False
        self.best, self.best_cost, self.best_name = placement.copy(), cost, name
        return True

    def seed(self) -> int:
        """The next seed for a call of the kernel."""
        self._draws += 1
        return int(self._seeds.generate_state(self._draws, np.uint64)[-1])

    def launch(self) -> None:
        """A good placement at once."""
        self._starts(count=4)
        self._polish(moves=100 * self.instance.vertices)

    def thorough(self) -> None:
        """The best placement that the effort ``best`` is worth."""
        self._starts(count=20)
        self._polish(moves=5000 * self.instance.vertices)

    def _starts(self, count: int) -> None:
        for _ in range(count):
            if self.control.expired():
                return
            placement = self.instance.multisect(1, 0, self.seed(), self.control)
            self._respect_fixed(placement)
            self.instance.descend(placement, self.fixed, self.control)
            self.offer(placement, "multisection+swap")

    def _polish(self, moves: int) -> None:
        assert self.best is not None
        placement = self.best.copy()
        self.instance.anneal(placement, self.fixed, moves, (0.3, 0.05), self.seed(), self.control)
        self.instance.descend(placement, self.fixed, self.control)
        self.offer(placement, self.best_name + "+anneal")

    def _respect_fixed(self, placement: Ints) -> None:
        """Bring fixed vertices back to the cores that the first start gives them."""
        if self.fixed is None or self.best is None:
            return
        at = np.empty_like(placement)
        at[placement] = np.arange(placement.size, dtype=np.int32)
        for vertex in np.flatnonzero(self.fixed):
            core, other = self.best[vertex], at[self.best[vertex]]
            placement[other], at[placement[vertex]] = placement[vertex], other
            placement[vertex], at[core] = core, vertex
