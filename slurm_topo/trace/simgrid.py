"""SimGrid's time-independent traces: ``rank action arguments``, one a line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from slurm_topo.trace.graph_io import MOST_RANKS

# Bytes of SMPI's type numbers; 1 for those that are not listed.
TYPE_BYTES = {
    "0": 8,
    "1": 4,
    "2": 1,
    "3": 2,
    "4": 8,
    "5": 4,
    "6": 1,
    "7": 8,
    "8": 1,
    "9": 1,
    "10": 2,
    "11": 4,
    "12": 8,
    "13": 8,
    "14": 16,
    "15": 4,
    "16": 1,
    "17": 1,
    "18": 2,
    "19": 4,
    "20": 8,
    "21": 1,
    "22": 2,
    "23": 4,
    "24": 8,
    "25": 8,
    "26": 16,
    "27": 32,
    "28": 8,
    "29": 8,
}
# A rank number that was damaged would make a world of ranks that do nothing.
MOST_SILENT = 16
POINT_TO_POINT = ("send", "isend", "ssend", "sendrecv")


@dataclass
class Sends:
    """Messages in the order of the trace, one entry a message or a step of a collective."""

    ranks: int = 1
    source: list[int] = field(default_factory=list)
    target: list[int] = field(default_factory=list)
    nbytes: list[float] = field(default_factory=list)
    messages: list[float] = field(default_factory=list)
    modelled: list[float] = field(default_factory=list)

    def add(self, source: int, target: int, nbytes: float, modelled: bool) -> None:
        """One message."""
        self.source.append(source)
        self.target.append(target)
        self.nbytes.append(nbytes)
        self.messages.append(1.0)
        self.modelled.append(nbytes if modelled else 0.0)


def read_actions(lines: Iterable[str]) -> Sends:
    """What each rank sends.

    Raises
    ------
    ValueError, IndexError
        A line has too few arguments, or one that is no number.
    """
    actions = [words for line in lines if (words := line.split()) and words[0].isdigit()]
    acting = {int(words[0]) for words in actions}
    sends = Sends(ranks=1 + max(acting))
    unit: dict[int, int] = {}
    for words in actions:
        rank, action, arguments = int(words[0]), words[1].lower(), words[2:]
        if action == "init":
            unit[rank] = 1 if arguments else 8
        elif action in POINT_TO_POINT:
            target = int(arguments[0])
            kind = arguments[3] if len(arguments) > 3 else None
            sends.add(rank, target, _amount(arguments[2]) * _bytes(kind, unit.get(rank, 8)), False)
            sends.ranks = max(sends.ranks, target + 1)
            if target < 0 or sends.ranks > MOST_RANKS:
                raise ValueError(f"{' '.join(words)!r}: no such rank")
        else:
            if sends.ranks > MOST_SILENT * len(acting):
                raise ValueError(f"a collective of {sends.ranks} ranks, of which {len(acting)} do anything")
            for target, nbytes in _collective(action, arguments, rank, sends.ranks, unit.get(rank, 8)):
                sends.add(rank, target, nbytes, True)
    return sends


def _bytes(kind: str | None, default: int) -> int:
    return default if kind is None else TYPE_BYTES.get(kind, 1)


def _numbers(arguments: list[str], count: int) -> list[float]:
    if len(arguments) < count:
        raise ValueError(f"{' '.join(arguments)!r}: {count} numbers expected")
    return [_amount(a) for a in arguments[:count]]


def _amount(text: str) -> float:
    value = float(text)
    if not 0 <= value < 2.0**63:
        raise ValueError(f"{text!r} is no number of bytes")
    return value


def _collective(
    action: str, arguments: list[str], rank: int, n: int, unit: int
) -> Iterator[tuple[int, float]]:
    """What this rank sends, by a common algorithm: trees from and to a root, a ring, or directly."""
    if action in ("bcast", "reduce"):
        at = 1 if action == "bcast" else 2
        root = _root(arguments[at], n) if len(arguments) > at else 0
        kind = arguments[at + 1] if len(arguments) > at + 1 else None
        size = _numbers(arguments, 1)[0] * _bytes(kind, unit)
        yield from _tree(rank, n, root, size, down=action == "bcast")
    elif action == "allreduce":
        kind = arguments[2] if len(arguments) > 2 else None
        size = _numbers(arguments, 1)[0] * _bytes(kind, unit)
        yield from _tree(rank, n, 0, size, down=False)
        yield from _tree(rank, n, 0, size, down=True)
    elif action in ("gather", "scatter"):
        root = _root(arguments[2], n) if len(arguments) > 2 else 0
        size = _numbers(arguments, 1)[0] * _bytes(arguments[3] if len(arguments) > 3 else None, unit)
        if action == "gather" and rank != root:
            yield root, size
        elif action == "scatter" and rank == root:
            yield from ((other, size) for other in range(n) if other != root)
    elif action == "allgather":
        size = _numbers(arguments, 1)[0] * _bytes(arguments[2] if len(arguments) > 2 else None, unit)
        yield from (((rank + 1) % n, size) for _ in range(n - 1))
    elif action == "alltoall":
        size = _numbers(arguments, 1)[0] * _bytes(arguments[2] if len(arguments) > 2 else None, unit)
        yield from ((other, size) for other in range(n) if other != rank)
    elif action in ("alltoallv", "allgatherv", "reducescatter"):
        yield from _with_counts(action, arguments, rank, n, unit)


def _with_counts(
    action: str, arguments: list[str], rank: int, n: int, unit: int
) -> Iterator[tuple[int, float]]:
    if action == "alltoallv":
        counts = _numbers(arguments, n + 1)[1:]
        kind = arguments[2 * n + 2] if len(arguments) > 2 * n + 2 else None
        yield from ((o, counts[o] * _bytes(kind, unit)) for o in range(n) if o != rank and counts[o])
    elif action == "allgatherv":
        counts = _numbers(arguments, n + 1)[1:]
        kind = arguments[n + 1] if len(arguments) > n + 1 else None
        yield from (((rank + 1) % n, counts[(rank - i) % n] * _bytes(kind, unit)) for i in range(n - 1))
    else:
        counts = _numbers(arguments, n)
        kind = arguments[n + 1] if len(arguments) > n + 1 else None
        yield from ((o, counts[o] * _bytes(kind, unit)) for o in range(n) if o != rank)


def _root(text: str, n: int) -> int:
    root = int(_amount(text))
    if root >= n:
        raise ValueError(f"root {text} of {n} ranks")
    return root


def _tree(rank: int, n: int, root: int, size: float, down: bool) -> Iterator[tuple[int, float]]:
    """A binomial tree: each rank's parent lacks its lowest set bit."""
    own = (rank - root) % n
    if not down:
        if own:
            yield ((own & (own - 1)) + root) % n, size
        return
    mask = 1
    while mask < n and not own & mask:
        if own + mask < n:
            yield (own + mask + root) % n, size
        mask <<= 1
