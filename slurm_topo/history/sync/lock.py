"""One sync at a time."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from slurm_topo.errors import HistoryError


@contextmanager
def only_one(path: Path) -> Iterator[None]:
    """Holds the lock file; the kernel gives it back however this process ends.

    Raises
    ------
    HistoryError
        Another sync holds it, or the file cannot be made.
    """
    try:
        if not path.parent.is_dir():
            path.parent.mkdir(parents=True, exist_ok=True)
            # slurmctld reads the advice beside it.
            path.parent.chmod(0o755)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise HistoryError(
            f"{path}: cannot be made ({error.strerror}); run sync as the owner of its folder"
        ) from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(handle, 32, 0).decode("ascii", "replace").strip()
            raise HistoryError(
                f"{path}: another sync is running (process {holder or 'unknown'}); let it end"
            ) from error
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(handle)
