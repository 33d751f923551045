"""Which GPUs of a node each of its ranks gets: near its cores first, then near those that it talks to."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slurm_topo.model import Floats

# Each cycle shortens a sum of whole numbers, so that few are ever needed.
_MOST_STEPS = 1000
# A launch waits: rows of exchanges get shorter as they get dearer, and there are not many.
_ROW_WORK = 2048
_MOST_ROWS = 8
_TINY = 1e-9


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

    Minimises ``sum far[i, bin i]``, and among the assignments of that sum, as far as exchanges lead,
    ``sum over i<j of between[i, j] * apart[bin i, bin j]``.
    """
    chosen = _greedy(far)
    for _ in range(_MOST_STEPS):
        cycle = _better_cycle(far, chosen)
        if not cycle:
            break
        for item, target in cycle:
            chosen[item] = target
    if not apart.any():
        return chosen
    for _ in range(_MOST_ROWS):
        if not _exchange(chosen, far, between, apart):
            break
    return chosen


def _better_cycle(far: Floats, chosen: NDArray[np.intp]) -> list[tuple[int, int]]:
    """Items with new bins, one from each bin of a cycle, that shorten the sum; empty where nothing does.

    One more bin, the last, stands for the spare place of the bins with less: a cycle through it moves that.
    """
    items, bins = far.shape
    load = np.bincount(chosen, minlength=bins)
    low = load < -(-items // bins)
    step = np.full((bins + 1, bins + 1), np.inf)
    step[:bins, bins][low] = 0.0
    step[bins, :bins][~low] = 0.0
    mover = np.full((bins, bins), -1, dtype=np.intp)
    for a in range(bins):
        own = np.flatnonzero(chosen == a)
        if own.size:
            extra = far[own] - far[own, a][:, None]
            mover[a] = own[extra.argmin(axis=0)]
            step[a, :bins] = extra.min(axis=0)
    np.fill_diagonal(step, np.inf)
    path = _negative_cycle(step)
    return [(int(mover[a, b]), b) for a, b in zip(path, path[1:] + path[:1], strict=True) if max(a, b) < bins]


def _negative_cycle(step: Floats) -> list[int]:
    """Nodes of a cycle of negative length (Bellman and Ford), empty where there is none."""
    size = len(step)
    length, before = np.zeros(size), np.full(size, -1, dtype=np.intp)
    node = -1
    for _ in range(size + 1):
        over = length[:, None] + step
        best = over.argmin(axis=0)
        shorter = np.flatnonzero(over.min(axis=0) < length - _TINY)
        if not shorter.size:
            return []
        length[shorter], before[shorter] = over[best[shorter], shorter], best[shorter]
        node = int(shorter[0])
    for _ in range(size):
        node = int(before[node])
    path = [node]
    while before[path[-1]] != node:
        path.append(int(before[path[-1]]))
    return path[::-1]


def _exchange(chosen: NDArray[np.intp], far: Floats, between: Floats, apart: Floats) -> bool:
    """A row of exchanges and moves that keep the distances, cut where links are best; False: no better.

    Each item takes part once, also where a step alone does not help (Kernighan and Lin's way).
    """
    items = np.arange(len(chosen))
    trial, free = chosen.copy(), np.ones(len(chosen), dtype=bool)
    gain, best_gain, best = 0.0, 0.0, chosen.copy()
    tiny = _TINY * float(between.max() * apart.max())
    for _ in range(min(len(chosen), max(_ROW_WORK // len(chosen), 4))):
        at = apart[trial]
        pull = between @ at - np.diag(between)[:, None] * at
        pull -= pull[items, trial][:, None]
        swap, move = _choices(trial, far, free)
        own = np.diag(apart)[trial]
        # The cost of the pair itself does not change.
        pair = 2.0 * at[:, trial] - own[:, None] - own[None, :]
        swaps = np.where(swap, pull[:, trial] + pull[:, trial].T + between * pair, np.inf)
        moves = np.where(move, pull, np.inf)
        if min(swaps.min(), moves.min()) == np.inf:
            break
        if swaps.min() <= moves.min():
            i, j = (int(k) for k in np.unravel_index(int(swaps.argmin()), swaps.shape))
            gain -= float(swaps[i, j])
            trial[[i, j]] = trial[[j, i]]
            free[[i, j]] = False
        else:
            i, j = (int(k) for k in np.unravel_index(int(moves.argmin()), moves.shape))
            gain -= float(moves[i, j])
            trial[i], free[i] = j, False
        if gain > best_gain + tiny:
            best_gain, best = gain, trial.copy()
    chosen[:] = best
    return best_gain > 0.0


def _choices(
    chosen: NDArray[np.intp], far: Floats, free: NDArray[np.bool_]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Pairs of items that may change places, and items that may go to a bin with less, at no distance."""
    more = far - far[np.arange(len(chosen)), chosen][:, None]
    both = more[:, chosen]
    swap = (both + both.T <= 0) & (chosen[:, None] != chosen[None, :]) & free[:, None] & free[None, :]
    load = np.bincount(chosen, minlength=far.shape[1])
    move = (more <= 0) & (load[None, :] < load[chosen][:, None]) & free[:, None]
    return swap, move


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
