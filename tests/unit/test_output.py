"""Files that a command was told to write."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from slurm_topo.cli.emit import emit
from slurm_topo.errors import InputError
from slurm_topo.model import CommGraph
from slurm_topo.output import write_output, write_whole
from slurm_topo.trace import build_graph
from slurm_topo.trace.graph_io import export_mtx, write_graph
from slurm_topo.trace.plot import plot_graph


def _graph(path: Path, write: Callable[..., None]) -> None:
    one = np.array([1.0])
    write(build_graph(2, np.array([0]), np.array([1]), one, one), path)


def _draw(graph: CommGraph, path: Path) -> None:
    (path.parent / "x.svg").symlink_to(path.name)
    plot_graph(graph, path.parent / "x.svg")
    (path.parent / "x.svg").unlink()


WRITERS: dict[str, Callable[[Path], None]] = {
    "text": lambda path: emit("x\n", str(path)),
    "bytes": lambda path: write_output(path, b"x\n"),
    "npz": lambda path: _graph(path, write_graph),
    "picture": lambda path: _graph(path, _draw),
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


def test_a_file_of_ours_never_takes_the_place_of_a_pipe_and_replaces_a_link(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="a folder, a device or a pipe"):
        write_output(tmp_path / "pipe", b"x", plain=True)
    assert stat.S_ISFIFO((tmp_path / "pipe").lstat().st_mode)
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to("real")
    write_output(tmp_path / "link", b"new", plain=True)
    assert (tmp_path / "real").read_bytes() == b"old"
    assert not (tmp_path / "link").is_symlink()


@pytest.mark.parametrize(
    ("mode", "mask", "found"), [(None, 0o027, 0o640), (0o600, 0, 0o600), (0o644, 0o077, 0o644)]
)
def test_permissions_are_those_asked_for_whatever_the_umask_is(
    tmp_path: Path, mode: int | None, mask: int, found: int
) -> None:
    before = os.umask(mask)
    try:
        write_whole(tmp_path / "file", b"x", mode=mode)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == found


def test_what_has_to_survive_a_crash_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    for name in ("fsync", "replace"):
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *a, n=name, r=real: (steps.append(n), r(*a))[1])
    write_whole(tmp_path / "file", b"x", sync=True)
    write_whole(tmp_path / "file", b"y")
    assert steps == ["fsync", "replace", "replace"]


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="no /dev/full here")
def test_full_standard_output_is_one_line_and_a_code_of_its_own() -> None:
    command = [sys.executable, "-m", "slurm_topo.cli.main", "machine", "show", "--synthetic", "core:2 pu:1"]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=120)
    assert done.returncode == InputError.exit_code
    assert done.stderr.splitlines() == [
        "slurm-topo: standard output: No space left on device; send it elsewhere and run again"
    ]
