"""The same history on a real PostgreSQL server, where one is installed."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from slurm_topo.errors import HistoryError
from slurm_topo.history.rows import Filter

BINARIES = (
    sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb")) if Path("/usr/lib/postgresql").exists() else []
)
psycopg = pytest.importorskip("psycopg")
pytestmark = pytest.mark.skipif(not BINARIES, reason="no PostgreSQL server is installed")


def as_server(command: list[str]) -> list[str]:
    """The server refuses to run as root."""
    return ["runuser", "-u", "nobody", "--", *command] if os.geteuid() == 0 else command


@pytest.fixture(scope="module")
def server():
    """URL of a throwaway server without a network socket."""
    folder = Path(tempfile.mkdtemp(prefix="slurm-topo-pg-"))
    binaries = BINARIES[-1].parent
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        os.chown(folder, nobody.pw_uid, nobody.pw_gid)
    data = folder / "data"
    quiet = {"check": True, "capture_output": True, "cwd": "/"}
    subprocess.run(
        as_server([str(binaries / "initdb"), "-D", str(data), "-A", "trust", "-U", "topo", "-N"]), **quiet
    )
    options = f"-c listen_addresses= -c unix_socket_directories={folder} -c fsync=off"
    control = [str(binaries / "pg_ctl"), "-D", str(data), "-w"]
    subprocess.run(as_server([*control, "-l", str(folder / "log"), "-o", options, "start"]), **quiet)
    try:
        yield f"postgresql+psycopg://topo@/postgres?host={folder}"
    finally:
        subprocess.run(as_server([*control, "-m", "immediate", "stop"]), capture_output=True, cwd="/")
        shutil.rmtree(folder)


@pytest.fixture
def site(site, server):
    """A site whose history is on an empty database of the server."""
    with create_engine(server).connect() as connection:
        connection.execute(text("DROP SCHEMA public CASCADE"))
        connection.execute(text("CREATE SCHEMA public"))
        connection.commit()
    site.settings = replace(site.settings, database=server)
    return site


def fill(site) -> None:
    keys = site.add_job(1, arm="observe", end=site.now - 5000)
    site.trace(1, keys)
    site.add_job(2, name="ä\n|\x1f", script=b"srun ./fft", executable=b"./fft", end=site.now - 3000)
    site.record(2, "stand-down", "a\u0000b\ud800")
    site.add_job(3)
    site.record(3, "place", "cost", plan=f"/spool/{Path(site.plan(3, '5' * 16)).name}")
    site.write("traces", "3.0.n1.trace", b"rubbish")
    site.add_job(4, end=None, comment="")


def test_history_is_the_same_as_on_sqlite(site, make_site):
    other = make_site("sqlite")
    fill(site)
    fill(other)
    site.sync()
    other.sync()
    assert site.dump() == other.dump()
    assert site.advice() == other.advice()
    with site.history() as first, other.history() as second:
        assert list(first.programs()) == list(second.programs())
        assert list(first.runs()) == list(second.runs())
        assert first.reasons() == second.reasons()
        chosen = Filter(since=site.now - 4000, user="ada")
        assert list(first.runs(chosen)) == list(second.runs(chosen)) != []


def test_second_pass_changes_nothing(site):
    fill(site)
    site.sync()
    before = site.dump()
    result = site.sync()
    assert site.dump() == before
    assert result.jobs == 0


def test_newer_schema_is_refused(site):
    site.sync()
    with create_engine(site.settings.database).connect() as connection:
        connection.execute(text("INSERT INTO schema_versions VALUES (99, 'later', 0)"))
        connection.commit()
    with pytest.raises(HistoryError, match="schema 99 is newer"):
        site.sync()


def test_server_that_is_away_is_one_line(site, tmp_path):
    site.settings = replace(site.settings, database=f"postgresql+psycopg://topo@/postgres?host={tmp_path}")
    with pytest.raises(HistoryError, match="No such file or directory") as caught:
        site.sync()
    assert "\n" not in str(caught.value)
