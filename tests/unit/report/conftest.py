"""Synthetic histories with a known effect."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from slurm_topo.history.database import open_engine
from slurm_topo.report.runs import Runs
from slurm_topo.report.synthetic import Design, synthetic_runs, write_history

SMALL = Design(runs=1200, programs=12, users=4, effect=0.2, noise=0.1)


@pytest.fixture(scope="session")
def runs() -> Runs:
    """Runs of twelve programs; placing saves 20 % of each."""
    return synthetic_runs(SMALL, np.random.default_rng(7))


@pytest.fixture(scope="session")
def history(runs: Runs, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same runs in a database."""
    path = tmp_path_factory.mktemp("history") / "history.sqlite"
    engine = open_engine(str(path))
    write_history(engine, runs)
    engine.dispose()
    return path


@pytest.fixture
def empty_history(tmp_path: Path) -> Path:
    """A history without runs."""
    path = tmp_path / "empty.sqlite"
    open_engine(str(path)).dispose()
    return path
