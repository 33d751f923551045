"""What comes out of the database is what was put in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import update

from slurm_topo.history.database import open_engine, transaction
from slurm_topo.history.schema import jobs, programs
from slurm_topo.model import Floats
from slurm_topo.report import load as load_module
from slurm_topo.report.load import Filter, load, newest_rows, with_end
from slurm_topo.report.runs import Mask, Runs
from slurm_topo.report.summary import summarise


def read(path: Path, wanted: Filter | None = None) -> Runs:
    engine = open_engine(str(path), create=False)
    try:
        return load(engine, wanted or Filter()).runs
    finally:
        engine.dispose()


def test_every_run_arrives_in_chunks(history: Path, runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_module, "_ROWS", 7)
    found = read(history)
    assert found.row.tolist() == runs.row.tolist()
    for column in ("elapsed", "energy", "nodes", "ranks", "placed", "program"):
        np.testing.assert_array_equal(getattr(found, column), getattr(runs, column))
    for column in ("user", "account", "partition", "arm", "decision", "reason", "state"):
        assert getattr(found, column).texts() == getattr(runs, column).texts()


def test_details_come_from_the_newest_runs_of_each_side(history: Path, runs: Runs) -> None:
    found = read(history)
    chosen = newest_rows(runs)
    for program in np.unique(runs.program):
        for placed in (False, True):
            here = np.flatnonzero((runs.program == program) & (runs.placed == placed))
            newest = here[np.argsort(-runs.start[here], kind="stable")][:5]
            assert set(newest) == {
                i for i in chosen if runs.program[i] == program and runs.placed[i] == placed
            }
    detailed = chosen[runs.placed[chosen]]
    np.testing.assert_allclose(found.cost[detailed], runs.cost[detailed])
    np.testing.assert_allclose(found.baseline[detailed], runs.baseline[detailed])
    np.testing.assert_allclose(found.overhead[detailed], runs.overhead[detailed])


def ended(runs: Runs) -> Floats:
    return np.floor(runs.start + runs.elapsed)


CASES: list[tuple[Filter, Callable[[Runs], Mask]]] = [
    (Filter(programs=("3",)), lambda r: r.program == 3),
    (Filter(programs=("solver00?", "12")), lambda r: (r.program < 10) | (r.program == 12)),
    (Filter(users=("user001", "user002")), lambda r: r.user.isin(("user001", "user002"))),
    (Filter(accounts=("project0",)), lambda r: r.account.isin(("project0",))),
    (
        Filter(partitions=("large",), users=("user001",)),
        lambda r: r.partition.isin(("large",)) & r.user.isin(("user001",)),
    ),
    (Filter(since=1_791_000_000), lambda r: ended(r) >= 1_791_000_000),
    (Filter(until=1_791_000_000), lambda r: ended(r) < 1_791_000_000),
    (Filter(users=("nobody",)), lambda r: np.zeros(len(r), dtype=bool)),
]


@pytest.mark.parametrize(("wanted", "expected"), CASES)
def test_a_filter_chooses_exactly_its_runs(
    history: Path, runs: Runs, wanted: Filter, expected: Callable[[Runs], Mask]
) -> None:
    assert read(history, wanted).row.tolist() == runs.row[expected(runs)].tolist()


@pytest.fixture
def own_history(history: Path, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    target = tmp_path / "own.sqlite"
    source = open_engine(str(history), create=False)
    with source.connect() as connection:
        connection.exec_driver_sql("COMMIT")
        connection.exec_driver_sql(f"VACUUM INTO '{target}'")
    source.dispose()
    return target


def test_unknown_values_and_odd_texts_do_not_shift_columns(own_history: Path) -> None:
    engine = open_engine(str(own_history), create=False)
    with transaction(engine) as connection:
        change = {"run_s": None, "elapsed_s": None, "nodes": None, "started": None, "reason": "a\x1fb"}
        change["decision"] = "stand-down"
        connection.execute(update(jobs).where(jobs.c.id == 5).values(**change))
        connection.execute(update(jobs).where(jobs.c.id == 6).values(program_id=None))
    engine.dispose()
    found = read(own_history)
    assert 6 not in found.row
    at = int(np.flatnonzero(found.row == 5)[0])
    assert np.isnan(found.elapsed[at])
    assert np.isnan(found.nodes[at])
    assert np.isfinite(found.start[at])
    assert found.reason.texts()[at] == "a b"


def test_a_run_with_a_graph_of_its_own_is_traced_and_its_bytes_are_measured(own_history: Path) -> None:
    engine = open_engine(str(own_history), create=False)
    with engine.connect() as connection:
        raw = connection.connection.cursor()
        raw.execute("PRAGMA foreign_keys = OFF")
        raw.execute("UPDATE steps SET graph = 'abc'")
        connection.connection.commit()
    engine.dispose()
    engine = open_engine(str(own_history), create=False)
    records = load(engine, Filter())
    engine.dispose()
    assert records.runs.traced.sum() > 0
    assert records.traffic.measured.all()


def test_what_the_submit_hook_left_alone_is_counted_with_its_reason(own_history: Path) -> None:
    engine = open_engine(str(own_history), create=False)
    hook = {"arm": "off", "arm_reason": "user-list", "decision": "", "reason": "", "placed": 0}
    with transaction(engine) as connection:
        connection.execute(update(jobs).where(jobs.c.id.in_((7, 8, 9))).values(**hook))
        connection.execute(update(jobs).where(jobs.c.id.in_((8, 9, 10))).values(program_id=None))
        connection.execute(update(jobs).where(jobs.c.id == 10).values(decision="none", reason=""))
    records = load(engine, Filter())
    engine.dispose()
    assert records.unknown == {"user-list": 2, "": 1}
    report = summarise(records)
    assert dict(report.stood_down)["user-list"] == 3
    assert report.unknown == 3
    assert report.runs == 1197


def test_an_open_window_is_closed_after_the_last_run_whatever_its_steps_took(own_history: Path) -> None:
    engine = open_engine(str(own_history), create=False)
    with transaction(engine) as connection:
        connection.execute(update(jobs).where(jobs.c.id == 1200).values(run_s=1.0, ended=2_000_000_000))
    closed = with_end(engine, Filter())
    assert closed.until == 2_000_000_001
    assert len(load(engine, closed).runs) == 1200
    assert with_end(engine, Filter(until=5.0)).until == 5.0
    assert with_end(engine, Filter(users=("nobody",))).until is None
    engine.dispose()


def test_a_program_that_was_switched_back_says_why(own_history: Path) -> None:
    engine = open_engine(str(own_history), create=False)
    with transaction(engine) as connection:
        connection.execute(
            update(programs).where(programs.c.id == 3).values(arm="observe", arm_reason="slower")
        )
        connection.execute(update(programs).where(programs.c.id == 4).values(arm="off"))
    known = load(engine, Filter()).programs
    engine.dispose()
    assert (known[3].switched_back, known[4].switched_back, known[5].switched_back) == (
        "slower",
        "limited to off",
        "",
    )
