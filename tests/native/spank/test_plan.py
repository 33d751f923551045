"""The plan: every wrong one is refused, whatever it holds."""

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
STAND_DOWN = """slurm-topo-plan 1
job 77
ranks 4
cpus_per_task 1
decision stand-down
reason margin
graph 9f86d081884c7d65
machine -
solver -
cost nan
nodes 0
end 0
"""


def write(folder: Path, text: str | bytes) -> str:
    path = folder / "file.plan"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return str(path)


def test_plan_is_read(drive: Drive, tmp_path: Path) -> None:
    out = drive("plan", write(tmp_path, PLAN)).stdout.splitlines()
    assert out[0] == "job 77 ranks 4 cpus 1 place 1 reason cost cost 0.0123 baseline 0.0456 nodes 2"
    assert out[1] == "variant - memory 0"
    assert out[2:] == ["rank 0 n2 cpus=0-1", "rank 1 n1 cpus=4", "rank 2 n2 cpus=2", "rank 3 n1 cpus=5,7"]


def test_plan_of_the_python_writer_is_read(drive: Drive, tmp_path: Path) -> None:
    plan = pytest.importorskip("slurm_topo.slurm.plan")
    places = tuple(plan.RankPlace(node=r % 2, cpus=(r,), mem=(0,)) for r in range(4))
    common = {"job": "77", "ranks": 4, "cpus_per_task": 1, "graph": "ab12", "nodes": ("n1", "n2")}
    plan.write_plan(
        plan.Plan(
            **common, decision="place", reason="cost", cost=1e-7, baselines={"cyclic": 2e-7}, places=places
        ),
        tmp_path / "a",
    )
    plan.write_plan(
        plan.Plan(**{**common, "nodes": ()}, decision="stand-down", reason="margin"), tmp_path / "b"
    )
    assert (
        "place 1 reason cost cost 1e-07 baseline 2e-07 nodes 2" in drive("plan", str(tmp_path / "a")).stdout
    )
    assert "place 0 reason margin cost -1 baseline -1 nodes 0" in drive("plan", str(tmp_path / "b")).stdout


def test_variant_and_memory_of_the_python_writer_are_read(drive: Drive, tmp_path: Path) -> None:
    plan = pytest.importorskip("slurm_topo.slurm.plan")
    for number, memory in enumerate(("preferred", "bind", "interleave", "none"), 1):
        made = plan.Plan("77", 4, 1, "stand-down", "margin", variant="packed", memory=memory)
        plan.write_plan(made, tmp_path / "a")
        assert f"variant packed memory {number}\n" in drive("plan", str(tmp_path / "a")).stdout


@pytest.mark.parametrize(
    "line", ["memory hbm", "memory plan", "memory ", "variant a b", "variant " + "x" * 40]
)
def test_wrong_variant_and_memory_are_refused(drive: Drive, tmp_path: Path, line: str) -> None:
    text = PLAN.replace("solver ", f"{line}\nsolver ")
    assert drive("plan", write(tmp_path, text)).stdout == "error plan: damaged at line 10\n"


@pytest.mark.parametrize("text", [PLAN, STAND_DOWN], ids=["place", "stand-down"])
def test_every_truncated_plan_is_refused(drive: Drive, tmp_path: Path, text: str) -> None:
    assert drive("prefixes", write(tmp_path, text)).stdout == f"prefixes {len(text)} accepted 0 whole 0\n"


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_mutated_plans_break_nothing(drive: Drive, tmp_path: Path, seed: int) -> None:
    out = drive("mutations", write(tmp_path, PLAN), str(seed), "20000").stdout.split()
    # Some mutations are harmless (another CPU number); most are not.
    assert 0 < int(out[3]) < 10000


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("slurm-topo-plan 1", "slurm-topo-plan 2"),
        ("job 77\n", ""),
        ("job 77\n", "job 77\njob 78\n"),
        ("ranks 4", "ranks 5"),
        ("ranks 4", "ranks 4000000000"),
        ("ranks 4", "ranks -4"),
        ("nodes 2", "nodes 4000000000"),
        ("nodes 2", "nodes 1"),
        ("rank 2 1", "rank 1 1"),
        ("rank 2 1", "rank 2 2"),
        ("cpus=2 ", "cpus=4096 "),
        ("cpus=2 ", "cpus=3-2 "),
        ("cpus=2 ", "cpus=2, "),
        ("cpus=2 ", "cpus= "),
        ("gpus=-\nend", "gpus=- more=1\nend"),
        ("end 4", "end 3"),
        ("end 4\n", "end 4\nend 4\n"),
        ("decision place", "decision maybe"),
        ("reason cost", "reason two words"),
        ("node 1 n2", "node 1 "),
        ("job 77", "colour red"),
        ("cost 0.0123", "cost 0x1p3"),
        ("rank 0 1", "rank\x000 1"),
    ],
)
def test_wrong_plan_is_refused(drive: Drive, tmp_path: Path, old: str, new: str) -> None:
    assert old in PLAN
    assert drive("plan", write(tmp_path, PLAN.replace(old, new, 1))).stdout.startswith("error plan: ")


def test_oversized_plan_is_refused(drive: Drive, tmp_path: Path) -> None:
    text = PLAN + "#" * (16 << 20)
    assert drive("plan", write(tmp_path, text)).stdout == "error plan: larger than 16 MiB\n"
