"""Where the native parts of the tracer are."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from slurm_topo.config import Settings
from slurm_topo.errors import LaunchError

PRELOAD = "libslurm_topo_trace.so"
COLLECT = "slurm-topo-collect"
# Where native parts are: built beside the package, or installed.
LIBRARY_DIRS = (
    Path(__file__).resolve().parents[2] / "build" / "lib",
    Path("/usr/lib/slurm-topo"),
    Path("/usr/local/lib/slurm-topo"),
)


def find_library(settings: Settings | None = None, name: str = PRELOAD, target: str = "make") -> Path:
    """The file to preload (or another native part by its name, with the command that builds it).

    It is looked for in ``library_dir`` of the settings alone, where that is set; else in the build folder
    beside the package, in /usr/lib/slurm-topo and in /usr/local/lib/slurm-topo.

    Raises
    ------
    LaunchError
        It is nowhere.
    """
    places = list(_places(settings))
    for place in places:
        if os.access(place / name, os.R_OK):
            return (place / name).resolve()
    raise LaunchError(
        f"{name}: is not in {', '.join(map(str, places))}; "
        f"build it with '{target}' or set SLURM_TOPO_LIBRARY_DIR"
    )


def _places(settings: Settings | None) -> Iterator[Path]:
    if settings is not None and settings.library_dir:
        yield Path(settings.library_dir)
        return
    yield from LIBRARY_DIRS
