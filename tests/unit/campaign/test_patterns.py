"""The made programs have the structure that their names say."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from slurm_topo.campaign.patterns import (
    all_to_all,
    dimensions,
    halo,
    many_to_one,
    mesh,
    multigrid,
    pencils,
    side_by_side,
)
from slurm_topo.model import CommGraph


def partners(graph: CommGraph) -> np.ndarray:
    return np.bincount(graph.source, minlength=graph.ranks)


@pytest.mark.parametrize(
    ("ranks", "axes", "sizes"), [(64, 3, (4, 4, 4)), (96, 3, (6, 4, 4)), (7, 2, (7, 1)), (1, 3, (1, 1, 1))]
)
def test_dimensions_are_as_equal_as_they_can_be(ranks: int, axes: int, sizes: tuple[int, ...]) -> None:
    assert dimensions(ranks, axes) == sizes


def test_halo() -> None:
    graph = halo(64)
    assert graph.source.size == 2 * 3 * 4 * 4 * 3
    assert sorted(set(partners(graph).tolist())) == [3, 4, 5, 6]
    assert (partners(halo(64, corners=True, periodic=True)) == 26).all()
    # The last axis runs fastest: rank 0 has neighbours 1, 4 and 16.
    assert graph.target[graph.source == 0].tolist() == [1, 4, 16]


def test_pencils_talk_in_rows_and_columns() -> None:
    graph = pencils(64)
    assert (partners(graph) == 14).all()
    assert set(graph.target[graph.source == 0].tolist()) == {*range(1, 8), *range(8, 64, 8)}


def test_everybody_and_many_to_one() -> None:
    assert (partners(all_to_all(16)) == 15).all()
    graph = many_to_one(16, roots=4)
    assert (partners(graph) > 1).sum() == 4


def test_multigrid_has_partners_at_powers_of_two() -> None:
    graph = multigrid(512)
    assert set((graph.target - graph.source)[graph.source == 0].tolist()) == {
        1,
        2,
        4,
        8,
        16,
        32,
        64,
        128,
        256,
    }


@pytest.mark.parametrize("numbering", ["bisection", "arbitrary"])
def test_mesh_parts_have_few_partners_and_both_ways(numbering: str) -> None:
    graph = mesh(32, 3, numbering, cells=60)
    assert graph.ranks == 32
    pairs = set(zip(graph.source.tolist(), graph.target.tolist(), strict=True))
    assert pairs == {(v, u) for u, v in pairs}
    assert 3 < partners(graph).mean() < 20
    assert partners(graph).min() > 0


@pytest.mark.parametrize("make", [lambda: mesh(8, 1, cells=30), lambda: mesh(8, 1, "arbitrary", cells=30)])
def test_meshes_are_the_same_for_the_same_seed(make: Callable[[], CommGraph]) -> None:
    first, second = make(), make()
    assert first.nbytes.tolist() == second.nbytes.tolist()
    assert first.target.tolist() == second.target.tolist()


def test_jobs_side_by_side_do_not_talk() -> None:
    graph = side_by_side([halo(8), all_to_all(4)])
    assert graph.ranks == 12
    assert ((graph.source < 8) == (graph.target < 8)).all()
    assert graph.source.size == halo(8).source.size + 12
