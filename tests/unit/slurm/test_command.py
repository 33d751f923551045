"""Slurm commands are started without a shell, with a limit, and their errors are one line."""

from __future__ import annotations

import pytest

from slurm_topo.errors import SlurmError
from slurm_topo.slurm.command import run_command


def script(tmp_path, body: str) -> str:
    path = tmp_path / "scontrol"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


def test_output_is_returned_in_utc(tmp_path, monkeypatch):
    monkeypatch.setenv("SACCT_FORMAT", "User")
    command = script(tmp_path, 'echo "$1 $TZ $LC_ALL ${SACCT_FORMAT-unset}"')
    assert run_command([command, "a b;c"]) == "a b;c UTC C unset\n"


def test_missing_command():
    with pytest.raises(SlurmError, match="is not installed here"):
        run_command(["no-such-command-of-slurm"])


def test_failure_keeps_the_last_line_of_stderr(tmp_path):
    command = script(tmp_path, "echo first >&2; echo 'error: slurmdbd is away' >&2; exit 3")
    with pytest.raises(SlurmError, match=r"failed \(slurmdbd is away\)") as caught:
        run_command([command])
    assert "\n" not in str(caught.value)


def test_silent_failure_has_its_code(tmp_path):
    with pytest.raises(SlurmError, match="exit code 3"):
        run_command([script(tmp_path, "exit 3")])


def test_hanging_command_is_ended(tmp_path):
    with pytest.raises(SlurmError, match=r"no answer within 0\.2 s"):
        run_command([script(tmp_path, "exec sleep 60")], timeout_s=0.2)


def test_output_that_is_no_utf8_is_read(tmp_path):
    assert "\ufffd" in run_command([script(tmp_path, r"printf '\377x'")])
