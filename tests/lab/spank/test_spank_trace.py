"""Tracing: the tracer in the task, the counters of a node in one file, however the step ends."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from slurm_topo.lab.shell import wait_until

Site = Any  # of conftest.py, which is no module that can be imported

TRACED = {"SLURM_TOPO_JOB_ARM": "observe", "SLURM_TOPO_JOB_TRACE": "1"}
PROGRAM = r"""
#include <mpi.h>
#include <stdlib.h>
int main(int argc, char **argv)
{
    int rank, ranks, in = 0, out;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    out = rank;
    do
        MPI_Sendrecv(&out, 1, MPI_INT, (rank + 1) % ranks, 0, &in, 1, MPI_INT, (rank + ranks - 1) % ranks, 0,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    while (argc > 1);
    MPI_Finalize();
    return 0;
}
"""


@pytest.fixture(scope="module")
def program(spank_site: Site) -> Path:
    """A ring; with an argument it never ends."""
    if not shutil.which("mpicc"):
        pytest.skip("mpicc is missing (apt-get install libopenmpi-dev)")
    source = spank_site.folder / "ring.c"
    source.write_text(PROGRAM)
    path: Path = spank_site.folder / "ring"
    subprocess.run(["mpicc", "-O1", "-o", str(path), str(source)], check=True, timeout=60)
    return path


def traces(site: Site) -> list[str]:
    """Names of the trace files, the job's number cut off. A step's end is later than srun's."""
    site.settle()
    return sorted(path.name.split(".", 1)[1] for path in site.user.glob("traces/*"))


def left_on_nodes(site: Site, nodes: str) -> str:
    """Folders of counters that nobody took away, as root sees them on each node."""
    command = [
        "srun",
        "-w",
        nodes,
        "--ntasks-per-node=1",
        "sh",
        "-c",
        "ls -d /dev/shm/slurm-topo-65534/* || true",
    ]
    return str(site.lab.run(command).stdout)


def test_counters_of_every_node_become_a_file_of_the_user(site: Site, program: Path) -> None:
    outcome = site.in_job({"a": f"srun --mpi=pmix {program}"}, "-N2", "-n4", env=TRACED)["a"]
    assert outcome.code == 0, outcome.err
    assert outcome.lines == []
    assert traces(site) == ["0.n1.trace", "0.n2.trace"]
    for path in site.user.glob("traces/*"):
        assert path.stat().st_uid == 65534
        assert path.stat().st_mode & 0o777 == 0o600
    assert left_on_nodes(site, "n[1-2]") == ""


def test_trace_of_the_step_is_a_graph(site: Site, program: Path) -> None:
    from slurm_topo.trace.merge import read_traces

    site.in_job({"a": f"srun --mpi=pmix {program}"}, "-N2", "-n4", env=TRACED)
    assert traces(site) == ["0.n1.trace", "0.n2.trace"]
    graph = read_traces(sorted(site.user.glob("traces/*.0.*.trace")))
    pairs = zip(graph.source.tolist(), graph.target.tolist(), graph.nbytes.tolist(), strict=True)
    assert sorted(pairs) == [(r, (r + 1) % 4, 4.0) for r in range(4)]


def test_step_that_is_cancelled_gives_its_graph(site: Site, program: Path) -> None:
    command = f"srun --mpi=pmix {program} forever & sleep 3; scancel -s KILL $SLURM_JOB_ID.0; wait; true"
    site.in_job({"a": command}, "-N2", "-n4", env=TRACED)
    assert traces(site) == ["0.n1.trace", "0.n2.trace"]


def test_job_that_is_cancelled_gives_its_graph(site: Site, program: Path) -> None:
    script = site.folder / "endless.sh"
    exports = "\n".join(f"export {name}={value}" for name, value in TRACED.items())
    script.write_text(
        f"#!/bin/bash\n{exports}\n(sleep 3; scancel $SLURM_JOB_ID) &\nsrun --mpi=pmix {program} forever\n"
    )
    script.chmod(0o755)
    command = ["sbatch", "--wait", "-N2", "-n4", "-o", "/dev/null", str(script)]
    assert site.lab.run(command, user="nobody", cwd="/tmp").returncode != 0
    assert traces(site)[-2:] == ["0.n1.trace", "0.n2.trace"]


def test_a_node_that_is_lost_leaves_the_graph_of_the_others(site: Site, program: Path) -> None:
    """Everything on n2 ends in one moment, as when its power is cut; n1's ranks are ended by Slurm."""
    from slurm_topo.lab import daemons
    from slurm_topo.lab.options import LabOptions
    from slurm_topo.lab.processes import kill, members
    from slurm_topo.trace.merge import read_traces

    script = site.folder / "lost.sh"
    exports = "\n".join(f"export {name}={value}" for name, value in TRACED.items())
    script.write_text(f"#!/bin/bash\n{exports}\nsrun --mpi=pmix {program} forever\n")
    script.chmod(0o755)
    command = ["sbatch", "-N2", "-n4", "-w", "n[1-2]", "-o", "/dev/null", str(script)]
    assert site.lab.run(command, user="nobody", cwd="/tmp").returncode == 0
    layout, keeper = site.lab.layout, site.lab.running()

    def tasks(node: str) -> list[int]:
        """Processes of the program that have begun to send (their counters are there)."""
        there = daemons.tenants(layout, node, members(keeper))
        maps = {p.pid: Path(f"/proc/{p.pid}/maps") for p in there}
        return [pid for pid, path in maps.items() if path.exists() and ".counters" in path.read_text()]

    try:
        wait_until(lambda: len(tasks("n1")) == len(tasks("n2")) == 2, 60, "the step on both nodes")
        time.sleep(2)
        for process in daemons.tenants(layout, "n2", members(keeper)):
            kill(process.pid, signal.SIGKILL)
        site.lab.run(["scontrol", "update", "NodeName=n2", "State=DOWN", "Reason=lost"])
        assert traces(site) == ["0.n1.trace"]
        graph = read_traces(sorted(site.user.glob("traces/*")))
        assert graph.ranks == 4
        assert graph.meta["missing_ranks"] == [2, 3]
        assert not graph.meta["finalized"]
        assert set(graph.source.tolist()) == {0, 1}
        assert graph.messages.min() > 0
    finally:
        site.lab.run(["scontrol", "update", "NodeName=n2", "State=RESUME"])
        # Writes plugstack.conf anew, too.
        plugstack = layout.etc("plugstack.conf")
        of_site = plugstack.read_text()
        site.lab.up(LabOptions())
        plugstack.write_text(of_site)
        # Of a node that has lost its power nothing in memory is left.
        site.settle(60)
        site.lab.run(["srun", "--mpi=none", "-w", "n2", "rm", "-rf", "/dev/shm/slurm-topo-65534"], cwd="/tmp")


def test_mpirun_in_a_traced_batch_job_gives_its_graph(site: Site, program: Path) -> None:
    """The batch step itself is traced where the job was marked at submission; its ranks are mpirun's."""
    script = site.folder / "mpirun.sh"
    script.write_text(f"#!/bin/bash\nmpirun --oversubscribe -n 2 {program}\n")
    script.chmod(0o755)
    # The variables stand in for job_submit's marks.
    command = ["sbatch", "--wait", "-N1", "-n2", "-o", f"{site.folder}/mpirun.out", str(script)]
    result = site.lab.run(command, user="nobody", cwd="/tmp", env=TRACED)
    assert result.returncode == 0, (site.folder / "mpirun.out").read_text()
    assert "batch.n1.trace" in traces(site)


def test_preload_of_the_user_is_kept(site: Site) -> None:
    command = "export LD_PRELOAD=libm.so.6; srun --mpi=none -n1 env"
    outcome = site.in_job({"a": command}, "-N1", "-n1", env=TRACED)["a"]
    (line,) = [x for x in outcome.out.splitlines() if x.startswith("LD_PRELOAD=")]
    assert line.endswith("libslurm_topo_trace.so:libm.so.6")


def test_step_with_topo_off_is_not_traced(site: Site, program: Path) -> None:
    outcome = site.in_job({"a": f"srun --topo=off --mpi=pmix {program}"}, "-N2", "-n4", env=TRACED)["a"]
    assert outcome.code == 0, outcome.err
    assert traces(site) == []


@pytest.mark.parametrize(
    "damage",
    ["tracer", "spool", "planted"],
)
def test_step_that_cannot_be_traced_completes(site: Site, program: Path, damage: str) -> None:
    path = site.lab.layout.etc("plugstack.conf")
    before = path.read_text()
    command = f"srun --mpi=pmix {program}"
    try:
        if damage == "tracer":
            path.write_text(before.replace(" tracer=", " tracer=/nowhere", 1))
        elif damage == "spool":
            # Tells so in srun, because the decision cannot be recorded either.
            path.write_text(before.replace(" spool=", " spool=/nowhere", 1))
        else:
            folder = "/dev/shm/slurm-topo-65534"
            plant = f"srun --mpi=none sh -c 'rm -rf {folder}; ln -s /tmp {folder}'"
            command = f"{plant}; {command}; e=$?; srun --mpi=none rm -f {folder}; exit $e"
        outcome = site.in_job({"a": command}, "-N2", "-n2", env=TRACED)["a"]
    finally:
        path.write_text(before)
    assert outcome.code == 0, outcome.err
    assert len(outcome.lines) == (1 if damage == "spool" else 0)
    assert left_on_nodes(site, "n[1-2]") == ""
