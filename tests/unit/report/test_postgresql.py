"""Report and comparison say the same on a real PostgreSQL server, where one is installed."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slurm_topo.cli.main import main
from slurm_topo.history.database import open_engine
from slurm_topo.report.runs import Runs
from slurm_topo.report.synthetic import write_history

pytest.importorskip("psycopg")
SERVERS = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
pytestmark = pytest.mark.skipif(not SERVERS, reason="no PostgreSQL server is installed")


def as_server(*command: str) -> None:
    """Run a command of the server, which refuses to be root."""
    user = ["runuser", "-u", "nobody", "--"] if os.geteuid() == 0 else []
    subprocess.run([*user, *command], check=True, capture_output=True, cwd="/")


@pytest.fixture(scope="module")
def server(runs: Runs) -> Iterator[str]:
    """URL of a throwaway server that holds the runs."""
    folder = Path(tempfile.mkdtemp(prefix="slurm-topo-pg-"))
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        os.chown(folder, nobody.pw_uid, nobody.pw_gid)
    data, control = str(folder / "data"), str(SERVERS[-1].parent / "pg_ctl")
    as_server(str(SERVERS[-1]), "-D", data, "-A", "trust", "-U", "topo", "-N")
    options = f"-c listen_addresses= -c unix_socket_directories={folder} -c fsync=off"
    as_server(control, "-D", data, "-w", "-l", str(folder / "log"), "-o", options, "start")
    try:
        url = f"postgresql+psycopg://topo@/postgres?host={folder}"
        engine = open_engine(url)
        write_history(engine, runs)
        engine.dispose()
        yield url
    finally:
        as_server(control, "-D", data, "-w", "-m", "immediate", "stop")
        shutil.rmtree(folder)


def told(capsys: pytest.CaptureFixture[str], *argv: str) -> dict[str, Any]:
    with pytest.raises(SystemExit) as stop:
        main([*argv, "--format", "json"])
    assert stop.value.code == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize(
    "argv", [(), ("--user", "user001"), ("--since", "2026-10-01", "--program", "solver00?")]
)
@pytest.mark.parametrize("command", ["report", "compare"])
def test_both_databases_say_the_same(
    server: str, history: Path, command: str, argv: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    there = told(capsys, command, "--database", server, *argv)
    here = told(capsys, command, "--database", str(history), *argv)
    for body in (there, here):
        body.pop("source", None)
        body.pop("command", None)
    assert there == here
    assert there["runs"]
