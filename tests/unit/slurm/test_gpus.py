"""GPUs from GRES and gres.conf, through the cluster description, into plans."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_topo.errors import MachineError
from slurm_topo.machine import NodeShape, build_cluster
from slurm_topo.machine.clusterfile import cluster_json, parse_cluster
from slurm_topo.model import CommGraph
from slurm_topo.slurm.allocation import Allocation, read_allocation
from slurm_topo.slurm.gpus import owned_gpus, with_gpus
from slurm_topo.slurm.gres import job_gpus, node_gpus, parse_gres_conf
from slurm_topo.slurm.plan import Plan, RankPlace
from slurm_topo.slurm.scontrol import parse_nodes, with_gres_conf

GRES_CONF = """# two kinds of nodes
AutoDetect=off
NodeName=g[1-2] Name=gpu Type=a100 File=/dev/nvidia[0-1] Cores=4-7
NodeName=g[1-2] Name=gpu Type=a100 File=/dev/nvidia[2-3] \\
  Cores=0-3  # near the first socket
Name=gpu Count=2
Name=nvme File=/dev/nvme0
"""


def graph_of(ranks: int, pairs: dict[tuple[int, int], float]) -> CommGraph:
    source, target = (np.array([p[i] for p in sorted(pairs)], dtype=np.int32) for i in (0, 1))
    nbytes = np.array([pairs[p] for p in sorted(pairs)])
    return CommGraph(ranks, source, target, nbytes, nbytes * 0, nbytes * 0)


def allocation_of(**gpus: tuple[int, ...]) -> Allocation:
    return Allocation(7, tuple(gpus), len(gpus), (1,) * len(gpus), 1, gpus_by_node=gpus)


def plan_of(nodes: tuple[str, ...], places: list[RankPlace]) -> Plan:
    return Plan("7", len(places), 1, "place", "cost", nodes=nodes, places=tuple(places))


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("gpu:2(IDX:0-1)", (0, 1)),
        ("gpu:a100:3(IDX:0,2-3),gpu:v100:1(IDX:5)", (0, 2, 3, 5)),
        ("gpu(IDX:1)", (1,)),
        ("gpu:2(CNT:2)", ()),
        ("shard:4(IDX:0),nic:2(IDX:0-1)", ()),
        ("", ()),
    ],
)
def test_numbers_of_the_gpus_of_a_job(text, numbers):
    assert job_gpus(text) == numbers


@pytest.mark.parametrize(
    ("text", "cores"),
    [
        ("gpu:2", ((), ())),
        ("gpu:a100:1(S:1),gpu:v100:2(S:0)", ((2, 3), (0, 1), (0, 1))),
        ("gpu:2(S:0-1),nvme:1", ((0, 1, 2, 3),) * 2),
        ("(null)", ()),
        ("shard:8,bandwidth:lustre:no_consume:4G", ()),
    ],
)
def test_gpus_of_a_node(text, cores):
    assert node_gpus(text, 2) == cores


@given(st.text(alphabet="gpu:(),IDXS0123456789-a\n= ", max_size=60))
def test_no_gres_of_a_node_is_more_than_a_node_can_hold(text):
    assert len(node_gpus(text.replace("S:", "S"), 4)) <= 256


def test_gres_conf_of_several_kinds_of_nodes():
    conf = parse_gres_conf(GRES_CONF)
    assert conf["g2"] == ((4, 5, 6, 7),) * 2 + ((0, 1, 2, 3),) * 2
    assert conf[""] == ((), ())
    assert set(conf) == {"g1", "g2", ""}


def test_nodes_know_the_cores_of_gres_conf_where_the_numbers_agree():
    text = "\n".join(
        f"NodeName={name} CoresPerSocket=4 Gres=gpu:a100:{count}(S:0-1) Sockets=2 ThreadsPerCore=2"
        for name, count in (("g1", 4), ("g2", 3), ("h1", 2))
    )
    g1, g2, h1 = with_gres_conf(parse_nodes(text), GRES_CONF)
    assert g1.gpus[0] == (4, 5, 6, 7)
    assert g2.gpus == (tuple(range(8)),) * 3
    assert h1.gpus == (tuple(range(8)),) * 2


def test_description_keeps_gpus_and_nodes_that_differ_in_them_differ():
    shapes = [
        NodeShape("a", 2, 2, 2, gpus=((0, 1), (2, 3))),
        NodeShape("b", 2, 2, 2, gpus=((2, 3), (0, 1))),
        NodeShape("c", 2, 2, 2),
    ]
    cluster = build_cluster(shapes)
    assert len(set(cluster.nodes.values())) == 3
    read = parse_cluster(cluster_json(cluster).encode(), "x", None)
    assert read.gpus("a").pus == ((0, 1, 4, 5), (2, 3, 6, 7))
    assert read.gpus("b").pus == ((2, 3, 6, 7), (0, 1, 4, 5))
    assert read.gpus("c") is None
    assert read.gpus("elsewhere") is None


def test_cores_in_another_numbering_mean_nothing():
    gpus = build_cluster([NodeShape("a", 1, 2, 2, gpus=((0,), (1, 2, 3)))]).gpus("a")
    assert gpus.pus == ((0, 2), ())


@pytest.mark.parametrize(
    "gpus",
    [
        '{"pus": []}',
        '{"pus": ["x"]}',
        '{"pus": [0]}',
        '["0"]',
        '{"pus": ["0"], "near": 1}',
        '{"pus": ["0", "1"], "links": [[0, 1]]}',
        '{"pus": ["0", "1"], "links": [[0, 1], [-1, 0]]}',
        '{"pus": ["99999999"]}',
    ],
)
def test_malformed_gpus_are_an_error(gpus):
    text = (
        '{"format": "slurm-topo-cluster", "version": 1, "nodes": [{"names": "a", "class": "c"}], '
        f'"classes": {{"c": {{"sockets": 1, "cores_per_socket": 2, "gpus": {gpus}}}}}}}'
    )
    with pytest.raises(MachineError, match="class c"):
        parse_cluster(text.encode(), "x", None)


def test_job_names_its_gpus():
    environ = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n[1-2]", "SLURM_NTASKS": "2"}
    details = (
        "JobId=7 JobName=a Nodes=n1 CPU_IDs=0-7 Mem=0 GRES=gpu:2(IDX:2-3) Nodes=n2 CPU_IDs=0-3 Mem=0 GRES= \n"
    )
    assert read_allocation(environ, run=lambda argv: details).gpus_by_node == {"n1": (2, 3)}


def test_ranks_get_the_nearest_of_the_gpus_that_the_job_owns():
    cluster = build_cluster([NodeShape("a", 2, 2, 1, gpus=((2, 3), (2, 3), (0, 1), (0, 1)))])
    owned = owned_gpus(cluster, allocation_of(a=(1, 3)))
    plan = plan_of(("a",), [RankPlace(0, (0,)), RankPlace(0, (3,))])
    assert [p.gpus for p in with_gpus(plan, graph_of(2, {}), owned).places] == [(3,), (1,)]


def test_gpu_of_a_socket_without_cores_of_the_job_is_used():
    cluster = build_cluster([NodeShape("a", 2, 2, 1, gpus=((0, 1), (2, 3)))])
    owned = owned_gpus(cluster, allocation_of(a=(0, 1)))
    plan = plan_of(("a",), [RankPlace(0, (2,)), RankPlace(0, (3,))])
    gpus = [p.gpus for p in with_gpus(plan, graph_of(2, {}), owned).places]
    assert sorted(gpus) == [(0,), (1,)]


def test_each_node_is_assigned_by_itself():
    shape = NodeShape("a", 2, 1, 1, gpus=((0,), (1,)))
    cluster = build_cluster([shape, replace(shape, name="b", gpus=((1,), (0,)))])
    owned = owned_gpus(cluster, allocation_of(b=(0, 1), a=(0, 1)))
    places = [RankPlace(0, (0,)), RankPlace(1, (0,)), RankPlace(1, (1,)), RankPlace(0, (1,))]
    plan = with_gpus(plan_of(("b", "a"), places), graph_of(4, {(0, 3): 1.0}), owned)
    assert [p.gpus for p in plan.places] == [(1,), (0,), (1,), (0,)]
    assert [p.cpus for p in plan.places] == [p.cpus for p in places]


@pytest.mark.parametrize(
    ("near", "numbers"),
    [
        (((0,), (1,)), (0,)),
        (((0,), (1,)), (0, 2)),
        (((), ()), (0, 1)),
        (((0, 1), (0, 1)), (0, 1)),
        ((), (0, 1)),
    ],
    ids=["one", "unknown number", "near to all", "alike", "not described"],
)
def test_where_there_is_nothing_to_choose_slurms_order_stays(near, numbers):
    cluster = build_cluster([NodeShape("a", 2, 1, 1, gpus=near)])
    assert owned_gpus(cluster, allocation_of(a=numbers)) == {}
    plan = plan_of(("a",), [RankPlace(0, (0,))])
    assert with_gpus(plan, graph_of(1, {}), {}) == plan
