"""A machine of GPUs: one place a GPU, and what a byte costs from GPU to GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from slurm_topo.errors import MachineError
from slurm_topo.machine.gpus import NodeGpus
from slurm_topo.machine.links import link_bandwidths
from slurm_topo.model import Distances, Floats, Machine


@dataclass(frozen=True)
class GpuPlace:
    """One GPU.

    Attributes
    ----------
    node : int
        Index into ``Machine.node_names``.
    gpu : int
        Its number on the node.
    nic : str
        The adapter with the best path to it, empty where none is known.
    core : int
        A core of the machine next to it, of its own.
    """

    node: int
    gpu: int
    nic: str
    core: int


def gpu_machine(machine: Machine, gpus: Sequence[NodeGpus | None]) -> tuple[Machine, tuple[GpuPlace, ...]]:
    """The machine whose cores are its GPUs.

    Parameters
    ----------
    machine : Machine
        With nodes.
    gpus : sequence of NodeGpus or None, a length of the nodes
        GPUs of each node.

    Raises
    ------
    MachineError
        There is no GPU, or a node has fewer cores than GPUs.

    Notes
    -----
    Inside a node a byte costs what the link between the two GPUs does (what the level says where nobody knows
    it). Between nodes it costs the most of the level's cost, shared by the GPUs of a node instead of by its
    cores, and the two GPUs' paths to their adapters: the slowest part of the way counts.
    """
    places = [
        GpuPlace(node, gpu, own.nics[gpu][0] if own.nics else "", core)
        for node, own in enumerate(gpus)
        if own is not None
        for gpu, core in enumerate(_cores(machine, node, own))
    ]
    if not places:
        raise MachineError("the machine has no GPU that is known; describe them (docs/formats-cluster.md)")
    first = np.array([place.core for place in places])
    node = machine.node[first]
    share = np.bincount(node)[node] / np.bincount(machine.node)[node]
    matrix = _between_nodes(machine, first, share, gpus, places)
    for i, a in enumerate(places):
        for j, b in enumerate(places):
            own = gpus[a.node]
            if a.node == b.node and i != j:
                speed = own.links[a.gpu][b.gpu] if own and own.links else 0.0
                level = _meeting(machine, a.core, b.core)
                matrix[i, j] = 1e-9 / speed if speed else machine.levels[level].seconds_per_byte
    matrix = np.maximum(matrix, matrix.T)
    return (
        replace(
            machine,
            groups=np.ascontiguousarray(machine.groups[:, first]),
            node=node,
            pus=tuple(machine.pus[core] for core in first),
            numa=machine.numa[first],
            hbm=tuple(machine.hbm[core] for core in first) if machine.hbm else (),
            link_bandwidth=np.ascontiguousarray(link_bandwidths(machine)[:, first]),
            distances=Distances(matrix, np.arange(first.size, dtype=np.int32)),
        ),
        tuple(places),
    )


def _cores(machine: Machine, node: int, gpus: NodeGpus) -> list[int]:
    """A core of its own for each GPU, next to it where one is left there."""
    free = np.flatnonzero(machine.node == node).tolist()
    if len(free) < gpus.count:
        raise MachineError(
            f"node {machine.node_names[node]}: {gpus.count} GPUs and {len(free)} cores; give each a core"
        )
    chosen = []
    for near in gpus.pus:
        wanted = set(near)
        core = next((c for c in free if wanted.intersection(machine.pus[c])), free[0])
        free.remove(core)
        chosen.append(core)
    return chosen


def _between_nodes(
    machine: Machine,
    cores: np.ndarray,
    share: Floats,
    gpus: Sequence[NodeGpus | None],
    places: Sequence[GpuPlace],
) -> Floats:
    groups = machine.groups[:-1, cores]
    level = (groups[:, :, None] != groups[:, None, :]).sum(axis=0)
    per_byte = np.array([item.seconds_per_byte for item in machine.levels])[level]
    speeds = [own.nics[p.gpu][1] if (own := gpus[p.node]) and own.nics else 0.0 for p in places]
    adapter = np.array([1e-9 / speed if speed else 0.0 for speed in speeds])
    shared = per_byte * np.maximum(share[:, None], share[None, :])
    return np.asarray(np.maximum(shared, np.maximum(adapter[:, None], adapter[None, :])))


def _meeting(machine: Machine, a: int, b: int) -> int:
    return int((machine.groups[:-1, a] != machine.groups[:-1, b]).sum())
