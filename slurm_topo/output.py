"""Files that a command was told to write: whole or not at all, and never something else's place."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

# Names of streams that are open already; behind them may be a file that a shell appends to.
_STREAMS = ("/dev/fd/", "/dev/std", "/proc/")


def write_whole(path: str | os.PathLike[str], data: bytes) -> None:
    """Write beside the file and rename, so that nobody sees half of it.

    A device, a pipe or a stream is written to as it is: a rename would put a file in its place. Through a
    symbolic link the file that it names is written.

    Raises
    ------
    OSError
        The file cannot be written; what stood there is untouched.
    """
    if os.path.exists(path) and (not os.path.isfile(path) or os.fspath(path).startswith(_STREAMS)):
        Path(path).write_bytes(data)
        return
    target = Path(os.path.realpath(path))
    handle, temporary = tempfile.mkstemp(prefix=f".{target.name[:200]}.", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            os.fchmod(stream.fileno(), 0o666 & ~_umask())
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
