"""The joint encoding: bandwidth classes, link masks, root complexes, and the path between every pair."""

from __future__ import annotations

import json
import re

import pytest
from click.testing import CliRunner

from slurm_topo.cli.machine import machine
from slurm_topo.errors import MachineError
from slurm_topo.hwloc import reader
from slurm_topo.machine.affinity import find_affinity, from_matrix
from slurm_topo.machine.describe import describe
from slurm_topo.machine.encoding import affinity_table, encode, encode_matrix
from slurm_topo.machine.gpulinks import parse_topo_matrix


def load(shared_data, name):
    return reader.load_xml(shared_data / "data" / "hwloc" / f"{name}.xml")


def path(encoded, a, b):
    return encoded["device_affinity"].get(f"{a}-{b}") or encoded["device_affinity"][f"{b}-{a}"]


def record(encoded, label):
    return next(d for d in encoded["devices"] if d["label"] == label)


def names_in(encoded, mask):
    return {d["label"] for d in encoded["devices"] if int(mask, 16) >> d["bit"] & 1}


def test_table_keeps_the_words_of_the_driver(shared_data):
    text = (shared_data / "data" / "gpu-topo" / "H200x8_NV18_8nic_spaces_legend.txt").read_text()
    table = affinity_table(from_matrix(parse_topo_matrix(text)))
    rows = text.partition("Legend")[0]
    for code in ("PIX", "NODE", "SYS"):
        assert table.count(f"{code}:") == len(re.findall(rf"\b{code}\b", rows)) > 0


def test_gpu_in_the_package_of_a_cpu_shares_its_memory(shared_data):
    encoded = encode(load(shared_data, "other__flux-core__tuo.SPX"))
    own, other = path(encoded, "gpu1", "numa1"), path(encoded, "gpu1", "numa0")
    assert (own["path"], own["hops"], own["gb_per_s"]) == ("c2c", 1, 5300.0)
    assert other["path"] == "socket-link"


def test_slow_paths_are_not_rounded_to_nothing(shared_data):
    table = affinity_table(find_affinity(load(shared_data, "other__flux-core__ipa20")))
    assert re.search(r"SYS:0\.\d", table)
    assert not re.search(r":0(\s|$)", table)


def test_fast_and_slow_cores_are_told_apart(shared_data):
    kinds = describe(load(shared_data, "from-fsroot__20em64t-hybrid-1p6c2t+2ca4co1t"))["cpu_kinds"]
    found = [(k["efficiency"], k["cores"], k["pus"]) for k in kinds]
    assert found == [(0, "6-13", "12-19"), (1, "0-5", "0-11")]


def test_every_pair_of_every_recorded_machine_has_one_path(shared_data):
    seen = 0
    for file in sorted((shared_data / "data" / "hwloc").glob("*.xml")):
        try:
            topology = reader.load_xml(file)
        except MachineError:
            continue
        seen += 1
        encoded = encode(topology)
        ends = len(encoded["devices"]) + len(topology.of_kind("NUMANode"))
        assert len(encoded["device_affinity"]) == ends * (ends - 1) // 2
        for device in encoded["devices"]:
            assert not int(device["topo_mask"], 16) >> device["bit"] & 1, "no device is its own neighbour"
            for other in names_in(encoded, device["topo_mask"]):
                assert device["label"] in names_in(encoded, record(encoded, other)["topo_mask"])
        for entry in encoded["device_affinity"].values():
            assert entry["hops"] >= 1
            assert entry["gb_per_s"] >= 0
            assert entry["origin"] in ("reported", "derived", "assumed")
    assert seen >= 20


def test_h100_node_has_direct_nvlinks_and_a_nic_under_each_switch(shared_data):
    encoded = encode(load(shared_data, "other__flux-core__ipa20"))
    gpu = record(encoded, "gpu1")
    assert (gpu["bandwidth_class"], gpu["bandwidth_gb_per_s"], gpu["numa"]) == ("HBM3", 3350.0, [1])
    assert names_in(encoded, gpu["topo_mask"]) == {"gpu0", "gpu2", "gpu3", "nic4"}
    assert path(encoded, "gpu0", "gpu3") == {
        "path": "nvlink", "hops": 1, "links": 6, "gb_per_s": 150.0, "origin": "reported", "code": "",
    }  # fmt: skip
    assert path(encoded, "gpu1", "nic4")["path"] == "pcie-switch"
    assert path(encoded, "gpu0", "nic4")["path"] == "numa-link"
    assert path(encoded, "gpu0", "nic5")["path"] == "socket-link"
    assert path(encoded, "gpu1", "numa1")["path"] == "host-bridge"
    assert record(encoded, "nic4")["bandwidth_class"] == "NDR"
    assert record(encoded, "gpu1")["root_complex_id"] == record(encoded, "nic4")["root_complex_id"]
    assert record(encoded, "gpu1")["root_complex_id"] != record(encoded, "gpu0")["root_complex_id"]


def test_switches_list_gpus_nics_and_drives_that_share_them(shared_data):
    encoded = encode(load(shared_data, "other__flux-core__ipa20"))
    groups = {tuple(s["devices"]) for s in encoded["pcie_switches"]}
    assert ("gpu0", "nic2", "nic3", "nvme0") in groups
    assert ("gpu1", "nic4") in groups
    assert ("nic0", "nic1") not in groups, "two functions of one card are no switch"
    assert all(s["root_complex_id"] >= 0 and s["bridge"] for s in encoded["pcie_switches"])


def test_nvlink_between_cpu_and_gpu_is_found(shared_data):
    encoded = encode(load(shared_data, "openmpi-hwloc-v2__power8gpudistances"))
    assert path(encoded, "gpu0", "numa0") == {
        "path": "nvlink", "hops": 1, "links": 2, "gb_per_s": 40.0, "origin": "reported", "code": "",
    }  # fmt: skip
    assert path(encoded, "gpu0", "gpu2")["path"] == "socket-link"


def test_xgmi_has_hops_and_bandwidth_as_reported(shared_data):
    encoded = encode(load(shared_data, "mpibind__eas-tioga"))
    assert path(encoded, "gpu0", "gpu7")["path"] == "xgmi"
    assert path(encoded, "gpu0", "gpu7")["gb_per_s"] == 100.0
    assert record(encoded, "gpu0")["bandwidth_class"] == "HBM2e"
    assert record(encoded, "nic0")["bandwidth_class"] == "1GbE"


def test_two_gpus_under_one_switch_and_others_under_another(shared_data):
    encoded = encode(load(shared_data, "mpibind__coral-lassen"))
    assert path(encoded, "gpu0", "gpu1")["path"] == "pcie-switch"
    assert path(encoded, "gpu0", "nic0")["path"] == "host-bridge"
    assert path(encoded, "gpu0", "gpu2")["path"] == "socket-link"


MATRIX = """
        GPU0 GPU1 GPU2 GPU3 NIC0 NIC1 CPU Affinity NUMA Affinity
GPU0     X   NV6  NV6  NV6  PIX  SYS  0-13 3
GPU1    NV6   X   NV6  NV6  SYS  SYS  0-13 1
GPU2    NV6  NV6   X   NV6  SYS  SYS  0-13 7
GPU3    NV6  NV6  NV6   X   SYS  PXB  0-13 5
NIC0    PIX  SYS  SYS  SYS   X   SYS
NIC1    SYS  SYS  SYS  PXB  SYS   X
NIC Legend:
  NIC0: mlx5_0
  NIC1: mlx5_3
"""


def test_matrix_of_the_driver_overrules_the_tree(shared_data):
    topology = load(shared_data, "other__flux-core__ipa20")
    encoded = encode(topology, parse_topo_matrix(MATRIX))
    assert path(encoded, "gpu0", "gpu1")["code"] == "NV6"
    nic = next(d["label"] for d in encoded["devices"] if "mlx5_3" in d["names"])
    assert path(encoded, "gpu3", nic)["code"] == "PXB"


def test_matrix_of_another_node_is_refused(shared_data):
    with pytest.raises(MachineError, match="shows 4 GPUs, the machine has 8"):
        encode(load(shared_data, "mpibind__eas-tioga"), parse_topo_matrix(MATRIX))


def test_matrix_alone_is_encoded_too():
    encoded = encode_matrix(parse_topo_matrix(MATRIX))
    assert (encoded["gpus"], encoded["nics"]) == (4, 2)
    assert record(encoded, "gpu0")["topo_mask"] == "0x1e"
    assert record(encoded, "nic1")["names"] == ["NIC1", "mlx5_3"]
    assert path(encoded, "gpu0", "nic1")["path"] == "socket-link"


def test_table_shows_kind_and_bandwidth(shared_data):
    text = affinity_table(find_affinity(load(shared_data, "other__flux-core__ipa20")))
    assert "NVL:150" in text
    assert len(set(map(len, text.split("\n")))) == 1


def test_show_takes_the_text_of_a_driver(shared_data, tmp_path):
    file = tmp_path / "topo.txt"
    file.write_text(MATRIX)
    xml = str(shared_data / "data" / "hwloc" / "other__flux-core__ipa20.xml")
    arguments = ["show", xml, "--links", str(file)]
    assert "Paths" in CliRunner().invoke(machine, arguments).output
    document = json.loads(CliRunner().invoke(machine, [*arguments, "--format", "json"]).output)
    assert document["gpus"] == 4
    assert document["device_affinity"]["gpu0-gpu1"]["code"] == "NV6"
    missing = CliRunner().invoke(machine, ["show", xml, "--links", str(tmp_path / "none")])
    assert "cannot be read" in str(missing.exception)
