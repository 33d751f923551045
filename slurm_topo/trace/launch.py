"""Tracing a launch without Slurm: environment, launch, collection."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from slurm_topo.config import Settings
from slurm_topo.errors import LaunchError
from slurm_topo.trace.library import COLLECT, find_library

COUNTERS = "SLURM_TOPO_JOB_COUNTERS"
# A program built with the address sanitizer ends at once when another library is loaded before its runtime.
LINK_ORDER = "verify_asan_link_order"
# Open MPI's monitoring component reports every message to the tracer, which then models no collective.
MEASURE = {"SLURM_TOPO_JOB_MEASURE": "1", "OMPI_MCA_pml_monitoring_enable": "1"}


@dataclass(frozen=True)
class Launch:
    """How a traced launch ended.

    Attributes
    ----------
    exit_code : int
        Of the program; 128 + the signal where one ended it.
    ranks : int
        Ranks that have left counters; 0: no trace was written.
    reason : str
        Why counters are missing or incomplete; empty where they are not.
    """

    exit_code: int
    ranks: int
    reason: str


def traced_environment(environ: Mapping[str, str], preload: Path, counters: Path | str) -> dict[str, str]:
    """The environment of a traced launch.

    What the user preloads stays, behind the tracer, which calls what comes after it.
    """
    libraries = [p for p in environ.get("LD_PRELOAD", "").replace(":", " ").split() if p != str(preload)]
    sanitizer = [o for o in environ.get("ASAN_OPTIONS", "").split(":") if o]
    if not any(o.startswith(LINK_ORDER) for o in sanitizer):
        sanitizer.append(f"{LINK_ORDER}=0")
    return {
        **environ,
        "LD_PRELOAD": ":".join([str(preload), *libraries]),
        "ASAN_OPTIONS": ":".join(sanitizer),
        COUNTERS: str(counters),
    }


def run_traced(
    command: Sequence[str], output: str | os.PathLike[str], settings: Settings, measure: bool = False
) -> Launch:
    """Run a launch such as ``mpirun -n 8 ./app`` with the tracer and write its trace.

    With ``measure`` the MPI library is asked for the messages of its collectives, where it can tell.

    Raises
    ------
    LaunchError
        The native parts are missing, the command cannot be started, or its counters cannot be collected.
    """
    preload, collect = find_library(settings), find_library(settings, COLLECT)
    counters = _counters_directory(settings)
    try:
        started = time.time_ns()
        environment = traced_environment(os.environ, preload, counters)
        code = _run(command, {**environment, **(MEASURE if measure else {})})
        ranks, reason = _collect(collect, counters, Path(output), started)
    finally:
        shutil.rmtree(counters, ignore_errors=True)
    return Launch(code, ranks, reason)


def _counters_directory(settings: Settings) -> Path:
    for parent in (settings.local_dir, tempfile.gettempdir()):
        with contextlib.suppress(OSError):
            return Path(tempfile.mkdtemp(prefix="slurm-topo-", dir=parent))
    raise LaunchError(
        f"{settings.local_dir}: no folder for the counters can be made; set SLURM_TOPO_LOCAL_DIR"
    )


@contextlib.contextmanager
def _ignoring_interrupts() -> Iterator[None]:
    """An interrupt of the terminal reaches the program itself; we wait for how it ends."""

    def nothing(_number: int, _frame: FrameType | None) -> None:
        return

    before = {number: signal.signal(number, nothing) for number in (signal.SIGINT, signal.SIGQUIT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _run(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Exit code of the command; a request to end us is handed on to it."""
    with _ignoring_interrupts():
        try:
            process = subprocess.Popen(list(command), env=dict(environment))
        except OSError as error:
            raise LaunchError(
                f"{command[0]}: cannot be started ({error.strerror}); give a command after --"
            ) from error
        before = signal.signal(signal.SIGTERM, lambda _number, _frame: process.terminate())
        try:
            code = process.wait()
        finally:
            signal.signal(signal.SIGTERM, before)
    return code if code >= 0 else 128 - code


def _collect(collect: Path, counters: Path, output: Path, started_ns: int) -> tuple[int, str]:
    command = [
        str(collect),
        str(counters),
        str(output),
        f"node={socket.gethostname()}",
        f"start={started_ns}",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    lines = done.stdout.splitlines()
    if done.returncode != 0 or not lines:
        raise LaunchError(
            f"{output}: {lines[1] if len(lines) > 1 else done.stderr.strip() or 'the collector failed'}; "
            "give another file with -o"
        )
    return int(lines[0].split()[1]), lines[1] if len(lines) > 1 else ""
