"""C++, Fortran in its three dialects, and Python by preload and by mpi4py.profile."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slurm_topo.trace import Trace

pytestmark = pytest.mark.mpi
RANKS = 4
PROGRAMS = Path(__file__).parent / "programs"


def sent(trace: Trace, kind: str) -> dict[tuple[int, int], tuple[int, int]]:
    """(from, to) -> (messages, bytes)."""
    return {
        (r.rank, int(s["peer"])): (int(s[f"{kind}_messages"]), int(s[f"{kind}_bytes"]))
        for r in trace.ranks
        for s in r.sent
        if s[f"{kind}_messages"]
    }


@pytest.mark.parametrize("dialect", ["MPIF_H", "MPI", "F08"])
def test_fortran_is_counted(
    program: Callable[..., Path],
    mpirun: Callable[..., list[str]],
    run: Callable[..., Any],
    collect: Callable[[], Trace],
    dialect: str,
) -> None:
    binary = program("ring.f90", "-cpp", "-w", "-fallow-argument-mismatch", f"-D{dialect}")
    done = run([*mpirun(RANKS), str(binary)])
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    trace = collect()
    expected = {(r, (r + 1) % RANKS): (3, 960) for r in range(RANKS)}
    expected |= {(0, 2): (1, 12), (1, 3): (1, 12)}
    assert sent(trace, "p2p") == expected
    assert sent(trace, "coll") == {(i, j): (1, 64) for i in range(RANKS) for j in range(RANKS) if i != j}
    assert all(r.finalized for r in trace.ranks)


def test_cpp_is_counted(
    program: Callable[..., Path],
    mpirun: Callable[..., list[str]],
    run: Callable[..., Any],
    collect: Callable[[], Trace],
) -> None:
    done = run([*mpirun(RANKS), str(program("ring.cc"))])
    assert done.returncode == 0, done.stderr
    assert sent(collect(), "p2p") == {(r, (r + 1) % RANKS): (1, 800) for r in range(RANKS)}


@pytest.mark.skipif(importlib.util.find_spec("mpi4py") is None, reason="mpi4py is not here")
@pytest.mark.parametrize("way", ["preload", "profile"])
def test_mpi4py_is_counted(
    native: Path,
    counters: Path,
    mpirun: Callable[..., list[str]],
    run: Callable[..., Any],
    collect: Callable[[], Trace],
    way: str,
) -> None:
    library = str(native / "libslurm_topo_trace.so")
    arguments = [library] if way == "profile" else []
    environment = {"SLURM_TOPO_JOB_COUNTERS": str(counters), "MPI4PY_MPIABI": "openmpi"}
    command = [*mpirun(RANKS), sys.executable, str(PROGRAMS / "ring.py"), *arguments]
    done = run(command, traced=way == "preload", environment=environment)
    assert done.returncode == 0, done.stderr
    trace = collect()
    pairs = sent(trace, "p2p")
    assert set(pairs) == {(r, (r + 1) % RANKS) for r in range(RANKS)}
    assert {messages for messages, _ in pairs.values()} == {2}
    assert all(800 < nbytes < 1000 for _, nbytes in pairs.values())
    assert {r.program for r in trace.ranks} == {"ring.py"}
    assert {r.rank for r in trace.ranks} == set(range(RANKS))
