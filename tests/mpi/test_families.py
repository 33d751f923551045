"""The same programs with every MPI family: Open MPI 4's graph where the program's text fixes the bytes."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slurm_topo.trace import Trace

pytestmark = pytest.mark.mpi
PROGRAMS = Path(__file__).parent / "programs"
RANKS = 4
Table = dict[tuple[int, int], tuple[int, int]]
Family = Any  # of tests/conftest.py, which is no module that can be imported

FAMILIES = ["openmpi5", "mpich4", "mpich5", "intel", "mpich5-abi", "intel-abi"]
# The wheels of the others are without; Intel has mpi_f08 for its own compiler only.
FORTRAN = [("mpich4", "MPIF_H"), ("mpich4", "MPI"), ("mpich4", "F08"), ("intel", "MPIF_H"), ("intel", "MPI")]
PYTHON = FAMILIES[:4]  # mpi4py's wheel knows two ABIs


@pytest.fixture
def family(request: pytest.FixtureRequest, mpi_family: Callable[[str], Family]) -> Family:
    return mpi_family(request.param)


@pytest.fixture
def launch(run: Callable[..., Any], counters: Path) -> Callable[..., Any]:
    """Run under the family's launcher; MPICH fails to start now and then on a busy machine, untraced too."""

    def launch_program(family: Family, *program: str, traced: bool = True, **environment: str) -> Any:
        command = family.command(RANKS, *program)
        for _ in range(4):
            done = run(command, traced=traced, environment={**family.environment, **environment})
            if "MPII_Init_thread" not in done.stderr:
                break
            for left in counters.iterdir():
                left.unlink()
        return done

    return launch_program


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    folder = tmp_path_factory.mktemp("families")

    def compile_program(family: Family, name: str, *options: str) -> str:
        target = folder / "-".join([family.name, name, *options])
        return str(family.compile(PROGRAMS / name, target, *options))

    return compile_program


def sent(trace: Trace, kind: str) -> Table:
    """(from, to) -> (messages, bytes)."""
    return {
        (r.rank, int(s["peer"])): (int(s[f"{kind}_messages"]), int(s[f"{kind}_bytes"]))
        for r in trace.ranks
        for s in r.sent
        if s[f"{kind}_messages"]
    }


def ring(messages: int, nbytes: int) -> Table:
    return {(r, (r + 1) % RANKS): (messages, nbytes) for r in range(RANKS)}


# The tables of test_modes.py, which Open MPI 4 gives.
MODES = {
    "send": ring(1, 400),
    "issend": ring(1, 400),
    "send_init": ring(3, 1200),
    "derived": ring(1, 120),
    "inter": {(r, r ^ 1): (1, 40) for r in range(RANKS)},
    "threads": ring(400, 1600),
}
# Everything with one of each kind of library; the others share its code.
RUNS = [("mpich4", mode) for mode in MODES]
RUNS += [(name, mode) for name in FAMILIES if name != "mpich4" for mode in ("send_init", "inter")]


@pytest.mark.parametrize(("family", "mode"), RUNS, indirect=["family"])
def test_point_to_point_is_counted_exactly(
    family: Family,
    build: Callable[..., str],
    launch: Callable[..., Any],
    collect: Callable[[], Trace],
    mode: str,
) -> None:
    done = launch(family, build(family, "modes.c"), mode)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    trace = collect()
    assert sent(trace, "p2p") == MODES[mode]
    for rank in trace.ranks:
        assert " ".join(rank.library.split()).startswith(family.says)
        assert rank.finalized


@pytest.mark.parametrize("family", ["mpich4", "mpich5-abi"], indirect=True)
def test_partitions_and_persistent_collectives_are_counted_at_each_start(
    family: Family, build: Callable[..., str], launch: Callable[..., Any], collect: Callable[[], Trace]
) -> None:
    done = launch(family, build(family, "partitioned.c"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert sent(collect(), "p2p") == ring(8, 320)
    done = launch(family, build(family, "persistent.c"))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("family", "dialect"), FORTRAN, indirect=["family"])
def test_fortran_is_counted_once(
    family: Family,
    build: Callable[..., str],
    launch: Callable[..., Any],
    collect: Callable[[], Trace],
    dialect: str,
) -> None:
    done = launch(family, build(family, "ring.f90", f"-D{dialect}"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    trace = collect()
    assert sent(trace, "p2p") == {**ring(3, 960), (0, 2): (1, 12), (1, 3): (1, 12)}
    assert sent(trace, "coll") == {(i, j): (1, 64) for i in range(RANKS) for j in range(RANKS) if i != j}


@pytest.mark.skipif(importlib.util.find_spec("mpi4py") is None, reason="mpi4py is not here")
@pytest.mark.parametrize(
    ("family", "way"), [*((name, "preload") for name in PYTHON), ("mpich4", "profile")], indirect=["family"]
)
def test_mpi4py_is_counted(
    family: Family,
    native: Path,
    counters: Path,
    launch: Callable[..., Any],
    collect: Callable[[], Trace],
    way: str,
) -> None:
    """It calls the large-count functions where the library has them, as MPICH 4 does."""
    arguments = [str(native / "libslurm_topo_trace.so")] if way == "profile" else []
    command = [sys.executable, str(PROGRAMS / "ring.py"), *arguments]
    done = launch(family, *command, traced=way == "preload", SLURM_TOPO_JOB_COUNTERS=str(counters))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    trace = collect()
    assert all(" ".join(r.library.split()).startswith(family.says) for r in trace.ranks)
    pairs = sent(trace, "p2p")
    assert {p: m for p, (m, _) in pairs.items()} == dict.fromkeys(ring(1, 1), 2)
    assert all(800 < nbytes < 1000 for _, nbytes in pairs.values())


@pytest.mark.parametrize("family", FAMILIES, indirect=True)
def test_results_are_the_same_bits(
    family: Family, build: Callable[..., str], launch: Callable[..., Any]
) -> None:
    plain = launch(family, build(family, "ends.c"), "sum", traced=False)
    traced = launch(family, build(family, "ends.c"), "sum")
    assert plain.stdout.startswith("0x")
    assert (traced.returncode, traced.stdout, traced.stderr) == (0, plain.stdout, plain.stderr)
