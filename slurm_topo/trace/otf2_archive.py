"""OTF2 archives (Score-P and others), read with the reader of their own developers.

That reader is native code, and a damaged archive may end it: it works in a process of its own
(``python -m slurm_topo.trace.otf2_archive FILE``), which writes the graph to standard output.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from slurm_topo.errors import GraphError
from slurm_topo.model import CommGraph
from slurm_topo.trace.graph_io import MOST_RANKS, build_graph, format_graph, parse_graph

MISSING = 3
_TO_ROOT = ("GATHER", "GATHERV", "REDUCE")
_FROM_ROOT = ("BCAST", "SCATTER", "SCATTERV")
_DIRECT = ("ALLTOALL", "ALLTOALLV", "ALLTOALLW")


def read_archive(file: Path) -> CommGraph:
    """The graph of an archive, by its anchor file (``traces.otf2``).

    Raises
    ------
    GraphError
        The reader is not installed, or the archive is damaged or holds no MPI.
    """
    command = [sys.executable, "-m", __name__, str(file)]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode == MISSING:
        raise GraphError(f"{file}: OTF2 is read with the Python package otf2; pip install 'slurm-topo[otf2]'")
    if done.returncode or not done.stdout:
        raise GraphError(f"{file}: {_reason(done.returncode, done.stderr)}; write the archive again")
    return parse_graph(done.stdout, str(file))


def _reason(code: int, stderr: bytes) -> str:
    """The last line that the process said, without what the library prefixes."""
    lines = [line for line in stderr.decode("utf-8", "replace").splitlines() if line.strip()]
    if code < 0 or not lines:
        return f"is a damaged OTF2 archive (its reader ended with {code})"
    said = " ".join(lines[-1].split())
    return said if said.startswith("is ") else f"is a damaged OTF2 archive ({said[:200]})"


class Messages:
    """Sums over pairs of world ranks while events are read."""

    def __init__(self, world: Mapping[Any, int]) -> None:
        self.world = world
        self.sums: dict[tuple[int, int], list[float]] = {}
        self.calls: Counter[str] = Counter()
        self.collective_bytes = 0.0
        self.lost = 0
        self._members: dict[tuple[int, int], list[int]] = {}

    def rank(self, location: Any) -> int:
        """World rank of the process that a location belongs to, -1 where it has none."""
        return self.world.get(location.group, -1)

    def members(self, communicator: Any, me: int, remote: bool = True) -> list[int]:
        """World ranks of a communicator; of one between groups, those of the other side."""
        key = (id(communicator), me if hasattr(communicator, "group_a") else -1)
        if key not in self._members:
            self._members[key] = self._look_up(communicator, me)
        return self._members[key]

    def _look_up(self, communicator: Any, me: int) -> list[int]:
        if not hasattr(communicator, "group_a"):
            return [self.rank(location) for location in communicator.group.members]
        sides = [[self.rank(m) for m in g.members] for g in (communicator.group_a, communicator.group_b)]
        return sides[1] if me in sides[0] else sides[0]

    def send(self, me: int, communicator: Any, partner: int, nbytes: int, reverse: bool = False) -> None:
        """One message to a rank of the communicator (from it, where reversed)."""
        members = self.members(communicator, me)
        if not 0 <= partner < len(members) or me < 0 or members[partner] < 0:
            self.lost += bool(members)  # a communicator of one rank lists nobody
            return
        pair = (members[partner], me) if reverse else (me, members[partner])
        self._add(*pair, float(nbytes), 1.0, 0.0)

    def collective(self, me: int, event: Any) -> None:
        """What one rank sends in a collective, spread over those that may get it."""
        name = str(getattr(event.collective_op, "name", event.collective_op)).rpartition("_OP_")[2]
        name = name.rpartition(".")[2]
        members = self.members(event.communicator, me)
        self.calls[name] += 1
        self.collective_bytes += event.size_sent
        others = [m for m in members if m not in (me, -1)]
        if me < 0 or not others or not event.size_sent:
            return
        if name in _TO_ROOT + _FROM_ROOT:
            root = members[event.root] if 0 <= event.root < len(members) else -1
            if (name in _TO_ROOT) == (me == root) or root < 0:
                return
            others = [root] if name in _TO_ROOT else others
        # By a tree or in rounds nobody sends more messages than that; how they go is the library's affair.
        messages = len(others) if name in _DIRECT else min(len(others), len(others).bit_length())
        for other in others:
            share = event.size_sent / len(others)
            self._add(me, other, share, messages / len(others), share)

    def _add(self, source: int, target: int, nbytes: float, messages: float, modelled: float) -> None:
        sums = self.sums.setdefault((source, target), [0.0, 0.0, 0.0])
        sums[0] += nbytes
        sums[1] += messages
        sums[2] += modelled


def read_events(path: str) -> CommGraph:
    """The graph of an archive, in this process.

    Raises
    ------
    ValueError
        It holds no MPI.
    """
    import otf2

    with otf2.reader.open(path) as trace:
        world = _world(otf2, trace)
        if not world:
            raise ValueError("is an OTF2 archive without MPI ranks")
        if len(world) > MOST_RANKS:
            raise ValueError(f"is an OTF2 archive of {len(world)} ranks, more than {MOST_RANKS}")
        found = Messages(world)
        events, expected = 0, sum(location.number_of_events for location in trace.definitions.locations)
        for location, event in trace.events:
            _take(otf2.events, found, found.rank(location), event)
            events += 1
    if events < expected:
        raise ValueError(f"only {events} of {expected} events are there")
    pairs = np.array(list(found.sums), np.int32).reshape(-1, 2)
    sums = np.array(list(found.sums.values())).reshape(-1, 3)
    meta = {
        "origin": "OTF2",
        "collective_calls": dict(sorted(found.calls.items())),
        "collective_bytes": float(found.collective_bytes),
        "foreign_messages": found.lost,
    }
    return build_graph(len(world), pairs[:, 0], pairs[:, 1], sums[:, 0], sums[:, 1], sums[:, 2], meta)


def _world(otf2: Any, trace: Any) -> dict[Any, int]:
    """World rank of each process (location group)."""
    for group in trace.definitions.groups:
        if group.group_type == otf2.GroupType.COMM_LOCATIONS and group.paradigm == otf2.Paradigm.MPI:
            return {location.group: rank for rank, location in enumerate(group.members)}
    return {}


def _take(kinds: Any, found: Messages, me: int, event: Any) -> None:
    if isinstance(event, kinds.MpiSend | kinds.MpiIsend):
        found.send(me, event.communicator, event.receiver, event.msg_length)
    elif isinstance(event, kinds.MpiCollectiveEnd):
        found.collective(me, event)
    elif isinstance(event, kinds.RmaPut):
        found.send(me, event.win.comm, event.remote, event.bytes)
    elif isinstance(event, kinds.RmaGet):
        found.send(me, event.win.comm, event.remote, event.bytes, reverse=True)
    elif isinstance(event, kinds.RmaAtomic):
        found.send(me, event.win.comm, event.remote, event.bytes_sent)
        if event.bytes_received:
            found.send(me, event.win.comm, event.remote, event.bytes_received, reverse=True)


def _main(path: str) -> int:
    try:
        import otf2  # noqa: F401
    except ImportError:
        return MISSING
    try:
        sys.stdout.buffer.write(format_graph(read_events(path)))
    except Exception as error:
        # Its own errors are of many kinds; one line of each is enough for whoever started us.
        print(" ".join(str(error).split()) or type(error).__name__, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1]))
