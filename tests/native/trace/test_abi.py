"""What the tracer takes of each ABI is what the installed headers say."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(os.environ.get("TEST_MPICH_ROOT", "/"))
HEADERS = {
    "OPENMPI": ["usr/lib/*/openmpi/include/mpi.h", "usr/lib64/openmpi/include/mpi.h"],
    "MPICH": ["usr/include/*/mpich/mpi.h", "usr/include/mpich-*/mpi.h"],
}
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
    "MPI_Fint",
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
    lines += [f'printf("sizeof {t} %zu\\n", sizeof({t}));' for t in TYPES]
    source = tmp_path / "values.c"
    source.write_text(
        f"#include {include}\n#include <stdint.h>\n#include <stdio.h>\n"
        f"int main(void) {{ {' '.join(lines)} }}\n"
    )
    binary = tmp_path / "values"
    subprocess.run(["gcc", "-w", *options, str(source), "-o", str(binary)], check=True)
    return subprocess.run([str(binary)], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("abi", HEADERS)
def test_constants_and_sizes_are_those_of_the_header(project_root: Path, tmp_path: Path, abi: str) -> None:
    bases = [Path("/")] if abi == "OPENMPI" else [ROOT]
    found = [h for base in bases for pattern in HEADERS[abi] for h in base.glob(pattern)]
    if not found:
        pytest.skip(f"no mpi.h of {abi} is installed")
    names = NUMBERS + (HANDLES if abi == "MPICH" else [])
    native = project_root / "slurm_topo" / "trace" / "native"
    theirs = values(tmp_path, "<mpi.h>", ["-I", str(found[0].parent)], names)
    ours = values(tmp_path, '"abi.h"', [f"-DST_{abi}", "-I", str(native)], names)
    assert ours == theirs
