"""A structure that was traced at one number of ranks, predicted and really traced at another."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slurm_topo.model import CommGraph
from slurm_topo.trace import merge_traces, read_trace
from slurm_topo.trace.structure import recognise, scale

pytestmark = pytest.mark.mpi


@pytest.fixture
def traced(
    program: Callable[..., Path],
    mpirun: Callable[..., list[str]],
    run: Callable[..., Any],
    native: Path,
    counters: Path,
    tmp_path: Path,
) -> Callable[[int], CommGraph]:
    """The graph of programs/stencil.c at a number of ranks."""

    def trace(ranks: int) -> CommGraph:
        counters.mkdir(mode=0o700, exist_ok=True)
        done = run([*mpirun(ranks), str(program("stencil.c")), "8", "10"])
        assert done.returncode == 0, done.stderr
        out = tmp_path / f"{ranks}.trace"
        subprocess.run([str(native / "slurm-topo-collect"), str(counters), str(out)], check=True)
        return merge_traces([read_trace(out)])

    return trace


def observed(graph: CommGraph) -> np.ndarray:
    """Bytes without those of collectives."""
    matrix = np.zeros((graph.ranks, graph.ranks))
    matrix[graph.source, graph.target] = graph.nbytes - graph.modelled
    return matrix


def test_predicted_stencil_is_the_traced_one(traced: Callable[[int], CommGraph]) -> None:
    small = traced(12)  # 3 x 2 x 2, closed in the last dimension: two ranks there, so no ring is to be seen
    found = recognise(small)
    assert found is not None
    assert found.dims == (3, 2, 2)
    larger, confidence = scale(found, 18)
    assert confidence > LEAST
    real = traced(18)
    both = np.corrcoef(observed(larger).ravel(), observed(real).ravel())[0, 1]
    assert both > LEAST


LEAST = 0.8
