"""The allocation of a job from its environment and from slurmctld."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_topo.errors import InputError, SlurmError
from slurm_topo.slurm.allocation import expand_counts, read_allocation

JOB = {
    "SLURM_JOB_ID": "7",
    "SLURM_JOB_NODELIST": "n[1-3,5]",
    "SLURM_TASKS_PER_NODE": "2(x3),1",
    "SLURM_JOB_CPUS_PER_NODE": "8(x4)",
    "SLURM_CPUS_PER_TASK": "4",
    "SLURM_NTASKS": "7",
}
DETAILS = (
    "JobId=7 JobName=a OverSubscribe=NO Nodes=n[1-3] CPU_IDs=0-7 Mem=0 GRES=   "
    "Nodes=n5 CPU_IDs=0-3 Mem=0 GRES=\n"
)


def test_environment_and_slurmctld_together():
    allocation = read_allocation(JOB, run=lambda argv: DETAILS)
    assert allocation.nodes == ("n1", "n2", "n3", "n5")
    assert allocation.tasks_per_node == (2, 2, 2, 1)
    assert (allocation.ntasks, allocation.cpus_per_task, allocation.exclusive) == (7, 4, True)
    assert allocation.cpus_on_node == (8, 8, 8, 8)
    assert allocation.cpus_by_node["n5"] == (0, 1, 2, 3)


def test_environment_alone():
    allocation = read_allocation(JOB, run=None)
    assert allocation.cpus_by_node == {}
    assert not allocation.exclusive


def test_tasks_without_their_spread():
    environ = {"SLURM_JOBID": "7", "SLURM_NODELIST": "n[1-3]", "SLURM_NTASKS": "8"}
    assert read_allocation(environ, run=None).tasks_per_node == (3, 3, 2)
    del environ["SLURM_NTASKS"]
    assert read_allocation(environ, run=None).tasks_per_node == (1, 1, 1)


def test_outside_a_job():
    with pytest.raises(SlurmError, match="no Slurm allocation here"):
        read_allocation({}, run=None)


@pytest.mark.parametrize(
    ("name", "value"),
    [("SLURM_TASKS_PER_NODE", "2(x2)"), ("SLURM_TASKS_PER_NODE", "two"), ("SLURM_JOB_NODELIST", "n[1-")],
)
def test_contradicting_environment(name, value):
    with pytest.raises(SlurmError, match="environment of job 7"):
        read_allocation(JOB | {name: value}, run=None)


@given(st.lists(st.integers(0, 500), min_size=1, max_size=40))
def test_counts_round_trip(counts):
    runs: list[list[int]] = []
    for count in counts:
        if runs and runs[-1][0] == count:
            runs[-1][1] += 1
        else:
            runs.append([count, 1])
    text = ",".join(f"{c}(x{n})" if n > 1 else str(c) for c, n in runs)
    assert list(expand_counts(text)) == counts


@pytest.mark.parametrize("text", ["", "2(x)", "2(x9999999)", "-1", "2,,3"])
def test_rubbish_is_no_count_list(text):
    with pytest.raises(InputError):
        expand_counts(text)
