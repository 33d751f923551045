"""A structure traced at one number of ranks, predicted and really traced at another, pair by pair."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slurm_topo.model import CommGraph
from slurm_topo.trace import build_graph, merge_traces, read_trace
from slurm_topo.trace.growth import agreement, fit_growth
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
) -> Callable[..., CommGraph]:
    """The graph of a program of tests/mpi/programs at a number of ranks."""

    def trace(name: str, ranks: int, *arguments: str) -> CommGraph:
        counters.mkdir(mode=0o700, exist_ok=True)
        done = run([*mpirun(ranks), str(program(name)), *arguments])
        assert done.returncode == 0, done.stderr
        out = tmp_path / f"{ranks}.trace"
        subprocess.run([str(native / "slurm-topo-collect"), str(counters), str(out)], check=True)
        return merge_traces([read_trace(out)])

    return trace


def observed(graph: CommGraph) -> CommGraph:
    """Without collectives."""
    sent = graph.nbytes - graph.modelled
    kept = sent > 0
    return build_graph(graph.ranks, graph.source[kept], graph.target[kept], sent[kept])


def test_predicted_stencil_is_the_traced_one(traced: Callable[..., CommGraph]) -> None:
    # 2 x 2 x 2 and 3 x 2 x 2 ranks, closed in the last dimension: two ranks there, so no ring is to be seen.
    graphs = [traced("stencil.c", ranks, "8", "10") for ranks in (8, 12)]
    found = [(g.ranks, recognise(g)) for g in graphs]
    growth = fit_growth(found)
    assert growth is not None
    assert growth.law == "constant"
    base = found[-1][1]
    assert base is not None
    assert base.dims == (3, 2, 2)
    larger, confidence = scale(base, 18, growth)
    real = observed(traced("stencil.c", 18, "8", "10"))
    # The middle dimension grows from two ranks: whether it is closed could not be seen, which costs sureness.
    assert confidence < 0.8
    assert agreement(larger, real) > 0.99
    assert np.array_equal(larger.nbytes, real.nbytes)


def test_predicted_transposes_are_the_traced_ones(traced: Callable[..., CommGraph]) -> None:
    small = traced("transpose.c", 16)
    found = recognise(small)
    assert found is not None
    assert (found.kind, found.dims) == ("pencils", (4, 4))
    larger, confidence = scale(found, 25)
    assert confidence > 0.8
    assert agreement(larger, traced("transpose.c", 25)) >= confidence


def test_irregular_programs_are_not_predicted(traced: Callable[..., CommGraph]) -> None:
    assert recognise(traced("sparse.c", 12)) is None
