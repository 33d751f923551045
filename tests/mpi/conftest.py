"""Real MPI programs: compiled once, run by mpirun, traced by the library of this checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from slurm_topo.trace import Trace, read_trace, traced_environment

PROGRAMS = Path(__file__).parent / "programs"
QUIET = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_mpi_yield_when_idle": "1",
}


@pytest.fixture(scope="session")
def native(project_root: Path) -> Path:
    """Folder of the tracer's libraries, made up to date."""
    if not (shutil.which("mpirun") and shutil.which("mpicc")):
        pytest.skip("mpirun or mpicc is not here")
    build = project_root / "build"
    source = project_root / "slurm_topo" / "trace" / "native"
    subprocess.run(["make", "-s", "-C", str(source), f"BUILD={build}"], check=True, capture_output=True)
    return build / "lib"


@pytest.fixture(scope="session")
def mpirun() -> Callable[..., list[str]]:
    """The launcher's part of a command line."""
    return lambda ranks, *options: ["mpirun", "--oversubscribe", *options, "-n", str(ranks)]


@pytest.fixture(scope="session")
def program(native: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Compile a program of tests/mpi/programs by its file name."""
    folder = tmp_path_factory.mktemp("programs")
    compilers = {".c": "mpicc", ".f90": "mpif90", ".cc": "mpicxx"}

    def compile_program(name: str, *options: str) -> Path:
        source, target = PROGRAMS / name, folder / (name + "-".join(options).replace("/", "_"))
        if not target.exists():
            compiler = compilers[source.suffix]
            if not shutil.which(compiler) or (compiler == "mpif90" and not shutil.which("gfortran")):
                pytest.skip(f"{compiler} is not here")
            command = [
                compiler,
                "-O1",
                "-rdynamic",
                *options,
                str(source),
                "-o",
                str(target),
                "-lpthread",
                "-lm",
            ]
            done = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
            assert done.returncode == 0, done.stderr
        return target

    return compile_program


@pytest.fixture
def counters(tmp_path: Path) -> Path:
    """An empty folder for counters."""
    folder = tmp_path / "counters"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def run(native: Path, counters: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a command with the tracer preloaded, or (``traced=False``) without."""

    def run_command(
        command: list[str],
        traced: bool = True,
        environment: dict[str, str] | None = None,
        timeout: float = 120,
    ) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, **QUIET, **(environment or {})}
        if traced:
            env = traced_environment(env, native / "libslurm_topo_trace.so", counters)
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=timeout, check=False)

    return run_command


@pytest.fixture
def collect(native: Path, counters: Path, tmp_path: Path) -> Callable[[], Trace]:
    """Collect what the traced command has left."""

    def collect_counters() -> Trace:
        out = tmp_path / "step.trace"
        done = subprocess.run(
            [str(native / "slurm-topo-collect"), str(counters), str(out)],
            capture_output=True,
            text=True,
            check=True,
        )
        assert not done.stdout.startswith("ranks 0"), done.stdout
        return read_trace(out)

    return collect_counters
