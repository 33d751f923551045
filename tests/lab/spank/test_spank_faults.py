"""Broken parts: every step completes as Slurm alone would run it, and exactly one line says why."""

from __future__ import annotations

import re
from typing import Any

import pytest

Site = Any  # of conftest.py, which is no module that can be imported

TELL = (
    'echo "$SLURM_PROCID $SLURMD_NODENAME $(sed -n "s/^Cpus_allowed_list:[[:space:]]*//p" /proc/self/status)"'
)
NODES = ["n1", "n2", "n3", "n4"]
PLACED = {r: (NODES[r % 4], str(1 - r // 4)) for r in range(8)}
BLOCK = {r: (NODES[r // 2], str(r % 2)) for r in range(8)}
STEP = "srun --mpi=none sh -c '" + TELL.replace("'", "'\\''") + "'"

# name -> (what breaks it, the reason in the line); U is the user's spool, M the stand-in's mode file. Each
# step begins with a whole spool without a plan.
FAULTS: dict[str, tuple[str, str]] = {
    "no graph": ("rm $U/graphs/*", "graph: 9f86d081884c7d65.npz is missing"),
    "no graphs": ("rm -r $U/graphs", "spool .*: graphs: cannot be opened"),
    "graph a link": (
        "rm $U/graphs/*; ln -s /etc/passwd $U/graphs/9f86d081884c7d65.npz",
        "graph: .* is missing",
    ),
    "graph a folder": ("f=$(echo $U/graphs/*); rm $f; mkdir $f", "graph: .* is missing"),
    "graph digest rubbish": ("export SLURM_TOPO_JOB_GRAPH=../../etc/passwd", "graph: .* is no digest"),
    "spool of the user gone": ("rm -rf $U", "spool .*: graphs: cannot be opened"),
    "spool of the user a link": ("rm -rf $U; ln -s /tmp $U", "spool .*: 65534: cannot be opened"),
    "spool of the user a file": ("rm -rf $U; touch $U", "spool .*: 65534: cannot be opened"),
    "spool of the user open": ("chmod 777 $U", "spool .*: 65534: others may write there"),
    "spool of the user closed": ("chmod 000 $U", "spool .*: 65534: cannot be opened"),
    "plans a link": ("rm -rf $U/plans; ln -s /tmp $U/plans", "spool .*: plans: cannot be opened"),
    "plans not writable": ("mkdir -p $U/plans; chmod 500 $U/plans", "place: ended with exit code 1"),
    "records a file": ("rm -rf $U/records; touch $U/records", "not recorded"),
    "search hangs": ("echo hang > $M", "place: took more than 3000 ms"),
    "search crashes": ("echo crash > $M", "place: was killed by signal 11"),
    "search fails": ("echo fail > $M", "place: ended with exit code 6: no such machine"),
    "search silent": ("echo silent > $M", "place: wrote no plan"),
    "plan rubbish": ("echo rubbish > $M", "plan: does not begin with"),
    "plan empty": ("echo empty > $M", "plan: does not begin with"),
    "plan truncated": ("echo truncated > $M", "plan: damaged at line"),
    "plan of another version": ("echo version > $M", "plan: does not begin with"),
    "plan of other nodes": ("echo foreign > $M", "plan: node elsewhere is not of this job"),
    "unknown word of the user": ("export SLURM_TOPO=perhaps", "SLURM_TOPO=perhaps is none of off"),
    "no room for a file": ("ulimit -f 0", "place: "),
}
# Repairs what the last case left, as the user.
WHOLE = (
    "chmod 700 $U 2>/dev/null; rm -rf $U; mkdir -p -m 700 $U; mkdir -m 700 $U/graphs; "
    "touch $U/graphs/9f86d081884c7d65.npz; echo ok > $M"
)


def broken(site: Site, damage: str) -> str:
    # The pipes keep what srun and the ranks print away from a limit on file sizes.
    step = f"{{ ( {damage}; {STEP} ) 2>&1 >&3 | cat >&2; }} 3>&1 | cat"
    return f"set -o pipefail; U={site.user} M={site.folder}/mode; {WHOLE}; {step}"


@pytest.fixture(scope="module")
def outcomes(spank_site: Site) -> dict[str, Any]:
    """Every fault in one job, one after another."""
    spank_site.reset()
    spank_site.spool.chmod(0o777)
    commands = {name: broken(spank_site, damage) for name, (damage, _) in FAULTS.items()}
    found: dict[str, Any] = spank_site.in_job(
        {**commands, "whole again": broken(spank_site, ":")}, "-N4", "-n8"
    )
    return found


@pytest.mark.parametrize("name", FAULTS)
def test_step_completes_and_one_line_says_why(outcomes: dict[str, Any], name: str) -> None:
    outcome = outcomes[name]
    assert outcome.code == 0, outcome.err
    assert len(outcome.lines) == 1, outcome.err
    if name == "records a file":
        assert re.search("slurm-topo: not recorded: spool .*records", outcome.lines[0])
        assert outcome.ranks == PLACED
    else:
        assert re.search(f"slurm-topo: stood down: {FAULTS[name][1]}", outcome.lines[0])
        assert outcome.ranks == BLOCK


def test_step_after_the_faults_is_placed(outcomes: dict[str, Any]) -> None:
    assert outcomes["whole again"].ranks == PLACED
    assert outcomes["whole again"].lines == []


def test_spool_that_is_gone_altogether(site: Site) -> None:
    moved = site.folder / "moved"
    site.spool.rename(moved)
    try:
        outcome = site.in_job({"a": STEP}, "-N4", "-n8")["a"]
    finally:
        moved.rename(site.spool)
    assert outcome.ranks == BLOCK
    assert len(outcome.lines) == 1


def test_plan_that_goes_between_srun_and_the_tasks_leaves_slurms_masks(site: Site) -> None:
    """The ranks are on the plan's nodes already; each keeps the CPU that Slurm gave it."""
    prolog = site.folder / "prolog"
    prolog.write_text(f"#!/bin/sh\nrm -f {site.user}/plans/*.plan\n")
    prolog.chmod(0o755)
    outcome = site.in_job({"a": STEP.replace("srun", f"srun --prolog={prolog}")}, "-N4", "-n8")["a"]
    assert outcome.code == 0, outcome.err
    assert {rank: node for rank, (node, _) in outcome.ranks.items()} == {r: NODES[r % 4] for r in range(8)}
    assert {r["reason"] for r in site.records("task")} == {"plan: missing"}
    assert {cpus for _, cpus in outcome.ranks.values()} == {"0", "1"}


# Breaks and mends the spool until the file `stop` is there. Random, but the same in every run.
VANDAL = r"""
RANDOM=1
while [ ! -e stop ]; do
  case $((RANDOM % 9)) in
    0) rm -f $U/plans/*;;
    1) chmod 777 $U;;
    2) rm -rf $U/graphs;;
    3) echo rubbish > $M;;
    4) echo silent > $M;;
    5) for f in $U/plans/*.plan; do echo x > $f; done;;
    6) rm -rf $U; ln -s /tmp $U;;
    7) chmod 500 $U/plans;;
    8) rm -rf $U/records; touch $U/records;;
  esac 2>/dev/null
  sleep 0.0$((RANDOM % 10))
  { [ -L $U ] && rm $U; chmod 700 $U $U/plans; [ -f $U/records ] && rm $U/records; } 2>/dev/null
  { mkdir -p $U/graphs; touch $U/graphs/9f86d081884c7d65.npz; echo ok > $M; } 2>/dev/null
done
"""


def test_steps_complete_while_parts_break_and_mend(site: Site) -> None:
    steps = f"for i in $(seq 40); do {STEP} > out.$i 2> err.$i; echo $? > code.$i; done"
    command = (
        f"umask 077; U={site.user} M={site.folder}/mode; ( {VANDAL} ) & {steps}; touch stop; wait; cat code.*"
    )
    site.spool.chmod(0o777)
    outcome = site.in_job({"a": command}, "-N4", "-n8")["a"]
    assert outcome.out.split() == ["0"] * 40
    (work,) = site.folder.glob("job*/code.1")
    lines = 0
    for i in range(1, 41):
        printed = (work.parent / f"out.{i}").read_text().splitlines()
        assert sorted(int(line.split()[0]) for line in printed) == list(range(8))
        # At most one line of srun; what became of the plan meanwhile the tasks only record.
        said = [x for x in (work.parent / f"err.{i}").read_text().splitlines() if "slurm-topo" in x]
        assert len(said) <= 1
        lines += len(said)
    assert lines > 0


def test_missing_plugin_that_is_optional_fails_nothing(site: Site) -> None:
    """plugstack.conf of this folder names a second plugin that is not there."""
    assert "optional /nowhere/missing.so" in site.lab.layout.etc("plugstack.conf").read_text()
    result = site.lab.run(["srun", "-N1", "-n1", "true"], user="nobody", cwd="/tmp")
    assert result.returncode == 0
    assert "slurm-topo" not in result.stderr


def test_unknown_argument_makes_the_plugin_inert_and_the_option_stays(site: Site) -> None:
    path = site.lab.layout.etc("plugstack.conf")
    before = path.read_text()
    path.write_text(before.replace(" place=", " plaice=", 1))
    try:
        outcome = site.in_job({"a": STEP.replace("srun", "srun --topo=enforce")}, "-N4", "-n8")["a"]
    finally:
        path.write_text(before)
    assert outcome.code == 0
    assert outcome.ranks == BLOCK
    (line,) = outcome.lines
    assert "argument plaice=" in line


def test_nodes_stay_up_through_all_of_it(outcomes: dict[str, Any], site: Site) -> None:
    states = site.lab.run(["sinfo", "-h", "-N", "-o", "%N %t"]).stdout.split()
    assert not {"drain", "drng", "down", "fail"} & set(states)
