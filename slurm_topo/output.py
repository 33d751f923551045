"""Files that others may read at any time: whole or not at all, and never something else's place."""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from pathlib import Path

from slurm_topo.errors import InputError

# Names of streams that are open already; behind them may be a file that a shell appends to.
_STREAMS = ("/dev/fd/", "/dev/std", "/proc/")


def write_whole(
    path: str | os.PathLike[str],
    data: bytes,
    *,
    mode: int | None = None,
    sync: bool = False,
    plain: bool = False,
) -> None:
    """Write beside the file and rename, so that nobody sees half of it.

    Parameters
    ----------
    path : path
        The file.
    data : bytes
        Its content.
    mode : int, optional
        Its permissions, whatever the umask is; None: those of any new file.
    sync : bool
        It has reached the disk before it gets its name.
    plain : bool
        For files of ours: a folder, a device or a pipe of that name is refused, a symbolic link is replaced.
        Otherwise (files that a user names) a device, a pipe or a stream is written to as it is, since a
        rename would put a file in its place, and through a symbolic link the file that it names is written.

    Raises
    ------
    OSError
        The file cannot be written; what stood there is untouched.
    """
    if os.path.exists(path) and (not os.path.isfile(path) or os.fspath(path).startswith(_STREAMS)):
        if plain:
            raise OSError(errno.EINVAL, "a folder, a device or a pipe", os.fspath(path))
        Path(path).write_bytes(data)
        return
    target = Path(path) if plain else Path(os.path.realpath(path))
    handle, temporary = tempfile.mkstemp(prefix=f".{target.name[:200]}.", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            os.fchmod(stream.fileno(), 0o666 & ~_umask() if mode is None else mode)
            if sync:
                stream.flush()
                os.fsync(stream.fileno())
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def write_output(
    path: str | os.PathLike[str],
    data: bytes,
    *,
    mode: int | None = None,
    sync: bool = False,
    plain: bool = False,
) -> None:
    """:func:`write_whole` for a file that a command was told to write: every command fails alike.

    Raises
    ------
    InputError
        The file cannot be written; what stood there is untouched.
    """
    try:
        write_whole(path, data, mode=mode, sync=sync, plain=plain)
    except OSError as error:
        raise InputError(
            f"{os.fspath(path)}: cannot be written ({error.strerror or error}); "
            "name a file in a folder that is yours and has space"
        ) from error


def check_output(path: str | os.PathLike[str]) -> None:
    """Whether a file could be written: for a command that would find out after hours of computing.

    Raises
    ------
    InputError
        It could not.
    """
    file = Path(path)
    reason = ""
    if not file.parent.is_dir():
        reason = "its folder does not exist"
    elif file.is_dir():
        reason = "a folder"
    elif file.exists() and not file.is_file():
        reason = "a device or a pipe"
    elif not os.access(file.parent, os.W_OK | os.X_OK):
        reason = "its folder is not writable by you"
    if reason:
        raise InputError(f"{file}: cannot be written ({reason}); name another file with -o")


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
