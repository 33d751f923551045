"""The report in a real browser: nothing is cut off at the width of a phone, a tablet and a screen."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from slurm_topo.cli.main import main
from slurm_topo.history.database import open_engine
from slurm_topo.report.synthetic import Design, synthetic_runs, write_history
from slurm_topo.report.synthetic_case import write_case


@pytest.fixture(scope="module")
def report_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report with every part."""
    folder = tmp_path_factory.mktemp("report")
    runs = synthetic_runs(Design(runs=900, programs=6, users=4, effect_spread=0.1), np.random.default_rng(2))
    engine = open_engine(str(folder / "history.sqlite"))
    write_history(engine, runs)
    for program in (1, 2):
        rows = np.flatnonzero((runs.program == program) & runs.placed)
        write_case(engine, int(runs.row[rows[-1]]), program, float(runs.elapsed[rows[-1]]) * 6e7)
    engine.dispose()
    target = folder / "report.html"
    with pytest.raises(SystemExit):
        main(["report", "--database", str(folder / "history.sqlite"), "--format", "html", "-o", str(target)])
    return target


@pytest.mark.parametrize("width", [360, 768, 1280])
def test_the_report_fits(
    report_page: Path,
    width: int,
    measure: Callable[[Path, int], tuple[int, int, str]],
    shoot: Callable[[Path, int], Path],
) -> None:
    inner, needed, outside = measure(report_page, width)
    assert inner == width
    assert needed <= width
    assert outside == ""
    assert shoot(report_page, width).stat().st_size > 50_000
