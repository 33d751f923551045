"""Regular structures are recognised, nothing else is, and they grow."""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_topo.errors import GraphError
from slurm_topo.model import CommGraph
from slurm_topo.trace import build_graph
from slurm_topo.trace.structure import balanced_dims, recognise, scale


def grid_graph(
    dims: tuple[int, ...], periodic: tuple[bool, ...], stencil: list[tuple[tuple[int, ...], float]]
) -> CommGraph:
    """Every rank sends bytes at every offset of the stencil."""
    n, source, target, nbytes = prod(dims), [], [], []
    for place in product(*map(range, dims)):
        for offset, weight in stencil:
            there = [a + o for a, o in zip(place, offset, strict=True)]
            if all(p or 0 <= t < d for t, d, p in zip(there, dims, periodic, strict=True)):
                other = np.ravel_multi_index([t % d for t, d in zip(there, dims, strict=True)], dims)
                source.append(int(np.ravel_multi_index(place, dims)))
                target.append(int(other))
                nbytes.append(weight)
    sent = np.array(nbytes)
    return build_graph(n, np.array(source, np.int32), np.array(target, np.int32), sent, np.ones(sent.size))


def faces(*weights: float) -> list[tuple[tuple[int, ...], float]]:
    """Both neighbours in each dimension."""
    k = len(weights)
    return [(tuple(s if i == j else 0 for j in range(k)), w) for i, w in enumerate(weights) for s in (-1, 1)]


def as_dense(graph: CommGraph) -> np.ndarray:
    matrix = np.zeros((graph.ranks, graph.ranks))
    matrix[graph.source, graph.target] = graph.nbytes
    return matrix


@pytest.mark.parametrize(
    ("dims", "periodic"),
    [
        ((8,), (True,)),
        ((8,), (False,)),
        ((4, 6), (False, False)),
        ((6, 4), (True, False)),
        ((4, 4, 4), (False, False, True)),
        ((5, 4, 3), (True, True, True)),
        ((3, 4, 3, 4), (False, False, False, False)),
    ],
)
def test_halo_exchange_is_a_grid(dims: tuple[int, ...], periodic: tuple[bool, ...]) -> None:
    weights = [100.0 * (i + 1) for i in range(len(dims))]
    found = recognise(grid_graph(dims, periodic, faces(*weights)))
    assert found is not None
    assert (found.kind, found.dims, found.periodic) == ("grid", dims, periodic)
    assert found.confidence > 0.99
    assert {d.offset: d.nbytes for d in found.directions} == dict(faces(*weights))


def test_corners_belong_to_the_stencil() -> None:
    box = [(o, 10.0) for o in product((-1, 0, 1), repeat=2) if any(o)]
    found = recognise(grid_graph((6, 5), (False, True), box))
    assert found is not None
    assert found.dims == (6, 5)
    assert len(found.directions) == 8


def test_a_stencil_of_two_steps_is_one() -> None:
    wide = [*faces(8.0, 8.0), ((2, 0), 2.0), ((-2, 0), 2.0), ((0, 2), 2.0), ((0, -2), 2.0)]
    found = recognise(grid_graph((6, 7), (False, False), wide))
    assert found is not None
    assert (found.dims, len(found.directions)) == ((6, 7), 8)


def test_one_way_ring_and_everybody() -> None:
    ring = recognise(grid_graph((12,), (True,), [((1,), 5.0)]))
    assert ring is not None
    assert (ring.dims, [d.offset for d in ring.directions]) == ((12,), [(1,)])
    n = 12
    u, v = np.divmod(np.arange(n * n), n)
    everybody = recognise(build_graph(n, u, v, np.full(n * n, 7.0)))
    assert everybody is not None
    assert everybody.kind == "complete"


def test_hypercube_is_recognised() -> None:
    n = 32
    pairs = [(r, r ^ 1 << k, 2.0**k) for r in range(n) for k in range(5)]
    u, v, w = map(np.array, zip(*pairs, strict=True))
    found = recognise(build_graph(n, u, v, w))
    assert found is not None
    assert found.kind == "hypercube"
    bigger, _ = scale(found, 64)
    assert bigger.source.size == 64 * 6
    with pytest.raises(GraphError, match="no hypercube"):
        scale(found, 48)


def test_irregular_graphs_are_none() -> None:
    rng = np.random.default_rng(5)
    for n in (16, 60, 64):
        u, v = rng.integers(n, size=6 * n), rng.integers(n, size=6 * n)
        assert recognise(build_graph(n, u, v, rng.random(6 * n))) is None
    star = np.arange(1, 24)
    assert recognise(build_graph(24, np.zeros(23, int), star, np.ones(23))) is None
    ranks = np.arange(16)
    assert recognise(build_graph(16, ranks, (ranks + 3) % 16, np.ones(16))) is None
    shuffled = rng.permutation(36)
    regular = grid_graph((6, 6), (False, False), faces(1, 1))
    mixed = build_graph(36, shuffled[regular.source], shuffled[regular.target], regular.nbytes)
    assert recognise(mixed) is None


def test_the_modelled_share_does_not_count() -> None:
    grid = grid_graph((4, 4), (False, False), faces(10, 10))
    n = 16
    u, v = np.divmod(np.arange(n * n), n)
    noise = np.full(n * n, 3.0)
    nbytes, modelled = (
        np.concatenate([grid.nbytes, noise]),
        np.concatenate([np.zeros(grid.nbytes.size), noise]),
    )
    both = build_graph(
        n, np.concatenate([grid.source, u]), np.concatenate([grid.target, v]), nbytes, None, modelled
    )
    found = recognise(both)
    assert found is not None
    assert found.dims == (4, 4)


@pytest.mark.parametrize(("small", "large"), [((4, 2), (4, 4)), ((3, 3), (6, 4)), ((2, 2, 2), (4, 4, 3))])
def test_a_grid_grows_as_mpi_would_make_it(small: tuple[int, ...], large: tuple[int, ...]) -> None:
    weights = [10.0, 20.0, 30.0][: len(small)]
    open_ = tuple(False for _ in small)
    found = recognise(grid_graph(small, open_, faces(*weights)))
    if found is None or found.dims != small:
        pytest.skip("too few ranks for that grid to be the only one")
    predicted, confidence = scale(found, prod(large))
    assert np.array_equal(as_dense(predicted), as_dense(grid_graph(large, open_, faces(*weights))))
    assert 0.8 < confidence < 1
    assert predicted.meta["confidence"] == confidence


def test_proportions_are_kept_where_the_grid_is_not_balanced() -> None:
    found = recognise(grid_graph((2, 16), (False, True), faces(1, 2)))
    assert found is not None
    predicted, confidence = scale(found, 128)
    assert np.array_equal(as_dense(predicted), as_dense(grid_graph((4, 32), (False, True), faces(1, 2))))
    assert confidence < 0.6


def test_dims_are_those_of_mpi() -> None:
    assert balanced_dims(8, 3) == (2, 2, 2)
    assert balanced_dims(12, 2) == (4, 3)
    assert balanced_dims(7, 2) == (7, 1)
    assert balanced_dims(64, 3) == (4, 4, 4)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(3, 5), min_size=1, max_size=3),
    st.lists(st.booleans(), min_size=3, max_size=3),
    st.floats(1, 1e6),
)
def test_scaling_to_the_same_size_gives_the_same_graph(
    dims: list[int], periodic: list[bool], weight: float
) -> None:
    graph = grid_graph(tuple(dims), tuple(periodic[: len(dims)]), faces(*[weight] * len(dims)))
    found = recognise(graph)
    if (
        found is not None
        and found.dims == tuple(dims)
        and found.dims == balanced_dims(graph.ranks, len(dims))
    ):
        assert np.allclose(as_dense(scale(found, graph.ranks)[0]), as_dense(graph))
