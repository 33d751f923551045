"""Places of N equal workers: as even over memory and as near to GPUs as mpibind publishes, or better."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_topo.cli.machine import machine
from slurm_topo.errors import MachineError
from slurm_topo.hwloc import bits, reader
from slurm_topo.machine.devices import find_devices
from slurm_topo.machine.workers import spread_workers

MPIBIND = ("mpibind__coral-lassen", "mpibind__cts1-pascal", "mpibind__eas-tioga", "mpibind__g4dnmetal")


def load(shared_data, name):
    return reader.load_xml(shared_data / "data" / "hwloc" / f"{name}.xml")


# What mpibind's test suite expects of coral-lassen: workers -> (first PU, GPUs) of each.
LASSEN = {
    1: [(8, (0, 1, 2, 3))],
    2: [(8, (0, 1)), (96, (2, 3))],
    40: [(8 + 4 * i if i < 20 else 96 + 4 * (i - 20), (i // 10,)) for i in range(40)],
}


@pytest.mark.parametrize("count", sorted(LASSEN))
def test_published_mapping_of_lassen_is_met(shared_data, count):
    workers = spread_workers(load(shared_data, "mpibind__coral-lassen"), count)
    found = [(w.pus[0], tuple(int(g[3:]) for g in w.gpus)) for w in workers]
    assert found == LASSEN[count]


@pytest.mark.parametrize("name", MPIBIND)
def test_every_number_of_workers_is_even_near_and_disjoint(shared_data, name):
    topology = load(shared_data, name)
    near = {d.label: set(d.numa) for d in find_devices(topology) if d.kind == "gpu"}
    domains = [n.os_index for n in topology.of_kind("NUMANode")]
    cores = len(topology.of_kind("Core"))
    for count in range(1, cores + 1):
        workers = spread_workers(topology, count)
        assert [w.index for w in workers] == list(range(count))
        used = [core for w in workers for core in w.cores]
        assert sorted(used) == list(range(cores)), "every core once"
        by_domain = Counter(n for w in workers for n in w.numa)
        assert set(by_domain) == set(domains), "no memory domain idle"
        if count >= len(domains):
            assert max(by_domain.values()) - min(by_domain.values()) <= 1
        sizes = [len(w.cores) for w in workers]
        if count % len(domains) == 0:
            assert max(sizes) - min(sizes) <= 1
        served = Counter(g for w in workers for g in w.gpus)
        assert set(served) == set(near), "no GPU idle"
        for worker in workers:
            assert worker.gpus
            if any(nodes & set(worker.numa) for nodes in near.values()):
                assert all(near[g] & set(worker.numa) for g in worker.gpus), "only GPUs of its domain"


def test_gpus_are_shared_out_fairly_within_a_domain(shared_data):
    workers = spread_workers(load(shared_data, "mpibind__eas-tioga"), 8)
    assert sorted(g for w in workers for g in w.gpus) == [f"gpu{i}" for i in range(8)]
    workers = spread_workers(load(shared_data, "mpibind__eas-tioga"), 16)
    assert set(Counter(g for w in workers for g in w.gpus).values()) == {2}


def test_domain_without_gpu_gets_the_nearest_one(shared_data):
    topology = load(shared_data, "other__flux-core__ipa20")
    workers = spread_workers(topology, 8)
    packages = {
        bits(n.cpuset)[0] < 56 or 112 <= bits(n.cpuset)[0] < 168: n for n in topology.of_kind("NUMANode")
    }
    assert len(packages) == 2
    # gpu0 and gpu1 hang on the first package (NUMA 0-3), gpu2 and gpu3 on the second.
    for worker in workers:
        (gpu,) = worker.gpus
        assert (gpu in ("gpu0", "gpu1")) == (worker.numa[0] < 4)


def test_workers_beyond_the_cores_share_them_by_hardware_threads():
    topology = reader.load_synthetic("package:2 core:2 pu:2")
    workers = spread_workers(topology, 8)
    assert sorted(w.pus for w in workers) == [(i,) for i in range(8)]
    with pytest.raises(MachineError, match="room for 1 to 8"):
        spread_workers(topology, 9)
    with pytest.raises(MachineError, match="room for 1 to 8"):
        spread_workers(topology, 0)


@settings(max_examples=80, deadline=None)
@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 5), st.integers(1, 2), st.integers(1, 100))
def test_any_node_places_any_number_without_doubles(packages, numa, cores, pus, count):
    topology = reader.load_synthetic(f"package:{packages} numa:{numa} core:{cores} pu:{pus}")
    room = packages * numa * cores * pus
    count = min(count, room)
    workers = spread_workers(topology, count)
    used = [pu for w in workers for pu in w.pus]
    assert len(used) == len(set(used))
    assert all(w.pus for w in workers)
    by_domain = Counter(n for w in workers for n in w.numa)
    assert len(by_domain) == packages * numa
    assert max(by_domain.values()) - min(by_domain.values()) <= 1


def test_show_adds_workers_to_table_and_json(shared_data):
    xml = str(shared_data / "data" / "hwloc" / "mpibind__coral-lassen.xml")
    table = CliRunner().invoke(machine, ["show", xml, "--workers", "4"]).output
    assert "gpu3" in table.splitlines()[-1]
    document = json.loads(
        CliRunner().invoke(machine, ["show", xml, "--workers", "4", "--format", "json"]).output
    )
    assert [w["gpus"] for w in document["workers"]] == [["gpu0"], ["gpu1"], ["gpu2"], ["gpu3"]]
    failed = CliRunner().invoke(machine, ["show", xml, "--workers", "0"])
    assert isinstance(failed.exception, MachineError)
