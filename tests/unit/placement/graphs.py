"""Graphs and machines that the placement tests share."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from slurm_topo.machine.tree import parse_tree
from slurm_topo.model import CommGraph, Level, Machine
from slurm_topo.trace import build_graph


def graph_of(pairs: list[tuple[int, int, float]], ranks: int, messages: float = 0.0) -> CommGraph:
    """A graph from (source, target, nbytes)."""
    source, target, nbytes = (np.array(column) for column in zip(*pairs, strict=True))
    count = np.full(len(pairs), messages)
    return build_graph(ranks, source.astype(int), target.astype(int), nbytes.astype(float), count)


def grid(*sizes: int, weight: float = 1.0) -> CommGraph:
    """Nearest neighbours of a grid."""
    index = np.arange(np.prod(sizes)).reshape(sizes)
    pairs: list[tuple[int, int, float]] = []
    for axis in range(len(sizes)):
        low = index.take(range(sizes[axis] - 1), axis).ravel()
        high = index.take(range(1, sizes[axis]), axis).ravel()
        pairs += [
            (int(a), int(b), weight) for u, v in zip(low, high, strict=True) for a, b in ((u, v), (v, u))
        ]
    return graph_of(pairs, int(index.size))


def cliques(count: int, size: int) -> CommGraph:
    """Groups that only talk among themselves; the ranks of a group are far apart."""
    pairs = [
        (a * count + g, b * count + g, 1.0)
        for g in range(count)
        for a, b in itertools.permutations(range(size), 2)
    ]
    return graph_of(pairs, count * size)


def shuffled(graph: CommGraph, seed: int = 1) -> CommGraph:
    """The same graph with other rank numbers."""
    order = np.random.default_rng(seed).permutation(graph.ranks)
    return build_graph(graph.ranks, order[graph.source], order[graph.target], graph.nbytes, graph.messages)


def uneven_machine(
    sizes: list[list[int]], costs: list[float], latencies: list[float] | None = None
) -> Machine:
    """Nodes of packages of the given numbers of cores, under one switch."""
    flat = [cores for node in sizes for cores in node]
    package = np.repeat(np.arange(len(flat)), flat)
    node = np.repeat(np.arange(len(sizes)), [sum(packages) for packages in sizes])
    cores = package.size
    names = ("package", "node", "switch")
    return Machine(
        levels=tuple(
            Level(name, latency, per_byte)
            for name, per_byte, latency in zip(names, costs, latencies or [0.0] * 3, strict=True)
        ),
        groups=np.stack([package, node, np.zeros(cores)]).astype(np.int32),
        node=node.astype(np.int32),
        node_names=tuple(f"n{i}" for i in range(len(sizes))),
        pus=tuple((i,) for i in range(cores)),
        numa=np.zeros(cores, dtype=np.int32),
    )


def exhaustive(graph: CommGraph, machine: Machine) -> float:
    """Least cost of all placements; for at most eight or so cores."""
    weight: NDArray[np.float64] = np.zeros((graph.ranks, graph.ranks))
    count = np.zeros_like(weight)
    weight[graph.source, graph.target] = graph.nbytes
    count[graph.source, graph.target] = graph.messages
    level = (machine.groups[:-1, :, None] != machine.groups[:-1, None, :]).sum(0)
    per_byte = np.array([item.seconds_per_byte for item in machine.levels])[level]
    per_message = np.array([item.latency_s for item in machine.levels])[level]
    placements = np.array(list(itertools.permutations(range(machine.cores), graph.ranks)))
    costs = np.zeros(len(placements))
    for u, v in zip(graph.source, graph.target, strict=True):
        at = placements[:, u], placements[:, v]
        costs += weight[u, v] * per_byte[at] + count[u, v] * per_message[at]
    return float(costs.min())


@st.composite
def machines(draw: st.DrawFn) -> Machine:
    if draw(st.booleans()):
        arities = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
        costs = draw(st.lists(st.floats(0, 100), min_size=len(arities), max_size=len(arities)))
        return parse_tree(f"tree:{':'.join(map(str, arities))}/{':'.join(map(repr, costs))}")
    sizes = draw(st.lists(st.lists(st.integers(1, 5), min_size=1, max_size=3), min_size=1, max_size=4))
    latencies = draw(st.sampled_from([None, [1.0, 2.0, 9.0], [0.5, 0.1, 3.0]]))
    return uneven_machine(sizes, [1.0, 10.0, 50.0], latencies)


@st.composite
def problems(draw: st.DrawFn) -> tuple[CommGraph, Machine]:
    machine = draw(machines())
    ranks = draw(st.integers(1, machine.cores))
    rank = st.integers(0, ranks - 1)
    pairs = draw(st.lists(st.tuples(rank, rank, st.floats(0, 1e9)), min_size=1, max_size=60))
    return graph_of(pairs, ranks, messages=draw(st.sampled_from([0.0, 1.0]))), machine
