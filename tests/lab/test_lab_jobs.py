"""Real jobs in the lab: nodes, users, MPI over PMIx, links."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from slurm_topo.lab.cluster import Lab
from slurm_topo.lab.options import parse_rate

PING = r"""
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    int rank, ranks, token, left;
    char host[64];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    token = rank;
    MPI_Sendrecv(&token, 1, MPI_INT, (rank + 1) % ranks, 0, &left, 1, MPI_INT, (rank + ranks - 1) % ranks, 0,
        MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    gethostname(host, sizeof host);
    printf("%d %d %d %s\n", ranks, rank, left, host);
    MPI_Finalize();
    return 0;
}
"""

# Rank 0 comes late and looks whether another rank has left MPI_Finalize before.
LATE = r"""
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        sleep(1);
        puts(access(argv[1], F_OK) ? "nobody left" : "somebody left");
    }
    MPI_Finalize();
    if (rank != 0)
        fclose(fopen(argv[1], "w"));
    return 0;
}
"""

# argv: name of the receiving node, its address, bytes. Prints the bits per second that the receiver saw.
STREAM = """
import os, socket, sys, time
receiver, address, size = sys.argv[1], sys.argv[2], int(sys.argv[3])
if socket.gethostname() == receiver:
    with socket.create_server(("", 7777)) as server:
        peer, _ = server.accept()
        got = len(peer.recv(1))
        start = time.monotonic()
        while chunk := peer.recv(1 << 16):
            got += len(chunk)
        print(got * 8 / (time.monotonic() - start))
else:
    while True:
        try:
            peer = socket.create_connection((address, 7777))
            break
        except ConnectionRefusedError:
            time.sleep(0.05)
    peer.sendall(bytes(size))
    peer.close()
"""


def bandwidth(lab: Lab, script: Path, sender: str, receiver: str) -> float:
    address = next(node.address for node in lab.layout.nodes if node.name == receiver)
    command = ["srun", "-N2", "-n2", "-w", f"{sender},{receiver}", "--mpi=none", sys.executable, str(script)]
    result = lab.run([*command, receiver, address, str(12 << 20)], timeout=60)
    assert result.returncode == 0, result.stderr
    return float(result.stdout)


def test_every_node_runs_two_tasks(lab: Lab) -> None:
    result = lab.run(["srun", "-N4", "-n8", "hostname"])
    assert result.returncode == 0, result.stderr
    assert sorted(result.stdout.split()) == ["n1", "n1", "n2", "n2", "n3", "n3", "n4", "n4"]


def test_an_unprivileged_user_runs_a_batch_job(lab: Lab) -> None:
    submit = ["sbatch", "--parsable", "-n2", "-o", "/dev/null", "--wrap", "srun -n2 id -u"]
    result = lab.run(submit, user="nobody", cwd="/tmp")
    assert result.returncode == 0, result.stderr
    job = result.stdout.strip()
    lab.run(["sh", "-c", f"while squeue --noheader --job {job} --format %T | grep -q .; do sleep 0.1; done"])
    shown = lab.run(["scontrol", "show", "job", job]).stdout
    assert "UserId=nobody" in shown
    assert "JobState=COMPLETED" in shown
    assert "AdminComment=slurm-topo:1 " in shown


def test_a_command_keeps_its_exit_code_and_its_directory(lab: Lab) -> None:
    result = lab.run(["sh", "-c", "pwd; exit 7"], cwd="/usr/bin")
    assert (result.stdout, result.returncode) == ("/usr/bin\n", 7)


def test_slurm_is_reached_from_this_machine_too(lab: Lab) -> None:
    """With what `lab env` prints, an interactive srun needs no namespace: nodes connect back to it."""
    result = subprocess.run(
        ["srun", "-N4", "-n4", "hostname"], env=lab.env, capture_output=True, text=True, timeout=60
    )
    assert sorted(result.stdout.split()) == ["n1", "n2", "n3", "n4"]


@pytest.fixture(scope="module")
def ping(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ping")
    (folder / "ping.c").write_text(PING)
    subprocess.run(["mpicc", "-o", str(folder / "ping"), str(folder / "ping.c")], check=True)
    return folder / "ping"


@pytest.mark.mpi
def test_an_mpi_ring_crosses_all_nodes(lab: Lab, ping: Path) -> None:
    result = lab.run(["srun", "-N4", "-n8", str(ping)], timeout=120)
    assert result.returncode == 0, result.stderr
    rows = sorted(line.split() for line in result.stdout.splitlines())
    assert [row[:3] for row in rows] == [["8", str(r), str((r - 1) % 8)] for r in range(8)]
    assert {row[3] for row in rows} == {"n1", "n2", "n3", "n4"}


@pytest.mark.mpi
def test_no_rank_leaves_before_the_last_one_arrives(lab: Lab, tmp_path: Path) -> None:
    """Ranks of all nodes wait in MPI_Finalize: messages in flight are not lost with their sender."""
    source, marker = tmp_path / "late.c", tmp_path / "left"
    source.write_text(LATE)
    subprocess.run(["mpicc", "-o", str(tmp_path / "late"), str(source)], check=True)
    result = lab.run(["srun", "-N4", "-n4", str(tmp_path / "late"), str(marker)], timeout=120)
    assert result.stdout.split() == ["nobody", "left"], result.stderr


@pytest.mark.mpi
def test_mpi_works_without_the_variables_of_the_caller(lab: Lab, ping: Path) -> None:
    result = lab.run(["srun", "--export=NONE", "-N2", "-n2", str(ping)], timeout=120)
    assert result.returncode == 0, result.stderr
    assert len(result.stdout.splitlines()) == 2


def test_links_are_as_fast_as_asked_and_uplinks_slower(lab: Lab, tmp_path: Path) -> None:
    script = tmp_path / "stream.py"
    script.write_text(STREAM)
    same, across = bandwidth(lab, script, "n1", "n2"), bandwidth(lab, script, "n1", "n3")
    options = lab.layout.options
    # Rates of tbf are upper bounds, whatever else the machine does; a burst of 64 KiB passes at once.
    assert same < 1.1 * parse_rate(options.link_speed)
    assert across < 1.1 * parse_rate(options.uplink_speed)
    assert across < same


def test_nodes_do_not_share_shared_memory_and_do_share_tmp(lab: Lab, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    assert lab.run(["srun", "-N1", "-w", "n1", "touch", "/dev/shm/only-n1"]).returncode == 0
    listed = lab.run(["srun", "-N4", "-l", "ls", "/dev/shm"]).stdout
    assert [line for line in listed.splitlines() if "only-n1" in line] == ["0: only-n1"]
    assert "only-n1" not in lab.run(["ls", "/dev/shm"]).stdout
    assert not os.path.exists("/dev/shm/only-n1")
    assert lab.run(["srun", "-N4", "sh", "-c", f"touch {tmp_path}/$(hostname)"]).returncode == 0
    assert sorted(os.listdir(tmp_path)) == ["n1", "n2", "n3", "n4"]


def test_accounting_knows_finished_jobs(lab: Lab) -> None:
    result = lab.run(
        ["sbatch", "--wait", "-n1", "-J", "counted", "-o", "/dev/null", "--wrap", "true"], cwd="/tmp"
    )
    job = result.stdout.split()[-1]
    # slurmctld hands batch jobs to slurmdbd every five seconds.
    sacct = f"sacct -nXPj {job} -o jobname,state"
    waiting = f"for i in $(seq 150); do {sacct} | grep -q 'counted|COMPLETED' && break; sleep 0.2; done"
    assert lab.run(["sh", "-c", f"{waiting}; {sacct}"]).stdout == "counted|COMPLETED\n"


def test_the_topology_that_slurm_sees_is_the_one_that_was_built(lab: Lab) -> None:
    shown = lab.run(["scontrol", "show", "topology"]).stdout.split()
    assert {word for word in shown if word.startswith("Nodes=")} == {
        "Nodes=n[1-2]",
        "Nodes=n[3-4]",
        "Nodes=n[1-4]",
    }


def test_status_lists_live_daemons_and_idle_nodes(lab: Lab) -> None:
    result = subprocess.run(
        [
            sys.executable,
            "-m",
            "slurm_topo.cli.main",
            "lab",
            "status",
            "--format",
            "json",
            "--dir",
            str(lab.folder),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    status = json.loads(result.stdout)
    assert status["state"] == "up"
    for daemon in status["daemons"]:
        assert Path(f"/proc/{daemon['pid']}").exists()
    assert [node["name"] for node in status["nodes"]] == ["n1", "n2", "n3", "n4"]
