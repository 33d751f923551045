"""What the tracer may never do: change a program, and lose what a program did before it was ended."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slurm_topo.trace import Trace, merge_traces

pytestmark = pytest.mark.mpi
RANKS = 4
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.fixture
def ends(program: Callable[..., Path], mpirun: Callable[..., list[str]]) -> Callable[..., list[str]]:
    """The command line of programs/ends.c."""
    return lambda end, *options: [*mpirun(RANKS, *options), str(program("ends.c")), end]


def p2p_messages(trace: Trace) -> list[int]:
    """Messages of each rank."""
    return [int(r.sent["p2p_messages"].sum()) for r in trace.ranks]


@pytest.mark.parametrize("end", ["kill", "abort", "exit"])
def test_a_program_that_is_ended_keeps_its_graph(
    ends: Callable[..., list[str]], run: Callable[..., Any], collect: Callable[[], Trace], end: str
) -> None:
    assert run(ends(end)).returncode != 0
    trace = collect()
    assert p2p_messages(trace) == [10] * RANKS
    assert not any(r.finalized for r in trace.ranks)
    graph = merge_traces([trace])
    assert graph.meta["finalized"] is False
    assert graph.meta["missing_ranks"] == []


def test_results_are_the_same_bits(ends: Callable[..., list[str]], run: Callable[..., Any]) -> None:
    plain, traced = run(ends("sum"), traced=False), run(ends("sum"))
    assert plain.stdout.startswith("0x")
    assert (traced.returncode, traced.stdout, traced.stderr) == (0, plain.stdout, plain.stderr)


def test_children_of_ranks_are_untouched(
    ends: Callable[..., list[str]], run: Callable[..., Any], collect: Callable[[], Trace]
) -> None:
    done = run(ends("child"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "child\n" * RANKS, "")
    assert p2p_messages(collect()) == [10] * RANKS


def test_a_script_before_the_program_is_untouched(
    ends: Callable[..., list[str]], run: Callable[..., Any], collect: Callable[[], Trace]
) -> None:
    *launcher, program, end = ends("finalize")
    done = run([*launcher, "bash", "-c", f"cd /; exec {program} {end}"])
    assert done.returncode == 0, done.stderr
    assert p2p_messages(collect()) == [10] * RANKS


def test_programs_without_mpi_are_untouched(run: Callable[..., Any], counters: Path, tmp_path: Path) -> None:
    source = tmp_path / "hello.c"
    source.write_text('#include <stdio.h>\nint main(void) { puts("hello"); return 4; }\n')
    for options in ([], ["-static"], ["-static-pie"], ["-fsanitize=address"]):
        binary = tmp_path / "hello"
        subprocess.run(["gcc", str(source), "-o", str(binary), *options], check=True)
        done = run([str(binary)])
        assert (done.returncode, done.stdout, done.stderr) == (4, "hello\n", "")
    done = run(["bash", "-c", "echo one | sed s/one/two/; exit 5"])
    assert (done.returncode, done.stdout, done.stderr) == (5, "two\n", "")
    assert list(counters.iterdir()) == []


@pytest.mark.parametrize("order", ["behind", "in front"])
def test_a_tool_that_the_user_preloads_sees_the_calls_too(
    ends: Callable[..., list[str]],
    run: Callable[..., Any],
    collect: Callable[[], Trace],
    counters: Path,
    native: Path,
    tmp_path: Path,
    order: str,
) -> None:
    source, library = tmp_path / "mine.c", tmp_path / "mine.so"
    source.write_text(
        "#include <mpi.h>\n#include <stdio.h>\n"
        "static int calls;\n"
        "int MPI_Init(int *c, char ***v) { return PMPI_Init(c, v); }\n"
        "int MPI_Barrier(MPI_Comm c) { calls++; return PMPI_Barrier(c); }\n"
        'int MPI_Finalize(void) { printf("mine %d\\n", calls); return PMPI_Finalize(); }\n'
    )
    subprocess.run(["mpicc", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    ours = str(native / "libslurm_topo_trace.so")
    preload = f"{ours}:{library}" if order == "behind" else f"{library}:{ours}"
    environment = {"LD_PRELOAD": preload, "SLURM_TOPO_JOB_COUNTERS": str(counters)}
    done = run(ends("finalize"), traced=False, environment=environment)
    assert (done.returncode, done.stdout, done.stderr) == (0, "mine 1\n" * RANKS, "")
    trace = collect()
    assert p2p_messages(trace) == [10] * RANKS
    # In front it takes the barrier and the end for itself.
    assert all(r.finalized and r.collectives == 1 for r in trace.ranks) == (order == "behind")


@pytest.mark.parametrize("place", ["missing", "file", "link", "relative", "writable"])
def test_a_directory_that_is_not_ours_is_left_alone(
    ends: Callable[..., list[str]], run: Callable[..., Any], counters: Path, tmp_path: Path, place: str
) -> None:
    target = tmp_path / place
    if place == "file":
        target.write_text("")
    elif place == "link":
        target.symlink_to(counters)
    elif place == "writable":
        target.mkdir()
        target.chmod(0o777)
    name = "nowhere/at/all" if place == "relative" else str(target)
    counters.rename(tmp_path / "moved")
    (tmp_path / "moved").rename(counters)
    command = ["env", f"SLURM_TOPO_JOB_COUNTERS={name}", *ends("sum")]
    done = run(command)
    assert done.returncode == 0
    assert done.stderr == ""
    assert list(counters.iterdir()) == []


@needs_root
def test_a_directory_of_another_user_is_left_alone(
    ends: Callable[..., list[str]], run: Callable[..., Any], counters: Path
) -> None:
    os.chown(counters, 65534, 65534)
    assert run(ends("finalize")).returncode == 0
    assert list(counters.iterdir()) == []


def test_a_limit_on_file_sizes_does_not_end_the_program(
    program: Callable[..., Path],
    mpirun: Callable[..., list[str]],
    run: Callable[..., Any],
    collect: Callable[[], Trace],
) -> None:
    done = run([*mpirun(24), str(program("everybody.c")), "limit"])
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    trace = collect()
    assert len(trace.ranks) == 24
    assert all("could not grow" in r.reason for r in trace.ranks)
    assert all(r.sent.size == 16 for r in trace.ranks)


@needs_root
@pytest.mark.skipif(shutil.which("unshare") is None, reason="unshare is not here")
@pytest.mark.parametrize("pages", [3, 26])
def test_a_full_disk_does_not_end_the_program(
    program: Callable[..., Path],
    mpirun: Callable[..., list[str]],
    run: Callable[..., Any],
    native: Path,
    counters: Path,
    tmp_path: Path,
    pages: int,
) -> None:
    """Too small for some of the counters from the start; too small for them to grow."""
    out = tmp_path / "full.trace"
    command = " ".join([*mpirun(24), str(program("everybody.c"))])
    script = (
        f"mount -t tmpfs -o size={pages * 4}k,mode=700 none {counters} && {command}; echo $?; "
        f"{native}/slurm-topo-collect {counters} {out}"
    )
    done = run(["unshare", "-m", "bash", "-c", script])
    lines = done.stdout.splitlines()
    assert lines[0] == "0", done.stderr
    assert done.stderr == ""
    assert int(lines[1].split()[1]) == min(pages, 24)
    from slurm_topo.trace import read_traces

    graph = read_traces([out])
    assert graph.ranks == 24
    assert len(graph.meta["missing_ranks"]) == 24 - min(pages, 24)
    assert "space" in graph.meta["missing_reason"] or "grow" in graph.meta["missing_reason"]


def test_libraries_link_to_no_mpi(native: Path) -> None:
    for library in native.glob("libslurm_topo_trace*.so"):
        done = subprocess.run(
            ["nm", "-D", "--undefined-only", str(library)], capture_output=True, text=True, check=True
        )
        names = [line.split()[-1] for line in done.stdout.splitlines()]
        assert not [n for n in names if "mpi" in n.lower()]
