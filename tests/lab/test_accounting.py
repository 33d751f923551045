"""Real accounting of a real Slurm: text and JSON say the same, and so do the histories made of them."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slurm_topo.config import Settings
from slurm_topo.history.store import open_history
from slurm_topo.history.sync.run import import_accounting
from slurm_topo.lab.cluster import Lab
from slurm_topo.slurm.recorded import read_accounting_file
from slurm_topo.slurm.sacct import FIELDS, AccountingRow

_OF_JOBS = ("user", "account", "partition", "submitted", "array_job", "array_task")
NAME = "a|b c\u00e4"
# What JSON of 22.05 does not tell, or of other things than the text; and it says SUCCESS of jobs that failed.
APART = {"uid": None, "usage": "", "max_rss": None, "average_cpu_s": None, "cpu_s": None, "alloc_tres": ""}
APART |= {"exit_code": ""}


@pytest.fixture(scope="module")
def saved(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """An array of two jobs with two steps each, a cancelled and a failed job, as sacct saves them."""
    folder = tmp_path_factory.mktemp("accounting")
    script = "#!/bin/bash\nsrun --mpi=none -n2 hostname\nsrun --mpi=none -n1 sleep 1\n"
    ids = []
    for words in (["--array=3-4"], ["--array=1", "--hold"], ["--wrap=exit 3"]):
        given = {} if words[0].startswith("--wrap") else {"input": script}
        run = lab.run(
            ["sbatch", "--parsable", "-N2", "-n2", f"--job-name={NAME}", "--output=/dev/null", *words],
            cwd="/tmp",
            **given,  # type: ignore[arg-type]
        )
        assert run.returncode == 0, run.stderr
        ids.append(run.stdout.strip().split(";")[0])
    lab.run(["scancel", ids[1]])
    choose = ["--jobs", ",".join(ids)]
    end = time.monotonic() + 120
    while True:
        states = lab.run(["sacct", "-X", "-n", "-P", "--format=State", *choose]).stdout.split("\n")[:-1]
        if len(states) == 4 and not {"PENDING", "RUNNING", "COMPLETING"} & set(states):
            break
        assert time.monotonic() < end, states
        time.sleep(1)
    text = ["sacct", "--parsable2", f"--format={','.join(FIELDS)}", *choose]
    found = {}
    for name, words, environment in (
        ("text", text, {"TZ": "UTC"}),
        ("json", ["sacct", "--json", *choose], {}),
    ):
        run = lab.run(words, env=environment)
        assert run.returncode == 0, run.stderr
        found[name] = folder / name
        found[name].write_text(run.stdout)
    return found


def rows_of(path: Path) -> dict[tuple[int, str], AccountingRow]:
    return {(row.job, row.step): row for row in read_accounting_file(path)}


def test_text_and_json_of_the_same_jobs_are_the_same(saved: dict[str, Path]) -> None:
    text, body = rows_of(saved["text"]), rows_of(saved["json"])
    assert set(text) == set(body)
    assert {step for _, step in text} >= {"", "batch", "0", "1"}
    assert sorted(r.state for r in text.values() if not r.step) == [
        "CANCELLED",
        "COMPLETED",
        "COMPLETED",
        "FAILED",
    ]
    for key, row in text.items():
        other = body[key]
        same: dict[str, Any] = dict(APART)
        if row.state == "CANCELLED":
            # It never began: the text says what was asked for.
            same |= {"nodes": None, "cpus": None}
        if row.step:
            # The text has the user with the job only, and steps have no time of submission of their own.
            same |= {k: getattr(row, k) for k in _OF_JOBS}
        assert replace(other, **same) == replace(row, **same), key
    assert {row.name for row in text.values() if not row.step} == {NAME}
    assert all(row.energy_j is None for row in (*text.values(), *body.values()))


def test_the_history_of_each_is_the_same(saved: dict[str, Path], tmp_path: Path) -> None:
    runs = {}
    for name, path in saved.items():
        settings = Settings(
            database=str(tmp_path / f"{name}.sqlite"), advice_dir=str(tmp_path / name), spool=str(tmp_path)
        )
        assert import_accounting(settings, [str(path)]) == 4
        with open_history(settings.database) as history:
            runs[name] = [
                replace(run, id=0, cpu_s=None, program=0, nodes=None, cpus=None) for run in history.runs()
            ]
    assert sorted(runs["text"], key=lambda r: r.job) == sorted(runs["json"], key=lambda r: r.job)
    assert json.loads(saved["json"].read_text())["jobs"]
