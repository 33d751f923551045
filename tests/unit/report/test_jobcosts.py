"""Each job's time is taken apart, as rows in JSON and CSV and to read in HTML."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import update

from slurm_topo.cli.main import main
from slurm_topo.history.database import open_engine, transaction
from slurm_topo.history.schema import graphs, jobs, steps
from slurm_topo.report.jobcosts import JobFacts, StepCost, job_costs, newest
from slurm_topo.report.runs import Labels, Program, Records, Runs, Traffic, no_traffic, runs_of
from slurm_topo.report.synthetic import Design, synthetic_runs, write_history

PER_BYTE = {"node": 1e-9, "switch": 4e-9}


def run(**columns: Any) -> Runs:
    given = {
        "job": [7],
        "program": [1],
        "elapsed": [10.0],
        "wait": [3.0],
        "energy": [5000.0],
        "start": [100.0],
    }
    return runs_of(given | {"ranks": [4], "state": ["COMPLETED"], "user": ["ada"], **columns})


def parts(records: Records, facts: JobFacts) -> tuple[dict[str, float | None], Any]:
    (one,) = job_costs(records, newest(records, 5), facts)
    return {part.name: part.seconds.value for part in one.parts}, one


def test_the_parts_of_a_traced_job_add_up_to_its_time() -> None:
    step = StepCost(4, 4 * 2.5, {"node": 4 * 5e8, "switch": 4 * 4e8}, PER_BYTE, waiting=4.0)
    records = Records(run(), {1: Program(1, "halo", "ada", "")}, no_traffic())
    found, one = parts(records, JobFacts({7: [step]}))
    assert found == pytest.approx(
        {
            "queue": 3.0,
            "computation": 6.0,
            "waiting": 1.5,
            "latency": 2.5 - 0.5 - 1.6,
            "bandwidth of node": 0.5,
            "bandwidth of switch": 1.6,
        }
    )
    assert sum(v for k, v in found.items() if k != "queue") == pytest.approx(10.0)  # type: ignore[misc]
    assert (one.dominant, one.dominant_communication) == ("computation", "bandwidth of switch")
    assert (one.energy.value, one.energy_communication.value) == (5000.0, pytest.approx(2000.0))
    origins = {part.name: part.seconds.origin for part in one.parts}
    assert (origins["queue"], origins["waiting"], origins["latency"]) == ("measured", "measured", "modelled")


@pytest.mark.parametrize(
    ("step", "dominant"),
    [
        (StepCost(4, 4 * 9.0, {"node": 4.0}, PER_BYTE), "latency"),
        (StepCost(4, 4 * 9.0, {"node": 4 * 9e9}, PER_BYTE), "bandwidth of node"),
        (StepCost(4, 4 * 0.1, {"node": 4.0}, PER_BYTE, waiting=8.0), "waiting"),
        (StepCost(4, 4 * 0.1, {"node": 4.0}, PER_BYTE), "computation"),
    ],
)
def test_the_dominant_factor_is_named(step: StepCost, dominant: str) -> None:
    _, one = parts(Records(run(), {}, no_traffic()), JobFacts({7: [step]}))
    assert one.dominant == dominant


def test_what_is_not_known_is_missing_and_nothing_is_made_up() -> None:
    found, one = parts(Records(run(energy=[np.nan], wait=[np.nan]), {}, no_traffic()), JobFacts())
    assert found == {"queue": None, "computation": None, "waiting": None}
    assert (one.dominant, one.dominant_communication) == ("", "")
    assert not one.energy.known
    assert not one.energy_communication.known


def test_other_runs_of_the_program_on_the_same_side_stand_for_a_job_without_traffic() -> None:
    two = run(
        job=[7, 8],
        program=[1, 1],
        elapsed=[10.0, 10.0],
        wait=[0, 0],
        energy=[0, 0],
        start=[1.0, 2.0],
        ranks=[4, 4],
        state=["COMPLETED"] * 2,
        user=["ada"] * 2,
        baseline=[12.0, np.nan],
    )
    traffic = Traffic(
        program=np.array([1], dtype=np.int32),
        after=np.array([False]),
        depth=np.array([0], dtype=np.int32),
        level=Labels.of(["switch"]),
        nbytes=np.array([4 * 5e8]),
        runs=np.array([1], dtype=np.int32),
        measured=np.array([True]),
    )
    made = job_costs(Records(two, {}, traffic), newest(Records(two, {}, traffic), 1), JobFacts({}, PER_BYTE))
    of = {part.name: part.seconds.value for part in made[0].parts}
    assert made[0].job == 8
    assert of["bandwidth of switch"] == pytest.approx(2.0)
    assert of["latency"] == pytest.approx(1.0)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A history of forty jobs, the newest of which was traced."""
    runs = synthetic_runs(Design(runs=40, programs=2, users=2), np.random.default_rng(1))
    file = tmp_path_factory.mktemp("jobs") / "jobs.sqlite"
    engine = open_engine(str(file))
    write_history(engine, runs)
    last = int(runs.row[np.flatnonzero(runs.placed)[-1]])
    with transaction(engine) as connection:
        meta = json.dumps({"wait_share": [0.1, 0.5, 0.9], "seconds": 100.0})
        about = {"digest": "f" * 16, "ranks": 4, "edges": 0, "nbytes": 0, "messages": 0, "content": b""}
        connection.execute(graphs.insert().values(**about, meta=meta, first_seen=0))
        connection.execute(update(steps).where(steps.c.job_id == last).values(graph="f" * 16))
        odd = {"started": 2_000_000_000, "energy_j": None}
        connection.execute(update(jobs).where(jobs.c.id == last).values(**odd))
    engine.dispose()
    return file


def told(capsys: pytest.CaptureFixture[str], path: Path, *argv: str) -> str:
    with pytest.raises(SystemExit) as stop:
        main(["report", "--database", str(path), *argv])
    assert not stop.value.code
    return capsys.readouterr().out


def test_csv_json_html_and_table_say_the_same(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = list(csv.DictReader(told(capsys, path, "--format", "csv", "--jobs", "12").splitlines()))
    body = json.loads(told(capsys, path, "--format", "json", "--jobs", "12"))["jobs"]
    assert len(rows) == len(body) == 12
    assert [float(row["start"]) for row in rows] == sorted((float(r["start"]) for r in rows), reverse=True)
    for row, one in zip(rows, body, strict=True):
        assert (row["job"], row["dominant"]) == (str(one["job"]), one["dominant"])
        for part in one["parts"]:
            name, value = part["name"].replace(" ", "_"), part["seconds"]
            assert row[f"{name}_origin"] == value["origin"]
            assert row[name] == ("" if value["value"] is None else str(value["value"]))
        assert row["dominant"]
    first = rows[0]
    assert (first["waiting_origin"], first["energy_origin"]) == ("measured", "missing")
    assert {row["waiting_origin"] for row in rows[1:]} == {"missing"}
    assert {row["energy_communication_origin"] for row in rows[1:]} <= {"modelled", "missing"}
    page = told(capsys, path, "--format", "html")
    assert "Job by job" in page
    assert f"job {first['job']} &middot;" in page
    table = told(capsys, path, "--jobs", "3")
    assert max(map(len, table.splitlines())) <= 100
    assert table.count("\n", table.index("JOB BY JOB")) == 5
    assert "JOB BY JOB" not in told(capsys, path)
