"""The task in slurmstepd: mask, memory policy, OpenMP, GPUs."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

Site = Any  # of conftest.py, which is no module that can be imported


def test_task_is_bound(site: Site, placed: dict[str, str]) -> None:
    result = site.task(**placed)
    assert result.cpus == "0"
    assert result.policy == "1 nodes 1"
    # By these a nested srun knows what it must forget; Intel MPI needs the distribution.
    assert set(placed) & set(result.env) == {"SLURM_TOPO_JOB_PLAN", "SLURM_DISTRIBUTION"}
    (record,) = site.records()
    assert record.pop("time") > 0
    assert record.pop("seconds") >= 0
    assert record == {
        "format": "slurm-topo-record",
        "version": 1,
        "where": "task",
        "job": 77,
        "step": "0",
        "node": "n2",
        "rank": 0,
        "decision": "place",
        "reason": "cost",
        "cpus": "0",
        "mem": "0",
    }
    assert [p.name for p in (site.user / "records").iterdir()] == ["77.0.n2.rec"]


def openmp_of(result: Any) -> dict[str, str]:
    return {k: v for k, v in result.env.items() if k.startswith(("OMP_", "GOMP_"))}


@pytest.mark.parametrize(
    ("user", "after"),
    [
        ({}, {"OMP_PLACES": "cores", "GOMP_CPU_AFFINITY": "0-1"}),
        (
            {"SLURM_CPUS_PER_TASK": "2"},
            {"OMP_NUM_THREADS": "2", "OMP_PLACES": "cores", "GOMP_CPU_AFFINITY": "0-1"},
        ),
        (
            {"OMP_NUM_THREADS": "7"},
            {"OMP_NUM_THREADS": "7", "OMP_PLACES": "cores", "GOMP_CPU_AFFINITY": "0-1"},
        ),
        (
            {"OMP_PROC_BIND": "false", "SLURM_CPUS_PER_TASK": "2"},
            {"OMP_NUM_THREADS": "2", "OMP_PROC_BIND": "false"},
        ),
        ({"OMP_PLACES": "threads"}, {"OMP_PLACES": "threads"}),
        ({"GOMP_CPU_AFFINITY": "1"}, {"GOMP_CPU_AFFINITY": "1"}),
    ],
)
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_openmp_is_set_where_the_user_has_no_wish(
    site: Site, placed: dict[str, str], user: dict[str, str], after: dict[str, str]
) -> None:
    text = site.text.replace("cpus_per_task 1", "cpus_per_task 2").replace("cpus=0 ", "cpus=0-1 ")
    Path(placed["SLURM_TOPO_JOB_PLAN"]).write_text(text)
    assert openmp_of(site.task(**placed, **user)) == after


def test_openmp_can_be_left_to_the_user(site: Site, placed: dict[str, str]) -> None:
    asked = {**placed, "SLURM_CPUS_PER_TASK": "1"}
    assert openmp_of(site.task(**asked)) == {"OMP_NUM_THREADS": "1"}
    assert openmp_of(site.task(**asked, FAKE_ARGS=f"{site.arguments} openmp=none")) == {}


def test_mask_stays_where_the_node_has_other_ranks_than_the_plan(site: Site, placed: dict[str, str]) -> None:
    """A rank that is elsewhere would keep a mask that the plan gives to another one."""
    before = site.task().cpus
    assert site.task(**placed, SLURM_GTIDS="0").cpus == "0"
    assert site.task(**placed, SLURM_GTIDS="0,1").cpus == before
    assert site.records()[-1]["reason"] == "plan: has other ranks on this node"


@pytest.mark.parametrize(("gpus", "after"), [("order", "1,0"), ("isolate", "1"), ("none", "0,1")])
def test_near_gpus_come_first(site: Site, placed: dict[str, str], gpus: str, after: str) -> None:
    Path(placed["SLURM_TOPO_JOB_PLAN"]).write_text(site.text.replace("gpus=-", "gpus=3"))
    env = {
        "CUDA_VISIBLE_DEVICES": "0,1",
        "SLURM_STEP_GPUS": "2,3",
        "FAKE_ARGS": f"{site.arguments} gpus={gpus}",
    }
    result = site.task(**placed, **env)
    assert result.env["CUDA_VISIBLE_DEVICES"] == after
    assert site.records()[0].get("gpus") == (None if gpus == "none" else after)


@pytest.mark.parametrize(
    ("memory", "policy"), [("bind", "2 nodes 1"), ("interleave", "3 nodes 1"), ("none", "0 nodes 0")]
)
def test_memory_policy_is_the_sites(site: Site, placed: dict[str, str], memory: str, policy: str) -> None:
    assert site.task(**placed, FAKE_ARGS=f"{site.arguments} memory={memory}").policy == policy


POLICIES = {"preferred": "1", "bind": "2", "interleave": "3"}


@pytest.mark.parametrize("memory", POLICIES)
def test_memory_policy_is_the_plans(site: Site, placed: dict[str, str], memory: str) -> None:
    plan = Path(placed["SLURM_TOPO_JOB_PLAN"])
    plan.write_text(site.text.replace("cost 0.5", f"memory {memory}\ncost 0.5"))
    assert site.task(**placed).policy == f"{POLICIES[memory]} nodes 1"
    # What plugstack.conf says counts before it.
    assert site.task(**placed, FAKE_ARGS=f"{site.arguments} memory=none").policy == "0 nodes 0"
    assert (
        site.task(**placed, FAKE_ARGS=f"{site.arguments} memory=plan").policy == f"{POLICIES[memory]} nodes 1"
    )


@pytest.mark.parametrize("memory", POLICIES)
def test_kernel_knows_the_memory_of_cpus_that_the_plan_does_not(
    site: Site, placed: dict[str, str], memory: str
) -> None:
    text = site.text.replace("mem=0", "mem=-").replace("cost 0.5", f"memory {memory}\ncost 0.5")
    Path(placed["SLURM_TOPO_JOB_PLAN"]).write_text(text)
    node = next(Path("/sys/devices/system/cpu/cpu0").glob("node*"), None)
    if node is None or (
        memory == "interleave" and len(list(node.parent.parent.glob("../node/node[0-9]*"))) > 1
    ):
        pytest.skip("this kernel tells of no NUMA nodes, or of several")
    assert site.task(**placed).policy == f"{POLICIES[memory]} nodes {1 << int(node.name[4:])}"
    assert site.records()[0]["mem"] == node.name[4:]


def test_task_without_variables_is_left_alone(site: Site) -> None:
    before = os.sched_getaffinity(0)
    result = site.task()
    assert result.cpus == "-".join(map(str, sorted({min(before), max(before)})))
    assert list(site.local.iterdir()) == []
    assert not (site.user / "records").exists()


TASK_FAULTS: dict[str, tuple[Callable[[Path], object], dict[str, str], str]] = {
    "plan missing": (lambda p: p.unlink(), {}, "plan: missing"),
    "plan damaged": (lambda p: p.write_text(p.read_text()[:-3]), {}, r"plan: damaged at line 1\d"),
    "plan writable": (lambda p: p.chmod(0o666), {}, "77-2x1-0000.plan: others may write it"),
    "plan a link": (
        lambda p: (p.rename(p.parent / "x"), p.symlink_to("x")),
        {},
        "77-2x1-0000.plan: cannot be opened .*",
    ),
    "another job": (
        lambda p: p.write_text(p.read_text().replace("job 77", "job 78")),
        {},
        "plan: belongs to another job",
    ),
    "another node": (lambda p: None, {"SLURMD_NODENAME": "n1"}, "plan: has rank 0 on another node"),
    "other ranks": (lambda p: None, {"FAKE_TOTAL": "3"}, "plan: is for 2 ranks, the step has 3"),
    "no such CPU": (
        lambda p: p.write_text(p.read_text().replace("cpus=0", "cpus=4000")),
        {},
        "cpus: rank 0 may use none of 4000",
    ),
    "no CPUs": (lambda p: p.write_text(p.read_text().replace("cpus=0", "cpus=-")), {}, "plan: no CPUs"),
}


@pytest.mark.parametrize("name", TASK_FAULTS)
def test_task_stands_down(site: Site, placed: dict[str, str], name: str) -> None:
    damage, env, reason = TASK_FAULTS[name]
    damage(Path(placed["SLURM_TOPO_JOB_PLAN"]))
    result = site.task(**{**placed, **env})
    assert result.policy == "0 nodes 0"
    assert result.cpus != "0" or len(os.sched_getaffinity(0)) == 1
    # Slurm's binding is in force, so its variables stay; the host file must not reach a nested srun.
    assert "SLURM_CPU_BIND" in result.env
    assert "SLURM_HOSTFILE" not in result.env
    (record,) = site.records()
    assert record["decision"] == "stand-down"
    assert re.fullmatch(reason, record["reason"])


def test_node_keeps_its_masks_where_one_rank_would_get_none(site: Site, placed: dict[str, str]) -> None:
    text = site.text.replace("rank 1 0 cpus=0", "rank 1 1 cpus=4000")
    Path(placed["SLURM_TOPO_JOB_PLAN"]).write_text(text)
    site.task(**placed)
    assert site.records()[0]["reason"] == "cpus: rank 1 may use none of 4000"


def test_plan_outside_the_users_spool_is_not_read(site: Site, placed: dict[str, str]) -> None:
    outside = site.folder / "77-2x1-1111.plan"
    outside.write_text(site.text)
    site.task(**{**placed, "SLURM_TOPO_JOB_PLAN": str(outside)})
    assert site.records()[0]["reason"] == "plan: missing"


@pytest.mark.parametrize(
    "env", [{"SLURM_TOPO": "off"}, {"SLURM_TOPO_JOB_ARM": "advise"}, {"SLURM_TOPO_JOB_ARM": "x"}]
)
def test_task_of_a_lower_arm_is_not_bound(site: Site, placed: dict[str, str], env: dict[str, str]) -> None:
    result = site.task(**{**placed, **env})
    assert result.policy == "0 nodes 0"
    assert "SLURM_HOSTFILE" not in result.env


@pytest.fixture
def cpuset() -> Iterator[Callable[[str], Callable[[], None]]]:
    """Makes functions that put a child into a cpuset of these CPUs."""
    top = next(
        (p for p in (Path("/sys/fs/cgroup/cpuset"), Path("/sys/fs/cgroup")) if os.access(p, os.W_OK)), None
    )
    group = Path(f"{top}/st-test-{os.getpid()}")
    try:
        group.mkdir()
        (group / "cpuset.mems").write_text("0")
    except OSError:
        pytest.skip("no cpuset can be made here")

    def limit(cpus: str) -> Callable[[], None]:
        (group / "cpuset.cpus").write_text(cpus)
        return lambda: (group / "cgroup.procs").write_text(str(os.getpid())) and None

    yield limit
    group.rmdir()


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_mask_is_cut_to_the_cpuset(site: Site, placed: dict[str, str], cpuset: Any) -> None:
    Path(placed["SLURM_TOPO_JOB_PLAN"]).write_text(site.text.replace("cpus=0 ", "cpus=0-1 "))
    result = site.task(**placed, preexec_fn=cpuset("1"))
    assert result.cpus == "1"
    assert site.records()[0]["decision"] == "place"


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_cpuset_without_the_plans_cpus_keeps_slurms_mask(
    site: Site, placed: dict[str, str], cpuset: Any
) -> None:
    result = site.task(**placed, preexec_fn=cpuset("1"))
    assert result.cpus == "1"
    assert result.policy == "0 nodes 0"
    assert site.records()[0]["reason"] == "cpus: rank 0 may use none of 0"
