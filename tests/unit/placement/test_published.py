"""Problems whose optimum is published and whose data follow from a rule."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from graphs import graph_of

from slurm_topo.machine.distances import machine_of_distances
from slurm_topo.placement.solve import place


@pytest.mark.parametrize("seed", [0, 1])
def test_tai64c_of_the_qaplib(seed: int) -> None:
    """Thirteen units repel each other on a torus of 8 x 8 (tai64c of QAPLIB, optimal value 1855928)."""
    side, units = 8, 13
    shift = np.abs(np.arange(side)[:, None] - np.arange(side))
    step = np.minimum(shift, side - shift) ** 2
    cell = np.arange(side * side)
    square = step[np.ix_(cell // side, cell // side)] + step[np.ix_(cell % side, cell % side)]
    repulsion = np.rint(100_000 / np.where(square, square, 1)) * (square > 0)
    pairs = [(u, v, 1.0) for u, v in itertools.permutations(range(units), 2)]
    graph = graph_of(pairs, side * side)
    assert place(graph, machine_of_distances(repulsion), effort="best", seed=seed).cost == 1_855_928
