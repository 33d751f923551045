"""Six programs as people write them: the traced graph against Open MPI's monitoring of the same run."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slurm_topo.trace import Trace, merge_traces
from slurm_topo.trace.launch import MEASURE

pytestmark = pytest.mark.mpi
RANKS = 6
PROGRAMS = Path(__file__).parent / "programs"
NAMES = ["stencil.c", "transpose.c", "sparse.c", "particles.c", "workers.f90", "groups.py"]


def monitored(prefix: Path) -> dict[str, np.ndarray]:
    """Messages and bytes from the files of the monitoring: E is point-to-point, I is of collectives."""
    found = {f"{k}_{what}": np.zeros((RANKS, RANKS)) for k in "EI" for what in ("messages", "bytes")}
    for file in prefix.parent.glob(f"{prefix.name}.*.prof"):
        for line in file.read_text().splitlines():
            fields = line.split("\t")
            if fields[0] in ("E", "I"):
                source, target = int(fields[1]), int(fields[2])
                found[f"{fields[0]}_bytes"][source, target] = float(fields[3].split()[0])
                found[f"{fields[0]}_messages"][source, target] = float(fields[4].split()[0])
    return found


def traced(trace: Trace, column: str) -> np.ndarray:
    """A column of the slots as a matrix."""
    matrix = np.zeros((RANKS, RANKS))
    for record in trace.ranks:
        matrix[record.rank, record.sent["peer"]] = record.sent[column]
    return matrix


@pytest.mark.parametrize("name", NAMES)
def test_graph_equals_the_monitoring(
    program: Callable[..., Path],
    mpirun: Callable[..., list[str]],
    run: Callable[..., Any],
    collect: Callable[[], Trace],
    tmp_path: Path,
    name: str,
) -> None:
    if name.endswith(".py"):
        if importlib.util.find_spec("mpi4py") is None:
            pytest.skip("mpi4py is not here")
        binary = [sys.executable, str(PROGRAMS / name)]
    else:
        binary = [str(program(name))]
    prefix = tmp_path / "seen"
    # 2: messages of collectives are kept apart; 3: written to files.
    monitoring = ["--mca", "pml_monitoring_enable", "2", "--mca", "pml_monitoring_enable_output", "3"]
    monitoring += ["--mca", "pml_monitoring_filename", str(prefix)]
    environment = {"MPI4PY_MPIABI": "openmpi"}
    plain = run([*mpirun(RANKS), *binary], traced=False, environment=environment)
    done = run([*mpirun(RANKS, *monitoring), *binary], environment=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout == plain.stdout
    seen, trace = monitored(prefix), collect()
    for what in ("messages", "bytes"):
        # the library takes its own persistent requests (MPI_Alltoallv) for the program's.
        if name != "particles.c":
            assert np.array_equal(traced(trace, f"p2p_{what}"), seen[f"E_{what}"])
    ours = traced(trace, "p2p_bytes") + traced(trace, "coll_bytes")
    theirs = seen["E_bytes"] + seen["I_bytes"]
    assert theirs.sum() > 0
    assert abs(ours - theirs).sum() <= 0.05 * theirs.sum()
    assert np.corrcoef(ours.ravel(), theirs.ravel())[0, 1] > 0.99


@pytest.mark.parametrize("name", ["transpose.c", "sparse.c", "particles.c"])
def test_measured_collectives_are_those_that_the_library_reports(
    program: Callable[..., Path],
    mpirun: Callable[..., list[str]],
    run: Callable[..., Any],
    collect: Callable[[], Trace],
    tmp_path: Path,
    name: str,
) -> None:
    """Also with algorithms that no table foresees: nothing is modelled then."""
    prefix = tmp_path / "seen"
    options = ["--mca", "pml_monitoring_enable_output", "3", "--mca", "pml_monitoring_filename", str(prefix)]
    options += ["--mca", "coll_tuned_use_dynamic_rules", "1", "--mca", "coll_tuned_allreduce_algorithm", "4"]
    options += ["--mca", "coll_tuned_alltoall_algorithm", "3"]
    done = run([*mpirun(RANKS, *options), str(program(name))], environment=MEASURE)
    assert done.returncode == 0, done.stderr
    seen, trace = monitored(prefix), collect()
    assert all(r.measured for r in trace.ranks)
    ours = traced(trace, "p2p_bytes") + traced(trace, "coll_bytes")
    theirs = seen["E_bytes"] + seen["I_bytes"]
    # What the library sends within MPI_Init and MPI_Finalize is in its own report only.
    assert abs(ours - theirs).sum() <= 0.001 * theirs.sum()
    graph = merge_traces([trace])
    assert graph.modelled.sum() == 0
    assert graph.meta["measured"] is True
