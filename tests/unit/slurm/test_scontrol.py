"""Nodes, switches and running jobs as scontrol prints them."""

from __future__ import annotations

import pytest

from slurm_topo.errors import SlurmError
from slurm_topo.slurm.scontrol import (
    fields_of_line,
    parse_jobs,
    parse_nodes,
    parse_switches,
    read_job,
    read_switches,
)

JOB = (
    "JobId=7 JobName=a b=c UserId=ada(1000) JobState=RUNNING NodeList=n[1-3] OverSubscribe=EXCLUSIVE "
    "JOB_GRES=gpu:4   Nodes=n[1-2] CPU_IDs=0-3,6 Mem=0 GRES=gpu:a100:2(IDX:0-1)   "
    "Nodes=n3 CPU_IDs=8-9 Mem=100 GRES=   MinCPUsNode=1 Features=(null) Command=/home/ada/x.sh Power=\n"
)


def test_job_has_its_cpus_on_every_node():
    (job,) = parse_jobs(JOB)
    assert [(n.name, n.cpus) for n in job.nodes] == [
        ("n1", (0, 1, 2, 3, 6)),
        ("n2", (0, 1, 2, 3, 6)),
        ("n3", (8, 9)),
    ]
    assert job.nodes[0].gres == "gpu:a100:2(IDX:0-1)"
    assert job.exclusive


def test_value_with_blanks_and_empty_value():
    fields = fields_of_line(JOB.strip())
    assert fields["JobName"] == "a"
    assert fields["Power"] == ""
    assert fields["Command"] == "/home/ada/x.sh"
    assert fields_of_line("JobName=OOD Code Server UserId=x")["JobName"] == "OOD Code Server"


def test_job_that_is_not_known():
    with pytest.raises(SlurmError, match="knows no job 9"):
        read_job(9, run=lambda argv: "")


def test_nodes():
    text = (
        "NodeName=n1 Arch=x86_64 CoresPerSocket=8 CPUAlloc=0 Boards=1 Sockets=2 ThreadsPerCore=2 OS=a b\n"
        "NodeName=n2 CoresPerSocket=4 Sockets=1 ThreadsPerCore=1\n"
        "NodeName=dynamic State=FUTURE\n"
    )
    shapes = parse_nodes(text)
    assert [(s.name, s.sockets, s.cores_per_socket, s.threads_per_core) for s in shapes] == [
        ("n1", 2, 8, 2),
        ("n2", 1, 4, 1),
    ]


def test_switches_of_scontrol_and_of_the_file():
    shown = (
        "SwitchName=s1 Level=0 LinkSpeed=1 Nodes=n[1-2]\n"
        "SwitchName=s2 Level=0 LinkSpeed=1 Nodes=n[3-4]\n"
        "SwitchName=top Level=1 LinkSpeed=1 Nodes=n[1-4] Switches=s[1-2]\n"
    )
    written = (
        "# the fabric\nSwitchName=s1 Nodes=n[1-2] # left\nswitchname=s2 nodes=n[3-4]\n"
        "SwitchName=top \\\n  Switches=s[1-2]\n"
    )
    assert parse_switches(shown) == parse_switches(written)
    top = parse_switches(shown)[2]
    assert (top.nodes, top.switches) == ((), ("s1", "s2"))


def test_blocks_are_switches():
    shown = (
        "BlockName=b1 BlockIndex=0 Nodes=n[1-2] BlockSize=2\n"
        "BlockName=b2 BlockIndex=1 Nodes=n[3-4] BlockSize=2\n"
        "AggregatedBlock=b[1-2] BlockIndex=2 Nodes=n[1-4] BlockSize=4\n"
    )
    assert [(s.nodes, s.switches) for s in parse_switches(shown)] == [
        (("n1", "n2"), ()),
        (("n3", "n4"), ()),
        ((), ("b1", "b2")),
    ]


def test_node_under_two_switches_stays_below_the_first():
    switches = parse_switches("SwitchName=a Level=0 Nodes=n[1-2]\nSwitchName=b Level=0 Nodes=n[2-3]\n")
    assert [s.nodes for s in switches] == [("n1", "n2"), ("n3",)]


def test_what_a_later_slurm_says_of_a_switch_is_no_obstacle():
    assert parse_switches("SwitchName=a Level=0 LinkSpeed=1 Nodes=n1 Colour=blue\n")[0].nodes == ("n1",)


def test_fabric_that_makes_no_sense_is_an_error_of_slurm():
    with pytest.raises(SlurmError, match="show topology"):
        parse_switches("SwitchName=top Level=1 Switches=gone\n")


def test_text_without_switches_is_a_flat_network():
    assert parse_switches("No topology information available\n") == []


def test_flat_network_has_no_switches():
    def fail(argv):
        raise SlurmError("scontrol: failed (No topology information available); try it by hand")

    assert read_switches(fail) == []


def test_silent_slurmctld_is_not_a_flat_network():
    def fail(argv):
        raise SlurmError(
            "scontrol: failed (Unable to contact slurm controller (connect failure)); try it by hand"
        )

    with pytest.raises(SlurmError, match="contact"):
        read_switches(fail)
