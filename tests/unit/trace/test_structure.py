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
from slurm_topo.trace.growth import agreement, fit_growth
from slurm_topo.trace.structure import Structure, balanced_dims, recognise, scale


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
    # Where the dimensions grow unevenly or nobody could see whether they are closed it is less sure.
    assert 0.5 < confidence < 0.91
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


def rows_graph(dims: tuple[int, ...], sizes: dict[int, float]) -> CommGraph:
    """Everybody to everybody in the rows of some dimensions."""
    n = prod(dims)
    place = np.stack(np.unravel_index(np.arange(n), dims), axis=1)
    u, v = (m.ravel() for m in np.divmod(np.arange(n * n), n))
    differs = place[u] != place[v]
    nbytes = np.zeros(n * n)
    for i, size in sizes.items():
        nbytes[(differs.sum(axis=1) == 1) & differs[:, i]] = size
    return build_graph(n, u, v, nbytes, np.ones(n * n))


def known(graph: CommGraph) -> Structure:
    found = recognise(graph)
    assert found is not None
    return found


def test_transposes_are_pencils_and_shrink_with_their_rows() -> None:
    found = known(rows_graph((4, 8), {0: 800.0, 1: 400.0}))
    assert (found.kind, found.dims) == ("pencils", (4, 8))
    assert {d.offset: d.nbytes for d in found.directions} == {(0,): 800.0, (1,): 400.0}
    balanced = known(rows_graph((8, 8), {0: 40.0, 1: 40.0}))
    predicted, confidence = scale(balanced, 256)
    # What a rank gives away stays the same: rows of 16 get half as much each.
    assert np.array_equal(as_dense(predicted), as_dense(rows_graph((16, 16), {0: 20.0, 1: 20.0})))
    assert confidence > 0.85


def test_a_program_of_collectives_is_known_by_them() -> None:
    rows = rows_graph((6, 6), {1: 50.0})
    modelled = build_graph(36, rows.source, rows.target, rows.nbytes, rows.messages, rows.nbytes)
    found = known(modelled)
    assert (found.kind, [d.offset for d in found.directions], found.covered) == ("pencils", [(1,)], 1.0)


def test_what_is_left_out_makes_less_sure() -> None:
    grid = grid_graph((4, 4), (True, True), faces(10, 10))
    half = build_graph(16, grid.source, grid.target, 2 * grid.nbytes, grid.messages, grid.nbytes)
    sure, unsure = (scale(known(g), 64)[1] for g in (grid, half))
    assert known(half).covered == 0.5
    assert unsure == pytest.approx(sure / 2)


def test_a_sweep_has_its_directions_only() -> None:
    found = known(grid_graph((5, 6), (False, False), [((1, 0), 3.0), ((0, 1), 4.0)]))
    assert {d.offset: d.nbytes for d in found.directions} == {(1, 0): 3.0, (0, 1): 4.0}


def test_bits_without_a_law_are_not_carried_on() -> None:
    def cube(sizes: list[float]) -> CommGraph:
        n = 1 << len(sizes)
        pairs = [(r, r ^ 1 << k, size) for r in range(n) for k, size in enumerate(sizes)]
        u, v, w = map(np.array, zip(*pairs, strict=True))
        return build_graph(n, u, v, w)

    assert scale(known(cube([8, 8, 8, 8, 8])), 64)[1] > 0.85
    assert scale(known(cube([1, 2, 4, 8, 16])), 64)[1] > 0.85
    # Three bits of rows and two of something else: what would a sixth be?
    assert scale(known(cube([900, 900, 900, 1, 1])), 64)[1] < 0.2


def strong(dims: tuple[int, ...], whole: tuple[int, ...]) -> CommGraph:
    """Faces of the blocks of a problem that keeps its size."""
    block = [w / d for w, d in zip(whole, dims, strict=True)]
    return grid_graph(dims, (True, True, True), faces(*[8 * prod(block) / b for b in block]))


def test_sizes_of_a_fixed_problem_shrink_as_its_faces() -> None:
    whole = (96, 96, 96)
    small, middle, large = (strong(d, whole) for d in ((4, 4, 3), (6, 4, 4), (8, 6, 4)))
    growth = fit_growth([(g.ranks, known(g)) for g in (small, middle)])
    assert growth is not None
    assert (growth.law, growth.counts) == ("surface", (48, 96))
    predicted, confidence = scale(known(middle), 192, growth)
    assert agreement(predicted, large) > 0.999
    assert np.allclose(as_dense(predicted), as_dense(large))
    assert confidence > 0.85
    # Of one graph alone nobody knows, and the range that is stated holds what is true.
    alone, unsure = scale(known(middle), 192)
    sizes = alone.meta["sizes"]
    ratio = as_dense(large)[as_dense(large) > 0] / as_dense(alone)[as_dense(large) > 0]
    assert (sizes["law"], unsure < confidence) == ("assumed", True)
    assert sizes["least"] - 1e-9 <= ratio.min() <= ratio.max() <= sizes["most"] + 1e-9


def test_sizes_that_stay_and_sizes_of_no_law() -> None:
    def rings(exponent: float) -> list[tuple[int, Structure]]:
        return [(n, known(grid_graph((n,), (True,), faces(1000 * n**exponent)))) for n in (8, 16, 32)]

    stay, power = fit_growth(rings(0)), fit_growth(rings(-0.5))
    assert stay is not None
    assert power is not None
    assert (stay.law, power.law) == ("constant", "power")
    assert power.exponents[(1,)] == pytest.approx(-0.5)
    assert scale(rings(-0.5)[-1][1], 128, power)[0].nbytes[0] == pytest.approx(1000 * 128**-0.5)
    assert power.spread < 1e-9
    noisy = rings(0)[:2]
    noisy[0] = (8, known(grid_graph((8,), (True,), faces(1500))))
    doubtful = fit_growth(noisy)
    assert doubtful is not None
    assert doubtful.law == "power"
    assert scale(noisy[1][1], 64, doubtful)[1] < scale(noisy[1][1], 64, stay)[1]


def test_graphs_of_different_programs_have_no_common_law() -> None:
    ring, open_ = (known(grid_graph((n,), (p,), faces(1))) for n, p in ((8, True), (16, False)))
    grid = known(grid_graph((4, 4), (True, True), faces(1, 1)))
    assert fit_growth([(8, ring), (16, grid)]) is None
    assert fit_growth([(8, ring), (16, open_)]) is not None
