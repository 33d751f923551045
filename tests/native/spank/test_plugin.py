"""The entry points of the plugin with a strict fake of Slurm: srun, the task, the end of the step."""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]

GRAPH = "9f86d081884c7d65"
ALLOCATION = {
    "SLURM_JOB_ID": "77",
    "SLURM_NTASKS": "2",
    "SLURM_JOB_NUM_NODES": "2",
    "SLURM_JOB_NODELIST": "n[1-2]",
    "SLURM_JOB_CPUS_PER_NODE": "2(x2)",
}
JOB = {**ALLOCATION, "SLURM_TOPO_JOB_ARM": "enforce", "SLURM_TOPO_JOB_GRAPH": GRAPH}
PLAN = f"""slurm-topo-plan 1
job 77
ranks 2
cpus_per_task 1
decision place
reason cost
graph {GRAPH}
cost 0.5
baseline block:block 0.75
nodes 2
node 0 n1
node 1 n2
rank 0 1 cpus=0 mem=0 gpus=-
rank 1 0 cpus=0 mem=0 gpus=-
end 2
"""
PLACE = """#!/bin/sh
echo "$@" >> {folder}/calls
while [ $# -gt 0 ]; do case "$1" in --plan) plan=$2;; esac; shift; done
cp {folder}/answer "$plan.new" && mv "$plan.new" "$plan"
"""


class Site:
    """A spool, a fake ``slurm-topo place`` and what the plugin's arguments say about them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.spool = folder / "spool"
        self.user = self.spool / str(os.geteuid())
        self.local = folder / "local"
        self.tracer = folder / "libtracer.so"
        self.place = folder / "place"
        for path in (self.spool, self.user, self.user / "graphs", self.local):
            path.mkdir(mode=0o700)
        (self.user / "graphs" / f"{GRAPH}.npz").touch()
        self.tracer.touch()
        (folder / "answer").write_text(PLAN)
        self.script(PLACE.format(folder=folder))

    def script(self, text: str) -> None:
        self.place.write_text(text)
        self.place.chmod(0o755)

    @property
    def arguments(self) -> str:
        return (
            f"spool={self.spool} local_dir={self.local} tracer={self.tracer} place={self.place} "
            f"kill_switch={self.folder}/disabled deadline_ms=5000"
        )

    @property
    def calls(self) -> list[str]:
        path = self.folder / "calls"
        return path.read_text().splitlines() if path.exists() else []

    def records(self) -> list[dict[str, Any]]:
        paths = sorted((self.user / "records").glob("*.rec"))
        return [json.loads(line) for path in paths for line in path.read_text().splitlines()]

    def plan(self) -> Path:
        (path,) = (self.user / "plans").glob("*.plan")
        return path


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def srun(drive: Run, site: Site, *arguments: str, **env: str) -> Any:
    """slurm_spank_init as srun calls it; the result gets ``now``: SLURM* of the process afterwards."""
    common = {"FAKE_CONTEXT": "local", "FAKE_ARGS": site.arguments}
    result = drive("init", *(arguments or ("./app",)), env={**JOB, **common, **env})
    assert "rc 0\n" in result.stdout
    result.now = dict(re.findall(r"^now (\w+)=(.*)$", result.stdout, re.MULTILINE))
    result.lines = [x for x in result.stderr.splitlines() if not x.startswith("verbose: ")]
    return result


def test_step_is_placed(drive: Run, site: Site) -> None:
    result = srun(drive, site)
    plan = site.plan()
    assert re.fullmatch(r"77-2x1-[0-9a-f]{16}\.plan", plan.name)
    assert result.now["SLURM_HOSTFILE"] == str(plan.with_suffix(".hosts"))
    assert result.now["SLURM_DISTRIBUTION"] == "arbitrary"
    assert result.now["SLURM_TOPO_JOB_PLAN"] == str(plan)
    assert plan.with_suffix(".hosts").read_text() == "n2\nn1\n"
    assert result.lines == []
    (record,) = site.records()
    assert record.pop("time") > 0
    assert record.pop("seconds") >= 0
    assert record == {
        "format": "slurm-topo-record",
        "version": 1,
        "where": "srun",
        "job": 77,
        "ranks": 2,
        "arm": "enforce",
        "decision": "place",
        "reason": "cost",
        "plan": str(plan),
        "cost": 0.5,
        "baseline": 0.75,
        "graph": GRAPH,
    }
    assert site.calls == [
        f"place --graph {site.user}/graphs/{GRAPH}.npz --allocation slurm --ntasks 2 --cpus-per-task 1"
        f" --plan {plan}"
    ]


def test_settings_file_is_handed_on(drive: Run, site: Site) -> None:
    srun(drive, site, FAKE_ARGS=site.arguments + " config=/etc/topo.toml")
    assert site.calls[0].startswith("--config /etc/topo.toml place --graph ")


def test_second_step_of_the_shape_reuses_the_plan(drive: Run, site: Site) -> None:
    srun(drive, site)
    assert "SLURM_HOSTFILE" in srun(drive, site).now
    assert len(site.calls) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"SLURM_JOB_NODELIST": "n[1-3]", "SLURM_JOB_CPUS_PER_NODE": "2(x3)", "SLURM_JOB_NUM_NODES": "3"},
        {"SLURM_RESTART_COUNT": "1"},
        {"SLURM_JOB_CPUS_PER_NODE": "4(x2)"},
    ],
    ids=["nodes", "requeued", "cpus"],
)
def test_other_allocation_gets_a_plan_of_its_own(drive: Run, site: Site, change: dict[str, str]) -> None:
    srun(drive, site)
    srun(drive, site, **change)
    assert len(site.calls) == 2


def test_damaged_plan_is_computed_again(drive: Run, site: Site) -> None:
    srun(drive, site)
    site.plan().write_text(PLAN[:100])
    assert "SLURM_HOSTFILE" in srun(drive, site).now
    assert len(site.calls) == 2


def untouched(result: Any) -> bool:
    return not {"SLURM_HOSTFILE", "SLURM_DISTRIBUTION", "SLURM_TOPO_JOB_PLAN"} & set(result.now)


def test_advise_computes_and_applies_nothing(drive: Run, site: Site) -> None:
    result = srun(drive, site, "--topo=advise", "./app")
    assert untouched(result)
    assert result.lines == []
    (record,) = site.records()
    assert (record["arm"], record["decision"], record["cost"], record["baseline"]) == (
        "advise",
        "none",
        0.5,
        0.75,
    )


@pytest.mark.parametrize(
    ("env", "arguments", "arm", "decision", "reason"),
    [
        ({"SLURM_TOPO_JOB_ARM": "observe", "SLURM_TOPO_JOB_TRACE": "1"}, (), "observe", "trace", "arm"),
        ({"SLURM_TOPO_JOB_ARM": "observe"}, (), "observe", "none", "arm"),
        ({"SLURM_TOPO": "observe"}, (), "observe", "none", "arm"),
        ({"SLURM_TOPO": "off"}, (), "off", "stand-down", "user: topo off"),
        ({}, ("--topo=off", "./app"), "off", "stand-down", "user: topo off"),
        ({}, ("--cpu-bind=cores", "./app"), "enforce", "stand-down", "user: cpu-bind"),
        ({}, ("-m", "cyclic", "./app"), "enforce", "stand-down", "user: distribution"),
        ({"SLURM_HOSTFILE": "/x"}, (), "enforce", "stand-down", "user: SLURM_HOSTFILE"),
        ({"SLURM_STEP_ID": "0"}, (), "enforce", "stand-down", "shape: inside another step"),
        ({"SLURM_JOB_CPUS_PER_NODE": "9(x2)"}, ("--exact", "./app"), "enforce", "stand-down", "shape: exact"),
        (
            {"SLURM_JOB_NODELIST": "n[1-"},
            (),
            "enforce",
            "stand-down",
            "shape: SLURM_JOB_NODELIST n[1- is not understood",
        ),
    ],
)
def test_ordinary_reasons_are_recorded_without_a_word(
    drive: Run,
    site: Site,
    env: dict[str, str],
    arguments: tuple[str, ...],
    arm: str,
    decision: str,
    reason: str,
) -> None:
    result = srun(drive, site, *arguments, **env)
    assert "SLURM_TOPO_JOB_PLAN" not in result.now
    assert result.now.get("SLURM_HOSTFILE") == env.get("SLURM_HOSTFILE")
    assert result.lines == []
    assert site.calls == []
    (record,) = site.records()
    assert (record["arm"], record["decision"], record["reason"]) == (arm, decision, reason)


def test_unknown_graph_is_recorded(drive: Run, site: Site) -> None:
    env = {k: v for k, v in JOB.items() if k != "SLURM_TOPO_JOB_GRAPH"}
    result = drive("init", "./app", env={**env, "FAKE_CONTEXT": "local", "FAKE_ARGS": site.arguments})
    assert "SLURM_HOSTFILE" not in result.stdout
    assert site.records()[0]["reason"] == "graph unknown"


def test_decision_of_the_search_to_stand_down_is_kept(drive: Run, site: Site) -> None:
    head = PLAN.split("graph")[0].replace("decision place\nreason cost", "decision stand-down\nreason margin")
    (site.folder / "answer").write_text(f"{head}graph {GRAPH}\nnodes 0\nend 0\n")
    for _ in range(2):
        result = srun(drive, site)
        assert untouched(result)
        assert result.lines == []
    assert len(site.calls) == 1
    assert {(r["decision"], r["reason"]) for r in site.records()} == {("stand-down", "margin")}


@pytest.mark.parametrize("gone", ["SLURM_TOPO_JOB_ARM", "SLURM_JOB_ID"])
def test_without_a_marked_job_nothing_is_done(drive: Run, site: Site, gone: str) -> None:
    env = {k: v for k, v in JOB.items() if k != gone}
    drive("init", "./app", env={**env, "FAKE_CONTEXT": "local", "FAKE_ARGS": site.arguments})
    assert not (site.user / "records").exists()
    assert site.calls == []


@pytest.mark.parametrize("arm", ["off", "everything", ""])
def test_arm_off_or_unknown_does_nothing(drive: Run, site: Site, arm: str) -> None:
    result = srun(drive, site, SLURM_TOPO_JOB_ARM=arm)
    assert untouched(result)
    assert not (site.user / "records").exists()


def test_kill_switch_stops_everything(drive: Run, site: Site) -> None:
    (site.folder / "disabled").touch()
    assert untouched(srun(drive, site))
    assert not (site.user / "records").exists()


def test_plan_of_an_outer_step_is_dropped(drive: Run, site: Site) -> None:
    result = srun(drive, site, SLURM_STEP_ID="0", SLURM_TOPO_JOB_PLAN="/outer.plan")
    assert "SLURM_TOPO_JOB_PLAN" not in result.now


def test_help_costs_no_record(drive: Run, site: Site) -> None:
    srun(drive, site, "--help")
    assert not (site.user / "records").exists()


def break_place(site: Site, text: str) -> None:
    site.script("#!/bin/sh\n" + text)


FAULTS: dict[str, tuple[Callable[[Site], object], str]] = {
    "graph missing": (
        lambda s: (s.user / "graphs" / f"{GRAPH}.npz").unlink(),
        f"graph: {GRAPH}.npz is missing",
    ),
    "graphs missing": (
        lambda s: (s.user / "graphs").rename(s.user / "x"),
        "spool .*graphs: cannot be opened",
    ),
    "graph a link": (
        lambda s: (
            (s.user / "graphs" / f"{GRAPH}.npz").unlink(),
            (s.user / "graphs" / f"{GRAPH}.npz").symlink_to("/etc/passwd"),
        ),
        "graph: .* is missing",
    ),
    "spool missing": (lambda s: s.spool.rename(s.folder / "x"), "spool .*: cannot be opened"),
    "spool a file": (
        lambda s: (s.spool.rename(s.folder / "x"), s.spool.touch()),
        "spool .*: cannot be opened",
    ),
    "spool writable": (lambda s: s.user.chmod(0o777), "spool .*: others may write there"),
    "plans a link": (lambda s: (s.user / "plans").symlink_to("/tmp"), "spool .*plans: cannot be opened"),
    "plans a file": (lambda s: (s.user / "plans").touch(), "spool .*plans: cannot be opened"),
    "place missing": (lambda s: s.place.unlink(), "place: .*No such file or directory"),
    "place not executable": (lambda s: s.place.chmod(0o600), "place: .*Permission denied"),
    "place fails": (
        lambda s: break_place(s, "echo broken >&2; exit 9"),
        "place: ended with exit code 9: broken",
    ),
    "place crashes": (lambda s: break_place(s, "kill -SEGV $$"), "place: was killed by signal 11"),
    "place silent": (lambda s: break_place(s, "exit 0"), "place: wrote no plan"),
    "interpreter missing": (lambda s: s.script("#!/nonexistent/python\n"), "place: ended with exit code 127"),
    "plan rubbish": (
        lambda s: (s.folder / "answer").write_bytes(os.urandom(5000)),
        "plan: does not begin with",
    ),
    "plan empty": (lambda s: (s.folder / "answer").write_text(""), "plan: does not begin with"),
    "plan truncated": (lambda s: (s.folder / "answer").write_text(PLAN[:-10]), r"plan: damaged at line 1\d"),
    "plan version": (
        lambda s: (s.folder / "answer").write_text(PLAN.replace("plan 1", "plan 2", 1)),
        "plan: does not",
    ),
    "plan of another job": (
        lambda s: (s.folder / "answer").write_text(PLAN.replace("job 77", "job 78")),
        "plan: belongs to another step",
    ),
    "plan of other nodes": (
        lambda s: (s.folder / "answer").write_text(PLAN.replace("1 n2", "1 n9")),
        "plan: node n9 is not of this job",
    ),
    "plan too crowded": (
        lambda s: (s.folder / "answer").write_text(
            PLAN.replace("cpus_per_task 1", "cpus_per_task 1").replace("rank 1 0 cpus=0", "rank 1 1 cpus=0")
        ),
        "plan: node n1 gets no rank",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_fault_stands_down_with_one_line(drive: Run, site: Site, name: str) -> None:
    damage, reason = FAULTS[name]
    damage(site)
    result = srun(drive, site)
    assert untouched(result)
    (line,) = result.lines
    assert re.match(f"info: slurm-topo: stood down: {reason}", line)
    if not name.startswith("spool"):
        (record,) = site.records()
        assert record["decision"] == "stand-down"
        assert re.match(reason, record["reason"])


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give files away")
@pytest.mark.parametrize("name", ["", "graphs", "plans", "records"])
def test_spool_of_somebody_else_is_not_used(drive: Run, site: Site, name: str) -> None:
    (site.user / name).mkdir(exist_ok=True)
    os.chown(site.user / name, 65534, 65534)
    result = srun(drive, site)
    (line,) = result.lines
    assert "belongs to another user" in line
    if name != "records":
        assert untouched(result)


def test_search_that_hangs_is_waited_for_once_a_job(drive: Run, site: Site) -> None:
    site.script(f"#!/bin/sh\necho call >> {site.folder}/calls\nexec sleep 1000\n")
    arguments = site.arguments.replace("deadline_ms=5000", "deadline_ms=200")
    first = srun(drive, site, FAKE_ARGS=arguments)
    second = srun(drive, site, FAKE_ARGS=arguments)
    assert first.lines == ["info: slurm-topo: stood down: place: took more than 200 ms"]
    assert second.lines == ["info: slurm-topo: stood down: place-late"]
    assert untouched(first)
    assert untouched(second)
    assert site.calls == ["call"]


def test_quiet_srun_stays_quiet(drive: Run, site: Site) -> None:
    site.place.unlink()
    assert srun(drive, site, "-Q", "./app").lines == []


def test_unknown_word_of_the_user_stands_down(drive: Run, site: Site) -> None:
    result = srun(drive, site, SLURM_TOPO="perhaps")
    assert untouched(result)
    assert result.lines == [
        "info: slurm-topo: stood down: SLURM_TOPO=perhaps is none of off, observe, advise, enforce"
    ]


def test_full_disk_stands_down(drive: Run, site: Site) -> None:
    srun(drive, site)
    for path in site.user.glob("*/*.hosts"):
        path.unlink()
    common = {"FAKE_CONTEXT": "local", "FAKE_ARGS": site.arguments}
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))  # noqa: E731
    result = drive("init", "./app", env={**JOB, **common}, preexec_fn=limit)
    assert "SLURM_HOSTFILE" not in result.stdout
    assert "stood down: 77-2x1" in result.stderr
    assert "cannot be written (File too large)" in result.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount")
def test_file_system_without_space_stands_down(drive: Run, site: Site) -> None:
    plans = site.user / "plans"
    plans.mkdir(mode=0o700)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4k,mode=700", "none", str(plans)], check=False
    )
    if mounted.returncode:
        pytest.skip("mount is not allowed here")
    try:
        (plans / "filler").write_bytes(b"x" * 4096)
        result = srun(drive, site)
        assert untouched(result)
        assert len(result.lines) == 1
    finally:
        subprocess.run(["umount", str(plans)], check=True)


@pytest.mark.parametrize("context", ["local", "allocator", "remote"])
def test_option_is_registered(drive: Run, site: Site, context: str) -> None:
    env = {"FAKE_CONTEXT": context, "FAKE_ARGS": site.arguments, "FAKE_OPTION": "advise"}
    out = drive("init", "./app", env=env).stdout
    assert "option topo\ncallback 0\n" in out
    assert ("now SLURM_TOPO=advise" in out) == (context != "remote")


def test_wrong_value_of_the_option_is_refused(drive: Run, site: Site) -> None:
    result = drive("init", "./app", env={"FAKE_CONTEXT": "allocator", "FAKE_OPTION": "yes"})
    assert "callback -1\n" in result.stdout
    assert result.stderr == "error: --topo=yes is unknown; it is one of off, observe, advise, enforce\n"


def test_wrong_argument_makes_the_plugin_inert(drive: Run, site: Site) -> None:
    result = srun(drive, site, FAKE_ARGS=site.arguments + " colour=red")
    assert len(result.lines) == 1
    assert result.lines[0].startswith("error: slurm-topo: plugstack.conf: argument colour=red ")
    assert "option topo" in result.stdout
    assert untouched(result)


def task(drive: Run, site: Site, **env: str) -> Any:
    """slurm_spank_task_init; the result gets ``env`` of the task, ``cpus`` and ``policy``."""
    common = {"FAKE_ARGS": site.arguments, "SLURMD_NODENAME": "n2", "SLURM_TOPO_JOB_ARM": "enforce"}
    result = drive("task_init", "./app", env={**common, **env})
    assert "rc 0\n" in result.stdout
    result.env = dict(re.findall(r"^env (\w+)=(.*)$", result.stdout, re.MULTILINE))
    result.cpus = re.search(r"^cpus (.*)$", result.stdout, re.MULTILINE)[1]
    result.policy = re.search(r"^policy (.*)$", result.stdout, re.MULTILINE)[1]
    return result


@pytest.fixture
def placed(site: Site) -> dict[str, str]:
    """A plan in the spool and the environment that srun gives a task with it."""
    path = site.user / "plans" / "77-2x1-0000.plan"
    path.parent.mkdir(mode=0o700)
    path.write_text(PLAN)
    path.chmod(0o600)
    return {
        "SLURM_TOPO_JOB_PLAN": str(path),
        "SLURM_HOSTFILE": str(path) + "x",
        "SLURM_DISTRIBUTION": "arbitrary",
        "SLURM_CPU_BIND": "quiet,mask_cpu:0x2",
        "SLURM_CPU_BIND_LIST": "0x2",
        "SLURM_CPU_BIND_TYPE": "mask_cpu:",
        "SLURM_CPU_BIND_VERBOSE": "quiet",
    }


def test_task_is_bound(drive: Run, site: Site, placed: dict[str, str]) -> None:
    result = task(drive, site, **placed)
    assert result.cpus == "0"
    assert result.policy == "1 nodes 1"
    assert not set(placed) & set(result.env)
    (record,) = site.records()
    assert record.pop("time") > 0
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
        ({}, {"OMP_NUM_THREADS": "2", "OMP_PLACES": "cores", "GOMP_CPU_AFFINITY": "0-1"}),
        (
            {"OMP_NUM_THREADS": "7"},
            {"OMP_NUM_THREADS": "7", "OMP_PLACES": "cores", "GOMP_CPU_AFFINITY": "0-1"},
        ),
        ({"OMP_PROC_BIND": "false"}, {"OMP_NUM_THREADS": "2", "OMP_PROC_BIND": "false"}),
    ],
)
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_openmp_is_set_where_the_user_has_no_wish(
    drive: Run, site: Site, placed: dict[str, str], user: dict[str, str], after: dict[str, str]
) -> None:
    text = PLAN.replace("cpus_per_task 1", "cpus_per_task 2").replace("cpus=0 ", "cpus=0-1 ")
    Path(placed["SLURM_TOPO_JOB_PLAN"]).write_text(text)
    assert openmp_of(task(drive, site, **placed, **user)) == after


def test_openmp_can_be_left_to_the_user(drive: Run, site: Site, placed: dict[str, str]) -> None:
    assert openmp_of(task(drive, site, **placed)) == {"OMP_NUM_THREADS": "1"}
    assert openmp_of(task(drive, site, **placed, FAKE_ARGS=f"{site.arguments} openmp=none")) == {}


@pytest.mark.parametrize(("gpus", "after"), [("order", "1,0"), ("isolate", "1"), ("none", "0,1")])
def test_near_gpus_come_first(drive: Run, site: Site, placed: dict[str, str], gpus: str, after: str) -> None:
    Path(placed["SLURM_TOPO_JOB_PLAN"]).write_text(PLAN.replace("gpus=-", "gpus=3"))
    env = {
        "CUDA_VISIBLE_DEVICES": "0,1",
        "SLURM_STEP_GPUS": "2,3",
        "FAKE_ARGS": f"{site.arguments} gpus={gpus}",
    }
    result = task(drive, site, **placed, **env)
    assert result.env["CUDA_VISIBLE_DEVICES"] == after
    assert site.records()[0].get("gpus") == (None if gpus == "none" else after)


@pytest.mark.parametrize(
    ("memory", "policy"), [("bind", "2 nodes 1"), ("interleave", "3 nodes 1"), ("none", "0 nodes 0")]
)
def test_memory_policy_is_the_sites(
    drive: Run, site: Site, placed: dict[str, str], memory: str, policy: str
) -> None:
    assert task(drive, site, **placed, FAKE_ARGS=f"{site.arguments} memory={memory}").policy == policy


def test_task_without_variables_is_left_alone(drive: Run, site: Site) -> None:
    before = os.sched_getaffinity(0)
    result = task(drive, site)
    assert result.cpus == "-".join(map(str, sorted({min(before), max(before)})))
    assert list(site.local.iterdir()) == []
    assert not (site.user / "records").exists()


TASK_FAULTS: dict[str, tuple[Callable[[Path], object], dict[str, str], str]] = {
    "plan missing": (lambda p: p.unlink(), {}, "plan: missing"),
    "plan damaged": (lambda p: p.write_text(PLAN[:-3]), {}, r"plan: damaged at line 1\d"),
    "plan writable": (lambda p: p.chmod(0o666), {}, "77-2x1-0000.plan: others may write it"),
    "plan a link": (
        lambda p: (p.rename(p.parent / "x"), p.symlink_to("x")),
        {},
        "77-2x1-0000.plan: cannot be opened .*",
    ),
    "another job": (
        lambda p: p.write_text(PLAN.replace("job 77", "job 78")),
        {},
        "plan: belongs to another job",
    ),
    "another node": (lambda p: None, {"SLURMD_NODENAME": "n1"}, "plan: has rank 0 on another node"),
    "other ranks": (lambda p: None, {"FAKE_TOTAL": "3"}, "plan: is for 2 ranks, the step has 3"),
    "no such CPU": (
        lambda p: p.write_text(PLAN.replace("cpus=0", "cpus=4000")),
        {},
        "cpus: rank 0 may use none of 4000",
    ),
    "no CPUs": (lambda p: p.write_text(PLAN.replace("cpus=0", "cpus=-")), {}, "plan: no CPUs"),
}


@pytest.mark.parametrize("name", TASK_FAULTS)
def test_task_stands_down(drive: Run, site: Site, placed: dict[str, str], name: str) -> None:
    damage, env, reason = TASK_FAULTS[name]
    damage(Path(placed["SLURM_TOPO_JOB_PLAN"]))
    result = task(drive, site, **{**placed, **env})
    assert result.policy == "0 nodes 0"
    assert result.cpus != "0" or len(os.sched_getaffinity(0)) == 1
    # Slurm's binding is in force, so its variables stay; the host file must not reach a nested srun.
    assert "SLURM_CPU_BIND" in result.env
    assert not {"SLURM_HOSTFILE", "SLURM_DISTRIBUTION", "SLURM_TOPO_JOB_PLAN"} & set(result.env)
    (record,) = site.records()
    assert record["decision"] == "stand-down"
    assert re.fullmatch(reason, record["reason"])


def test_node_keeps_its_masks_where_one_rank_would_get_none(
    drive: Run, site: Site, placed: dict[str, str]
) -> None:
    text = PLAN.replace("rank 1 0 cpus=0", "rank 1 1 cpus=4000")
    Path(placed["SLURM_TOPO_JOB_PLAN"]).write_text(text)
    task(drive, site, **placed)
    assert site.records()[0]["reason"] == "cpus: rank 1 may use none of 4000"


def test_plan_outside_the_users_spool_is_not_read(drive: Run, site: Site, placed: dict[str, str]) -> None:
    outside = site.folder / "77-2x1-1111.plan"
    outside.write_text(PLAN)
    task(drive, site, **{**placed, "SLURM_TOPO_JOB_PLAN": str(outside)})
    assert site.records()[0]["reason"] == "plan: missing"


@pytest.mark.parametrize(
    "env", [{"SLURM_TOPO": "off"}, {"SLURM_TOPO_JOB_ARM": "advise"}, {"SLURM_TOPO_JOB_ARM": "x"}]
)
def test_task_of_a_lower_arm_is_not_bound(
    drive: Run, site: Site, placed: dict[str, str], env: dict[str, str]
) -> None:
    result = task(drive, site, **{**placed, **env})
    assert result.policy == "0 nodes 0"
    assert "SLURM_HOSTFILE" not in result.env


TRACED = {"SLURM_TOPO_JOB_ARM": "observe", "SLURM_TOPO_JOB_TRACE": "1"}


def test_task_is_traced(drive: Run, site: Site) -> None:
    result = task(drive, site, **TRACED)
    counters = site.local / f"slurm-topo-{os.geteuid()}" / "77.0"
    assert result.env["LD_PRELOAD"] == str(site.tracer)
    assert result.env["SLURM_TOPO_JOB_COUNTERS"] == str(counters)
    assert counters.stat().st_mode & 0o777 == 0o700


def test_batch_step_has_its_name(drive: Run, site: Site) -> None:
    assert (
        task(drive, site, **TRACED, FAKE_STEP="4294967291")
        .env["SLURM_TOPO_JOB_COUNTERS"]
        .endswith("/77.batch")
    )


@pytest.mark.parametrize("step", ["4294967292", "4294967290"], ids=["extern", "interactive"])
def test_other_steps_are_not_traced(drive: Run, site: Site, step: str) -> None:
    assert "LD_PRELOAD" not in task(drive, site, **TRACED, FAKE_STEP=step).env


def test_preload_of_the_user_is_kept_and_the_tracer_not_doubled(drive: Run, site: Site) -> None:
    before = f"libmine.so {site.tracer}:libother.so"
    # LD_PRELOAD would act on the driver itself: the fake takes it under another name.
    result = drive_with_preload(drive, site, before, **TRACED, SLURM_TOPO_JOB_COUNTERS="/old")
    assert result.env["LD_PRELOAD"] == f"{site.tracer}:libmine.so:libother.so"
    assert result.env["SLURM_TOPO_JOB_COUNTERS"].endswith("/77.0")


def drive_with_preload(drive: Run, site: Site, value: str, **env: str) -> Any:
    return task(drive, site, **env, FAKE_LD_PRELOAD=value)


@pytest.mark.parametrize(
    ("before", "after"),
    [("{tracer}", None), ("{tracer}:libmine.so", "libmine.so"), ("libmine.so", "libmine.so")],
)
def test_step_that_is_not_traced_loses_the_tracer_of_the_batch_step(
    drive: Run, site: Site, before: str, after: str | None
) -> None:
    value = before.format(tracer=site.tracer)
    env = {**TRACED, "SLURM_TOPO": "off", "SLURM_TOPO_JOB_COUNTERS": "/old"}
    result = drive_with_preload(drive, site, value, **env)
    assert result.env.get("LD_PRELOAD") == after
    assert "SLURM_TOPO_JOB_COUNTERS" not in result.env


TRACE_FAULTS: dict[str, Callable[[Site], object]] = {
    "tracer missing": lambda s: s.tracer.unlink(),
    "local folder missing": lambda s: s.local.rmdir(),
    "user folder a link": lambda s: (s.local / f"slurm-topo-{os.geteuid()}").symlink_to("/tmp"),
    "user folder a file": lambda s: (s.local / f"slurm-topo-{os.geteuid()}").touch(),
    "user folder open": lambda s: (
        (s.local / f"slurm-topo-{os.geteuid()}").mkdir(),
        (s.local / f"slurm-topo-{os.geteuid()}").chmod(0o777),
    ),
    "kill switch": lambda s: (s.folder / "disabled").touch(),
}


@pytest.mark.parametrize("name", TRACE_FAULTS)
def test_task_runs_untraced_where_the_tracer_cannot_work(drive: Run, site: Site, name: str) -> None:
    TRACE_FAULTS[name](site)
    result = task(drive, site, **TRACED)
    assert "LD_PRELOAD" not in result.env
    assert "SLURM_TOPO_JOB_COUNTERS" not in result.env


def end_step(drive: Run, site: Site, **env: str) -> Any:
    result = drive(
        "exit", env={"FAKE_ARGS": site.arguments, "SLURMD_NODENAME": "n2", **TRACED, **env}, cwd="/"
    )
    assert "rc 0\n" in result.stdout
    return result


def counters_of(site: Site, uid: int) -> None:
    folder = site.local / f"slurm-topo-{uid}" / "77.0"
    folder.mkdir(parents=True)
    for path in (folder, folder.parent):
        os.chown(path, uid, uid)


def test_counters_are_collected(drive: Run, site: Site) -> None:
    counters_of(site, os.geteuid())
    end_step(drive, site, SLURM_TOPO_JOB_KEYS="s1:n2", SLURM_TOPO_JOB_PLAN="/p.plan")
    text = (site.user / "traces" / "77.0.n2.trace").read_text().splitlines()
    assert text[1] == str(site.local / f"slurm-topo-{os.geteuid()}" / "77.0")
    assert text[2] == "77 0 n2 s1:n2 /p.plan 2 1"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has rights to give up")
def test_collector_gives_up_roots_rights_for_good(drive: Run, site: Site) -> None:
    for path in (site.folder, *site.folder.parents[:3]):
        path.chmod(path.stat().st_mode | 0o055)
    site.spool.chmod(0o1777)
    site.local.chmod(0o1777)
    counters_of(site, 65534)
    end_step(drive, site, FAKE_UID="65534", FAKE_GID="65534")
    path = site.spool / "65534" / "traces" / "77.0.n2.trace"
    assert path.read_text().splitlines()[0] == "65534 65534 65534 groups 1 back 0"
    assert path.stat().st_uid == 65534


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to play another user")
def test_root_neither_reads_nor_writes_what_a_user_planted(drive: Run, site: Site) -> None:
    """Links of the user to root's files: the collector, being the user, cannot follow them."""
    secret = site.folder / "secret"
    secret.mkdir(mode=0o700)
    site.spool.chmod(0o1777)
    site.local.chmod(0o1777)
    for path in (site.folder, *site.folder.parents[:3]):
        path.chmod(path.stat().st_mode | 0o055)
    counters_of(site, 65534)
    (site.spool / "65534").symlink_to(secret)
    end_step(drive, site, FAKE_UID="65534", FAKE_GID="65534")
    assert list(secret.iterdir()) == []


@pytest.mark.parametrize("wish", ["hang", "fail"])
def test_counters_that_cannot_be_collected_do_not_stay_in_memory(drive: Run, site: Site, wish: str) -> None:
    counters_of(site, os.geteuid())
    folder = site.local / f"slurm-topo-{os.geteuid()}" / "77.0"
    (folder / "0.counters").touch()
    result = end_step(drive, site, FAKE_COLLECT=wish)
    assert not (site.user / "traces" / "77.0.n2.trace").exists()
    assert not folder.exists()
    assert ("no trace: the disk is full" in result.stderr) == (wish == "fail")


def test_step_that_was_not_traced_collects_nothing(drive: Run, site: Site) -> None:
    counters_of(site, os.geteuid())
    end_step(drive, site, SLURM_TOPO_JOB_TRACE="0")
    assert not (site.user / "traces").exists()


def test_extern_step_collects_nothing(drive: Run, site: Site) -> None:
    end_step(drive, site, FAKE_STEP="4294967292")
    assert not (site.user / "traces").exists()


MARKED = {"SLURM_TOPO_JOB_GRAPH": GRAPH, "FAKE_STEP": "4294967291"}


@pytest.fixture
def launch(site: Site) -> Path:
    """The library for mpirun, beside the tracer."""
    path = site.folder / "libslurm_topo_launch.so"
    path.touch()
    return path


def test_batch_script_of_a_known_program_gets_the_library_for_mpirun(
    drive: Run, site: Site, launch: Path
) -> None:
    env = task(drive, site, **MARKED).env
    assert env["LD_PRELOAD"] == str(launch)
    assert env["SLURM_TOPO_JOB_LAUNCH"] == (
        f"spool={site.spool} place={site.place} kill_switch={site.folder}/disabled deadline_ms=5000"
    )


@pytest.mark.parametrize(
    "change",
    [
        {"FAKE_STEP": "0"},
        {"SLURM_TOPO": "observe"},
        {"SLURM_TOPO_JOB_GRAPH": None},
        {"arguments": " mpirun=none"},
        {"library": None},
        {"disabled": True},
    ],
    ids=lambda change: next(iter(change)),
)
def test_other_steps_do_not_get_it(drive: Run, site: Site, launch: Path, change: dict[str, Any]) -> None:
    if "library" in change:
        launch.unlink()
    if "disabled" in change:
        (site.folder / "disabled").touch()
    env = {**MARKED, "FAKE_ARGS": site.arguments + change.get("arguments", "")}
    env |= {name: value for name, value in change.items() if name.isupper()}
    result = task(drive, site, **{k: v for k, v in env.items() if v is not None})
    assert not {"LD_PRELOAD", "SLURM_TOPO_JOB_LAUNCH"} & set(result.env)


def test_steps_of_the_batch_script_lose_it_again(drive: Run, site: Site, launch: Path) -> None:
    env = {**MARKED, "FAKE_STEP": "0", "SLURM_TOPO_JOB_LAUNCH": "spool=/x"}
    result = drive_with_preload(drive, site, f"{launch}:libmine.so", **env)
    assert result.env["LD_PRELOAD"] == "libmine.so"
    assert "SLURM_TOPO_JOB_LAUNCH" not in result.env


def run_mpirun(program: Path, site: Site, *arguments: str, **env: str) -> tuple[dict[str, str], list[str]]:
    """What the library leaves in the environment of mpirun, and what it prints."""
    common = {"SLURM_TOPO_JOB_LAUNCH": site.arguments, "HOME": str(site.folder)}
    result = subprocess.run(
        [str(program), *arguments],
        env={**JOB, **common, "PATH": os.environ["PATH"], **env},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert result.returncode == 0, result.stderr
    assert "Sanitizer" not in result.stderr
    return dict(line.split("=", 1) for line in result.stdout.splitlines()), result.stderr.splitlines()


def test_mpirun_gets_a_rank_file(mpirun: Path, site: Site) -> None:
    found, said = run_mpirun(mpirun, site, "-n", "2", "./app")
    ranks = site.plan().with_suffix(".ranks")
    assert found == {"OMPI_MCA_rmaps_rank_file_path": str(ranks), "OMPI_MCA_rmaps_rank_file_physical": "1"}
    assert ranks.read_text() == "rank 0=n2 slot=0\nrank 1=n1 slot=0\n"
    assert said == []
    (record,) = site.records()
    assert (record["where"], record["decision"], record["reason"]) == ("mpirun", "place", "cost")


def test_mpirun_and_srun_share_the_plan(mpirun: Path, drive: Run, site: Site) -> None:
    run_mpirun(mpirun, site, "./app")
    assert "SLURM_HOSTFILE" in srun(drive, site).now
    assert len(site.calls) == 1


@pytest.mark.parametrize(
    ("arguments", "env", "plan", "reason"),
    [
        (("--map-by", "node", "./app"), {}, PLAN, "shape: mpirun option --map-by"),
        (
            ("./app",),
            {"OMPI_MCA_rmaps_base_mapping_policy": "node"},
            PLAN,
            "user: OMPI_MCA_rmaps_base_mapping",
        ),
        (("./app",), {"SLURM_TOPO": "off"}, PLAN, "user: topo off"),
        (("./app",), {}, PLAN.replace("cpus=0", "cpus=2"), "shape: mpirun on parts of nodes"),
        (("./app",), {}, PLAN.replace("cpus=0", "cpus=-"), "plan: no CPUs"),
    ],
)
def test_uncertain_mpirun_is_left_alone(
    mpirun: Path, site: Site, arguments: tuple[str, ...], env: dict[str, str], plan: str, reason: str
) -> None:
    (site.folder / "answer").write_text(plan)
    found, said = run_mpirun(mpirun, site, *arguments, **env)
    assert not [name for name in found if "rank_file" in name]
    assert said == []
    assert site.records()[0]["reason"].startswith(reason)


def test_fault_in_mpirun_is_one_line(mpirun: Path, site: Site) -> None:
    site.place.unlink()
    found, said = run_mpirun(mpirun, site, "./app")
    assert found == {}
    assert said == [f"mpirun: slurm-topo: stood down: place: {site.place}: No such file or directory"]


def test_unmarked_mpirun_is_left_alone(mpirun: Path, site: Site) -> None:
    assert run_mpirun(mpirun, site, "./app", SLURM_TOPO_JOB_ARM="off") == ({}, [])
    assert run_mpirun(mpirun, site, "./app", SLURM_TOPO_JOB_LAUNCH="rubbish") == ({}, [])
    assert not (site.user / "records").exists()
