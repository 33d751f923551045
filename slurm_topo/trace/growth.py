"""How the sizes of a regular structure change with the number of ranks, and how sure that is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import exp, log, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from slurm_topo.model import CommGraph

if TYPE_CHECKING:
    from slurm_topo.trace.structure import Structure

Offset = tuple[int, ...]
# Two graphs that differ from a law by less than this factor follow it.
FITS = 0.1


@dataclass(frozen=True)
class Growth:
    """A law of growth.

    Attributes
    ----------
    law : str
        ``assumed`` (one graph only: what a rank sends in a direction stays), ``constant`` (that was seen),
        ``surface`` (the whole problem keeps its size: a face shrinks with the other dimensions of a block),
        or ``power`` (an exponent of the number of ranks for each direction).
    exponents : mapping
        Offset -> exponent, of ``power``.
    spread : float
        Largest natural logarithm of seen over predicted size among the graphs that it was fitted to.
    counts : tuple of int
        Their numbers of ranks.
    """

    law: str = "assumed"
    exponents: dict[Offset, float] = field(default_factory=dict)
    spread: float = 0.0
    counts: tuple[int, ...] = ()

    def factors(self, structure: Structure, dims: Sequence[int]) -> dict[Offset, float]:
        """Size at other dimensions over the size at those of the structure, by direction."""
        return _factors(self.law, structure, dims, self.exponents)

    def certainty(self, structure: Structure, dims: Sequence[int]) -> float:
        """0..1: how sure the sizes are beside each other.

        Of one graph nobody knows whether the problem grows: where that would change directions by different
        factors, the fourth root of least over most of them. Of several: their distance from the law.
        """
        if self.law != "assumed":
            return exp(-self.spread)
        other = _factors("surface", structure, dims, {})
        kept = self.factors(structure, dims)
        ratios = [other[o] / kept[o] for o in kept]
        return float((min(ratios) / max(ratios)) ** 0.25)

    def describe(self, structure: Structure, dims: Sequence[int]) -> dict[str, Any]:
        """The law, what it was fitted to, and the range of the common factor of all sizes."""
        low, high = exp(-self.spread), exp(self.spread)
        if self.law == "assumed":
            other, kept = _factors("surface", structure, dims, {}), self.factors(structure, dims)
            ratios = [other[o] / kept[o] for o in kept]
            low, high = min(1.0, *ratios), max(1.0, *ratios)
        return {"law": self.law, "counts": list(self.counts), "least": low, "most": high}


def _factors(
    law: str, structure: Structure, dims: Sequence[int], exponents: dict[Offset, float]
) -> dict[Offset, float]:
    old = structure.dims
    ranks = prod(dims) / prod(old)
    found: dict[Offset, float] = {}
    for direction in structure.directions:
        offset = direction.offset
        if law == "power":
            found[offset] = ranks ** exponents[offset]
        elif structure.kind == "pencils":
            # The same part of a rank's block goes to everybody in a row.
            rows = old[offset[0]] / dims[offset[0]]
            found[offset] = rows / (ranks if law == "surface" else 1.0)
        elif structure.kind == "complete":
            found[offset] = 1.0 / (ranks**2 if law == "surface" else ranks)
        elif law == "surface" and structure.kind == "grid":
            across = [a / b for a, b, o in zip(old, dims, offset, strict=True) if o == 0]
            found[offset] = float(prod(across))
        else:
            found[offset] = 1.0 / ranks if law == "surface" else 1.0
    return found


def fit_growth(found: Sequence[tuple[int, Structure]]) -> Growth | None:
    """The law that structures of one program at several numbers of ranks follow.

    None where they are not the same structure. Constant and surface are preferred to exponents where they
    fit within 10 %: they hold outside of what was seen.
    """
    base = found[-1][1]
    shape = _shape(base)
    if len({n for n, _ in found}) < 2:
        return Growth() if shape else None
    if any(_shape(structure) != shape for _, structure in found):
        return None
    counts = tuple(sorted(n for n, _ in found))
    spreads = {law: _spread(law, base, found, {}) for law in ("constant", "surface")}
    law = min(spreads, key=lambda name: spreads[name])
    if spreads[law] <= FITS:
        return Growth(law, {}, spreads[law], counts)
    exponents = {}
    for direction in base.directions:
        points = [(log(n), log(_size(s, direction.offset))) for n, s in found]
        mean_x, mean_y = (sum(p[i] for p in points) / len(points) for i in (0, 1))
        variance = sum((x - mean_x) ** 2 for x, _ in points)
        exponents[direction.offset] = sum((x - mean_x) * (y - mean_y) for x, y in points) / variance
    spread = _spread("power", base, found, exponents)
    # Two points are always on a line: half of what the better known law misses is taken for its doubt.
    return Growth("power", exponents, max(spread, spreads[law] / 2 if len(found) == 2 else 0.0), counts)


def agreement(predicted: CommGraph, real: CommGraph) -> float:
    """Share of the traffic that is between the same pairs (0..1), sizes beside each other.

    Notes
    -----
    1 - half the sum over pairs of the difference of both matrices, each divided by its sum.
    """
    a, b = _shares(predicted), _shares(real)
    return 1.0 - 0.5 * sum(abs(a.get(pair, 0.0) - b.get(pair, 0.0)) for pair in a.keys() | b.keys())


def _shares(graph: CommGraph) -> dict[int, float]:
    keys = graph.source.astype(np.int64) * graph.ranks + graph.target
    return dict(zip(keys.tolist(), (graph.nbytes / graph.nbytes.sum()).tolist(), strict=True))


def _shape(structure: Structure) -> tuple[Any, ...]:
    offsets = frozenset(d.offset for d in structure.directions)
    return structure.kind, len(structure.dims) if structure.kind != "hypercube" else 1, offsets


def _size(structure: Structure, offset: Offset) -> float:
    return next(d.nbytes for d in structure.directions if d.offset == offset)


def _spread(
    law: str, base: Structure, found: Sequence[tuple[int, Structure]], exponents: dict[Offset, float]
) -> float:
    worst = 0.0
    for _, structure in found:
        factors = _factors(law, base, structure.dims, exponents)
        for direction in base.directions:
            ratio = _size(structure, direction.offset) / (direction.nbytes * factors[direction.offset])
            worst = max(worst, abs(log(ratio)))
    return worst
