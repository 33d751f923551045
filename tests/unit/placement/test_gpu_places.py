"""``place --gpus``: ranks that exchange most share the best links of real and of small machines."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from graphs import cliques, graph_of, shuffled

from slurm_topo.cli.place import place as place_command
from slurm_topo.cli.place_input import read_gpu_machine
from slurm_topo.errors import MachineError
from slurm_topo.machine import read_cluster, write_cluster
from slurm_topo.machine.gpulinks import parse_topo_matrix
from slurm_topo.machine.gpus import gpus_of_matrix
from slurm_topo.placement.cost import cost
from slurm_topo.placement.solve import place
from slurm_topo.trace import write_graph

NVLINK, PCIE = 50.0, 10.0


def cluster_file(folder: Path, nodes: str = "n[1-2]", **more: object) -> Path:
    """Nodes of two pairs of GPUs, each pair linked well; the adapter of the second pair is slow."""
    links = [[0 if i == j else NVLINK if i // 2 == j // 2 else PCIE for j in range(4)] for i in range(4)]
    nics = [["mlx5_0", 25.0]] * 2 + [["mlx5_1", 0.5]] * 2
    gpus = {"pus": ["0-3", "0-3", "4-7", "4-7"], "links": links, "nics": nics, **more}
    classes = {"c": {"sockets": 2, "cores_per_socket": 4, "gpus": gpus}}
    file = folder / "cluster.json"
    document = {"format": "slurm-topo-cluster", "version": 1, "classes": classes}
    file.write_text(json.dumps({**document, "nodes": [{"names": nodes, "class": "c"}]}))
    return file


def test_costs_are_those_of_the_links_and_the_adapters(tmp_path: Path) -> None:
    machine, places = read_gpu_machine(str(cluster_file(tmp_path)), None)
    assert machine.distances is not None
    matrix = machine.distances.seconds_per_byte
    assert [(p.node, p.gpu, p.nic) for p in places][:4] == [
        (0, 0, "mlx5_0"), (0, 1, "mlx5_0"), (0, 2, "mlx5_1"), (0, 3, "mlx5_1")
    ]  # fmt: skip
    assert len({p.core for p in places}) == 8
    assert [p.core // 4 for p in places] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert matrix[0, 1] == pytest.approx(1e-9 / NVLINK)
    assert matrix[1, 2] == pytest.approx(1e-9 / PCIE)
    # Eight cores of 0.8 GB/s each are 1.6 GB/s for each of four GPUs, unless an adapter is slower.
    assert matrix[0, 4] == pytest.approx(1e-9 / 1.6)
    assert matrix[0, 6] == matrix[2, 6] == pytest.approx(1e-9 / 0.5)


def test_groups_that_reduce_together_are_linked_best(tmp_path: Path) -> None:
    machine, places = read_gpu_machine(str(cluster_file(tmp_path)), None)
    graph = shuffled(cliques(4, 2), 5)
    placement = place(graph, machine)
    assert placement.cost == pytest.approx(graph.nbytes.sum() * 1e-9 / NVLINK)
    for u, v in zip(graph.source, graph.target, strict=True):
        a, b = (places[placement.core_of_rank[rank]] for rank in (u, v))
        assert (a.node, a.gpu // 2) == (b.node, b.gpu // 2)


def test_ranks_that_talk_to_another_node_get_the_quick_adapter(tmp_path: Path) -> None:
    machine, places = read_gpu_machine(str(cluster_file(tmp_path)), None)
    # Four ranks exchange all with all, a pair of them with a pair of the other four.
    pairs = [(a + g, b + g, 10.0) for g in (0, 4) for a, b in itertools.permutations(range(4), 2)]
    graph = graph_of([*pairs, (1, 6, 5.0), (6, 1, 5.0)], 8)
    cores = place(graph, machine).core_of_rank
    assert {places[cores[rank]].nic for rank in (1, 6)} == {"mlx5_0"}


def test_adapters_survive_the_description(tmp_path: Path) -> None:
    cluster = read_cluster(cluster_file(tmp_path))
    write_cluster(cluster, tmp_path / "again.json")
    again = read_cluster(tmp_path / "again.json").gpus("n1")
    assert again == cluster.gpus("n1")
    assert again is not None
    assert again.nics[3] == ("mlx5_1", 0.5)


@pytest.mark.parametrize("nics", [[["a", 1]], [["a"]] * 4, [[1, 1]] * 4, [["a", -1]] * 4, "mlx5_0"])
def test_adapters_that_cannot_be_are_refused(nics: object, tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="nics is a list"):
        read_cluster(cluster_file(tmp_path, nics=nics))


def test_the_command_names_gpus_and_adapters(tmp_path: Path) -> None:
    write_graph(shuffled(cliques(4, 2)), tmp_path / "g.npz")
    files = ["--graph", str(tmp_path / "g.npz"), "--machine", str(cluster_file(tmp_path)), "--gpus"]
    place_command.main([*files, "--format", "json", "-o", str(tmp_path / "out")], standalone_mode=False)
    result = json.loads((tmp_path / "out").read_text())
    assert sorted((p["node"], p["gpu"]) for p in result["gpus"]) == [
        (node, gpu) for node in ("n1", "n2") for gpu in range(4)
    ]
    assert all(p["nic"] == ("mlx5_0" if p["gpu"] < 2 else "mlx5_1") for p in result["gpus"])


def test_machines_without_gpus_are_refused(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="has no devices"):
        read_gpu_machine("package:2 core:4", None)


def test_on_a_real_machine_pairs_get_double_links(shared_data: Path, tmp_path: Path) -> None:
    file = shared_data / "data" / "gpu-topo" / "V100x8_alt-cabling_mixed-tabs-spaces_misaligned.txt"
    if not file.exists():
        pytest.skip("no recorded topologies here")
    gpus = gpus_of_matrix(parse_topo_matrix(file.read_text()))
    links = np.array(gpus.links)
    best = {(i, j) for i, j in itertools.combinations(range(8), 2) if links[i, j] == links.max()}
    text = [",".join(str(pu) for pu in near) for near in gpus.pus]
    document = json.loads(cluster_file(tmp_path, "n1").read_text())
    cores = max((max(near, default=0) for near in gpus.pus), default=0) + 1
    document["classes"]["c"] = {"sockets": 1, "cores_per_socket": max(cores, 8), "gpus": {"pus": text}}
    (tmp_path / "cluster.json").write_text(json.dumps(document))
    machine, places = read_gpu_machine(str(tmp_path / "cluster.json"), str(file))
    graph = shuffled(cliques(4, 2), 3)
    placement = place(graph, machine)
    used = {
        tuple(sorted(places[placement.core_of_rank[r]].gpu for r in (u, v)))
        for u, v in zip(graph.source, graph.target, strict=True)
    }
    assert len(used) == 4
    assert used <= best
    assert placement.cost == cost(graph, machine, placement.core_of_rank)
