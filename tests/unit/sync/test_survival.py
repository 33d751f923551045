"""Sync may be killed anywhere, repeated, and run twice: nothing is lost, nothing counts twice."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from sqlalchemy import event

from slurm_topo.errors import HistoryError, SlurmError
from slurm_topo.history import database
from slurm_topo.history.sync import jobfiles
from slurm_topo.history.sync.lock import only_one
from slurm_topo.history.sync.run import lock_file


def fill(site) -> None:
    """Two traced jobs, one placed, one whose trace is damaged."""
    keys = site.add_job(1, arm="observe", end=site.now - 5000)
    site.trace(1, keys)
    site.add_job(2, arm="observe", end=site.now - 4000, name="fft", script=b"srun ./fft", executable=b"./fft")
    site.trace(2, nbytes=77)
    site.add_job(3)
    # The folder of each site is another one, the records are to be the same.
    site.record(3, "place", "cost", plan=f"/spool/{Path(site.plan(3, '5' * 16)).name}")
    site.add_job(4, arm="observe")
    site.write("traces", "4.0.n1.trace", b"STTRACE\n" + b"x" * 5000)
    site.add_job(5, comment="")


def advice_of(site) -> dict[str, str]:
    folder = Path(site.settings.advice_dir)
    return {
        str(p.relative_to(folder)): p.read_text()
        for p in sorted(folder.rglob("*"))
        if p.name != ".sync.lock" and p.is_file()
    }


def test_second_pass_changes_nothing(site):
    fill(site)
    site.sync()
    before, advice, files = site.dump(), advice_of(site), site.spool_files()
    result = site.sync()
    assert site.dump() == before
    assert (advice_of(site), site.spool_files()) == (advice, files)
    assert (result.jobs, result.written, result.graphs, result.outcome.traces) == (0, 0, 0, 0)


def test_same_files_again_change_nothing(site):
    fill(site)
    site.sync()
    before = site.dump()
    fill(site)
    site.sync()
    assert site.dump() == before
    assert site.spool_files() == ["rejected/4.0.n1.trace", "rejected/4.0.n1.trace.1"]


def _killed_at(site, number: int) -> bool:
    """Run a pass that is killed at its n-th point; False where it came to its end before."""
    child = os.fork()
    if child == 0:
        count = 0

        def hook(_: str) -> None:
            nonlocal count
            count += 1
            if count == number:
                os.kill(os.getpid(), signal.SIGKILL)

        try:
            site.sync(hook=hook)
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def test_killed_anywhere_it_ends_as_if_it_never_was(make_site, monkeypatch):
    # Several transactions of several jobs each: those before a kill have been written, those after not.
    monkeypatch.setattr(jobfiles, "_JOBS_AT_ONCE", 2)
    reference = make_site("reference")
    fill(reference)
    reference.sync()
    number = 0
    while True:
        number += 1
        site = make_site(f"killed{number}")
        fill(site)
        killed = _killed_at(site, number)
        site.sync()
        assert site.dump() == reference.dump(), number
        assert advice_of(site) == advice_of(reference), number
        assert site.spool_files() == reference.spool_files(), number
        if not killed:
            break
        shutil.rmtree(site.folder)
    # Opened, accounting, each job read, some stored together and their files done, verdicts, advice.
    assert number > 25


def test_killed_at_every_other_moment(make_site):
    """The same with a real process and no cooperation: killed after some time."""
    reference = make_site("reference")
    fill(reference)
    reference.sync()
    for number in range(6):
        site = make_site(f"timed{number}")
        fill(site)
        child = os.fork()
        if child == 0:
            try:
                site.sync()
            finally:
                os._exit(0)
        time.sleep(0.03 * number)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        site.sync()
        assert site.dump() == reference.dump()
        assert site.spool_files() == reference.spool_files()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_sync_that_is_told_to_end_tidies_up_and_ends_by_the_signal(site, tmp_path, number):
    """Told in the moment in which an advice file has been written and not yet renamed."""
    config = tmp_path / "slurm-topo.toml"
    names = ("database", "spool", "advice_dir", "kill_switch", "arm")
    config.write_text("".join(f'{name} = "{getattr(site.settings, name)}"\n' for name in names))
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("sacct", "scontrol", "squeue"):
        (tools / name).write_text("#!/bin/sh\n")
        (tools / name).chmod(0o755)
    code = (
        "import os, time; from slurm_topo.cli.main import main\n"
        "def wait(*_): print('now', flush=True); time.sleep(60)\n"
        "os.replace = wait\n"
        f"main(['--config', {str(config)!r}, 'sync'])"
    )
    environment = {**os.environ, "TMPDIR": str(temporary), "PATH": f"{tools}:{os.environ['PATH']}"}
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    assert process.stdout.readline() == "now\n"
    process.send_signal(number)
    _, said = process.communicate(timeout=30)
    assert (process.returncode, said) == (-number, "")
    assert list(temporary.iterdir()) == []
    assert [p.name for p in Path(site.settings.advice_dir).iterdir()] == [".sync.lock"]


def test_traces_are_read_without_files_of_our_own(site, tmp_path, monkeypatch):
    """So a sync that is killed leaves none."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    fill(site)
    assert site.sync().outcome.traces == 2


def test_one_sync_at_a_time(site):
    fill(site)
    with (
        only_one(lock_file(site.settings)),
        pytest.raises(HistoryError, match=rf"another sync is running \(process {os.getpid()}\)"),
    ):
        site.sync()
    assert site.sync().outcome.traces == 2


def test_lock_of_a_killed_sync_is_free(site):
    fill(site)
    assert _killed_at(site, 1)
    assert lock_file(site.settings).exists()
    site.sync()


def test_lock_that_is_a_link_is_not_followed(site, tmp_path):
    target = tmp_path / "target"
    target.write_text("precious")
    lock_file(site.settings).parent.mkdir()
    lock_file(site.settings).symlink_to(target)
    with pytest.raises(HistoryError, match="cannot be made"):
        site.sync()
    assert target.read_text() == "precious"


def test_locked_database_loses_no_file(site, monkeypatch):
    fill(site)
    database.open_engine(site.settings.database).dispose()
    monkeypatch.setattr(database, "_BUSY_TIMEOUT_S", 0.05)
    files = site.spool_files()
    holder = sqlite3.connect(site.settings.database, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(HistoryError, match="locked"):
        site.sync()
    holder.rollback()
    assert site.spool_files() == files
    site.sync()
    assert site.spool_files() == ["rejected/4.0.n1.trace"]


@pytest.mark.parametrize("content", [b"rubbish" * 500, b"SQLite format 3\0" + b"\xff" * 5000])
def test_corrupt_database_loses_no_file(site, content):
    fill(site)
    Path(site.settings.database).write_bytes(content)
    files = site.spool_files()
    with pytest.raises(HistoryError, match=r"not a database|malformed"):
        site.sync()
    assert site.spool_files() == files
    assert Path(site.settings.database).read_bytes() == content


def test_silent_accounting_does_not_stop_the_rest(site):
    fill(site)
    site.sync()
    site.fail = "sacct: failed (slurmdbd is away); try it by hand"
    site.settings = type(site.settings)(**{**vars(site.settings), "arm": "observe"})
    result = site.sync()
    assert isinstance(result.error, SlurmError)
    assert {a["arm"] for a in site.advice().values()} == {"observe"}
    site.fail = ""
    assert site.sync().error is None


def test_accounting_that_was_missed_is_caught_up(site):
    site.sync()
    site.now += 10 * 86400
    site.fail = "sacct: failed (slurmdbd is away); try it by hand"
    site.sync()
    site.fail = ""
    site.add_job(1, end=site.now - 9 * 86400)
    site.now += 60
    site.sync()
    with site.history() as history:
        assert [r.job for r in history.runs()] == [1]


@pytest.mark.parametrize("years", [30, -30])
def test_clock_that_jumps_for_one_pass_misses_no_job(site, years):
    """And a pass in another century does not ask for each of its days."""
    site.sync()
    site.now += years * 365 * 86400
    site.calls.clear()
    site.sync()
    assert len(site.calls) < 400
    site.now -= years * 365 * 86400
    site.now += 86400
    site.add_job(1, end=site.now - 4000)
    site.sync()
    with site.history() as history:
        assert [r.job for r in history.runs()] == [1]


def test_missing_spool_is_named_and_accounting_is_read(site):
    fill(site)
    shutil.rmtree(site.settings.spool)
    result = site.sync()
    assert result.jobs == 5
    with site.history() as history:
        assert len(list(history.runs())) == 5


def test_full_disk_loses_nothing(make_site, monkeypatch):
    """A database that may not grow, as on a full disk."""
    reference, site = make_site("reference"), make_site("full")
    for each in (reference, site):
        database.open_engine(each.settings.database, clock=lambda: 0).dispose()
        fill(each)
    reference.sync()
    original = database._tune_sqlite

    def tune(engine):
        original(engine)

        @event.listens_for(engine, "connect")
        def _limit(connection, _record):
            pages = connection.execute("PRAGMA page_count").fetchone()[0]
            connection.execute(f"PRAGMA max_page_count = {pages}")

    monkeypatch.setattr(database, "_tune_sqlite", tune)
    with pytest.raises(HistoryError, match="full; free space and run sync again: nothing was written"):
        site.sync()
    monkeypatch.undo()
    site.sync()
    assert site.dump() == reference.dump()
    assert site.spool_files() == reference.spool_files()


def test_command_line_reports_errors_in_one_line(site, tmp_path):
    config = tmp_path / "slurm-topo.toml"
    config.write_text(f'database = "{site.settings.database}"\nadvice_dir = "{site.settings.advice_dir}"\n')
    Path(site.settings.database).write_bytes(b"rubbish" * 500)
    done = subprocess.run(
        [sys.executable, "-m", "slurm_topo.cli.main", "--config", str(config), "sync"],
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": str(tmp_path)},
    )
    assert done.returncode == 9
    assert done.stderr.startswith("slurm-topo: database ")
    assert done.stderr.count("\n") == 1
