"""Regular communication (grids, pencils, hypercubes, everybody with all), and the same at other sizes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from slurm_topo.errors import GraphError
from slurm_topo.model import CommGraph, Floats, Ints
from slurm_topo.trace.graph_io import build_graph
from slurm_topo.trace.growth import Growth

MOST_DIMENSIONS = 4
FAR = 2
COVERED = 0.9
LEAST_CONFIDENCE = 0.85
SAMPLE = 2000
# A program that sends less than this share of its bytes outside of collectives is known by these.
LITTLE = 0.05
OPEN_OR_CLOSED = 0.85
# Sizes that differ more than this from pair to pair are not those of an exchange of equal parts.
UNEVEN = 0.1


@dataclass(frozen=True)
class Direction:
    """One arrow of the stencil: every rank sends this to the rank at an offset.

    Attributes
    ----------
    offset : tuple of int
        Steps in each dimension (for ``hypercube``: the bit that differs; for ``pencils``: the dimension in
        which everybody sends to everybody).
    nbytes, messages : float
        Mean of a pair.
    spread : float
        Standard deviation of the bytes over pairs, divided by their mean.
    """

    offset: tuple[int, ...]
    nbytes: float
    messages: float
    spread: float


@dataclass(frozen=True)
class Structure:
    """A regular graph.

    Attributes
    ----------
    kind : str
        ``grid``, ``pencils``, ``hypercube`` or ``complete``.
    dims : tuple of int
        Ranks in each dimension, last one fastest (as in MPI_Cart_create).
    periodic : tuple of bool
        Whether a dimension is closed to a ring.
    directions : tuple of Direction
        The stencil.
    confidence : float
        0..1: share of the bytes looked at that it explains, times the share of its own pairs that exist.
    covered : float
        0..1: share of the graph's bytes that were looked at; the rest are collectives, not predicted.
    """

    kind: str
    dims: tuple[int, ...]
    periodic: tuple[bool, ...]
    directions: tuple[Direction, ...]
    confidence: float
    covered: float = 1.0

    def describe(self) -> str:
        """One line for people."""
        name = "hypercube" if self.kind == "hypercube" else "everybody with everybody"
        if self.kind == "grid":
            sizes = zip(self.dims, self.periodic, strict=True)
            size = " x ".join(f"{d} closed" if p else str(d) for d, p in sizes)
            name = f"grid of {size}, {len(self.directions)} directions"
        if self.kind == "pencils":
            rows = ", ".join(str(d.offset[0] + 1) for d in self.directions)
            name = f"everybody in the rows of {' x '.join(map(str, self.dims))} along dimension {rows}"
        return f"{name} (confidence {self.confidence:.2f})"


def recognise(graph: CommGraph) -> Structure | None:
    """The regular structure of what was observed (without the modelled share), if there is one.

    Of a program that sends next to nothing outside of collectives it is the structure of these.

    Notes
    -----
    For each way to write the number of ranks as a product of up to four dimensions, pairs are grouped by
    their offset on that grid; offsets of at most two steps of which nearly all pairs exist make the stencil.
    Pencils are such a product where everybody sends the same to everybody in the same row of a dimension.
    What explains most with the fewest directions is taken. Below a confidence of 0.85 there is none.
    """
    total, observed = float(graph.nbytes.sum()), graph.nbytes - graph.modelled
    if observed.sum() < LITTLE * total:
        observed = graph.nbytes
    kept = observed > 0
    source, target = graph.source[kept], graph.target[kept]
    nbytes, messages = observed[kept], graph.messages[kept]
    if graph.ranks < 4 or not source.size:
        return None
    edges = (source, target, nbytes, messages)
    found = [_complete(graph.ranks, *edges), _hypercube(graph.ranks, *edges)]
    found += [_grid(dims, *edges) for dims in factorizations(graph.ranks) if _is_near(dims, *edges[:3])]
    found += [_pencils(dims, *edges) for dims in factorizations(graph.ranks, 3) if len(dims) > 1]
    good = [s for s in found if s is not None and s.confidence >= LEAST_CONFIDENCE]
    best = max(good, key=_preference, default=None)
    return replace(best, covered=min(1.0, float(observed.sum()) / total)) if best else None


def _preference(structure: Structure) -> tuple[float, int, int, int]:
    """Explains most; then fewest directions, nearest neighbours, fewest dimensions."""
    reach = sum(sum(map(abs, d.offset)) for d in structure.directions)
    return round(structure.confidence, 2), -len(structure.directions), -reach, -len(structure.dims)


def factorizations(n: int, most: int = MOST_DIMENSIONS) -> Iterator[tuple[int, ...]]:
    """All ordered products of up to ``most`` factors of at least 2.

    Examples
    --------
    >>> sorted(factorizations(6))
    [(2, 3), (3, 2), (6,)]
    """
    yield (n,)
    if most == 1:
        return
    for first in range(2, n // 2 + 1):
        if n % first == 0:
            yield from ((first, *rest) for rest in factorizations(n // first, most - 1))


def _coordinates(dims: tuple[int, ...], ranks: Ints) -> Ints:
    """Shape (edges, dimensions)."""
    return np.stack(np.unravel_index(ranks, dims), axis=1).astype(np.int32)


def _is_near(dims: tuple[int, ...], source: Ints, target: Ints, nbytes: Floats) -> bool:
    """Whether most bytes of a sample of the pairs go to ranks near by: most grids can be left out by that."""
    some = slice(None, None, max(1, source.size // SAMPLE))
    size = np.array(dims, np.int32)
    raw = _coordinates(dims, target[some]) - _coordinates(dims, source[some])
    wrapped = (raw + (size - 1) // 2) % size - (size - 1) // 2
    near = (np.abs(wrapped) <= FAR).all(axis=1)
    return bool(nbytes[some][near].sum() >= 0.7 * nbytes[some].sum())


def _grid(
    dims: tuple[int, ...], source: Ints, target: Ints, nbytes: Floats, messages: Floats
) -> Structure | None:
    size = np.array(dims, np.int32)
    raw = _coordinates(dims, target) - _coordinates(dims, source)
    wrapped = (raw + (size - 1) // 2) % size - (size - 1) // 2
    near = (np.abs(wrapped) <= FAR).all(axis=1)
    if nbytes[near].sum() < LEAST_CONFIDENCE * nbytes.sum():
        return None
    periodic = tuple(_is_periodic(i, d, raw, wrapped, nbytes) for i, d in enumerate(dims))
    offset = np.where([not p for p in periodic], raw, wrapped)
    usable = near & (np.abs(offset) <= FAR).all(axis=1)
    # Offsets as numbers in base 2 * FAR + 1, so that pairs can be counted by them.
    code = ((offset[usable] + FAR) * (2 * FAR + 1) ** np.arange(len(dims))).sum(axis=1)
    count = np.bincount(code)
    offsets = {int(c): _offset_of(int(c), len(dims)) for c in np.flatnonzero(count)}
    complete = {o for c, o in offsets.items() if 0 < COVERED * _pairs(dims, periodic, o) <= count[c]}
    # A stencil that reaches far or across reaches the next ranks as well; else the grid is another one.
    stencil = {o for o in complete if _steps(o) <= complete}
    directions, explained, existing, possible = [], 0.0, 0.0, 0.0
    for number, step in offsets.items():
        if step in stencil:
            mine = np.flatnonzero(usable)[code == number]
            directions.append(_direction(step, nbytes[mine], messages[mine]))
            explained += float(nbytes[mine].sum())
            existing += float(mine.size)
            possible += _pairs(dims, periodic, step)
    if not directions:
        return None
    confidence = explained / float(nbytes.sum()) * existing / possible
    return Structure("grid", dims, periodic, tuple(directions), confidence)


def _offset_of(code: int, k: int) -> tuple[int, ...]:
    base = 2 * FAR + 1
    return tuple(code // base**i % base - FAR for i in range(k))


def _steps(offset: tuple[int, ...]) -> set[tuple[int, ...]]:
    """The single steps along each dimension that an offset is made of."""
    k = len(offset)
    return {tuple((o > 0) - (o < 0) if i == j else 0 for j in range(k)) for i, o in enumerate(offset) if o}


def _is_periodic(i: int, size: int, raw: Ints, wrapped: Ints, nbytes: Floats) -> bool:
    """Across the ends of a dimension goes at least half of what a closed one would send there."""
    single = np.abs(wrapped[:, i]) == 1
    across = float(nbytes[single & (raw[:, i] != wrapped[:, i])].sum())
    inside = float(nbytes[single & (raw[:, i] == wrapped[:, i])].sum())
    # With two ranks in a dimension both ways are the same, and there is nothing to close.
    return size > 2 and across > 0 and across >= 0.5 * inside / (size - 1)


def _pairs(dims: tuple[int, ...], periodic: tuple[bool, ...], offset: tuple[int, ...]) -> int:
    """Pairs that an offset has on a grid."""
    per = [d if p else max(d - abs(o), 0) for d, p, o in zip(dims, periodic, offset, strict=True)]
    return prod(per)


def _direction(offset: tuple[int, ...], nbytes: Floats, messages: Floats) -> Direction:
    mean = float(nbytes.mean())
    return Direction(offset, mean, float(messages.mean()), float(nbytes.std()) / mean)


def _complete(n: int, source: Ints, target: Ints, nbytes: Floats, messages: Floats) -> Structure | None:
    share = source.size / (n * (n - 1))
    if n <= 8 or share < COVERED:  # few ranks: a stencil reaches nearly everybody
        return None
    everywhere = _direction((), nbytes, messages)
    even = max(0.0, 1.0 - everywhere.spread)
    return Structure("complete", (n,), (False,), (everywhere,), share * even)


def _hypercube(n: int, source: Ints, target: Ints, nbytes: Floats, messages: Floats) -> Structure | None:
    if n & (n - 1) or n < 16:  # smaller ones are grids as well
        return None
    bits = source ^ target
    single = (bits & (bits - 1)) == 0
    directions, existing = [], 0
    for k in range(n.bit_length() - 1):
        mine = single & (bits == 1 << k)
        if mine.sum() < COVERED * n:
            return None
        directions.append(_direction((k,), nbytes[mine], messages[mine]))
        existing += int(mine.sum())
    confidence = float(nbytes[single].sum() / nbytes.sum()) * existing / (n * len(directions))
    return Structure("hypercube", (n,), (False,), tuple(directions), confidence)


def _pencils(
    dims: tuple[int, ...], source: Ints, target: Ints, nbytes: Floats, messages: Floats
) -> Structure | None:
    """Everybody with everybody in the rows of some dimensions, as the transposes of an FFT do it."""
    some = slice(None, None, max(1, source.size // SAMPLE))
    differs = _coordinates(dims, target[some]) != _coordinates(dims, source[some])
    if nbytes[some][differs.sum(axis=1) == 1].sum() < 0.7 * nbytes[some].sum():
        return None
    differs = _coordinates(dims, target) != _coordinates(dims, source)
    single, n = differs.sum(axis=1) == 1, prod(dims)
    directions, explained, existing, possible = [], 0.0, 0.0, 0.0
    for i, size in enumerate(dims):
        mine = single & differs[:, i]
        # Rows of two or three are the neighbours of a grid.
        if size < 4 or mine.sum() < COVERED * n * (size - 1):
            continue
        direction = _direction((i,), nbytes[mine], messages[mine])
        if direction.spread > UNEVEN:
            return None
        directions.append(direction)
        explained += float(nbytes[mine].sum())
        existing += float(mine.sum())
        possible += n * (size - 1)
    if not directions:
        return None
    confidence = explained / float(nbytes.sum()) * existing / possible
    return Structure("pencils", dims, tuple(False for _ in dims), tuple(directions), confidence)


def balanced_dims(n: int, k: int) -> tuple[int, ...]:
    """As equal as can be, in falling order, as MPI_Dims_create makes them.

    Examples
    --------
    >>> balanced_dims(24, 3)
    (4, 3, 2)
    """
    best = (n, *[1] * (k - 1))
    for dims in _products(n, k):
        ordered = tuple(sorted(dims, reverse=True))
        if ordered[0] - ordered[-1] < best[0] - best[-1]:
            best = ordered
    return best


def _products(n: int, k: int) -> Iterator[tuple[int, ...]]:
    if k == 1:
        yield (n,)
        return
    for first in range(1, n + 1):
        if n % first == 0:
            yield from ((first, *rest) for rest in _products(n // first, k - 1))


def scaled_dims(structure: Structure, n: int) -> tuple[tuple[int, ...], float]:
    """Dimensions at another number of ranks, and how sure that is (0..1).

    A grid that was as balanced as MPI makes them stays so; of others the proportions are kept.
    """
    k, old = len(structure.dims), structure.dims
    if n == prod(old):
        return old, 1.0
    if structure.kind == "hypercube":
        return (n,), 0.9 * _regular_bits(structure)
    if structure.kind == "complete":
        return (n,), 0.9
    for turn in (1, -1):
        if old == balanced_dims(prod(old), k)[::turn]:
            wanted_dims = balanced_dims(n, k)[::turn]
            return wanted_dims, 0.9 * _two_may_be_closed(structure, wanted_dims)
    grown = (n / prod(old)) ** (1 / k)
    wanted = np.log(np.array(old) * grown)
    fitting = min(_products(n, k), key=lambda d: float(((np.log(d) - wanted) ** 2).sum()))
    return fitting, 0.5


def _two_may_be_closed(structure: Structure, dims: tuple[int, ...]) -> float:
    """With two ranks in a dimension nobody can see whether it is closed; it matters where it grows."""
    if structure.kind != "grid":
        return 1.0
    return OPEN_OR_CLOSED ** sum(a == 2 and b > 2 for a, b in zip(structure.dims, dims, strict=True))


def _regular_bits(structure: Structure) -> float:
    """1 where the sizes of a hypercube's bits follow a law (all alike, or one factor from bit to bit)."""
    sizes = np.log([d.nbytes for d in structure.directions])
    steps = np.arange(sizes.size)
    off = sizes - np.polyval(np.polyfit(steps, sizes, 1), steps)
    return float(np.exp(-np.abs(off).max()))


def scale(structure: Structure, n: int, growth: Growth | None = None) -> tuple[CommGraph, float]:
    """The graph that the structure has at n ranks, and its confidence (0..1).

    Parameters
    ----------
    growth
        How sizes change with the number of ranks (:func:`fit_growth`). None: what a rank sends in a direction
        stays as it was (the problem grows with the ranks).

    Raises
    ------
    GraphError
        There is no such structure of n ranks (a hypercube of a number that is no power of two).

    Notes
    -----
    The confidence is that of the structure, times its covered share, times how sure the dimensions are, times
    how sure the sizes are *beside each other*: a common factor moves no rank. ``meta["sizes"]`` says what
    that factor may be.
    """
    if structure.kind == "hypercube" and (n < 2 or n & (n - 1)):
        raise GraphError(f"{n} ranks: no hypercube; trace the program at that number of ranks")
    if n < 2:
        raise GraphError(f"{n} ranks: nothing to communicate; give at least 2")
    dims, sure = scaled_dims(structure, n)
    growth = growth or Growth()
    factors = growth.factors(structure, dims)
    source, target, nbytes, messages = [], [], [], []
    for direction, u, v in _arrows(structure, n, dims):
        source.append(u)
        target.append(v)
        nbytes.append(np.full(u.size, direction.nbytes * factors[direction.offset]))
        messages.append(np.full(u.size, direction.messages))
    parts = [np.concatenate(p) for p in (source, target, nbytes, messages)]
    confidence = structure.confidence * structure.covered * sure * growth.certainty(structure, dims)
    meta = {
        "origin": "scaled",
        "structure": structure.describe(),
        "scaled_from": prod(structure.dims),
        "confidence": confidence,
        "sizes": growth.describe(structure, dims),
    }
    return build_graph(n, parts[0], parts[1], parts[2], parts[3], None, meta), confidence


def _arrows(structure: Structure, n: int, dims: tuple[int, ...]) -> Iterator[tuple[Direction, Ints, Ints]]:
    ranks = np.arange(n, dtype=np.int32)
    if structure.kind == "complete":
        u, v = np.divmod(np.arange(n * n, dtype=np.int32), n)
        yield structure.directions[0], u[u != v], v[u != v]
    elif structure.kind == "hypercube":
        # A bit that the smaller one did not have weighs as much as its highest one.
        for k in range(n.bit_length() - 1):
            direction = structure.directions[min(k, len(structure.directions) - 1)]
            yield direction, ranks, ranks ^ np.int32(1 << k)
    elif structure.kind == "pencils":
        place = _coordinates(dims, ranks)
        for direction in structure.directions:
            (i,) = direction.offset
            for step in range(1, dims[i]):
                there = place.copy()
                there[:, i] = (there[:, i] + step) % dims[i]
                yield direction, ranks, np.ravel_multi_index(tuple(there.T), dims).astype(np.int32)
    else:
        place = _coordinates(dims, ranks)
        for direction in structure.directions:
            yield direction, *_moved(dims, structure.periodic, place, direction.offset)


def _moved(
    dims: tuple[int, ...], periodic: tuple[bool, ...], place: Ints, offset: tuple[int, ...]
) -> tuple[Ints, Ints]:
    """Ranks that have a partner at the offset, and the partners."""
    size = np.array(dims, np.int32)
    there = place + np.array(offset, np.int32)
    inside = ((there >= 0) & (there < size) | np.array(periodic)).all(axis=1)
    partner = np.ravel_multi_index(tuple((there % size).T), dims).astype(np.int32)
    ranks = np.arange(place.shape[0], dtype=np.int32)
    kept = inside & (partner != ranks)
    return ranks[kept], partner[kept]
