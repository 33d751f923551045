"""The plugin's C, compiled with sanitizers and a fake of Slurm's functions into one program."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
FLAGS = ["-std=c11", "-D_GNU_SOURCE", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-fno-omit-frame-pointer"]
SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]

Drive = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory, project_root: Path) -> Path:
    """The program; rebuilt in every session."""
    if not shutil.which("gcc") or not Path("/usr/include/slurm/spank.h").exists():
        pytest.skip("gcc or slurm/spank.h is missing (apt-get install gcc libslurm-dev)")
    folder = tmp_path_factory.mktemp("driver")
    spank = project_root / "spank"
    sources = [*sorted(spank.glob("*.c")), HERE / "fake_spank.c", HERE / "drive.c"]
    # The collector is the tracer's and is tested there; the fake in drive.c only tells who it runs as.
    collector = project_root / "slurm_topo" / "trace" / "native"
    program = folder / "drive"
    includes = [f"-I{spank}", f"-I{HERE}", f"-I{collector}", "-isystem", "/usr/include"]
    subprocess.run(
        ["gcc", *FLAGS, *SANITIZERS, *includes, "-o", str(program), *map(str, sources)],
        check=True,
        timeout=300,
    )
    return program


@pytest.fixture
def drive(driver: Path) -> Drive:
    """Run one part of the plugin: ``drive(part, *arguments, env={...})``; what a sanitizer finds fails."""

    def run(
        part: str,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        name: str = "srun",
        **options: object,
    ) -> subprocess.CompletedProcess[str]:
        command: Sequence[str] = [name, *arguments]
        result = subprocess.run(
            command,
            executable=driver,
            env={"DRIVE": part, "PATH": os.environ["PATH"], **(env or {})},
            capture_output=True,
            text=True,
            timeout=120,
            **options,  # type: ignore[call-overload]
        )
        assert result.returncode == 0, result.stderr
        assert "Sanitizer" not in result.stderr, result.stderr
        assert "runtime error" not in result.stderr, result.stderr
        return result

    return run


@pytest.fixture(scope="session")
def mpirun(tmp_path_factory: pytest.TempPathFactory, driver: Path, project_root: Path) -> Path:
    """A program called mpirun with spank/mpirun.c in it, linked to a stand-in of Open MPI 4's library."""
    folder = tmp_path_factory.mktemp("mpirun")
    spank = project_root / "spank"
    rte = folder / "libopen-rte.so.40"
    (folder / "rte.c").write_text("int rte; int *rte_of(void) { return &rte; }\n")
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(rte), str(folder / "rte.c")], check=True, timeout=60)
    core = ["allocation", "args", "base", "child", "launch", "mpirun", "openmpi", "options"]
    core += ["plan", "preload", "record", "search", "shape", "spool"]
    sources = [*(str(spank / f"{name}.c") for name in core), str(HERE / "fake_mpirun.c")]
    program = folder / "mpirun"
    link = ["-Wl,--no-as-needed", str(rte), f"-Wl,-rpath,{folder}"]
    command = ["gcc", *FLAGS, *SANITIZERS, f"-I{spank}", "-o", str(program), *sources, *link]
    subprocess.run(command, check=True, timeout=300)
    return program
