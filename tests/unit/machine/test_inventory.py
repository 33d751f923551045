"""Every recorded machine: the counts of ``slurm-topo machine show`` against the files' own words."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from slurm_topo.cli.machine import machine
from slurm_topo.errors import MachineError
from slurm_topo.hwloc import reader
from slurm_topo.hwloc.library import MAJOR
from slurm_topo.machine.describe import counts, describe
from slurm_topo.machine.devices import find_devices
from slurm_topo.machine.table import node_table

KEYS = ("packages", "numa_nodes", "l3_caches", "cores", "pus", "gpus", "nics", "nvme")
# GPUs, NICs and NVMe drives as a person counts them in the files (PCI functions; consoles left out).
EXPECTED = {
    "from-fsroot__20em64t-hybrid-1p6c2t+2ca4co1t": (1, 1, 1, 14, 20, 0, 0, 0),
    "from-fsroot__32amd64-4s2n4c-cgroup2": (3, 6, 6, 6, 6, 0, 0, 0),
    "from-fsroot__48amd64-4pa2n6c-sparse": (4, 8, 8, 48, 48, 0, 0, 0),
    "from-fsroot__fakeheteromemtiers": (1, 7, 1, 6, 6, 0, 0, 0),
    "from-fsroot__memorysidecaches": (2, 4, 2, 40, 80, 0, 0, 0),
    "from-fsroot__nvidiagpunumanodes": (2, 2, 4, 8, 32, 6, 0, 0),
    "from-fsroot__offline-cpu0-node0": (2, 1, 2, 17, 17, 0, 0, 0),
    "mpibind__coral-lassen": (2, 2, 20, 40, 160, 4, 6, 1),
    "mpibind__cts1-pascal": (2, 2, 2, 36, 72, 2, 3, 0),
    "mpibind__eas-tioga": (1, 4, 8, 64, 128, 8, 5, 16),
    "mpibind__g4dnmetal": (2, 2, 2, 48, 96, 8, 2, 3),
    "openmpi-hwloc-v2__power8gpudistances": (2, 2, 8, 8, 16, 4, 0, 0),
    "other__daos__no-numa-no-devices": (1, 1, 4, 4, 4, 0, 1, 0),
    "other__daos__no-numa-nodes": (1, 1, 4, 4, 4, 0, 2, 0),
    "other__flux-core__ipa20": (2, 8, 2, 112, 224, 4, 6, 1),
    "other__flux-core__tuo.SPX": (4, 4, 12, 96, 192, 4, 5, 16),
    "other__prrte__test-topo": (2, 4, 24, 176, 176, 0, 2, 2),
    "other__prrte__test-topo2": (1, 4, 8, 24, 48, 1, 2, 0),
    "other__psmgmt__topo.jwb0004": (2, 8, 16, 48, 96, 4, 6, 0),
    "other__psmgmt__topo.mel2001": (2, 8, 16, 64, 128, 4, 4, 0),
}
NEED_HWLOC_3 = {
    "openmpi-hwloc__AMD-19h-Zen4-2xEpyc-9654",
    "openmpi-hwloc__Intel-CascadeLake-2xXeon6230",
    "openmpi-hwloc__memorysidecaches",
    "openmpi-hwloc__power8gpudistances",
}


@pytest.fixture(scope="module")
def folder(shared_data) -> Path:
    return shared_data / "data" / "hwloc"


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_counts_are_those_of_the_file(folder, name):
    topology = reader.load_xml(folder / f"{name}.xml")
    found = counts(topology, find_devices(topology))
    assert tuple(found[key] for key in KEYS) == EXPECTED[name]


def test_the_table_covers_every_recorded_file(folder):
    assert {p.stem for p in folder.glob("*.xml")} == EXPECTED.keys() | NEED_HWLOC_3


@pytest.mark.parametrize("name", sorted(NEED_HWLOC_3))
@pytest.mark.skipif(MAJOR >= 3, reason="libhwloc 3 reads format 3")
def test_file_of_hwloc_3_says_which_version_reads_it(folder, name):
    with pytest.raises(MachineError, match="hwloc 3 reads"):
        reader.load_xml(folder / f"{name}.xml")


def inventory(folder: Path) -> dict[str, dict[str, int]]:
    """Raw tag counts of each file (made without libhwloc), by file stem."""
    found = {}
    for line in (folder / "INVENTORY.txt").read_text().splitlines():
        name, _, rest = line.partition(" :: ")
        match = re.match(r"v\S+ S(\d+) D\d+ N(\d+)(?:\(.*?\))? L3:(\d+) C(\d+) PU(\d+)", rest)
        if match:
            stem = name.removeprefix("hwloc/").removesuffix(".xml").replace("/", "__")
            found[stem] = dict(zip(KEYS, map(int, match.groups()), strict=False))
            for key, pattern in (
                ("gpu", r"'(?:10de|1002)': (\d+)"),
                ("nvme", r"'nvmePCI': (\d+)"),
                ("nic", r"'net\w+': (\d+)"),
            ):
                pci = re.search(r"pci=(\{.*?\})", rest)
                found[stem][key] = sum(int(n) for n in re.findall(pattern, pci[1] if pci else ""))
    return found


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_counts_agree_with_an_independent_count_of_tags(folder, name):
    raw = inventory(folder)[name]
    packages, numa, l3, cores, pus, gpus, nics, nvme = EXPECTED[name]
    assert (packages, l3, cores, pus) == (raw["packages"], raw["l3_caches"], raw["cores"], raw["pus"])
    # hwloc 2 gives a machine without NUMA nodes the one that stands for all its memory.
    assert numa == max(raw["numa_nodes"], 1)
    assert nvme == raw["nvme"]
    if name != "from-fsroot__nvidiagpunumanodes":  # its PCI functions lost their vendor
        assert gpus == raw["gpu"]
    if name != "other__daos__no-numa-nodes":  # its second NIC is Omni-Path, which the raw count leaves out
        assert nics == raw["nic"]


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_table_and_json_are_complete_for_every_file(folder, name):
    topology = reader.load_xml(folder / f"{name}.xml")
    text, document = node_table(topology), json.loads(json.dumps(describe(topology)))
    assert text.count("NUMA ") >= EXPECTED[name][1]
    for device in document["devices"]:
        assert device["label"] in text
        assert device["address"] in text
    assert len(document["devices"]) == sum(EXPECTED[name][5:])
    assert len(document["numa"]) == EXPECTED[name][1]


def test_gpus_are_in_the_order_of_the_driver_and_know_their_numa_node(folder):
    topology = reader.load_xml(folder / "mpibind__eas-tioga.xml")
    gpus = [d for d in find_devices(topology) if d.kind == "gpu"]
    assert [g.names[0] for g in gpus] == [f"rsmi{i}" for i in range(8)]
    assert [g.numa for g in gpus] == [(3,), (3,), (1,), (1,), (0,), (0,), (2,), (2,)]


def test_devices_under_one_pcie_switch_share_their_bridges(folder):
    topology = reader.load_xml(folder / "other__psmgmt__topo.jwb0004.xml")
    by_address = {d.address: d for d in find_devices(topology)}
    gpu, nic, far = (by_address[f"0000:{bus}:00.0"] for bus in ("44", "43", "84"))
    assert gpu.bridges[:2] == nic.bridges[:2]
    assert gpu.bridges[0].startswith("host:")
    assert gpu.bridges[0] != far.bridges[0]


def run(*args: str):
    return CliRunner().invoke(machine, ["show", *args])


def test_show_prints_counts_as_json():
    result = run("--synthetic", "package:2 numa:1 l3:1 core:4 pu:2", "--format", "json")
    document = json.loads(result.output)
    assert tuple(document[k] for k in KEYS) == (2, 2, 2, 8, 16, 0, 0, 0)


def test_show_without_source_is_this_machine():
    assert json.loads(run("--format", "json").output)["origin"] == "this machine"


def test_show_refuses_two_sources(tmp_path):
    result = run(str(tmp_path / "x.xml"), "--synthetic", "core:2")
    assert "two machines at once" in str(result.exception)
