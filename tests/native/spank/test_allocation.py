"""Slurm's node lists, and whether a plan can be carried out on them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

Drive = Callable[..., object]

PLAN = """slurm-topo-plan 1
job 77
ranks 4
cpus_per_task 1
decision place
reason cost
graph 9f86d081884c7d65
machine 5d41402abc4b2a76
solver multisection+swap
cost 0.0123
baseline block:block 0.0456
baseline cyclic 0.0311
nodes 2
node 0 n1
node 1 n2
rank 0 1 cpus=0-1 mem=0 gpus=-
rank 1 0 cpus=4 mem=- gpus=0,1
rank 2 1 cpus=2 mem=0-1 gpus=-
rank 3 0 cpus=5,7 mem=- gpus=-
end 4
"""


def write(folder: Path, text: str | bytes) -> str:
    path = folder / "file.plan"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return str(path)


@pytest.mark.parametrize(
    ("nodes", "counts", "names"),
    [
        ("n1", "4", ["n1 4"]),
        ("n[1-3]", "4(x2),2", ["n1 4", "n2 4", "n3 2"]),
        ("n[08-10,12]", "1(x4)", ["n08 1", "n09 1", "n10 1", "n12 1"]),
        ("r[1-2]n[1-2],login", "1(x5)", ["r1n1 1", "r1n2 1", "r2n1 1", "r2n2 1", "login 1"]),
        ("c[1-2]-x", "8(x2)", ["c1-x 8", "c2-x 8"]),
    ],
)
def test_allocation_is_read(drive: Drive, nodes: str, counts: str, names: list[str]) -> None:
    out = drive("allocation", env={"SLURM_JOB_NODELIST": nodes, "SLURM_JOB_CPUS_PER_NODE": counts}).stdout
    assert out.splitlines() == names


@pytest.mark.parametrize(
    ("nodes", "counts"),
    [
        ("n[1-3", "1(x3)"),
        ("n[3-1]", "1"),
        ("n[1-99999999]", "1"),
        ("n[1-3]", "1(x2)"),
        ("n[1-3]", "1(x4)"),
        ("n1", "(x1)"),
        ("n1", "1(x1"),
        ("n[a-b]", "1"),
        ("", "1"),
        ("n" * 300, "1"),
        ("[1-60000][1-60000]", "1"),
    ],
)
def test_allocation_that_is_not_understood_is_refused(drive: Drive, nodes: str, counts: str) -> None:
    out = drive("allocation", env={"SLURM_JOB_NODELIST": nodes, "SLURM_JOB_CPUS_PER_NODE": counts}).stdout
    assert out.startswith("error shape: SLURM_JOB_")


def test_plan_that_fits_gives_its_host_file(drive: Drive, tmp_path: Path) -> None:
    env = {"SLURM_JOB_NODELIST": "n[1-2]", "SLURM_JOB_CPUS_PER_NODE": "8(x2)"}
    assert drive("fits", write(tmp_path, PLAN), "0", "1", env=env).stdout == "fits\nn2\nn1\nn2\nn1\n"


@pytest.mark.parametrize(
    ("nodes", "counts", "per_node", "every", "change", "reason"),
    [
        ("n[3-4]", "8(x2)", "0", "0", None, "plan: node n1 is not of this job"),
        ("n[1-3]", "8(x3)", "0", "1", None, "plan: has 2 nodes, the job 3"),
        ("n1", "8", "0", "0", None, "plan: has 2 nodes, the job 1"),
        ("n[1-2]", "8,1", "0", "0", None, "plan: node n2 gets 2 ranks, more than its CPUs"),
        ("n[1-2]", "8(x2)", "1", "0", None, "plan: node n1 gets 2 ranks, more than --ntasks-per-node"),
        ("n[1-2]", "8(x2)", "0", "0", ("cpus=2 ", "cpus=1-2 "), "plan: two ranks share a CPU"),
        ("n[1-2]", "8(x2)", "0", "0", ("node 1 n2", "node 1 n1"), "plan: node n1 is named twice"),
    ],
)
def test_plan_that_does_not_fit_is_refused(
    drive: Drive,
    tmp_path: Path,
    nodes: str,
    counts: str,
    per_node: str,
    every: str,
    change: tuple[str, str] | None,
    reason: str,
) -> None:
    env = {"SLURM_JOB_NODELIST": nodes, "SLURM_JOB_CPUS_PER_NODE": counts}
    text = PLAN.replace(*change) if change else PLAN
    assert drive("fits", write(tmp_path, text), per_node, every, env=env).stdout == reason + "\n"


@pytest.mark.parametrize("seed", ["1", "2"])
def test_random_node_lists_break_nothing(drive: Drive, seed: str) -> None:
    words = drive("fuzz-allocation", seed, "20000").stdout.split()
    assert 4000 < int(words[1]) < 20000
