"""High-bandwidth memory: known as what it is, nobody's default, next to the right cores."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from slurm_topo.hwloc import reader
from slurm_topo.machine import read_cluster, read_machine
from slurm_topo.machine.cluster import NodeShape, build_cluster
from slurm_topo.machine.clusterfile import write_cluster
from slurm_topo.machine.describe import describe
from slurm_topo.machine.local import node_class
from slurm_topo.machine.shape import NodeClass
from slurm_topo.machine.table import node_table
from slurm_topo.placement.slots import make_slots

# An emulated machine: two packages of two NUMA nodes with two cores each, and in each package memory without
# CPUs that the firmware (HMAT) calls four times as fast. libhwloc 2.9 has no word for it.
XML = Path(__file__).with_name("hbm-2p4n2h.xml")
NEAR = ((4,),) * 4 + ((5,),) * 4


def shape(change: tuple[str, str] | None = None) -> NodeClass:
    text = XML.read_text()
    if change:
        text, count = re.subn(*change, text)
        assert count
    return node_class(reader.load_xml_bytes(text.encode(), "changed"))


def test_every_core_knows_the_fast_memory_of_its_package():
    assert shape().hbm == NEAR


def test_fast_memory_is_nobodys_default():
    assert shape().numa == (0, 0, 1, 1, 2, 2, 3, 3)


@pytest.mark.parametrize("word", ["HBM", "MCDRAM"])
def test_hwlocs_word_counts_before_the_figures(word):
    # NUMA node 5 has a name, node 4 is left to its bandwidth.
    named = shape((r'(type="NUMANode" os_index="5")', rf'\1 subtype="{word}"'))
    assert named.hbm == NEAR
    assert shape((r'(type="NUMANode" os_index="[45]")', r'\1 subtype="CXL-DRAM"')).hbm == ()


def test_memory_that_is_hardly_faster_is_ordinary():
    assert shape(("204800", "80000")).hbm == ()


def test_memory_of_which_the_firmware_says_nothing_is_ordinary():
    assert shape((r"(?s)<memattr name.*</memattr>", "")).hbm == ()


def test_people_and_programs_are_told():
    topology = reader.load_xml(XML)
    assert node_table(topology).count(" HBM ") == 2
    kinds = {numa["os_index"]: numa["kind"] for numa in describe(topology)["numa"]}
    assert kinds == {0: "DRAM", 1: "DRAM", 2: "DRAM", 3: "DRAM", 4: "HBM", 5: "HBM"}


def test_cluster_description_keeps_it(tmp_path):
    file = tmp_path / "cluster.json"
    write_cluster(build_cluster([NodeShape("n1", hwloc=str(XML)), NodeShape("n2", 2, 4)]), file)
    cluster = read_cluster(file)
    assert cluster.shape("n1").hbm == NEAR
    machine = cluster.machine(["n2", "n1"], {"n1": {1, 6}})
    assert machine.hbm == ((),) * 8 + ((4,), (5,))
    assert make_slots(machine, [0, 1], 2).machine.hbm == ((4, 5),)


def test_nodes_without_it_cost_nothing():
    machine = read_machine("package:2 numa:2 core:4 pu:1")
    assert machine.hbm == ()
    assert make_slots(machine, [4], 1).machine.hbm == ()
