"""Communication graphs of the kinds of programs that a CFD centre runs, made from their structure."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from slurm_topo.model import CommGraph
from slurm_topo.trace import build_graph

Pairs = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]


def dimensions(ranks: int, axes: int = 3) -> tuple[int, ...]:
    """As equal as they can be, the largest first, as ``MPI_Dims_create`` gives them."""
    sizes = [1] * axes
    for factor in sorted(_factors(ranks), reverse=True):
        sizes[sizes.index(min(sizes))] *= factor
    return tuple(sorted(sizes, reverse=True))


def halo(
    ranks: int, axes: int = 3, corners: bool = False, periodic: bool = False, face: float = 1e5
) -> CommGraph:
    """Nearest neighbours of a block-structured solver; the last axis runs fastest in the ranks.

    Parameters
    ----------
    face : float
        Bytes to a neighbour across a face; across an edge or corner (`corners`) a tenth and a hundredth.
    """
    sizes = dimensions(ranks, axes)
    index = np.arange(ranks).reshape(sizes)
    source, target, nbytes = [], [], []
    for step in itertools.product((-1, 0, 1), repeat=axes):
        far = sum(map(abs, step))
        if not far or (far > 1 and not corners):
            continue
        there = np.roll(index, [-s for s in step], range(axes))
        inside = np.ones(sizes, dtype=bool)
        if not periodic:
            for axis, s in enumerate(step):
                edge = [slice(None)] * axes
                edge[axis] = slice(-1, None) if s > 0 else slice(0, 1)
                if s:
                    inside[tuple(edge)] = False
        source.append(index[inside])
        target.append(there[inside])
        nbytes.append(np.full(int(inside.sum()), face * 0.1 ** (far - 1)))
    return _graph(ranks, (np.concatenate(source), np.concatenate(target), np.concatenate(nbytes)))


def pencils(ranks: int, block: float = 2e4) -> CommGraph:
    """The transposes of a 3-D FFT: an all-to-all in each row and each column of a grid of processes."""
    rows, columns = dimensions(ranks, 2)
    index = np.arange(ranks).reshape(rows, columns)
    groups = [*index, *index.T]
    pairs = np.array([pair for group in groups for pair in itertools.permutations(group.tolist(), 2)])
    return _graph(ranks, (pairs[:, 0], pairs[:, 1], np.full(len(pairs), block)))


def all_to_all(ranks: int, block: float = 1e4) -> CommGraph:
    """Everybody to everybody."""
    source, target = np.divmod(np.arange(ranks * ranks), ranks)
    apart = source != target
    return _graph(ranks, (source[apart], target[apart], np.full(int(apart.sum()), block)))


def many_to_one(ranks: int, roots: int = 4, block: float = 1e5) -> CommGraph:
    """Each rank to one of a few roots and back: writers of results, masters of workers."""
    rank = np.arange(ranks)
    root = (rank % roots) * (ranks // roots)
    there = rank != root
    source, target = rank[there], root[there]
    return _graph(
        ranks,
        (
            np.r_[source, target],
            np.r_[target, source],
            np.r_[np.full(source.size, block), np.full(source.size, 1e3)],
        ),
    )


def mesh(ranks: int, seed: int, numbering: str = "bisection", cells: int = 150) -> CommGraph:
    """Faces between the parts of an unstructured mesh that is finer near a wall.

    Parameters
    ----------
    ranks : int
        Number of parts.
    numbering : str
        ``bisection``: parts are numbered as recursive coordinate bisection makes them; ``arbitrary``: as a
        k-way partitioner may, in no order.
    cells : int
        Mesh points a part.

    Notes
    -----
    Points of a box with a density that rises towards one wall, their Delaunay triangulation, recursive
    coordinate bisection into parts of equal size. The bytes between two parts are proportional to the edges
    cut.
    """
    from scipy.spatial import Delaunay

    random = np.random.default_rng(seed)
    points = random.random((ranks * cells, 3)) * (4.0, 2.0, 1.0)
    points[:, 2] **= 2.5
    simplices = Delaunay(points).simplices
    part = _bisect(points, ranks)
    if numbering == "arbitrary":
        part = random.permutation(ranks)[part]
    ends = np.concatenate([simplices[:, [a, b]] for a, b in itertools.permutations(range(4), 2)])
    ends = np.unique(ends, axis=0)
    source, target = part[ends[:, 0]], part[ends[:, 1]]
    cut = source != target
    return _graph(ranks, (source[cut], target[cut], np.full(int(cut.sum()), 1e3)))


def multigrid(ranks: int, face: float = 1e5) -> CommGraph:
    """Halos at distances 1, 2, 4, ... of a 3-D grid of ranks, each level with a quarter of the bytes."""
    sizes = dimensions(ranks)
    index = np.arange(ranks).reshape(sizes)
    source, target, nbytes = [], [], []
    for axis, size in enumerate(sizes):
        step = 1
        while step < size:
            low = index.take(range(size - step), axis).ravel()
            high = index.take(range(step, size), axis).ravel()
            source += [low, high]
            target += [high, low]
            nbytes += [np.full(2 * low.size, face / step**2)]
            step *= 2
    return _graph(ranks, (np.concatenate(source), np.concatenate(target), np.concatenate(nbytes)))


def side_by_side(graphs: list[CommGraph]) -> CommGraph:
    """Several jobs as one graph without an edge between them."""
    offsets = np.cumsum([0, *(graph.ranks for graph in graphs)])
    return build_graph(
        int(offsets[-1]),
        np.concatenate([g.source + o for g, o in zip(graphs, offsets, strict=False)]),
        np.concatenate([g.target + o for g, o in zip(graphs, offsets, strict=False)]),
        np.concatenate([g.nbytes for g in graphs]),
        np.concatenate([g.messages for g in graphs]),
    )


def _graph(ranks: int, pairs: Pairs) -> CommGraph:
    """One message a pair and iteration, however many edges it stands for."""
    graph = build_graph(ranks, *pairs)
    return replace(graph, messages=np.ones(graph.source.size))


def _factors(number: int) -> list[int]:
    found, divisor = [], 2
    while number > 1 and divisor <= math.isqrt(number):
        while number % divisor == 0:
            found.append(divisor)
            number //= divisor
        divisor += 1
    return [*found, number] if number > 1 else found


def _bisect(points: NDArray[np.float64], parts: int) -> NDArray[np.int64]:
    """Part of each point; parts of equal size, cut across the longest side."""
    part = np.zeros(len(points), dtype=np.int64)
    todo = [(np.arange(len(points)), 0, parts)]
    while todo:
        members, first, count = todo.pop()
        if count == 1:
            part[members] = first
            continue
        axis = int(np.ptp(points[members], axis=0).argmax())
        left = count // 2
        order = members[np.argsort(points[members, axis], kind="stable")]
        at = len(order) * left // count
        todo += [(order[:at], first, left), (order[at:], first + left, count - left)]
    return part
