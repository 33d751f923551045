"""slurm-topo trace run with real launches."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from slurm_topo.trace import read_graph, read_trace

pytestmark = pytest.mark.mpi
RANKS = 4
ROOT_MAY = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


@pytest.fixture
def trace_run(native: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run ``slurm-topo trace run``."""

    def run(output: Path, *command: str) -> subprocess.CompletedProcess[str]:
        line = [
            sys.executable,
            "-m",
            "slurm_topo.cli.main",
            "trace",
            "run",
            "-o",
            str(output),
            "--",
            *command,
        ]
        env = {**os.environ, **ROOT_MAY, "SLURM_TOPO_LIBRARY_DIR": str(native)}
        return subprocess.run(line, env=env, capture_output=True, text=True, timeout=120, check=False)

    return run


def test_a_launch_leaves_a_trace_and_nothing_else(
    trace_run: Callable[..., subprocess.CompletedProcess[str]],
    program: Callable[..., Path],
    mpirun: Callable[..., list[str]],
    tmp_path: Path,
) -> None:
    out = tmp_path / "ring.trace"
    done = trace_run(out, *mpirun(RANKS), str(program("modes.c")), "sendrecv")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    trace = read_trace(out)
    assert [r.rank for r in trace.ranks] == list(range(RANKS))
    assert {r.host for r in trace.ranks} == {os.uname().nodename}
    assert all(set(r.cpus) <= os.sched_getaffinity(0) and r.cpus for r in trace.ranks)
    assert all(r.program == "modes.c" and r.library.startswith("Open MPI") for r in trace.ranks)
    assert [p.name for p in tmp_path.iterdir()] == ["ring.trace"]


def test_the_graph_is_written_where_its_suffix_asks_for_it(
    trace_run: Callable[..., subprocess.CompletedProcess[str]],
    program: Callable[..., Path],
    mpirun: Callable[..., list[str]],
    tmp_path: Path,
) -> None:
    for name in ("ring.npz", "ring.mtx"):
        done = trace_run(tmp_path / name, *mpirun(RANKS), str(program("modes.c")), "sendrecv")
        assert done.returncode == 0, done.stderr
        graph = read_graph(tmp_path / name)
        assert graph.nbytes.tolist() == [40.0] * RANKS
        assert graph.target.tolist() == [1, 2, 3, 0]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["ring.mtx", "ring.npz"]


def test_a_failed_program_keeps_its_code_and_its_trace(
    trace_run: Callable[..., subprocess.CompletedProcess[str]],
    program: Callable[..., Path],
    mpirun: Callable[..., list[str]],
    tmp_path: Path,
) -> None:
    out = tmp_path / "ends.trace"
    done = trace_run(out, *mpirun(RANKS), str(program("ends.c")), "abort")
    assert done.returncode == 7
    assert not any(r.finalized for r in read_trace(out).ranks)


def test_two_launches_in_one_script_are_two_worlds(
    trace_run: Callable[..., subprocess.CompletedProcess[str]],
    program: Callable[..., Path],
    mpirun: Callable[..., list[str]],
    tmp_path: Path,
) -> None:
    out, app = tmp_path / "two.trace", str(program("modes.c"))
    script = f"{' '.join(mpirun(2))} {app} sendrecv && {' '.join(mpirun(3))} {app} sendrecv"
    done = trace_run(out, "bash", "-c", script)
    assert done.returncode == 0, done.stderr
    assert len(read_trace(out).ranks) == 5
    graph = read_graph(out)
    assert (graph.ranks, graph.meta["other_worlds"]) == (3, 1)
