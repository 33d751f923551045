"""Which GPUs of a node each of its ranks gets: near its cores first, then near those that it talks to."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slurm_topo.model import Floats

# Exchanges of one assignment; each is an improvement, so that few are ever needed.
_MOST_STEPS = 1000


def assign_gpus(
    distance: NDArray[np.integer], traffic: Floats | None = None, bandwidth: Floats | None = None
) -> list[tuple[int, ...]]:
    """GPUs of each rank of one node.

    Parameters
    ----------
    distance : int array, shape (r, g)
        How far GPU j is from the cores of rank i.
    traffic : float array, shape (r, r), optional
        What the ranks exchange, both ways together, in any unit.
    bandwidth : float array, shape (g, g), optional
        Of the link between two GPUs, in any unit; 0 where unknown.

    Returns
    -------
    list of tuples of int, length r
        GPU numbers, ascending. With more ranks than GPUs one each, and no two GPUs serve numbers of ranks
        that differ by more than one; else every GPU has one rank, and no two ranks have numbers of GPUs that
        differ by more than one. (No GPU: empty tuples.)

    Notes
    -----
    Among even assignments the sum of distances comes first, then the sum over pairs of ranks of
    ``traffic / bandwidth``. GPUs of one rank count as a pair that exchanges as much as the busiest one.
    """
    ranks, gpus = distance.shape
    if not gpus or not ranks:
        return [() for _ in range(ranks)]
    talk = np.zeros((ranks, ranks)) if traffic is None else np.array(traffic, dtype=np.float64)
    np.fill_diagonal(talk, talk.max() or 1.0)
    slow = _slowness(gpus, bandwidth)
    if ranks >= gpus:
        chosen = _assign(distance.astype(np.float64), talk, slow)
        return [(int(gpu),) for gpu in chosen]
    owner = _assign(distance.T.astype(np.float64), slow, talk)
    return [tuple(int(g) for g in np.flatnonzero(owner == rank)) for rank in range(ranks)]


def _slowness(gpus: int, bandwidth: Floats | None) -> Floats:
    """Seconds a unit of traffic between GPUs, 0 on the diagonal; links that nobody knows are the slowest."""
    slow = np.zeros((gpus, gpus))
    if bandwidth is None or not (bandwidth > 0).any():
        return slow
    known = bandwidth > 0
    slow[known] = 1.0 / bandwidth[known]
    slow[~known] = slow.max()
    np.fill_diagonal(slow, 0.0)
    return (slow + slow.T) / 2.0


def _assign(far: Floats, between: Floats, apart: Floats) -> NDArray[np.intp]:
    """Bin of each item, loads of bins as even as can be.

    Minimises ``sum far[i, bin i]`` and then ``sum over i<j of between[i, j] * apart[bin i, bin j]``, by
    exchanging two items and by moving one to a bin with less, from a greedy start.
    """
    chosen = _greedy(far)
    # One step of distance outweighs everything that links can win.
    total = float(between.sum() * apart.max()) or 1.0
    weight = 2.0 / total
    items = np.arange(len(chosen))
    for _ in range(_MOST_STEPS):
        at = apart[chosen]
        pull = weight * (between @ at - np.diag(between)[:, None] * at)
        cost = far + pull
        here = cost[items, chosen]
        swap = cost[:, chosen] - here[:, None]
        swap = swap + swap.T + weight * between * _exchange(apart, chosen)
        swap[chosen[:, None] == chosen[None, :]] = 0.0
        move = cost - here[:, None]
        load = np.bincount(chosen, minlength=far.shape[1])
        move[load[None, :] >= load[chosen][:, None]] = 0.0
        if min(swap.min(), move.min()) > -1e-9:
            break
        if swap.min() <= move.min():
            i, j = np.unravel_index(int(swap.argmin()), swap.shape)
            chosen[[i, j]] = chosen[[j, i]]
        else:
            i, j = np.unravel_index(int(move.argmin()), move.shape)
            chosen[i] = j
    return chosen


def _exchange(apart: Floats, chosen: NDArray[np.intp]) -> Floats:
    """What an exchange of two items is charged too much for the pair itself, whose cost does not change."""
    own = np.diag(apart)[chosen]
    return 2.0 * apart[np.ix_(chosen, chosen)] - own[:, None] - own[None, :]


def _greedy(far: Floats) -> NDArray[np.intp]:
    """The nearest pairs first; loads of bins differ by one at most."""
    items, bins = far.shape
    chosen = np.full(items, -1, dtype=np.intp)
    order = np.argsort(far, axis=None, kind="stable")
    for room in (items // bins, 1 if items % bins else 0):
        left = np.full(bins, room)
        for pair in order.tolist():
            item, target = divmod(pair, bins)
            if chosen[item] < 0 and left[target]:
                chosen[item] = target
                left[target] -= 1
    return chosen
