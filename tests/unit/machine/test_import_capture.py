"""``machine import`` and ``machine capture``: what the files of other tools become, and what changed."""

from __future__ import annotations

import json
import os
import stat

import pytest
from click.testing import CliRunner

from slurm_topo.cli import machine_capture
from slurm_topo.cli.machine import machine
from slurm_topo.errors import InputError, MachineError
from slurm_topo.hwloc import reader
from slurm_topo.machine import NodeShape, build_cluster, read_cluster, write_cluster
from slurm_topo.machine.hardware import differences, hardware_digest
from slurm_topo.machine.importing import kind_of_text, read_text

NODES = """NodeName=n1 Arch=x86_64 CoresPerSocket=4
   CPUAlloc=0 CPUEfctv=16 CPUTot=16 CPULoad=0.01
   Boards=1 Sockets=2 ThreadsPerCore=2

NodeName=n2 Arch=x86_64 CoresPerSocket=4
   Boards=1 Sockets=2 ThreadsPerCore=2

NodeName=n3 Arch=x86_64 CoresPerSocket=16
   Boards=1 Sockets=1 ThreadsPerCore=1
"""
TREE = "SwitchName=leaf1 Nodes=n[1-2]\nSwitchName=leaf2 Nodes=n3,n99\nSwitchName=top Switches=leaf[1-2]\n"
MATRIX = "GPU0 GPU1 CPU Affinity\nGPU0 X NV4 0-7\nGPU1 NV4 X 8-15\n"
STATUS = "".join(f"GPU {i}: Tesla P100-SXM2-16GB (UUID: {i})\n Link 0: 20 GB/s\n" for i in (0, 1))


def run(*arguments):
    result = CliRunner().invoke(machine, [str(a) for a in arguments])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def files(folder, **texts):
    paths = []
    for name, text in texts.items():
        path = folder / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        paths.append(path)
    return paths


def test_nodes_and_switches_become_a_cluster(tmp_path):
    nodes, tree = files(tmp_path, nodes=NODES, tree=TREE)
    out = tmp_path / "cluster.json"
    result = run("import", nodes, tree, "--name", "site", "-o", out)
    cluster = read_cluster(out)
    assert cluster.name == "site"
    assert {n: cluster.shape(n).cores for n in cluster.nodes} == {"n1": 8, "n2": 8, "n3": 16}
    assert len(cluster.classes) == 2
    assert "1 nodes below switches are no nodes of Slurm, such as n99" in result.stderr


def test_hardware_for_all_nodes_may_be_one_file_or_string(tmp_path):
    (tree,) = files(tmp_path, tree=TREE)
    (xml,) = files(tmp_path, **{"any.xml": reader.export_this_machine()})
    cores = len(reader.load_this_machine().of_kind("Core"))
    table = run("import", tree, "--synthetic", "package:2 core:3 pu:1", "--format", "json").stdout
    assert json.loads(table)["classes"]["class1"]["synthetic"] == "package:2 core:3 pu:1"
    for arguments in ((tree, xml), (tree, "--hwloc", xml)):
        out = tmp_path / "c.json"
        run("import", *arguments, "-o", out)
        assert read_cluster(out).machine().cores == 4 * cores


def test_xml_files_belong_to_the_nodes_they_are_named_after(tmp_path):
    nodes, one, two = files(
        tmp_path,
        nodes=NODES,
        **{"n1.xml": reader.export_this_machine(), "n2.xml": reader.export_this_machine()},
    )
    out = tmp_path / "c.json"
    run("import", nodes, one, two, "-o", out)
    cluster = read_cluster(out)
    assert cluster.nodes["n1"] == cluster.nodes["n2"] != cluster.nodes["n3"]
    (stray,) = files(tmp_path, **{"n7.xml": reader.export_this_machine()})
    with pytest.raises(Exception, match="there is no node n7"):
        run("import", nodes, one, stray)


def test_links_alone_become_an_encoded_node(tmp_path):
    matrix, status = files(tmp_path, matrix=MATRIX, status=STATUS)
    document = json.loads(run("import", matrix, status, "--format", "json").stdout)
    assert document["gpus"] == 2
    assert document["devices"][0]["bandwidth_class"] == "HBM2"
    assert document["device_affinity"]["gpu0-gpu1"]["gb_per_s"] == 80.0
    assert document["nvlinks"][0]["gb_per_s"] == 20.0
    out = tmp_path / "links.json"
    run("import", matrix, "-o", out)
    assert json.loads(out.read_text())["switched"] is False
    assert "NVL" in run("import", matrix).stdout


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no output that is known"),
        ("hello", "no output that is known"),
        ("GPU0 GPU1\nGPU0 X NV4\n", "truncated"),
    ],
)
def test_unknown_and_damaged_texts_are_errors_that_name_the_file(tmp_path, text, words):
    (path,) = files(tmp_path, text=text)
    with pytest.raises(MachineError, match=words) as error:
        run("import", path)
    assert str(error.value).startswith(str(path))


def test_switches_without_hardware_say_what_is_missing(tmp_path):
    (tree,) = files(tmp_path, tree=TREE)
    with pytest.raises(Exception, match="no hardware; add the output of scontrol show node"):
        run("import", tree)


def test_show_of_another_tools_output_points_to_import(tmp_path):
    (matrix,) = files(tmp_path, matrix=MATRIX)
    with pytest.raises(MachineError, match="is output of topo -m; use `slurm-topo machine import"):
        run("show", matrix)


def test_every_recorded_text_is_recognised(shared_data):
    for path in (shared_data / "data" / "gpu-topo").glob("*.txt"):
        assert kind_of_text(read_text(path)) in ("topo -m", "rocm-smi", "nvlink", "gpu-list", "p2p")
    for path in (shared_data / "data" / "slurm" / "topograph").glob("*.conf"):
        assert kind_of_text(read_text(path)) == "topology.conf"
    for path in (shared_data / "data" / "hwloc").glob("*.xml"):
        assert kind_of_text(read_text(path)) == "hwloc"


def test_capture_writes_xml_that_is_this_machine(tmp_path):
    out = tmp_path / "here.xml"
    run("capture", "-o", out)
    assert hardware_digest(reader.load_xml(out)) == hardware_digest(reader.load_this_machine())
    assert run("capture", "--compare", out).exit_code == 0
    assert run("capture").stdout.startswith("<?xml")
    with pytest.raises(InputError, match="cannot be written"):
        run("capture", "-o", tmp_path / "none" / "x.xml")


def test_this_node_is_compared_with_its_class_in_a_cluster(tmp_path):
    (xml,) = files(tmp_path, **{"n1.xml": reader.export_this_machine()})
    pus = len(reader.load_this_machine().of_kind("PU"))
    shapes = [NodeShape("n1", hwloc=str(xml)), NodeShape("n2", 1, pus, 1), NodeShape("n3", 3, pus, 7)]
    path = tmp_path / "cluster.json"
    write_cluster(build_cluster(shapes), path)

    def compare(node):
        return run("capture", "--compare", path, "--node", node)

    assert [compare(n).exit_code for n in ("n1", "n2", "n3")] == [0, 0, 1]
    assert f"n3: {21 * pus} CPUs in the description, {pus} here" in compare("n3").stdout
    xml.unlink()
    assert compare("n1").exit_code == 0, "by the digest of the hardware"
    document = json.loads(path.read_text())
    document["classes"]["class1"]["hardware"] = "0" * 16
    path.write_text(json.dumps(document))
    assert "not that of its class" in compare("n1").stdout
    with pytest.raises(MachineError, match="node n9: not in"):
        compare("n9")


def test_capture_keeps_what_drivers_say_beside_the_xml(tmp_path, monkeypatch):
    tools = tmp_path / "bin"
    tools.mkdir()
    smi = tools / "nvidia-smi"
    smi.write_text('#!/bin/sh\n[ "$1" = topo ] || exit 9\nprintf "GPU0\\n"\n')
    smi.chmod(smi.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    run("capture", "-o", tmp_path / "n1.xml")
    assert (tmp_path / "n1.topo.txt").read_text() == "GPU0\n"
    assert not (tmp_path / "n1.nvlink.txt").exists()
    assert machine_capture._ask(["/no/such/tool"]) == b""


def test_nodes_that_differ_in_names_alone_share_a_class(tmp_path, shared_data):
    xml = (shared_data / "data" / "hwloc" / "mpibind__eas-tioga.xml").read_text()
    one, two, other = files(
        tmp_path,
        one=xml,
        two=xml.replace("redacted-3", "another serial"),
        other=xml.replace('pci_type="0380 [1002:7408]', 'pci_type="0380 [1002:740f]'),
    )
    cluster = build_cluster([NodeShape(f"n{i}", hwloc=str(p)) for i, p in enumerate((one, two, other))])
    assert cluster.nodes["n0"] == cluster.nodes["n1"]
    assert cluster.nodes["n2"] != cluster.nodes["n0"]


def test_what_changed_is_said_in_words(shared_data):
    folder = shared_data / "data" / "hwloc"
    text = (folder / "mpibind__eas-tioga.xml").read_bytes()
    before = reader.load_xml_bytes(text, "before")
    assert differences(before, before) == []
    start = text.index(b'<object type="PCIDev"', text.index(b"0000:de:00.0") - 400)
    end = text.index(b"</object>", text.index(b"</object>", start) + 1) + len(b"</object>")
    lost = reader.load_xml_bytes(text[:start] + text[end:], "after")
    changes = differences(before, lost)
    assert "gpus: 8 before, 7 now" in changes
    assert "gpu 0000:de:00.0 is gone" in changes
    small = reader.load_synthetic("package:2 core:4 pu:1")
    smaller = reader.load_synthetic("package:2 core:3 pu:1")
    assert "cores: 8 before, 6 now" in differences(small, smaller)
    regrouped = reader.load_synthetic("package:2 l3:2 core:2 pu:1")
    assert any("l3 caches" in change for change in differences(small, regrouped))
