"""Cluster descriptions: reading, writing, allocations, irregular fabrics, bad input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_topo.errors import InputError, MachineError
from slurm_topo.hwloc import reader
from slurm_topo.machine import (
    Fabric,
    NodeShape,
    Switch,
    build_cluster,
    default_level,
    read_cluster,
    read_machine,
    write_cluster,
)
from slurm_topo.machine.clusterfile import cluster_json, ordered_hostlist, parse_cluster
from slurm_topo.model import Level
from slurm_topo.units import expand_hostlist

LEAVES = (
    Switch("leaf1", ("n1", "n2")),
    Switch("leaf2", ("n3", "n4")),
    Switch("root", (), ("leaf1", "leaf2")),
)


def four_nodes(**kwargs):
    shapes = [NodeShape(f"n{i}", 2, 2, 1) for i in range(1, 5)]
    return build_cluster(shapes, LEAVES, **kwargs)


def names(machine):
    return [level.name for level in machine.levels]


def level_between(machine, a, b):
    """Name of the first level at which two cores meet."""
    return next(
        level.name
        for level, groups in zip(machine.levels, machine.groups, strict=True)
        if groups[a] == groups[b]
    )


def test_equal_nodes_share_one_class_and_one_shape():
    cluster = four_nodes()
    assert len(cluster.classes) == 1
    assert cluster.shape("n1") is cluster.shape("n4")


def test_whole_cluster_has_all_levels():
    machine = four_nodes().machine()
    assert names(machine) == ["package", "node", "switch", "switch2"]
    assert machine.node_names == ("n1", "n2", "n3", "n4")
    assert level_between(machine, 0, 2) == "node"
    assert level_between(machine, 0, 4) == "switch"
    assert level_between(machine, 0, 8) == "switch2"


def test_allocation_keeps_slurms_order_and_drops_levels_that_add_nothing():
    cluster = four_nodes()
    assert cluster.machine(["n3", "n1"]).node_names == ("n3", "n1")
    assert names(cluster.machine(["n3", "n1"])) == ["package", "node", "switch2"]
    assert names(cluster.machine(["n2", "n1"])) == ["package", "node", "switch"]
    assert names(cluster.machine(["n2"])) == ["package", "node"]


def test_cpus_of_the_job_cut_the_cores():
    machine = four_nodes().machine(["n1", "n2"], {"n1": [1, 2]})
    assert machine.pus == ((1,), (2,), (0,), (1,), (2,), (3,))
    assert machine.node.tolist() == [0, 0, 1, 1, 1, 1]
    assert level_between(machine, 0, 1) == "node"


def test_part_of_the_threads_of_a_core_is_kept_as_a_slot():
    cluster = build_cluster([NodeShape("n1", 1, 2, 2)])
    assert cluster.machine(["n1"], {"n1": [0, 1, 3]}).pus == ((0,), (1, 3))


@pytest.mark.parametrize(
    ("nodes", "cpus", "words"),
    [
        (["n9"], None, "node n9: not in"),
        (["n1", "n1"], None, "named twice"),
        ([], None, "has no node"),
        (["n1"], {"n1": [99]}, "node n1: CPU 99"),
        (["n1"], {"n1": []}, "no core"),
    ],
)
def test_impossible_allocations_are_errors(nodes, cpus, words):
    with pytest.raises(MachineError, match=words):
        four_nodes().machine(nodes, cpus)


def test_nodes_without_switch_meet_above_all_switches():
    shapes = [NodeShape(f"n{i}") for i in range(1, 4)]
    machine = build_cluster(shapes, [Switch("leaf", ("n1", "n2"))]).machine()
    assert level_between(machine, 0, 1) == "switch"
    assert level_between(machine, 0, 2) == "switch2"


def test_cluster_without_switches_has_one_above_all_nodes():
    machine = build_cluster([NodeShape("a"), NodeShape("b")]).machine()
    assert names(machine) == ["node", "switch"]


def test_several_roots_meet_one_tier_higher():
    shapes = [NodeShape(f"n{i}") for i in range(1, 5)]
    machine = build_cluster(shapes, LEAVES[:2]).machine()
    assert names(machine) == ["node", "switch", "switch2"]
    assert level_between(machine, 0, 2) == "switch2"


def test_leaf_that_hangs_higher_than_others_meets_where_its_parent_is():
    switches = [
        Switch("a", ("n1",)),
        Switch("b", ("n2",)),
        Switch("ab", (), ("a", "b")),
        Switch("c", ("n3",)),
        Switch("top", ("n4",), ("ab", "c")),
    ]
    machine = build_cluster([NodeShape(f"n{i}") for i in range(1, 5)], switches).machine()
    assert level_between(machine, 0, 1) == "switch2"
    assert level_between(machine, 0, 2) == "switch3"
    assert level_between(machine, 2, 3) == "switch3"


@pytest.mark.parametrize(
    ("switches", "words"),
    [
        ([Switch("a"), Switch("a")], "described twice"),
        ([Switch("a", (), ("b",))], "b below it is not described"),
        ([Switch("a", (), ("c",)), Switch("b", (), ("c",)), Switch("c")], "is below a and b"),
        ([Switch("a", ("n1",)), Switch("b", ("n1",))], "node n1: is below a and b"),
        ([Switch("a", (), ("b",)), Switch("b", (), ("a",))], "above itself"),
        ([Switch("a", (), ("a",))], "above itself"),
    ],
)
def test_switches_that_form_no_tree_are_refused(switches, words):
    with pytest.raises(MachineError, match=words):
        Fabric(switches)


def test_description_round_trips(tmp_path):
    cluster = four_nodes(name="lab", levels=[Level("switch", 2e-6, 3e-9, "measured")])
    path = tmp_path / "cluster.json"
    write_cluster(cluster, path)
    again = read_cluster(path)
    assert cluster_json(again) == path.read_text() == cluster_json(cluster)
    assert path.stat().st_mode & 0o777 == 0o644
    assert list(tmp_path.iterdir()) == [path]
    machine = again.machine(["n1", "n2"])
    assert machine.levels[-1] == Level("switch", 2e-6, 3e-9, "measured")
    assert machine.meta["costs"] == "assumed+measured"
    assert machine.meta["digest"] == again.digest


def test_node_keeps_its_measured_cost_where_the_merged_level_has_none():
    node = Level("node", 8e-6, 1 / 4e8, "measured")
    machine = build_cluster([NodeShape("n1", 1, 2, 1), NodeShape("n2", 1, 2, 1)], levels=[node]).machine()
    assert machine.levels[0] == node


def test_merged_level_takes_the_measured_cost_of_the_inner_one():
    levels = [Level("package", 1e-7, 1e-10, "measured")]
    machine = build_cluster([NodeShape("n1", 1, 4, 1)], levels=levels).machine()
    assert machine.levels == (Level("node", 1e-7, 1e-10, "measured"),)


TOML = """
format = "slurm-topo-cluster"
version = 1
name = "site"

[classes.thin]
sockets = 2
cores_per_socket = 16

[classes.fat]
synthetic = "package:2 numa:2 core:8 pu:2"

[[nodes]]
names = "thin[01-04]"
class = "thin"

[[nodes]]
names = "fat1"
class = "fat"

[[switches]]
name = "leaf"
nodes = "thin[01-04],fat1"

[[levels]]
name = "switch"
latency_s = 2e-6
bandwidth = 1e9
"""


def test_toml_is_read_like_json(tmp_path):
    path = tmp_path / "cluster.toml"
    path.write_text(TOML)
    machine = read_machine(str(path))
    assert machine.cores == 4 * 32 + 32
    assert machine.node_names[-1] == "fat1"
    assert machine.levels[-1] == Level("switch", 2e-6, 1e-9, "given")


def test_hwloc_class_is_resolved_once_and_again_when_the_file_changes(tmp_path):
    xml = tmp_path / "node.xml"
    xml.write_bytes(reader.export_this_machine())
    path = tmp_path / "cluster.json"
    document = {
        "format": "slurm-topo-cluster",
        "version": 1,
        "classes": {"a": {"hwloc": "node.xml"}},
        "nodes": [{"names": "n1", "class": "a"}],
    }
    path.write_text(json.dumps(document))
    first = read_cluster(path)
    write_cluster(first, path)
    resolved = json.loads(path.read_text())["classes"]["a"]
    assert resolved["hwloc"] == "node.xml"
    resolved["resolved"]["pus"] = [[7]]
    resolved["resolved"]["numa"] = [0]
    resolved["resolved"]["groups"] = {}
    path.write_text(json.dumps({**document, "classes": {"a": resolved}}))
    assert read_cluster(path).shape("n1").pus == ((7,),), "the resolved shape is used as it is"
    xml.write_bytes(xml.read_bytes() + b"<!-- captured again -->\n")
    assert read_cluster(path).shape("n1") == first.shape("n1"), "a changed file is resolved again"
    xml.unlink()
    assert read_cluster(path).shape("n1").pus == ((7,),), "a missing file leaves the resolved shape"


BASE = {
    "format": "slurm-topo-cluster",
    "version": 1,
    "classes": {"a": {"sockets": 1, "cores_per_socket": 2}},
    "nodes": [{"names": "n[1-2]", "class": "a"}],
}


def refused(document, words):
    data = document if isinstance(document, bytes) else json.dumps(document).encode()
    with pytest.raises(MachineError, match=words) as error:
        parse_cluster(data, "cluster.json", Path("."))
    assert str(error.value).startswith("cluster.json: ")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": "other"}, "is no cluster description"),
        ({"version": 2}, "is of version 2"),
        ({"colour": "red"}, "unknown key 'colour'"),
        ({"nodes": []}, "has no node"),
        ({"nodes": [{"names": "n1", "class": "b"}]}, "class 'b' is not described"),
        ({"nodes": [{"names": "n[1-", "class": "a"}]}, "bracket"),
        ({"nodes": [{"names": "n1,n1", "class": "a"}]}, "described twice"),
        ({"nodes": {"n1": "a"}}, "nodes is not a list"),
        ({"nodes": [{"names": 5, "class": "a"}]}, "names is missing or not a string"),
        ({"classes": {"a": {}}}, "give one of hwloc, synthetic"),
        ({"classes": {"a": {"sockets": 1, "cores_per_socket": 0}}}, "at least one"),
        ({"classes": {"a": {"sockets": "1"}}}, "not an integer"),
        ({"classes": {"a": {"sockets": True, "cores_per_socket": 1}}}, "not an integer"),
        ({"classes": {"a": {"synthetic": "rubbish:9"}}}, "not understood by hwloc"),
        ({"classes": {"a": {"hwloc": "missing.xml"}}}, "cannot be read"),
        ({"classes": []}, "classes is not a table"),
        ({"switches": [{"name": "s", "switches": "t"}]}, "t below it is not described"),
        ({"switches": [{"nodes": "n1"}]}, "name is missing"),
        ({"levels": [{"name": "rack", "latency_s": 1, "bandwidth": 1}]}, "level rack: unknown"),
        (
            {"levels": [{"name": "switch", "latency_s": -1, "bandwidth": 1}]},
            "latency_s is missing or no number",
        ),
        ({"levels": [{"name": "switch", "latency_s": 1, "bandwidth": 0}]}, "not above 0"),
        ({"levels": [{"name": "switch", "latency_s": 1}]}, "give one of bandwidth"),
        ({"levels": [{"name": "switch", "latency_s": 1, "bandwidth": 1, "origin": "x"}]}, "origin 'x'"),
    ],
)
def test_contradictions_are_errors_that_name_the_place(change, words):
    refused({**BASE, **change}, words)


RESOLVED = {"pus": [[0], [1]], "numa": [0, 0], "groups": {"l3": [0, 1], "package": [0, 0]}, "threads": 1}


@pytest.mark.parametrize(
    "change",
    [
        {"pus": [[0]]},
        {"pus": []},
        {"pus": [[0], ["1"]]},
        {"numa": "0,0"},
        {"groups": {"rack": [0, 0]}},
        {"groups": {"l3": [0, 0], "package": [0, 1]}},
        {"threads": "2"},
    ],
)
def test_damaged_resolved_shapes_are_refused(change):
    entry = {"hwloc": "gone.xml", "sha256": "0", "resolved": {**RESOLVED, **change}}
    refused({**BASE, "classes": {"a": entry}}, "class a, resolved")


def test_description_cut_at_any_byte_is_an_error_or_complete():
    data = cluster_json(four_nodes(name="lab")).encode()
    for length in range(len(data) - 2):
        with pytest.raises(MachineError):
            parse_cluster(data[:length], "cluster.json", Path("."))


def test_rubbish_is_refused(tmp_path):
    refused(b"", "not valid JSON")
    refused(b"[" * 100_000, "not valid JSON")
    refused(b"\xff\xfe\x00", "not valid JSON")
    refused([1, 2], "not a table")
    with pytest.raises(MachineError, match="cannot be read"):
        read_cluster(tmp_path / "none.json")


def test_unwritable_place_is_an_error_and_leaves_nothing(tmp_path):
    with pytest.raises(InputError, match="cannot be written"):
        write_cluster(four_nodes(), tmp_path / "missing" / "cluster.json")


@given(st.lists(st.from_regex(r"\A[a-c]{1,2}[0-9]{0,3}\Z"), unique=True, max_size=12))
def test_hostlists_keep_any_order(hosts):
    assert expand_hostlist(ordered_hostlist(hosts)) == hosts


def test_ten_thousand_nodes_share_what_is_equal():
    shapes = [NodeShape(f"n{i:05d}", 2, 64, 2) for i in range(10_000)]
    switches = [Switch(f"leaf{i}", tuple(s.name for s in shapes[i * 40 : i * 40 + 40])) for i in range(250)]
    cluster = build_cluster(shapes, switches)
    assert len(cluster.classes) == 1
    machine = cluster.machine()
    assert machine.cores == 1_280_000
    assert len({id(pus) for pus in machine.pus}) == 128
    assert machine.groups.nbytes < 30e6
    assert default_level("switch") in machine.levels
