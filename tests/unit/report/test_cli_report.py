"""``slurm-topo report`` as an administrator uses it."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from slurm_topo.cli.main import main


def run(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        main(["report", *argv])
    out = capsys.readouterr()
    return int(stop.value.code or 0), out.out, out.err


def test_the_table_fits_into_100_columns(history: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "--database", str(history))
    assert (code, err) == (0, "")
    assert max(map(len, out.splitlines())) <= 100
    for word in ("PROGRAMS", "LEFT ALONE, AND WHY", "margin", "solver001", "BYTES MEET AT", "USER", "WEEK"):
        assert word in out


def test_one_program_is_shown_in_full(history: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "--database", str(history), "--program", "solver003")
    for word in ("ARM", "observe", "enforce", "QUARTILES", "switch2", "communication cost", "left alone"):
        assert word in out
    assert "solver004" not in out


def test_json_names_its_format_and_marks_every_value(
    history: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, out, _ = run(capsys, "--database", str(history), "--format", "json")
    body = json.loads(out)
    assert (body["format"], body["version"]) == ("slurm-topo-report", 1)
    assert len(body["programs"]) == 12
    origins: set[str] = set()

    def walk(thing: Any) -> None:
        if isinstance(thing, dict):
            if "value" in thing:
                assert set(thing) >= {"value", "unit", "origin"}
                assert (thing["value"] is None) == (thing["origin"] == "missing")
                origins.add(thing["origin"])
            for item in thing.values():
                walk(item)
        elif isinstance(thing, list):
            for item in thing:
                walk(item)

    walk(body)
    # Where nothing was traced, nobody knows how long a rank waited.
    assert origins == {"measured", "modelled", "missing"}


def test_csv_has_a_line_a_program(history: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "--database", str(history), "--format", "csv")
    rows = list(csv.DictReader(out.splitlines()))
    assert len(rows) == 12
    assert {row["saving_origin"] for row in rows} == {"measured"}
    assert float(rows[0]["bytes_before_switch2"]) > float(rows[0]["bytes_after_switch2"])


@pytest.mark.parametrize("form", ["table", "json", "csv"])
def test_an_empty_history_is_no_error(
    form: str, empty_history: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, "--database", str(empty_history), "--format", form)
    assert code == 0
    assert out
    if form == "json":
        assert json.loads(out)["runs"] == 0
    else:
        assert "slurm-topo sync" in out + err


def test_a_filter_that_matches_nothing_says_so(history: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "--database", str(history), "--user", "nobody")
    assert code == 0
    assert out.startswith("No run matches")


@pytest.mark.parametrize(
    ("argv", "code", "word"),
    [
        (("--database", "/nonexistent/history.sqlite"), 9, "slurm-topo sync"),
        (("--since", "someday"), 4, "2026-11-30"),
        (("--format", "pdf"), 2, "pdf"),
    ],
)
def test_bad_input_has_its_own_exit_code(
    argv: tuple[str, ...], code: int, word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found, out, err = run(capsys, *argv)
    assert (found, out) == (code, "")
    assert word in err


def test_a_file_is_written_whole_or_not_at_all(
    history: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "report.json"
    assert run(capsys, "--database", str(history), "--format", "json", "-o", str(target))[:2] == (0, "")
    assert json.loads(target.read_text())["runs"] == 1200
    code, _, err = run(capsys, "--database", str(history), "-o", str(tmp_path / "no" / "where"))
    assert code == 4
    assert "cannot be written" in err
    assert [p.name for p in tmp_path.iterdir()] == ["report.json"]
