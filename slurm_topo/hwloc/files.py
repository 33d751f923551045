"""Read a file that somebody named: never more than is sensible, whatever it is."""

from __future__ import annotations

import os
from pathlib import Path

from slurm_topo.errors import MachineError


def read_bounded(path: str | os.PathLike[str], largest: int, what: str, instead: str) -> bytes:
    """All bytes of a file of at most ``largest`` bytes.

    Parameters
    ----------
    path
        Any file; a device or a pipe is read no further than a file would be.
    largest : int
        Bytes.
    what, instead : str
        For the messages: what the file should be, and the next step.

    Raises
    ------
    MachineError
        Missing, unreadable, a directory, or too large.
    """
    file = Path(path)
    try:
        if file.is_dir():
            raise MachineError(f"{file}: is a directory; {instead}")
        with file.open("rb") as stream:
            data = stream.read(largest + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a file name"
        raise MachineError(f"{file}: cannot be read ({reason}); {instead}") from error
    if len(data) > largest:
        raise MachineError(f"{file}: has more than {largest} bytes, which is more than any {what}; {instead}")
    return data
