"""libhwloc through the binding: sources, objects, attributes, matrices, and what it must refuse."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from slurm_topo.errors import MachineError
from slurm_topo.hwloc import bits, reader
from slurm_topo.hwloc.library import MAJOR


def kinds(topology, kind):
    return topology.of_kind(kind)


def test_synthetic_string_gives_the_objects_that_it_names():
    topology = reader.load_synthetic("package:2 numa:2 l3:1 core:4 pu:2")
    assert [len(kinds(topology, k)) for k in ("Package", "NUMANode", "L3Cache", "Core", "PU")] == [
        2,
        4,
        4,
        16,
        32,
    ]
    assert topology.root.cpuset == (1 << 32) - 1


def test_sparse_indices_of_a_synthetic_string_are_kept():
    topology = reader.load_synthetic("package:2(indexes=0,8) core:2 pu:1(indexes=4,5,12,13)")
    assert [p.os_index for p in kinds(topology, "Package")] == [0, 8]
    assert [p.os_index for p in kinds(topology, "PU")] == [4, 5, 12, 13]


@pytest.mark.parametrize(
    "text", ["", "   ", "foo:2", "core:0", "package:2 core:-1", "a\0b", "numa:2 numa:2 numa"]
)
def test_unusable_synthetic_string_is_an_error_of_one_line(text):
    with pytest.raises(MachineError) as error:
        reader.load_synthetic(text)
    assert "\n" not in str(error.value)


def test_this_machine_has_the_processors_that_linux_shows():
    topology = reader.load_this_machine()
    assert len(kinds(topology, "PU")) >= len(os.sched_getaffinity(0))
    assert all(topology.objects[o.parent].index == o.parent for o in topology.objects[1:])


def test_every_object_is_listed_by_its_parent_exactly_once():
    topology = reader.load_synthetic("package:2 numa:2 core:2 pu:2")
    for obj in topology.objects[1:]:
        parent = topology.objects[obj.parent]
        lists = (*parent.children, *parent.memory_children, *parent.io_children, *parent.misc_children)
        assert lists.count(obj.index) == 1
    assert sum(1 for _ in topology.below(topology.root)) == len(topology.objects) - 1


def test_exported_machine_reads_back_equal(tmp_path):
    path = tmp_path / "here.xml"
    path.write_bytes(reader.export_this_machine())
    here, again = reader.load_this_machine(), reader.load_xml(path)
    assert [(o.kind, o.os_index, o.cpuset) for o in here.objects if o.kind != "Misc"] == [
        (o.kind, o.os_index, o.cpuset) for o in again.objects if o.kind != "Misc"
    ]


def refused(path: Path, words: str) -> None:
    with pytest.raises(MachineError) as error:
        reader.load_xml(path)
    assert words in str(error.value)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"   \n\n", "is empty"),
        (b"not xml at all", "not well-formed XML"),
        (b"<html><body/></html>", "not hwloc's <topology>"),
        (b'<?xml version="1.0"?><topology version="2.0"></topology>', "holds no object"),
        (b'<topology version="2.0"><object type="Machine"', "truncated"),
        (b'<!DOCTYPE topology [<!ENTITY a "b">]><topology><object type="Machine"/></topology>', "entity"),
        (b'<topology version="3.0"><object type="Machine"/></topology>', "hwloc 3 reads"),
        (b'<topology version="9.1"><object type="Machine"/></topology>', "hwloc 9 reads"),
        (b'<topology version="2.0"><object type="Nonsense"/></topology>', "libhwloc"),
        (b"\x00\x01\x02\xff" * 100, "not well-formed XML"),
    ],
)
def test_unusable_file_is_an_error_that_names_the_reason(tmp_path, content, words):
    if words == "hwloc 3 reads" and MAJOR >= 3:
        pytest.skip("libhwloc 3 reads format 3")
    path = tmp_path / "machine.xml"
    path.write_bytes(content)
    refused(path, words)


def test_missing_file_and_directory_are_errors(tmp_path):
    refused(tmp_path / "none.xml", "cannot be read")
    refused(tmp_path, "is a directory")


def test_endless_device_and_impossible_name_are_refused(tmp_path):
    refused(Path("/dev/zero"), "more than any topology")
    with pytest.raises(MachineError, match="cannot be read"):
        reader.load_xml("a\0b.xml")


def test_huge_file_is_refused(tmp_path):
    path = tmp_path / "huge.xml"
    with path.open("wb") as stream:
        stream.truncate(65 * 1024 * 1024)
    refused(path, "more than any topology")


def test_a_refused_file_leaves_stderr_silent(tmp_path):
    path = tmp_path / "machine.xml"
    inside = '<object type="Machine" cpuset="zz"><object type="Nonsense"/></object>'
    path.write_text(f'<topology version="2.0">{inside}</topology>')
    code = "from slurm_topo.hwloc import reader\n"
    code += f"try: reader.load_xml({str(path)!r})\nexcept Exception as e: print(e)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stderr == ""
    assert str(path) in done.stdout


def test_environment_is_the_same_after_a_load():
    before = dict(os.environ)
    reader.load_synthetic("core:2 pu:1")
    assert dict(os.environ) == before


def load(shared_data, name):
    return reader.load_xml(shared_data / "data" / "hwloc" / f"{name}.xml")


def test_sparse_numa_indices_are_os_indices(shared_data):
    topology = load(shared_data, "mpibind__coral-lassen")
    assert [n.os_index for n in kinds(topology, "NUMANode")] == [0, 8]
    assert bits(topology.offline_cpuset) == [*range(8), *range(88, 96)]


def test_pci_link_and_address_are_read(shared_data):
    topology = load(shared_data, "other__flux-core__ipa20")
    gpu = next(o for o in kinds(topology, "PCIDev") if o.pci.address == "0000:4e:00.0")
    assert (gpu.pci.vendor, gpu.pci.class_id) == (0x10DE, 0x0302)
    assert gpu.pci.link_gbs == pytest.approx(63.0, abs=0.1)
    assert [topology.objects[p.index].bridge.host for p in topology.parents(gpu) if p.kind == "Bridge"][-1]


def test_distance_matrices_keep_their_names_and_objects(shared_data):
    topology = load(shared_data, "other__flux-core__tuo.SPX")
    assert [d.name for d in topology.distances] == ["NUMALatency", "XGMIBandwidth", "XGMIHops"]
    bandwidth = topology.distances[1]
    assert bandwidth.means == "bandwidth"
    assert [topology.objects[i].name for i in bandwidth.objects] == ["rsmi0", "rsmi1", "rsmi2", "rsmi3"]
    assert all(len(row) == 4 for row in bandwidth.values)


def test_memory_side_caches_memory_kinds_and_attributes_are_read(shared_data):
    assert len(kinds(load(shared_data, "from-fsroot__memorysidecaches"), "MemCache")) == 4
    tiers = load(shared_data, "from-fsroot__fakeheteromemtiers")
    assert len(kinds(tiers, "NUMANode")) == 7
    bandwidth = next(a for a in tiers.memory_attributes if a.name == "Bandwidth")
    assert len({v.target for v in bandwidth.values}) == 7
    assert all(v.value > 0 and v.initiator for v in bandwidth.values)


def test_kinds_of_cpu_are_ranked(shared_data):
    kinds_of_cpu = load(shared_data, "from-fsroot__20em64t-hybrid-1p6c2t+2ca4co1t").cpu_kinds
    assert [(k.cpuset.bit_count(), k.efficiency) for k in kinds_of_cpu] == [(8, 0), (12, 1)]


def test_xml_on_which_libhwloc_crashes_is_an_error(tmp_path, monkeypatch):
    import signal

    path = tmp_path / "machine.xml"
    path.write_bytes(reader.export_this_machine())
    parent = os.getpid()
    real = reader.Handle

    def crash(*args, **kwargs):
        if os.getpid() != parent:
            os.kill(os.getpid(), signal.SIGSEGV)
        return real(*args, **kwargs)

    monkeypatch.setattr(reader, "Handle", crash)
    refused(path, "libhwloc cannot survive it")


def two_pus(**change: str) -> bytes:
    """Hand-made XML of a machine with two PUs, with some words replaced."""
    sets = {"root": "0x00000003", "pu0": "0x00000001", "pu1": "0x00000002", "index1": "1", **change}
    nodes = 'nodeset="0x00000001" complete_nodeset="0x00000001"'

    def one(kind: str, index: str, cpuset: str, inside: str = "", more: str = "") -> str:
        sets = f'cpuset="{cpuset}" complete_cpuset="{cpuset}" {nodes} {more}'
        return f'<object type="{kind}" os_index="{index}" {sets}>{inside}</object>'

    pus = one("PU", "0", sets["pu0"], more='gp_index="3"') + one(
        "PU", sets["index1"], sets["pu1"], more='gp_index="4"'
    )
    memory = one("NUMANode", "0", sets["root"], more='local_memory="1024" gp_index="2"')
    more = f'allowed_cpuset="{sets["root"]}" allowed_nodeset="0x00000001" gp_index="1"'
    return (
        f'<topology version="2.0">{one("Machine", "0", sets["root"], memory + pus, more)}</topology>'.encode()
    )


def test_hand_made_xml_loads():
    assert [o.kind for o in reader.load_xml_bytes(two_pus(), "x").objects] == [
        "Machine",
        "PU",
        "PU",
        "NUMANode",
    ]


@pytest.mark.parametrize(
    "change",
    [
        {"pu1": "0x00000001"},
        {"pu1": "0x00000004"},
        {"pu1": "0x00000003"},
        {"index1": "0"},
        {"index1": "7"},
        {"root": "0x00000007"},
    ],
)
def test_objects_that_contradict_each_other_are_refused(change):
    with pytest.raises(MachineError, match=r"damaged|cannot load|no topology"):
        reader.load_xml_bytes(two_pus(**change), "x")


def test_every_recorded_file_cut_at_any_line_is_refused(shared_data):
    cuts = 0
    for path in sorted((shared_data / "data" / "hwloc").glob("*.xml")):
        lines = path.read_bytes().splitlines(keepends=True)
        # The last line alone may be blank.
        for length in range(0, len(lines) - 1, max(len(lines) // 50, 1)):
            with pytest.raises(MachineError) as error:
                reader.load_xml_bytes(b"".join(lines[:length]), "cut.xml")
            assert "\n" not in str(error.value)
            cuts += 1
    assert cuts > 1000
