"""Files that a command was told to write."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from slurm_topo.cli import machine_capture, place, report
from slurm_topo.errors import InputError
from slurm_topo.machine.importing import write_text
from slurm_topo.output import write_whole
from slurm_topo.slurm.plan import write_atomic
from slurm_topo.trace import build_graph
from slurm_topo.trace.graph_io import export_mtx, write_graph


def _graph(path: Path, write: Callable[..., None]) -> None:
    one = np.array([1.0])
    write(build_graph(2, np.array([0]), np.array([1]), one, one), path)


WRITERS: dict[str, Callable[[Path], None]] = {
    "text of place": lambda path: place.write_output("x\n", str(path)),
    "report": lambda path: report.write_output("x\n", str(path)),
    "capture": lambda path: machine_capture._write(path, b"x\n"),
    "import": lambda path: write_text(path, "x\n"),
    "npz": lambda path: _graph(path, write_graph),
    "mtx": lambda path: _graph(path, export_mtx),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_pipe_is_written_to_and_not_replaced(tmp_path: Path, writer: str) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    seen: list[bytes] = []
    reader = threading.Thread(target=lambda: seen.append(pipe.read_bytes()), daemon=True)
    reader.start()
    WRITERS[writer](pipe)
    assert stat.S_ISFIFO(pipe.lstat().st_mode)
    reader.join(timeout=30)
    assert len(seen) == 1
    assert seen != [b""]


@pytest.mark.parametrize("writer", WRITERS)
def test_symbolic_link_stays_one(tmp_path: Path, writer: str) -> None:
    (tmp_path / "real").write_text("old")
    link = tmp_path / "link"
    link.symlink_to("real")
    WRITERS[writer](link)
    assert link.is_symlink()
    assert (tmp_path / "real").read_bytes() != b"old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "real"]


def test_nothing_is_left_of_what_could_not_be_written(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError):
        write_whole(tmp_path / "folder", b"x")
    with pytest.raises(FileNotFoundError):
        write_whole(tmp_path / "missing" / "file", b"x")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_plan_never_takes_the_place_of_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="name a file"):
        write_atomic(tmp_path / "pipe", b"x")
    assert stat.S_ISFIFO((tmp_path / "pipe").lstat().st_mode)
