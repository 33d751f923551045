"""The same programs with MPICH (an unpacked one may be named by TEST_MPICH_ROOT)."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slurm_topo.trace import Trace

pytestmark = pytest.mark.mpi
ROOT = Path(os.environ.get("TEST_MPICH_ROOT", "/"))
PROGRAMS = Path(__file__).parent / "programs"
RANKS = 4
Table = dict[tuple[int, int], tuple[int, int]]


class Mpich:
    """Where the parts of MPICH are."""

    def __init__(self, include: Path, library: Path, launcher: Path, links: Path) -> None:
        self.include, self.library, self.launcher, self.links = include, library, launcher, links

    @property
    def environment(self) -> dict[str, str]:
        return {"LD_LIBRARY_PATH": f"{self.links}:{self.library}", "MPI4PY_MPIABI": "mpich"}

    def command(self, *program: str) -> list[str]:
        return [str(self.launcher), "-n", str(RANKS), *program]


@pytest.fixture(scope="session")
def mpich(tmp_path_factory: pytest.TempPathFactory) -> Mpich:
    include = next(ROOT.glob("usr/include/*/mpich/mpi.h"), None)
    library = next(ROOT.glob("usr/lib/*/libmpich.so.12"), None)
    launcher = ROOT / "usr/bin/mpiexec.hydra"
    if not include or not library or not launcher.exists():
        pytest.skip("MPICH is not here")
    links = tmp_path_factory.mktemp("mpich")
    (links / "libmpi.so.12").symlink_to(library.resolve())  # the name that the ABI initiative agreed on
    return Mpich(include.parent, library.parent, launcher, links)


@pytest.fixture
def launch(mpich: Mpich, run: Callable[..., Any], counters: Path) -> Callable[..., Any]:
    """Run under mpiexec; MPICH's own start fails now and then on a busy machine, with and without us."""

    def launch_program(*program: str, traced: bool = True, **environment: str) -> Any:
        for _ in range(4):
            done = run(
                mpich.command(*program), traced=traced, environment={**mpich.environment, **environment}
            )
            if "MPII_Init_thread" not in done.stderr:
                break
            for left in counters.iterdir():
                left.unlink()
        return done

    return launch_program


@pytest.fixture(scope="session")
def build(mpich: Mpich, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    folder = tmp_path_factory.mktemp("programs")

    def compile_program(name: str, *options: str) -> str:
        target = folder / (name + "".join(options))
        compiler = ["gfortran", "-cpp", "-fallow-argument-mismatch"] if name.endswith("f90") else ["gcc"]
        libraries = ["-lmpichfort"] if name.endswith("f90") else []
        command = [*compiler, "-w", "-O1", *options, f"-I{mpich.include}", str(PROGRAMS / name)]
        command += ["-o", str(target), f"-L{mpich.library}", *libraries, "-lmpich", "-lpthread", "-lm"]
        if not target.exists():
            subprocess.run(command, check=True, cwd=folder)
        return str(target)

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


MODES = {
    "send": ring(1, 400),
    "issend": ring(1, 400),
    "send_init": ring(3, 1200),
    "derived": ring(1, 120),
    "inter": {(r, r ^ 1): (1, 40) for r in range(RANKS)},
    "threads": ring(400, 1600),
}


@pytest.mark.parametrize("mode", MODES)
def test_point_to_point_is_counted_exactly(
    build: Callable[..., str], launch: Callable[..., Any], collect: Callable[[], Trace], mode: str
) -> None:
    done = launch(build("modes.c"), mode)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    trace = collect()
    assert sent(trace, "p2p") == MODES[mode]
    assert all("MPICH" in r.library and r.finalized for r in trace.ranks)


def test_partitions_and_persistent_collectives_are_counted_at_each_start(
    build: Callable[..., str], launch: Callable[..., Any], collect: Callable[[], Trace]
) -> None:
    done = launch(build("partitioned.c"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert sent(collect(), "p2p") == ring(8, 320)
    done = launch(build("persistent.c"))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("dialect", ["MPIF_H", "MPI", "F08"])
def test_fortran_is_counted_once(
    build: Callable[..., str],
    launch: Callable[..., Any],
    collect: Callable[[], Trace],
    dialect: str,
) -> None:
    done = launch(build("ring.f90", f"-D{dialect}"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    trace = collect()
    assert sent(trace, "p2p") == {**ring(3, 960), (0, 2): (1, 12), (1, 3): (1, 12)}
    assert sent(trace, "coll") == {(i, j): (1, 64) for i in range(RANKS) for j in range(RANKS) if i != j}


@pytest.mark.skipif(importlib.util.find_spec("mpi4py") is None, reason="mpi4py is not here")
@pytest.mark.parametrize("way", ["preload", "profile"])
def test_mpi4py_is_counted(
    native: Path,
    counters: Path,
    launch: Callable[..., Any],
    collect: Callable[[], Trace],
    way: str,
) -> None:
    """It calls the large-count functions where the library has them, as MPICH 4 does."""
    arguments = [str(native / "libslurm_topo_trace.so")] if way == "profile" else []
    command = [sys.executable, str(PROGRAMS / "ring.py"), *arguments]
    done = launch(*command, traced=way == "preload", SLURM_TOPO_JOB_COUNTERS=str(counters))
    assert done.returncode == 0, done.stderr
    pairs = sent(collect(), "p2p")
    assert {p: m for p, (m, _) in pairs.items()} == dict.fromkeys(ring(1, 1), 2)
    assert all(800 < nbytes < 1000 for _, nbytes in pairs.values())


def test_results_are_the_same_bits(build: Callable[..., str], launch: Callable[..., Any]) -> None:
    plain = launch(build("ends.c"), "sum", traced=False)
    traced = launch(build("ends.c"), "sum")
    assert plain.stdout.startswith("0x")
    assert (traced.returncode, traced.stdout, traced.stderr) == (0, plain.stdout, plain.stderr)
