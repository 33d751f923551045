"""What the tracer takes of each ABI is what the installed headers say."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

# (ABI, a header that has it): the system's, or below the project (`make packages-mpi`).
HEADERS = [
    ("OPENMPI", "/usr/lib/*/openmpi/include/mpi.h"),
    ("OPENMPI", "build/mpi/openmpi5/include/mpi.h"),
    ("MPICH", "/usr/include/*/mpich/mpi.h"),
    ("MPICH", "build/mpi/mpich5/include/mpi.h"),
    ("MPICH", "build/mpi/intel/include/mpi.h"),
    ("STANDARD", "build/mpi/mpich5/include/mpi_abi.h"),
    ("STANDARD", "build/mpi/intel/include/mpi_abi.h"),
]
NUMBERS = [
    "MPI_SUCCESS",
    "MPI_UNDEFINED",
    "MPI_THREAD_MULTIPLE",
    "MPI_DIST_GRAPH",
    "MPI_PROC_NULL",
    "MPI_ROOT",
    "MPI_CART",
    "MPI_GRAPH",
    "MPI_MAX_LIBRARY_VERSION_STRING",
    "MPI_IN_PLACE",
]
HANDLES = ["MPI_COMM_WORLD", "MPI_COMM_NULL", "MPI_NO_OP"]  # objects of the library in Open MPI
TYPES = [
    "MPI_Aint",
    "MPI_Count",
    "MPI_Comm",
    "MPI_Datatype",
    "MPI_Op",
    "MPI_Win",
    "MPI_Info",
    "MPI_Request",
    "MPI_Group",
    "MPI_Message",
]


def values(tmp_path: Path, include: str, options: list[str], names: list[str]) -> str:
    """Names and values as a program that includes the header prints them."""
    lines = [f'printf("{n} %lld\\n", (long long)(intptr_t){n});' for n in names]
    # MPI_Fint is no part of the standard ABI: it is the Fortran compiler's.
    types = TYPES if "mpi_abi" in include or "STANDARD" in "".join(options) else ["MPI_Fint", *TYPES]
    lines += [f'printf("sizeof {t} %zu\\n", sizeof({t}));' for t in types]
    source = tmp_path / "values.c"
    source.write_text(
        f"#include {include}\n#include <stdint.h>\n#include <stdio.h>\n"
        f"int main(void) {{ {' '.join(lines)} }}\n"
    )
    binary = tmp_path / "values"
    subprocess.run(["gcc", "-w", *options, str(source), "-o", str(binary)], check=True)
    return subprocess.run([str(binary)], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(("abi", "header"), HEADERS)
def test_constants_and_sizes_are_those_of_the_header(
    project_root: Path, tmp_path: Path, abi: str, header: str
) -> None:
    root, pattern = (Path("/"), header[1:]) if header[0] == "/" else (project_root, header)
    found = next(root.glob(pattern), None)
    if not found:
        pytest.skip(f"{header} is not here")
    names = NUMBERS + ([] if abi == "OPENMPI" else HANDLES)
    native = project_root / "slurm_topo" / "trace" / "native"
    theirs = values(tmp_path, f"<{found.name}>", ["-I", str(found.parent)], names)
    ours = values(tmp_path, '"abi.h"', [f"-DST_{abi}", "-I", str(native)], names)
    assert ours == theirs
