"""A report says whether anybody has measured what the levels of the machine cost."""

from __future__ import annotations

import csv
import io
import json
import shutil
from pathlib import Path

import pytest
from sqlalchemy import insert, update

from slurm_topo.history.database import open_engine, transaction
from slurm_topo.history.schema import machines, steps
from slurm_topo.report.export import render_csv, render_json
from slurm_topo.report.load import Filter, load
from slurm_topo.report.numbers import Report
from slurm_topo.report.summary import summarise
from slurm_topo.report.table import render


def report_of(history: Path, folder: Path, levels: list[dict[str, object]]) -> Report:
    """Report on a copy of the history whose steps were held against a machine with these level costs."""
    copy = folder / "copy.sqlite"
    shutil.copy(history, copy)
    engine = open_engine(str(copy))
    description = json.dumps({"format": "slurm-topo-cluster", "version": 1, "levels": levels})
    row = {"digest": "m1", "cores": 8, "nodes": 4, "description": description, "first_seen": 0}
    with transaction(engine) as connection:
        connection.execute(insert(machines).values(row))
        connection.execute(update(steps).values(machine="m1"))
    try:
        return summarise(load(engine, Filter()))
    finally:
        engine.dispose()


def test_costs_that_nobody_measured_are_assumed(history: Path, tmp_path: Path) -> None:
    report = report_of(history, tmp_path, [])
    assert report.level_costs
    assert {origin for _, origin in report.level_costs} == {"assumed"}


@pytest.mark.parametrize("origin", ["measured", "given"])
def test_every_format_names_the_origin_of_a_level(history: Path, tmp_path: Path, origin: str) -> None:
    level = {"name": "switch", "latency_s": 1e-6, "bandwidth": 1e9, "origin": origin}
    report = report_of(history, tmp_path, [level])
    assert dict(report.level_costs)["switch"] == origin
    assert json.loads(render_json(report))["level_costs"]["switch"] == origin
    assert f"{origin} for switch" in render(report)
    (row, *_) = csv.DictReader(io.StringIO(render_csv(report)))
    assert f"switch={origin}" in row["level_costs"].split(";")
