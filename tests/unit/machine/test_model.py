"""Machine models of single nodes: levels, nesting, slots, costs."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_topo.errors import MachineError
from slurm_topo.hwloc import reader
from slurm_topo.machine import default_level, machine_digest, read_machine
from slurm_topo.machine.build import build_machine
from slurm_topo.machine.levels import switch_level
from slurm_topo.machine.local import node_class
from slurm_topo.machine.shape import from_counts


def names(machine):
    return [level.name for level in machine.levels]


def sizes(machine):
    return [int(row.max()) + 1 for row in machine.groups]


def well_formed(machine):
    """What every consumer relies on: nested groups, one root, a column for each core."""
    assert machine.groups.dtype == np.int32
    assert machine.groups.shape == (len(machine.levels), machine.cores)
    assert len(machine.pus) == len(machine.numa) == len(machine.node) == machine.cores
    assert set(machine.groups[-1]) == {0}
    for fine, coarse in pairwise(machine.groups):
        assert len(set(zip(fine.tolist(), coarse.tolist(), strict=True))) == len(set(fine.tolist()))
    latency = [level.latency_s for level in machine.levels]
    per_byte = [level.seconds_per_byte for level in machine.levels]
    assert latency == sorted(latency)
    assert per_byte == sorted(per_byte)


def test_all_levels_of_a_deep_node_are_kept():
    machine = read_machine("package:2 numa:2 l3:2 core:4 pu:2")
    assert names(machine) == ["l3", "numa", "package", "node"]
    assert sizes(machine) == [8, 4, 2, 1]
    assert machine.pus[1] == (2, 3)
    assert machine.numa.tolist() == [0] * 8 + [1] * 8 + [2] * 8 + [3] * 8
    well_formed(machine)


@pytest.mark.parametrize(
    ("text", "levels"),
    [
        ("package:2 die:4 l3:2 core:4 pu:2", {"l3": 16, "die": 8, "package": 2, "node": 1}),
        # Dies with memory of their own are NUMA nodes, dies with one cache are that cache.
        ("package:2 die:2 numa:1 core:4 pu:1", {"numa": 4, "package": 2, "node": 1}),
        ("package:2 die:2 l3:1 core:4 pu:1", {"l3": 4, "package": 2, "node": 1}),
        ("package:2 die:2 numa:2 core:2 pu:1", {"numa": 8, "package": 2, "node": 1}),
        # One memory and one cache over all dies of a package: the cache is in slices.
        ("package:2 [numa] die:3 core:4 pu:1", {"die": 6, "numa": 2, "node": 1}),
        ("package:2 l3:1 die:3 core:4 pu:1", {"die": 6, "package": 2, "node": 1}),
        ("package:2 die:1 core:4 pu:1", {"package": 2, "node": 1}),
    ],
)
def test_dies_are_a_level_where_a_package_has_several(text, levels):
    machine = read_machine(text)
    found = dict(zip(names(machine), sizes(machine), strict=True))
    assert found == levels
    well_formed(machine)


def test_hardware_threads_are_slots_on_request():
    machine = read_machine("package:2 core:2 pu:2", "pu")
    assert names(machine) == ["core", "package", "node"]
    assert machine.pus == tuple((i,) for i in range(8))
    well_formed(machine)


def test_levels_that_add_nothing_collapse_and_node_keeps_the_inner_cost():
    machine = read_machine("package:1 numa:1 l3:1 core:4 pu:1")
    assert names(machine) == ["node"]
    assert machine.levels[0].latency_s == default_level("l3").latency_s


def test_a_cache_that_spans_numa_nodes_gives_way(shared_data):
    machine = read_machine(str(shared_data / "data/hwloc/other__flux-core__ipa20.xml"))
    assert names(machine) == ["numa", "package", "node"]
    assert sizes(machine) == [8, 2, 1]


def test_every_recorded_machine_gives_a_well_formed_model(shared_data):
    seen = 0
    for path in sorted((shared_data / "data" / "hwloc").glob("*.xml")):
        try:
            topology = reader.load_xml(path)
        except MachineError:
            continue
        seen += 1
        for slots in ("core", "pu"):
            well_formed(build_machine([""], [node_class(topology)], [], {}, slots))
    assert seen >= 20


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 4), min_size=4, max_size=4), st.sampled_from(["core", "pu"]))
def test_any_synthetic_node_gives_a_well_formed_model(arity, slots):
    package, numa, cores, pus = arity
    machine = read_machine(f"package:{package} numa:{numa} core:{cores} pu:{pus}", slots)
    well_formed(machine)
    assert machine.cores == package * numa * cores * (pus if slots == "pu" else 1)
    assert names(machine)[-1] == "node"


def test_cores_without_local_numa_node_are_marked(shared_data):
    machine = read_machine(str(shared_data / "data/hwloc/from-fsroot__offline-cpu0-node0.xml"))
    assert set(machine.numa.tolist()) == {-1, 1}


def test_home_of_a_core_is_ordinary_memory(shared_data):
    machine = read_machine(str(shared_data / "data/hwloc/from-fsroot__fakeheteromemtiers.xml"))
    # DRAM before HBM and NVM; HBM before NVM where there is no DRAM.
    assert machine.numa.tolist() == [0, 0, 1, 1, 2, 2]


def test_abstract_cpus_of_slurm_are_mapped_by_logical_order(shared_data):
    shape = node_class(reader.load_xml(shared_data / "data/hwloc/from-fsroot__memorysidecaches.xml"))
    assert shape.os_cpus([0, 1, 2, 3]) == [0, 4, 40, 44]
    assert shape.os_cpus_of_cores([0, 20]) == [0, 1, 40, 41]
    with pytest.raises(MachineError, match="CPU 80: the node has 80"):
        shape.os_cpus([80])
    with pytest.raises(MachineError, match="core 40"):
        shape.os_cpus_of_cores([40])


def test_digest_names_the_model():
    one, two = (read_machine("package:2 core:4 pu:1") for _ in range(2))
    assert machine_digest(one) == machine_digest(two)
    assert machine_digest(one) != machine_digest(read_machine("package:2 core:8 pu:1"))
    assert len(machine_digest(one)) == 16


def test_defaults_rise_from_level_to_level_and_are_marked():
    order = ["core", "l2", "l3", "numa", "package", "node", *(switch_level(h) for h in range(1, 8))]
    levels = [default_level(name) for name in order]
    assert {level.origin for level in levels} == {"assumed"}
    for attribute in ("latency_s", "seconds_per_byte"):
        values = [getattr(level, attribute) for level in levels]
        assert all(a < b for a, b in pairwise(values))
    with pytest.raises(MachineError, match="known are"):
        default_level("rack")


@pytest.mark.parametrize("counts", [(0, 4, 1), (2, -1, 1), (1, 1, 0), (70_000, 1, 1)])
def test_impossible_counts_are_refused(counts):
    with pytest.raises(MachineError):
        from_counts(*counts)


@pytest.mark.parametrize("text", ["/no/such/file.xml", "none.json", "no-machine", "", "core:x"])
def test_text_that_names_no_machine_is_an_error_of_one_line(text):
    with pytest.raises(MachineError) as error:
        read_machine(text)
    assert "\n" not in str(error.value)


def test_a_launch_without_xml_loads_neither_libhwloc_nor_networkx(tmp_path):
    path = tmp_path / "cluster.json"
    path.write_text(
        '{"format": "slurm-topo-cluster", "version": 1, "nodes": [{"names": "n[1-2]", "class": "a"}],'
        ' "classes": {"a": {"sockets": 1, "cores_per_socket": 2}}}'
    )
    # What slurm_topo.cli.launch imports: a launch pays for every module.
    code = (
        "import sys; import slurm_topo.slurm.allocation, slurm_topo.slurm.launch, slurm_topo.trace.graph_io;"
        "from slurm_topo.machine import read_machine;"
        f"print(read_machine({str(path)!r}).cores,"
        "*[name in sys.modules for name in ('networkx', 'scipy', 'slurm_topo.hwloc._hwloc',"
        " 'slurm_topo.hwloc.topology', 'slurm_topo.machine.fabrics')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == ["4", *["False"] * 5]


def test_cores_with_different_numbers_of_threads_are_counted_thread_by_thread(shared_data):
    name = "from-fsroot__20em64t-hybrid-1p6c2t+2ca4co1t"
    shape = node_class(reader.load_xml(shared_data / "data" / "hwloc" / f"{name}.xml"))
    assert shape.os_cpus(range(20)) == list(range(20))
    assert shape.os_cpus([11, 12]) == [11, 12]
    assert shape.os_cpus_of_cores([5, 6]) == [10, 11, 12]
