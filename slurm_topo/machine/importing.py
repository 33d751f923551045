"""Texts of other tools: read them, and tell which tool wrote them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from slurm_topo.errors import MachineError

LARGEST_BYTES = 256 * 1024 * 1024


def read_text(path: str | os.PathLike[str]) -> str:
    """A text file, or standard input for ``-``; bytes that are no UTF-8 become replacement characters.

    Raises
    ------
    MachineError
        The file is missing, unreadable or larger than 256 MiB.
    """
    if str(path) == "-":
        return sys.stdin.buffer.read(LARGEST_BYTES).decode("utf-8", "replace")
    file = Path(path)
    try:
        if file.stat().st_size > LARGEST_BYTES:
            raise MachineError(f"{file}: is larger than any output of a tool; name another file")
        data = file.read_bytes()
    except OSError as error:
        raise MachineError(f"{file}: cannot be read ({error.strerror}); name another file") from error
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace")
    return data.decode("utf-8", "replace")
