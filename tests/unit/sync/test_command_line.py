"""``slurm-topo sync`` as an administrator calls it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from slurm_topo.cli import sync as command
from slurm_topo.cli.sync import SyncOptions, parse_moment, run_sync
from slurm_topo.errors import ConfigError, HistoryError, SlurmError

OPTIONS = SyncOptions(watch_s=None, since=None, wait_s=0, set_free=None, quiet=False)


@pytest.fixture
def commands(site, tmp_path, monkeypatch) -> Path:
    """A folder with Slurm's commands that answer like the site."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, body in {
        "sacct": "true",
        "squeue": "true",
        "scontrol": "echo NodeName=n1 CoresPerSocket=2 Sockets=1 ThreadsPerCore=1",
    }.items():
        (folder / name).write_text(f"#!/bin/sh\n{body}\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


def call(site, tmp_path, *words: str) -> subprocess.CompletedProcess[str]:
    config = tmp_path / "slurm-topo.toml"
    settings = ("database", "spool", "advice_dir", "kill_switch", "arm")
    config.write_text("".join(f'{name} = "{getattr(site.settings, name)}"\n' for name in settings))
    return subprocess.run(
        [sys.executable, "-m", "slurm_topo.cli.main", "--config", str(config), "sync", *words],
        capture_output=True,
        text=True,
    )


def test_one_line_says_what_was_done(site, tmp_path, commands):
    done = call(site, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "0 jobs, 0 traces, 0 records; 1 advice files, 0 graphs written\n"
    assert (Path(site.settings.advice_dir) / "site").exists()
    assert call(site, tmp_path, "-q").stdout == ""


def test_missing_slurm_has_its_code_and_the_rest_is_done(site, tmp_path, commands):
    (commands / "sacct").write_text("#!/bin/sh\necho 'sacct: error: slurmdbd is away' >&2; exit 1\n")
    done = call(site, tmp_path)
    assert done.returncode == 8
    assert done.stderr.count("slurmdbd is away") == 1
    assert (Path(site.settings.advice_dir) / "site").exists()


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--once", "--watch", "5"], 2, "contradict"),
        (["--watch", "0"], 2, "range"),
        (["--since", "yesterday"], 3, "no time; write for example"),
        (["--set-free", "7"], 9, "program 7: is not in the history"),
    ],
)
def test_wrong_options(site, tmp_path, commands, words, code, said):
    done = call(site, tmp_path, *words)
    assert done.returncode == code
    assert said in done.stderr


def test_kill_switch_reads_and_publishes_nothing(site, tmp_path, commands):
    Path(site.settings.kill_switch).write_text("")
    done = call(site, tmp_path)
    assert done.returncode == 0
    assert "exists: nothing is read or published" in done.stderr
    assert not Path(site.settings.database).exists()


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1970-01-02", 86400), ("1970-01-01T01:00", 3600), ("1970-01-01T02:00:00+02:00", 0)],
)
def test_times_are_utc(text, seconds):
    assert parse_moment(text) == seconds


def test_rubbish_is_no_time():
    with pytest.raises(ConfigError, match="no time"):
        parse_moment("12:00")


def test_watch_goes_on_after_errors(site, monkeypatch, capsys):
    calls = []

    def fail(settings, options):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        raise (HistoryError, SlurmError)[len(calls) - 1]("away; wait")

    monkeypatch.setattr(command, "_pass", fail)
    monkeypatch.setattr(command.time, "sleep", lambda seconds: None)
    with pytest.raises(KeyboardInterrupt):
        run_sync(site.settings, SyncOptions(**{**vars(OPTIONS), "watch_s": 1.0}))
    assert capsys.readouterr().err == "slurm-topo: away; wait\n" * 2


def test_waits_for_the_accounting_of_a_job_that_is_over(site, monkeypatch, capsys):
    """slurmdbd hears of the end of a job a moment after slurmctld."""
    from slurm_topo.history.sync import run as module

    keys = site.add_job(1, end=None, arm="observe")
    site.trace(1, keys)
    original = module.sync_once

    def once(settings, since):
        result = original(settings, since, run=site.run, clock=lambda: site.now)
        # The next time accounting is asked, it knows.
        site.add_job(1, end=site.now - 5, arm="observe", submitted=1_796_099_930)
        return result

    monkeypatch.setattr(module, "sync_once", once)
    monkeypatch.setattr(command, "_ended", lambda jobs: jobs == [1])
    monkeypatch.setattr(command.time, "sleep", lambda seconds: None)
    run_sync(site.settings, SyncOptions(**{**vars(OPTIONS), "wait_s": 60.0}))
    assert "1 traces" in capsys.readouterr().out
    assert site.spool_files() == []


def test_running_jobs_are_not_waited_for(monkeypatch):
    from slurm_topo.slurm import command as slurm

    monkeypatch.setattr(slurm, "run_command", lambda argv: "1\n2\n")
    assert not command._ended([1, 2])
    assert command._ended([1, 3])

    def fail(argv):
        raise SlurmError("away")

    monkeypatch.setattr(slurm, "run_command", fail)
    assert not command._ended([3])


def test_saved_accounting_is_taken_in_once(site, tmp_path):
    saved = tmp_path / "jobs.swf"
    saved.write_text("; Computer: Seth\n1 1000000000 5 100 4 90 -1 4 200 -1 1 7 3 12 1 2 -1 -1\n")
    done = call(site, tmp_path, "--from", str(saved))
    assert (done.returncode, done.stdout, done.stderr) == (0, "1 jobs from 1 files\n", "")
    assert call(site, tmp_path, "--from", str(saved)).stdout == "0 jobs from 1 files\n"
    with site.history() as history:
        (run,) = history.runs()
        assert (run.cluster, run.job, run.elapsed_s, run.program) == ("Seth", 1, 100.0, None)


def test_saved_rubbish_is_one_line(site, tmp_path):
    done = call(site, tmp_path, "--from", str(tmp_path / "no"))
    assert done.returncode == 4
    assert done.stderr.count("\n") == 1
