"""The audit report in a real browser, at the width of a phone, a tablet and a screen."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from slurm_topo.cli.main import main
from slurm_topo.history.database import open_engine
from slurm_topo.report.synthetic import Design, synthetic_runs, write_history

PRICES = """currency = "EUR"
date = "2026-11-01"
node_hour = 1.1
kwh = {value = 0.22, low = 0.15, high = 0.35, source = "supply contract"}
pue = 1.25
node_price = 14000
node_life_years = 5
utilisation = 0.85
"""


@pytest.fixture(scope="module")
def audit_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A comparison with prices and every section."""
    folder = tmp_path_factory.mktemp("compare")
    engine = open_engine(str(folder / "history.sqlite"))
    write_history(engine, synthetic_runs(Design(runs=900, programs=12, users=4), np.random.default_rng(2)))
    engine.dispose()
    (folder / "prices.toml").write_text(PRICES)
    argv = ["--database", str(folder / "history.sqlite"), "--prices", str(folder / "prices.toml")]
    with pytest.raises(SystemExit):
        main(["compare", *argv, "-o", str(folder / "out")])
    return folder / "out" / "comparison.html"


@pytest.mark.parametrize("width", [360, 768, 1280])
def test_the_comparison_fits(
    audit_page: Path,
    width: int,
    measure: Callable[[Path, int], tuple[int, int, str]],
    shoot: Callable[[Path, int], Path],
) -> None:
    inner, needed, outside = measure(audit_page, width)
    assert inner == width
    assert needed <= width
    assert outside == ""
    assert shoot(audit_page, width).stat().st_size > 50_000
