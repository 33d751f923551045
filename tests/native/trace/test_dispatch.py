"""The dispatcher by itself, with a library that only looks like MPI; also for the other architecture."""

from __future__ import annotations

import platform
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CROSS = "aarch64-linux-gnu-gcc"
ARGUMENTS = "1 2 3 4 5 6 7 8 9 10 11 12\n" * 2
Built = Callable[[str, bool], tuple[list[str], Path]]


@pytest.fixture(scope="session")
def built(project_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Preload library, program and late library for a compiler: (command, folder)."""
    native = project_root / "slurm_topo" / "trace" / "native"

    def build(compiler: str, new: bool) -> tuple[list[str], Path]:
        if not shutil.which(compiler):
            pytest.skip(f"{compiler} is not here")
        runner = ["qemu-aarch64-static", "-L", "/usr/aarch64-linux-gnu"] if compiler == CROSS else []
        if runner and platform.machine() == "aarch64":
            pytest.skip("not another architecture")
        if runner and not shutil.which(runner[0]):
            pytest.skip(f"{runner[0]} is not here")
        folder = tmp_path_factory.mktemp("dispatch")
        make = ["make", "-s", "-C", str(native), f"BUILD={folder}", f"CC={compiler}"]
        subprocess.run([*make, str(folder / "lib" / "libslurm_topo_trace.so")], check=True)
        options = ["-DWITH_NEW"] if new else []
        shared = [compiler, "-shared", "-fPIC", "-O1"]
        fake = folder / "libmpi_fake.so"
        subprocess.run([*shared, *options, str(HERE / "fake_mpi.c"), "-o", str(fake)], check=True)
        subprocess.run([*shared, str(HERE / "fake_user.c"), "-o", str(folder / "late.so")], check=True)
        program = [compiler, "-O1", str(HERE / "fake_program.c"), str(fake), f"-Wl,-rpath,{folder}", "-ldl"]
        subprocess.run([*program, "-o", str(folder / "program")], check=True)
        return [*runner, str(folder / "program"), str(folder / "late.so")], folder

    return build


@pytest.mark.parametrize("compiler", ["gcc", CROSS])
@pytest.mark.parametrize("new", [False, True])
def test_arguments_arrive_and_new_functions_exist_where_they_do(
    built: Built, compiler: str, new: bool
) -> None:
    command, folder = built(compiler, new)
    preload = str(folder / "lib" / "libslurm_topo_trace.so")
    if compiler == CROSS:
        command = [command[0], "-E", f"LD_PRELOAD={preload}", *command[1:]]
        environment = {}
    else:
        environment = {"LD_PRELOAD": preload}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    expected = 7 if new else -1
    assert done.stdout == f"{ARGUMENTS}650 5 {expected}\n"
    assert done.stderr == ""


def test_only_names_of_mpi_are_exported(built: Built) -> None:
    _, folder = built("gcc", False)
    library = str(folder / "lib" / "libslurm_topo_trace.so")
    done = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True)
    names = [line.split()[-1] for line in done.stdout.splitlines()]
    assert names
    asked = "mca_common_monitoring_record_pml"  # Open MPI's own, handed on to it
    assert all(n.startswith(("MPI_", "MPIX_", "mpi_")) or n == asked for n in names)
