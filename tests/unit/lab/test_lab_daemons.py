"""Daemons of the lab are found by their pid files."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_topo.lab import daemons


def test_pid_file_that_is_still_empty_is_no_daemon_that_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "slurmdbd.pid"
    daemon = daemons.Daemon("slurmdbd", "login", ("true",), file, tmp_path / "log", ready=lambda: ready.pop())
    ready = [True, False, False]
    monkeypatch.setattr(daemons, "members", lambda keeper: ["somebody lives"])
    file.touch()
    daemons.wait_ready(daemon, keeper=1)
    assert ready == []
