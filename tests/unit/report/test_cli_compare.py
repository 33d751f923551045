"""``slurm-topo compare``: the folder, its digests, the command that makes it again, CSV files, bad input."""

from __future__ import annotations

import csv
import hashlib
import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, update

from slurm_topo.cli.main import main
from slurm_topo.history.database import open_engine, transaction
from slurm_topo.history.schema import decisions, jobs, steps, traffic

pytest.importorskip("reportlab")
NAMES = ["SHA256SUMS", "comparison.html", "comparison.json", "comparison.pdf", "method.json", "records.csv"]


def run(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        main(["compare", *argv])
    out = capsys.readouterr()
    return int(stop.value.code or 0), out.out, out.err


def content(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in sorted(folder.iterdir())}


@pytest.fixture
def own_history(history: Path, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    target = tmp_path / "own.sqlite"
    target.write_bytes(history.read_bytes())
    return target


def test_the_same_command_makes_the_same_bytes(
    history: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    prices = tmp_path / "prices.toml"
    prices.write_text('currency = "EUR"\ndate = "2026-11-01"\nnode_hour = 1.5\nkwh = 0.2\npue = 1.2\n')
    code, out, err = run(capsys, "--database", str(history), "--prices", str(prices), "-o", "one")
    assert code == 0
    assert out.startswith("verdict   saving")
    assert sorted(content(tmp_path / "one")) == NAMES
    assert "comparison.pdf" in err
    told = json.loads((tmp_path / "one" / "comparison.json").read_text())["command"]
    argv = shlex.split(told)
    assert argv[:2] == ["slurm-topo", "compare"]
    assert "--until" in argv
    assert run(capsys, *argv[2:])[0] == 0
    again = content(tmp_path / "comparison")
    assert again == content(tmp_path / "one")
    assert run(capsys, *argv[2:-1], "three")[0] == 0
    assert content(tmp_path / "three") == again
    assert again["comparison.pdf"].startswith(b"%PDF-")


def test_digests_hold(history: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "out"
    run(capsys, "--database", str(history), "-o", str(folder))
    files = content(folder)
    for line in files["SHA256SUMS"].decode().splitlines():
        digest, name = line.split("  ")
        assert hashlib.sha256(files[name]).hexdigest() == digest
    body = json.loads(files["comparison.json"])
    rows = list(csv.DictReader(files["records.csv"].decode().splitlines()))
    raw = [",".join(line.split(",")[:24]) for line in files["records.csv"].decode().splitlines()[1:]]
    assert hashlib.sha256(("\n".join(raw) + "\n").encode()).hexdigest() == body["sha256"]["raw records"]
    assert hashlib.sha256(files["method.json"].rstrip(b"\n")).hexdigest() == body["sha256"]["method"]
    runs = body["runs"]
    assert runs["all"] == len(rows) == runs["before"] + runs["after"] + sum(runs["excluded"].values())
    assert sum(r["fate"] == "used" for r in rows) == runs["before"] + runs["after"]
    by_row = {r["row"]: r for r in rows}
    for row in rows:
        if row["pair"]:
            partner = by_row[row["pair"]]
            assert (row["side"], partner["side"]) == ("after", "before")
            assert all(row[k] == partner[k] for k in ("program", "user", "nodes", "ranks", "partition"))


def test_a_changed_record_changes_the_digest_and_is_named(
    own_history: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "out"
    run(capsys, "--database", str(own_history), "-o", str(folder))
    records = str(folder / "records.csv")
    code, out, _ = run(capsys, "--database", str(own_history), "--verify", records)
    assert (code, "all 1,200 records are as they were" in out) == (0, True)
    engine = open_engine(str(own_history), create=False)
    with transaction(engine) as connection:
        connection.execute(update(jobs).where(jobs.c.id == 17).values(run_s=1.0))
        own = connection.execute(steps.select().where(steps.c.job_id == 18)).all()
        for step in own:
            connection.execute(delete(traffic).where(traffic.c.step_id == step.id))
        connection.execute(delete(steps).where(steps.c.job_id == 18))
        connection.execute(delete(decisions).where(decisions.c.job_id == 18))
        connection.execute(delete(jobs).where(jobs.c.id == 18))
    engine.dispose()
    code, out, err = run(capsys, "--database", str(own_history), "--verify", records)
    assert code == 9
    assert "2 records" in err
    changed, gone = out.splitlines()
    assert changed.startswith("record 17, job 1016: elapsed ")
    assert changed.endswith("-> 1.0")
    assert gone == "record 18, job 1017: is gone"
    other = tmp_path / "other"
    run(capsys, "--database", str(own_history), "-o", str(other))
    digests = [
        json.loads((f / "comparison.json").read_text())["sha256"]["raw records"] for f in (folder, other)
    ]
    assert digests[0] != digests[1]


def write_csv(path: Path, rows: list[dict[str, Any]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def sides(tmp_path: Path, factor: float, programs: int = 8) -> tuple[Path, Path]:
    made = []
    for side, scale in (("before", 1.0), ("after", factor)):
        month = "10" if side == "before" else "11"
        rows = [
            {
                "job": 100 * p + i,
                "program": f"p{p}",
                "user": "u",
                "elapsed_s": (50 + 10 * p) * scale * (1 + 0.01 * (i % 5)),
                "start": f"2026-{month}-{i + 1:02d}T10:00:00",
                "nodes": 2,
                "energy_j": 4294967294,
                "state": "COMPLETED",
            }
            for p in range(programs)
            for i in range(10)
        ]
        made.append(write_csv(tmp_path / f"{side}.csv", rows))
    return made[0], made[1]


@pytest.mark.parametrize(
    ("factor", "verdict"), [(0.8, "saving"), (1.25, "loss"), (1.0, "no material difference")]
)
def test_two_files_are_compared(
    tmp_path: Path, factor: float, verdict: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before, after = sides(tmp_path, factor)
    code, out, _ = run(capsys, "--before", str(before), "--after", str(after), "--format", "json")
    body = json.loads(out)
    assert code == 0
    assert body["verdict"] == verdict
    assert body["saving"]["value"] == pytest.approx(1 - factor, abs=0.002)
    assert body["design"].startswith("calendar")
    # Slurm's "no value" is no energy.
    assert body["costs"]["quantities"][3]["value"]["origin"] == "missing"
    assert body["sha256"][f"before ({before})"] == hashlib.sha256(before.read_bytes()).hexdigest()


def test_two_programs_are_too_few_for_a_claim_about_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before, after = sides(tmp_path, 0.5, programs=2)
    assert run(capsys, "--before", str(before), "--after", str(after))[1].startswith("verdict   inconclusive")
    method = tmp_path / "method.toml"
    method.write_text('inference = "runs"\nfewest_pairs = 10\n')
    argv = ("--before", str(before), "--after", str(after), "--method", str(method))
    assert run(capsys, *argv)[1].startswith("verdict   saving")


def test_an_empty_history_is_inconclusive(
    empty_history: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(capsys, "--database", str(empty_history), "-o", str(tmp_path / "out"))
    assert code == 0
    assert out.startswith("verdict   inconclusive")
    assert sorted(content(tmp_path / "out")) == NAMES


def test_without_reportlab_all_but_the_pdf_is_written(
    history: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [n for n in sys.modules if n.startswith("slurm_topo.report.comparison.pdf")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "reportlab", None)
    monkeypatch.setitem(sys.modules, "reportlab.lib.colors", None)
    import slurm_topo.report.comparison as package

    monkeypatch.delattr(package, "pdf", raising=False)
    monkeypatch.delattr(package, "pdf_figure", raising=False)
    code, _, err = run(capsys, "--database", str(history), "-o", str(tmp_path / "out"))
    assert code == 0
    assert "slurm-topo[audit]" in err
    assert sorted(content(tmp_path / "out")) == [n for n in NAMES if not n.endswith("pdf")]


HEAD = "program,user,elapsed_s,start"


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "column program is missing"),
        ("program,user,start\n", "elapsed_s is missing"),
        (f"{HEAD},colour\n", "unknown column 'colour'"),
        (f"{HEAD},user\n", "stands twice"),
        (f"{HEAD}\na,b,fast,0\n", "line 2: elapsed_s 'fast' is no number"),
        (f"{HEAD}\na,b,-1,0\n", "no number from 0 up"),
        (f"{HEAD}\na,b,nan,0\n", "no number from 0 up"),
        (f"{HEAD}\na,b,1,noon\n", "start 'noon' is no time"),
        (f"{HEAD}\na,b,1\n", "another number of fields"),
        (f"{HEAD}\na,b,1,0,9\n", "another number of fields"),
        (f"{HEAD}\n,b,1,0\n", "program or user is empty"),
        (f"{HEAD},job\na,b,1,0,x\n", "job 'x' is no number"),
        (f'{HEAD}\n"a,b,1,0\n', "is no CSV"),
    ],
)
def test_a_malformed_file_is_refused_with_its_line(
    tmp_path: Path, text: str, word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad.csv"
    bad.write_text(text)
    good = write_csv(tmp_path / "good.csv", [{"program": "a", "user": "b", "elapsed_s": 1, "start": 0}])
    for argv in (("--before", bad, "--after", good), ("--before", good, "--after", bad)):
        code, out, err = run(capsys, *map(str, argv))
        assert (code, out) == (4, "")
        assert word in err
        assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("argv", "code", "word"),
    [
        (("--before", "x.csv"), 4, "give both files"),
        (("--before", "none.csv", "--after", "none.csv"), 4, "cannot be read"),
        (("--before", "a", "--after", "b", "--user", "u"), 4, "chooses from the history"),
        (("--method", "none.toml"), 4, "cannot be read"),
        (("--prices", "none.toml"), 4, "cannot be read"),
        (("--database", "/nonexistent/h.sqlite"), 9, "does not exist"),
    ],
)
def test_bad_options_have_their_own_exit_code(
    argv: tuple[str, ...], code: int, word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found, out, err = run(capsys, *argv)
    assert (found, out) == (code, "")
    assert word in err


def test_other_files_are_never_overwritten(
    history: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("all my work")
    code, _, err = run(capsys, "--database", str(history), "-o", str(tmp_path / "mine"))
    assert code == 4
    assert "holds other files" in err
    assert [p.name for p in (tmp_path / "mine").iterdir()] == ["thesis.tex"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["mine"]


def test_the_document_says_what_an_auditor_asks(
    history: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, "--database", str(history), "-o", str(tmp_path / "out"))
    text = (tmp_path / "out" / "comparison.html").read_text()
    for words in (
        "Scope and boundary", "IPMVP option B", "Pairing key", "Adjusted for", "CV(RMSE)", "NMBE", "ASHRAE",
        "not a certificate", "excluded: did not complete", "Effect size", "Power for a saving", "seed 1",
        "Cost of the intervention", "tracing", "added wait in the queue", "SHA-256 of", "raw records", "code",
        "measured", "modelled", "missing", "slurm-topo compare", "Prepared by", "Checked by", "Signature",
    ):  # fmt: skip
        assert words in text, words
