"""The spool: nobody else's file is followed, read or written."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable
from pathlib import Path

import pytest

Drive = Callable[..., object]


def test_spool_folder_is_made_for_the_user_alone(drive: Drive, tmp_path: Path) -> None:
    assert drive("spool", str(tmp_path), "plans", "1", "write", "f", "data").stdout == "0 \n"
    folder = tmp_path / str(os.geteuid())
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / "plans" / "f").stat().st_mode & 0o777 == 0o600
    assert [p.name for p in (folder / "plans").iterdir()] == ["f"]
    assert drive("spool", str(tmp_path), "plans", "0", "read", "f").stdout == "data \n"


def user_folder(tmp_path: Path, name: str = "plans") -> Path:
    folder = tmp_path / str(os.geteuid()) / name
    folder.mkdir(parents=True, mode=0o700)
    folder.parent.chmod(0o700)
    folder.chmod(0o700)
    return folder


def test_planted_links_are_not_followed(drive: Drive, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    (target / "secret").write_text("secret")
    folder = user_folder(tmp_path)
    (folder / "f").symlink_to(target / "secret")
    for verb in (["read", "f"], ["append", "f", "x"]):
        assert "cannot be opened" in drive("spool", str(tmp_path), "plans", "0", *verb).stdout
    drive("spool", str(tmp_path), "plans", "0", "write", "f", "mine")
    assert (target / "secret").read_text() == "secret"
    assert (folder / "f").read_text() == "mine"
    assert not (folder / "f").is_symlink()
    (tmp_path / str(os.geteuid()) / "records").symlink_to(target)
    out = drive("spool", str(tmp_path), "records", "1", "append", "secret", "x").stdout
    assert out.startswith("error spool ")
    assert (target / "secret").read_text() == "secret"


def test_planted_user_folder_is_not_followed(drive: Drive, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    (tmp_path / str(os.geteuid())).symlink_to(target)
    assert drive("spool", str(tmp_path), "plans", "1", "write", "f", "x").stdout.startswith("error spool ")
    assert list(target.iterdir()) == []


@pytest.mark.parametrize("kind", ["fifo", "folder", "large", "writable"])
def test_what_is_no_file_of_the_user_is_not_read(drive: Drive, tmp_path: Path, kind: str) -> None:
    folder = user_folder(tmp_path)
    path = folder / "f"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.write_text("x" * (1001 if kind == "large" else 10))
        path.chmod(0o666 if kind == "writable" else 0o600)
    assert drive("spool", str(tmp_path), "plans", "0", "read", "f").stdout.startswith("error f: ")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give files away")
@pytest.mark.parametrize("what", ["user", "folder", "file"])
def test_what_belongs_to_somebody_else_is_not_used(drive: Drive, tmp_path: Path, what: str) -> None:
    folder = user_folder(tmp_path)
    (folder / "f").write_text("x")
    os.chown({"user": folder.parent, "folder": folder, "file": folder / "f"}[what], 65534, 65534)
    assert "belongs to another user" in drive("spool", str(tmp_path), "plans", "1", "read", "f").stdout


def test_folder_that_others_may_write_is_not_used(drive: Drive, tmp_path: Path) -> None:
    user_folder(tmp_path).chmod(0o770)
    assert "others may write" in drive("spool", str(tmp_path), "plans", "1", "read", "f").stdout


def test_missing_spool_is_named(drive: Drive, tmp_path: Path) -> None:
    out = drive("spool", str(tmp_path / "none"), "plans", "1", "read", "f").stdout
    assert out == f"error spool {tmp_path}/none: cannot be opened (No such file or directory)\n"


@pytest.mark.parametrize("verb", ["write", "append"])
def test_file_size_limit_is_an_error_and_no_signal(drive: Drive, tmp_path: Path, verb: str) -> None:
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))  # noqa: E731
    out = drive("spool", str(tmp_path), "plans", "1", verb, "f", "x" * 100, preexec_fn=limit).stdout
    assert out == "-1 f: cannot be written (File too large)\n"
    left = [p.name for p in (tmp_path / str(os.geteuid()) / "plans").iterdir()]
    assert left == ([] if verb == "write" else ["f"])
