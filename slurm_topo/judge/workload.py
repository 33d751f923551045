"""A communication graph as messages in an order: what each rank posts, and when it waits."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from slurm_topo.model import CommGraph

# Messages that a rank has open before it waits: neighbours of a halo at once, an all-to-all in portions.
WINDOW = 64
# A simulated message stays below what an int of MPI counts.
MOST_BYTES = 1e9


@dataclass(frozen=True)
class Workload:
    """Rounds of messages that stand for the whole run.

    Attributes
    ----------
    rank_text : tuple of str, length n
        The actions of each rank, in SimGrid's time-independent format.
    repeats : float
        How often the run does what is simulated once.
    """

    rank_text: tuple[str, ...]
    repeats: float


def workload_of(graph: CommGraph, rounds: int = 1, window: int = WINDOW) -> Workload:
    """Rounds of non-blocking messages, a wait after each portion.

    Parameters
    ----------
    graph : CommGraph
        n ranks; bytes and messages of the whole run.
    rounds : int
        How many iterations are simulated. With one, every pair sends once; with more, a pair that sends in
        every third iteration does so here too.
    window : int
        Most messages that a rank sends (or receives) before it waits.

    Notes
    -----
    The number of iterations is that of the messages of the busiest pair (one where the graph knows none).
    Messages are posted by distance (target - source) modulo n, as pairwise exchanges do, and portions end at
    the same distances for all ranks: all can go on, whoever is quicker.
    """
    most = float(graph.messages.max(initial=0.0))
    iterations = max(most, 1.0, float(graph.nbytes.max(initial=0.0)) / MOST_BYTES)
    rounds = max(1, min(rounds, int(iterations)))
    portion = _portions(graph, window)
    frequency = graph.messages / iterations if most > 0 else np.ones(graph.source.size)
    actions: list[list[str]] = [[f"{rank} init"] for rank in range(graph.ranks)]
    for turn in range(rounds):
        active, size = _messages(graph, frequency, iterations, rounds, turn)
        for number in range(int(portion.max(initial=-1)) + 1):
            _post(graph, np.flatnonzero(active & (portion == number)), size, actions)
    for rank, lines in enumerate(actions):
        lines.append(f"{rank} finalize")
    return Workload(tuple("\n".join(lines) + "\n" for lines in actions), iterations / rounds)


def write_actions(workload: Workload, folder: Path) -> Path:
    """A file a rank and the list of them; the list's path."""
    names = []
    for rank, text in enumerate(workload.rank_text):
        names.append(folder / f"rank-{rank}.txt")
        names[-1].write_text(text, encoding="ascii")
    listing = folder / "ranks.txt"
    listing.write_text("".join(f"{name}\n" for name in names), encoding="utf-8")
    return listing


def _portions(graph: CommGraph, window: int) -> NDArray[np.int64]:
    """Portion of each pair, by its distance; int64 array, shape (e,)."""
    n = graph.ranks
    if not graph.source.size:
        return np.empty(0, np.int64)
    distance = (graph.target.astype(np.int64) - graph.source) % n
    order = np.argsort(distance, kind="stable")
    starts = (
        np.flatnonzero(np.r_[True, np.diff(distance[order]) != 0]) if order.size else np.empty(0, np.int64)
    )
    number_of = np.zeros(n, dtype=np.int64)
    open_messages, number = np.zeros(2 * n, np.int64), 0
    for begin, end in zip(starts, np.r_[starts[1:], order.size], strict=True):
        members = order[begin:end]
        ends = np.r_[graph.source[members].astype(np.int64), graph.target[members].astype(np.int64) + n]
        more = np.bincount(ends, minlength=2 * n)
        if open_messages.any() and (open_messages + more).max() > window:
            number += 1
            open_messages[:] = 0
        open_messages += more
        number_of[distance[members[0]]] = number
    found: NDArray[np.int64] = number_of[distance]
    return found


def _messages(
    graph: CommGraph, frequency: NDArray[np.float64], iterations: float, rounds: int, turn: int
) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Which pairs send in a round, and how much: all bytes of the pair are sent in all rounds together."""
    before, after = np.floor(frequency * turn), np.floor(frequency * (turn + 1))
    total = np.floor(frequency * rounds)
    # A pair that is too rare for these rounds sends its share in the last one.
    rare = total < 1
    active = np.where(rare, turn == rounds - 1, after > before)
    size = graph.nbytes * rounds / iterations / np.maximum(total, 1)
    return active, size


def _post(
    graph: CommGraph, pairs: NDArray[np.int64], size: NDArray[np.float64], actions: list[list[str]]
) -> None:
    waiting: set[int] = set()
    sources, targets = graph.source[pairs].tolist(), graph.target[pairs].tolist()
    sizes = np.ceil(size[pairs]).astype(np.int64).tolist()
    for source, target, nbytes in zip(sources, targets, sizes, strict=True):
        actions[target].append(f"{target} irecv {source} 0 {nbytes}")
        waiting.add(target)
    distance = (graph.target[pairs].astype(np.int64) - graph.source[pairs]) % graph.ranks
    for at in np.argsort(distance, kind="stable").tolist():
        actions[sources[at]].append(f"{sources[at]} isend {targets[at]} 0 {sizes[at]}")
        waiting.add(sources[at])
    for rank in waiting:
        actions[rank].append(f"{rank} waitall")
