"""Every part broken, alone and in pairs, while jobs run (docs/faults.md); the judgement sees faults."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from slurm_topo.lab.host import missing_packages
from tests.acceptance.faults.__main__ import run
from tests.acceptance.faults.campaign import Result
from tests.acceptance.faults.jobs import Job
from tests.acceptance.faults.verdict import report

GOOD = (
    "arm enforce graph abcd trace 0\n"
    + "".join(f"rank {r} n1 cpus {r} right\n" for r in range(4))
    + "end 0\n"
)
MARK = "slurm-topo:1 arm=enforce keys=s1"
RECORD = {"where": "srun", "decision": "stand-down", "reason": "margin"}


def job(**values: object) -> Job:
    """A job with which nothing is wrong, but for the values."""
    found = Job("games", "srun", ("graph missing",), Path("/nowhere"), number=7)
    found.text, found.comment, found.records = GOOD, MARK, [dict(RECORD)]
    found.states = [("7", "COMPLETED", "0:0"), ("7.0", "COMPLETED", "0:0")]
    for name, value in values.items():
        setattr(found, name, value)
    return found


def judged(*jobs: Job, **values: object) -> list[str]:
    result = Result(jobs=list(jobs))
    for name, value in values.items():
        setattr(result, name, value)
    return report(result)[1]


def test_nothing_speaks_against_a_good_run() -> None:
    assert judged(job(), nodes={"n1": "idle"}) == []


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({"number": 0, "rejected": "sbatch: error: no"}, "rejected"),
        ({"states": [("7", "FAILED", "1:0")]}, "failed"),
        ({"states": [("7", "COMPLETED", "0:0"), ("7.0", "FAILED", "2:0")]}, "failed"),
        ({"hung": True}, "hung"),
        ({"states": []}, "lost"),
        ({"text": GOOD.replace("rank 3", "rank 2")}, "lost"),
        ({"text": GOOD.replace("right", "wrong")}, "lost"),
        ({"records": []}, "no reason recorded"),
        ({"comment": ""}, "no mark"),
    ],
)
def test_what_is_wrong_with_a_job_is_seen(values: dict[str, object], word: str) -> None:
    (line,) = judged(job(**values))
    assert word in line


def test_drained_node_and_unclean_sync_are_seen() -> None:
    assert judged(job(), nodes={"n1": "drained"}) == ["node n1 is drained"]
    result = Result(jobs=[job()])
    result.syncs.count("sync runs", 70, "slurm-topo: internal error")
    assert len(report(result)[1]) == 1


def test_what_a_lost_node_takes_is_counted_apart() -> None:
    assert judged(job(states=[("7", "NODE_FAIL", "0:0")], faults=("a node is lost",))) == []


def test_no_job_pays_for_broken_parts(capsys: pytest.CaptureFixture[str]) -> None:
    if os.geteuid() != 0 or missing_packages():
        pytest.skip("needs root and the packages of the lab")
    number = int(os.environ.get("SLURM_TOPO_SUBMISSIONS", "1000"))
    seed = int(os.environ.get("SLURM_TOPO_SEED", "1"))
    _, text, ours = run(number, seed, Path(f"/tmp/stlab-faults-{os.getpid()}"))
    with capsys.disabled():
        print(text)
    assert ours == []
