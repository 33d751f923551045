"""The counts of a report add up to its runs, in every format, whatever the history holds."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from slurm_topo.cli.main import main
from slurm_topo.history.database import open_engine, transaction
from slurm_topo.history.schema import jobs, programs
from slurm_topo.report.fates import FATES

ARMS = ("", "off", "observe", "advise", "enforce")
JOB = st.fixed_dictionaries(
    {
        "program_id": st.sampled_from([None, 1, 2]),
        "arm": st.sampled_from(ARMS),
        "arm_reason": st.sampled_from(["", "", "user-list", "=", "1,234 placed"]),
        "decision": st.sampled_from(["", "none", "trace", "place", "stand-down"]),
        "reason": st.sampled_from(["", "margin", "user-binding", "a + 7 placed", "<b>"]),
        "placed": st.sampled_from([0, 0, 1]),
        "state": st.sampled_from(["COMPLETED", "FAILED", "RUNNING", "UNKNOWN"]),
        "run_s": st.sampled_from([None, 0.0, 5.0, 60.0]),
        "nodes": st.sampled_from([None, 1, 4]),
        "started": st.sampled_from([None, 1_790_000_000, 1_790_500_000]),
    }
)


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    """A history of these jobs, in two programs or in none."""
    path.unlink(missing_ok=True)
    engine = open_engine(str(path))
    with transaction(engine) as connection:
        seen = {"user_name": "ada", "first_seen": 1, "last_seen": 1}
        connection.execute(programs.insert(), [{"id": i, "name": f"p{i}", **seen} for i in (1, 2)])
        given = {"user_name": "ada", "submitted": 1_789_999_000, "final": 1}
        if rows:
            connection.execute(jobs.insert(), [{"job": i, **given, **row} for i, row in enumerate(rows)])
    engine.dispose()


def told(capsys: pytest.CaptureFixture[str], path: Path, form: str) -> str:
    with pytest.raises(SystemExit) as stop:
        main(["report", "--database", str(path), "--format", form])
    assert not stop.value.code
    return capsys.readouterr().out


def counts(text: str) -> dict[str, int]:
    """The counts of a sentence such as ``3 placed + 2 left alone``."""
    found = [(int(n.replace(",", "")), name.strip()) for n, name in re.findall(r"([\d,]+) ([a-z ]+)", text)]
    assert {name for _, name in found} <= set(FATES)
    return {name: n for n, name in found}


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(JOB, min_size=1, max_size=25))
@example(
    rows=[
        {"program_id": 1, "arm": arm, "decision": decision, "placed": placed}
        for arm in ARMS
        for decision in ("", "trace", "place", "stand-down")
        for placed in (0, 1)
    ]
)
def test_counts_add_up_in_every_format(
    rows: list[dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "history.sqlite"
    write(path, rows)
    runs = sum(row["program_id"] is not None for row in rows)
    unknown = len(rows) - runs
    body = json.loads(told(capsys, path, "json"))
    fates = body["fates"]
    assert (body["runs"], body["unknown"]) == (runs, unknown)
    assert sum(fates.values()) == runs
    assert fates.get("placed", 0) == body["placed"]
    assert sum(body["left_alone"].values()) == fates.get("left alone", 0)
    both = sum(body["left_alone"].values()) + sum(body["unknown_left_alone"].values())
    assert sum(body["stood_down"].values()) == both
    for program in body["programs"]:
        assert sum(program["fates"].values()) == program["runs"] == sum(a["runs"] for a in program["arms"])
    for members in body["groups"].values():
        assert sum(member["runs"] for member in members) == runs

    lines = list(csv.DictReader(told(capsys, path, "csv").splitlines()))
    names = [f.replace(" ", "_") if f != "left alone" else "runs_left_alone" for f in FATES]
    assert sum(int(line["runs"]) for line in lines) == runs
    for line in lines:
        assert sum(int(line[name]) for name in names) == int(line["runs"])

    table = told(capsys, path, "table").splitlines()
    page = told(capsys, path, "html")
    sentence = re.search(r'<p class="soft" id="fates">(.*?)</p>', page)
    if runs:
        head = next(i for i, line in enumerate(table) if re.match(r"[\d,]+ runs? of ", line))
        assert int(table[head].split()[0]) == runs
        assert (
            counts(" ".join(line.strip() for line in table[head + 1 : head + 4] if line[:2] == "  ")) == fates
        )
        assert sentence is not None
        own, _, _ = sentence[1].partition(", and ")
        assert counts(own.partition(": ")[2]) == fates
    if unknown:
        left = sum(body["unknown_left_alone"].values())
        said = f"no known program: {left} left alone at submission + {unknown - left} not seen"
        assert said in "\n".join(table)
        assert sentence is not None
        assert said in sentence[1]
