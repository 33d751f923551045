"""srun: the decision on a step, with a strict fake of Slurm and a stand-in for ``slurm-topo place``."""

from __future__ import annotations

import re
from typing import Any

import pytest

Site = Any  # of conftest.py, which is no module that can be imported


def test_step_is_placed(site: Site) -> None:
    result = site.srun()
    plan = site.plan()
    assert re.fullmatch(r"77-2x1-[0-9a-f]{16}\.plan", plan.name)
    # In memory: it cannot vanish before srun reads it.
    assert result.now["SLURM_HOSTFILE"].startswith("/proc/self/fd/")
    assert re.findall("^host (.*)$", result.stdout, re.MULTILINE) == ["n2", "n1"]
    assert result.now["SLURM_DISTRIBUTION"] == "arbitrary"
    assert result.now["SLURM_TOPO_JOB_PLAN"] == str(plan)
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
        "graph": site.graph,
    }
    assert site.calls == [
        f"place --graph {site.user}/graphs/{site.graph}.npz --allocation slurm --ntasks 2 --cpus-per-task 1"
        f" --plan {plan}"
    ]


def test_settings_file_is_handed_on(site: Site) -> None:
    site.srun(FAKE_ARGS=site.arguments + " config=/etc/topo.toml")
    assert site.calls[0].startswith("--config /etc/topo.toml place --graph ")


def test_second_step_of_the_shape_reuses_the_plan(site: Site) -> None:
    site.srun()
    assert "SLURM_HOSTFILE" in site.srun().now
    assert len(site.calls) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"SLURM_JOB_NODELIST": "n[1,3]"},
        {"SLURM_RESTART_COUNT": "1"},
        {"SLURM_JOB_CPUS_PER_NODE": "4(x2)"},
    ],
    ids=["nodes", "requeued", "cpus"],
)
def test_other_allocation_gets_a_plan_of_its_own(site: Site, change: dict[str, str]) -> None:
    site.srun()
    site.srun(**change)
    assert len(site.calls) == 2


def test_other_variant_gets_a_plan_of_its_own(site: Site) -> None:
    site.srun()
    site.srun(SLURM_TOPO_JOB_VARIANT="packed")
    assert len(site.calls) == 2


def test_variant_of_the_plan_is_recorded(site: Site) -> None:
    (site.folder / "answer").write_text(site.text.replace("cost 0.5", "variant packed\ncost 0.5"))
    site.srun()
    assert site.records()[0]["variant"] == "packed"


def test_damaged_plan_is_computed_again(site: Site) -> None:
    site.srun()
    site.plan().write_text(site.text[:100])
    assert "SLURM_HOSTFILE" in site.srun().now
    assert len(site.calls) == 2


def untouched(result: Any) -> bool:
    return not {"SLURM_HOSTFILE", "SLURM_DISTRIBUTION", "SLURM_TOPO_JOB_PLAN"} & set(result.now)


def test_advise_computes_and_applies_nothing(site: Site) -> None:
    result = site.srun("--topo=advise", "./app")
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
    site: Site,
    env: dict[str, str],
    arguments: tuple[str, ...],
    arm: str,
    decision: str,
    reason: str,
) -> None:
    result = site.srun(*arguments, **env)
    assert "SLURM_TOPO_JOB_PLAN" not in result.now
    assert result.now.get("SLURM_HOSTFILE") == env.get("SLURM_HOSTFILE")
    assert result.lines == []
    assert site.calls == []
    (record,) = site.records()
    assert (record["arm"], record["decision"], record["reason"]) == (arm, decision, reason)


def test_unknown_graph_is_recorded(site: Site) -> None:
    env = {k: v for k, v in site.job.items() if k != "SLURM_TOPO_JOB_GRAPH"}
    result = site.drive("init", "./app", env={**env, "FAKE_CONTEXT": "local", "FAKE_ARGS": site.arguments})
    assert "SLURM_HOSTFILE" not in result.stdout
    assert site.records()[0]["reason"] == "graph unknown"


def test_decision_of_the_search_to_stand_down_is_kept(site: Site) -> None:
    head = site.text.split("graph")[0].replace(
        "decision place\nreason cost", "decision stand-down\nreason margin"
    )
    (site.folder / "answer").write_text(f"{head}graph {site.graph}\nnodes 0\nend 0\n")
    for _ in range(2):
        result = site.srun()
        assert untouched(result)
        assert result.lines == []
    assert len(site.calls) == 1
    assert {(r["decision"], r["reason"]) for r in site.records()} == {("stand-down", "margin")}


@pytest.mark.parametrize("where", ["batch script", "no job"])
def test_without_a_marked_job_nothing_is_done(site: Site, where: str) -> None:
    gone = "SLURM_JOB_ID" if where == "no job" else "SLURM_TOPO_JOB_ARM"
    env = {k: v for k, v in site.job.items() if k != gone} | {"ENVIRONMENT": "BATCH"}
    site.drive("init", "./app", env={**env, "FAKE_CONTEXT": "local", "FAKE_ARGS": site.arguments})
    assert not (site.user / "records").exists()
    assert site.calls == []


@pytest.mark.parametrize("arm", ["off", "everything", ""])
def test_arm_off_or_unknown_does_nothing(site: Site, arm: str) -> None:
    result = site.srun(SLURM_TOPO_JOB_ARM=arm)
    assert untouched(result)
    assert not (site.user / "records").exists()


def test_kill_switch_stops_everything(site: Site) -> None:
    (site.folder / "disabled").touch()
    assert untouched(site.srun())
    assert not (site.user / "records").exists()


def test_plan_of_an_outer_step_is_dropped(site: Site) -> None:
    outer = {"SLURM_TOPO_JOB_PLAN": "/outer.plan", "SLURM_DISTRIBUTION": "arbitrary"}
    result = site.srun(SLURM_STEP_ID="0", **outer)
    assert not set(outer) & set(result.now)


@pytest.mark.parametrize("option", ["--help", "--topo=sideways"])
def test_srun_that_launches_nothing_costs_no_record(site: Site, option: str) -> None:
    assert site.srun(option, "./app").lines == []
    assert not (site.user / "records").exists()


@pytest.mark.parametrize("context", ["local", "allocator", "remote"])
def test_option_is_registered(site: Site, context: str) -> None:
    env = {"FAKE_CONTEXT": context, "FAKE_ARGS": site.arguments, "FAKE_OPTION": "advise"}
    out = site.drive("init", "./app", env=env).stdout
    assert "option topo\ncallback 0\n" in out
    assert ("now SLURM_TOPO=advise" in out) == (context != "remote")


def test_wrong_value_of_the_option_is_refused(site: Site) -> None:
    result = site.drive("init", "./app", env={"FAKE_CONTEXT": "allocator", "FAKE_OPTION": "yes"})
    assert "callback -1\n" in result.stdout
    assert result.stderr == "error: --topo=yes is unknown; it is one of off, observe, advise, enforce\n"


def test_wrong_argument_makes_the_plugin_inert(site: Site) -> None:
    result = site.srun(FAKE_ARGS=site.arguments + " colour=red")
    assert len(result.lines) == 1
    assert result.lines[0].startswith("error: slurm-topo: plugstack.conf: argument colour=red ")
    assert "option topo" in result.stdout
    assert untouched(result)
