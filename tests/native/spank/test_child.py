"""Starting the search: its environment, its end, its deadline."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

Drive = Callable[..., object]


def script(folder: Path, text: str) -> str:
    path = folder / "place"
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)
    return str(path)


def test_child_that_succeeds(drive: Drive, tmp_path: Path) -> None:
    out = drive("child", "5000", script(tmp_path, f'echo "$1" > {tmp_path}/seen'), "argument").stdout
    assert out == "0 \n"
    assert (tmp_path / "seen").read_text() == "argument\n"


def test_child_sees_a_clean_environment(drive: Drive, tmp_path: Path) -> None:
    env = {
        "LD_PRELOAD": "",
        "PYTHONPATH": "/x",
        "LD_LIBRARY_PATH": "",
        "SLURM_JOB_ID": "7",
        "EXTRA": "SLURM_NTASKS=9",
        "SLURM_NTASKS": "4",
    }
    drive("child", "5000", script(tmp_path, f"env > {tmp_path}/seen"), env=env)
    seen = (tmp_path / "seen").read_text().splitlines()
    assert {"SLURM_JOB_ID=7", "SLURM_NTASKS=9", "OMP_NUM_THREADS=1"} <= set(seen)
    assert not [line for line in seen if line.startswith(("LD_", "PYTHON", "SLURM_NTASKS=4"))]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "echo first >&2; echo 'the last line' >&2; exit 7",
            "1 ended with exit code 7: the last line\n",
        ),
        ("exit 3", "1 ended with exit code 3\n"),
        ("kill -SEGV $$", "1 was killed by signal 11\n"),
        ("printf 'a\\033[31mb\\n' >&2; exit 1", "1 ended with exit code 1: a?[31mb\n"),
    ],
)
def test_child_that_fails_tells_why(drive: Drive, tmp_path: Path, text: str, reason: str) -> None:
    assert drive("child", "5000", script(tmp_path, text)).stdout == reason


def test_child_that_floods_standard_error_is_read_to_its_end(drive: Drive, tmp_path: Path) -> None:
    text = "i=0; while [ $i -lt 20000 ]; do echo line $i >&2; i=$((i+1)); done; exit 2"
    assert drive("child", "60000", script(tmp_path, text)).stdout == "1 ended with exit code 2: line 19999\n"


def test_child_that_is_missing(drive: Drive, tmp_path: Path) -> None:
    out = drive("child", "1000", str(tmp_path / "nothing")).stdout
    assert out == f"1 {tmp_path}/nothing: No such file or directory\n"


def test_child_that_hangs_is_killed_with_its_group(drive: Drive, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    out = drive(
        "child", "300", script(tmp_path, f"sleep 1000 & echo $! > {pids}; echo $$ >> {pids}; wait")
    ).stdout
    assert out == "2 took more than 300 ms\n"
    for _ in range(100):
        if not any(Path(f"/proc/{pid}/cmdline").exists() and Path(f"/proc/{pid}/cmdline").read_bytes()
                   for pid in pids.read_text().split()):  # fmt: skip
            break
        time.sleep(0.05)
    else:
        pytest.fail("a process of the killed group is still there")


def test_child_ends_where_sigchld_is_ignored(drive: Drive, tmp_path: Path) -> None:
    ignore = lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # noqa: E731
    out = drive("child", "5000", script(tmp_path, "exit 0"), preexec_fn=ignore).stdout
    assert out == "0 \n"
