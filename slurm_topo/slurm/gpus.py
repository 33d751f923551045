"""GPUs of the ranks of a step: those that the job owns, as Slurm numbers them, near and well linked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from slurm_topo.machine import Cluster, NodeClass
from slurm_topo.machine.gpus import NodeGpus, distances
from slurm_topo.model import CommGraph, Floats
from slurm_topo.placement.gpus import assign_gpus
from slurm_topo.slurm.allocation import Allocation
from slurm_topo.slurm.plan import Plan


@dataclass(frozen=True)
class OwnedGpus:
    """GPUs of a job on one node.

    Attributes
    ----------
    numbers : tuple of int
        As Slurm counts them on the node.
    shape : NodeClass
        The whole node.
    gpus : NodeGpus
        All its GPUs.
    """

    numbers: tuple[int, ...]
    shape: NodeClass
    gpus: NodeGpus


def owned_gpus(cluster: Cluster, allocation: Allocation) -> dict[str, OwnedGpus]:
    """Nodes of the allocation where it matters which GPU a rank has.

    Left out are nodes with fewer than two GPUs of the job, GPUs that the description does not know, and those
    that are equally near to everything: their order is Slurm's.
    """
    found = {}
    for node, numbers in allocation.gpus_by_node.items():
        gpus = cluster.gpus(node)
        if len(numbers) < 2 or gpus is None or numbers[-1] >= gpus.count or not gpus.distinct:
            continue
        found[node] = OwnedGpus(numbers, cluster.shape(node), gpus)
    return found


def with_gpus(plan: Plan, graph: CommGraph, owned: Mapping[str, OwnedGpus]) -> Plan:
    """The plan with the GPUs of each rank, on the nodes of which they are known."""
    places = list(plan.places)
    ranks_of: dict[int, list[int]] = {}
    for rank, place in enumerate(places):
        ranks_of.setdefault(place.node, []).append(rank)
    for node, ranks in ranks_of.items():
        here = owned.get(plan.nodes[node])
        if here is None:
            continue
        far = np.array(distances(here.shape, here.gpus, [places[r].cpus for r in ranks]))
        chosen = assign_gpus(far[:, list(here.numbers)], _traffic(graph, ranks), _links(here))
        for rank, gpus in zip(ranks, chosen, strict=True):
            places[rank] = replace(places[rank], gpus=tuple(here.numbers[g] for g in gpus))
    return replace(plan, places=tuple(places))


def _traffic(graph: CommGraph, ranks: list[int]) -> Floats:
    """Bytes that the ranks of a node exchange, both ways together."""
    local = np.full(graph.ranks, -1, dtype=np.int64)
    local[ranks] = np.arange(len(ranks))
    source, target = local[graph.source], local[graph.target]
    inside = (source >= 0) & (target >= 0)
    found = np.zeros((len(ranks), len(ranks)))
    np.add.at(found, (source[inside], target[inside]), graph.nbytes[inside])
    return found + found.T


def _links(owned: OwnedGpus) -> Floats | None:
    if not owned.gpus.links:
        return None
    numbers = list(owned.numbers)
    return np.array(owned.gpus.links)[np.ix_(numbers, numbers)]
