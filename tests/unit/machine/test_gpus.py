"""GPUs of real nodes: what is near, how they are linked, and which of them ranks get."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from slurm_topo.cli.machine import machine
from slurm_topo.hwloc import reader
from slurm_topo.machine import NodeShape, build_cluster, read_cluster, write_cluster
from slurm_topo.machine.cluster import with_known_links
from slurm_topo.machine.devices import find_devices
from slurm_topo.machine.gpulinks import parse_topo_matrix
from slurm_topo.machine.gpus import NodeGpus, distances, with_links
from slurm_topo.placement.gpus import assign_gpus

# File -> number of GPUs.
NODES = {
    "mpibind__coral-lassen": 4,
    "mpibind__cts1-pascal": 2,
    "mpibind__eas-tioga": 8,
    "mpibind__g4dnmetal": 8,
    "other__flux-core__tuo.SPX": 4,
    "other__psmgmt__topo.jwb0004": 4,
    "other__psmgmt__topo.mel2001": 4,
    "openmpi-hwloc-v2__power8gpudistances": 4,
}
MATRIX = """\tGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity
GPU0\t X \tNV2\tPHB\tSYS\t0-3
GPU1\tNV2\t X \tSYS\tPHB\t4-7
GPU2\tPHB\tSYS\t X \tNV2\t0-3
GPU3\tSYS\tPHB\tNV2\t X \t4-7
"""


def entry_of(shared_data: Path, name: str):
    xml = shared_data / "data" / "hwloc" / f"{name}.xml"
    cluster = build_cluster([NodeShape("n", hwloc=str(xml))])
    return xml, cluster.shape("n"), cluster.gpus("n")


@pytest.mark.parametrize("name", sorted(NODES))
def test_one_rank_a_gpu_has_a_gpu_of_its_own_domain_where_every_domain_has_one(shared_data, name):
    xml, shape, gpus = entry_of(shared_data, name)
    assert gpus.count == NODES[name]
    devices = [d for d in find_devices(reader.load_xml(xml)) if d.kind == "gpu"]
    # A rank on the first core next to each GPU, the last GPU's first.
    near = [[c for c, pus in enumerate(shape.pus) if set(pus) & set(own)] for own in gpus.pus]
    assert [bool(d.numa) for d in devices] == [bool(own) for own in near]
    ranks = [own[i % len(own)] if own else 0 for i, own in enumerate(near)][::-1]
    far = np.array(distances(shape, gpus, [shape.pus[c] for c in ranks]))
    found = assign_gpus(far, None, np.array(gpus.links))
    assert sorted(found) == [(g,) for g in range(gpus.count)]
    assert all(far[r, g] == 0 for r, (g,) in enumerate(found))


@pytest.mark.parametrize("name", sorted(NODES))
def test_description_keeps_what_hwloc_knows(shared_data, tmp_path, name):
    xml, _, gpus = entry_of(shared_data, name)
    write_cluster(build_cluster([NodeShape("n", hwloc=str(xml))]), tmp_path / "c.json")
    assert read_cluster(tmp_path / "c.json").gpus("n") == gpus


def test_gpus_of_lassen_are_linked_best_below_one_socket(shared_data):
    _, shape, gpus = entry_of(shared_data, "mpibind__coral-lassen")
    links = np.array(gpus.links)
    assert links[0, 1] == links[2, 3] > links[0, 2]
    assert distances(shape, gpus, shape.pus[:1]) == [[0, 0, len(shape.groups) + 1, len(shape.groups) + 1]]


def test_other_number_of_gpus_in_slurm_overrules_hwloc(shared_data):
    xml, shape, _ = entry_of(shared_data, "mpibind__cts1-pascal")
    last = shape.cores - 1
    cluster = build_cluster([NodeShape("n", hwloc=str(xml), gpus=((0,), (last,), (last,)))])
    assert cluster.gpus("n") == NodeGpus((shape.pus[0], shape.pus[last], shape.pus[last]))


def test_links_of_the_driver_are_added_to_slurms_gpus():
    (gpus,) = {build_cluster([NodeShape("n", 2, 4, 1, gpus=((),) * 4)]).gpus("n")}
    found = with_links(gpus, parse_topo_matrix(MATRIX))
    assert found.pus == ((0, 1, 2, 3), (4, 5, 6, 7)) * 2
    assert found.links[0][1] > found.links[0][2] > found.links[0][3] > 0
    assert with_links(NodeGpus(((),)), parse_topo_matrix(MATRIX)) == NodeGpus(((),))


def test_import_of_nodes_gres_conf_and_links_makes_one_description(tmp_path):
    (tmp_path / "nodes").write_text(
        "NodeName=n1 Arch=x CoresPerSocket=4 Gres=gpu:4(S:0-1) Sockets=2 ThreadsPerCore=1\n"
    )
    (tmp_path / "gres.conf").write_text(
        "NodeName=n1 Name=gpu File=/dev/nvidia[0,2] Cores=0-3\n"
        "NodeName=n1 Name=gpu File=/dev/nvidia[1,3] Cores=4-7\n"
    )
    (tmp_path / "links").write_text(MATRIX)
    files = [str(tmp_path / name) for name in ("nodes", "gres.conf", "links")]
    run = CliRunner().invoke(machine, ["import", *files, "-o", str(tmp_path / "c.json")])
    assert run.exit_code == 0, run.output
    (entry,) = json.loads((tmp_path / "c.json").read_text())["classes"].values()
    assert entry["gpus"]["pus"] == ["0-3", "0-3", "4-7", "4-7"]
    assert entry["gpus"]["links"][0][1] == entry["gpus"]["links"][1][0] > entry["gpus"]["links"][0][3]


def test_description_shows_how_many_gpus_its_nodes_have(tmp_path):
    write_cluster(
        build_cluster([NodeShape("a", 2, 4, 1, gpus=((0,), (4,), (4,))), NodeShape("b", 2, 4, 1)]),
        tmp_path / "c.json",
    )
    run = CliRunner().invoke(machine, ["show", str(tmp_path / "c.json"), "--format", "json"])
    assert [c["gpus"] for c in json.loads(run.output)["classes"]] == [3, 0]


def test_known_links_stay_when_a_description_is_made_anew():
    fresh = build_cluster([NodeShape(n, 2, 4, 1, gpus=((0,), (4,), (0,), (4,))) for n in ("a", "b")])
    known = with_links(fresh.gpus("a"), parse_topo_matrix(MATRIX))
    before = replace(fresh, classes={k: replace(v, gpus=known) for k, v in fresh.classes.items()})
    assert with_known_links(fresh, before).gpus("b") == known
    assert with_known_links(fresh, fresh).gpus("b") == fresh.gpus("b")
