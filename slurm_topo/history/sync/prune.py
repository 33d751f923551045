"""What nobody needs any more in a user's spool folder: old graphs, refused files, halves of writers."""

from __future__ import annotations

import re
from collections.abc import Collection

from slurm_topo.history.sync.advice import FORGET_S
from slurm_topo.history.sync.spool import UserSpool

_DAY_S = 86400
# A job was marked with the graph of its submission and may wait so long in the queue.
GRAPH_S = 30 * _DAY_S
# Of the graphs that no advice names, so many stay: the newest.
MOST_GRAPHS = 100
_GRAPH = re.compile(r"^([0-9a-f]{1,64})\.(npz|start)$")
# Under these names files are written before they are renamed (docs/formats.md).
_HALF = re.compile(r"^\..+\.(npz|plan)\.\w+$|\.trace\.\d+\.tmp$")


def prune(spool: UserSpool, wanted: Collection[str], now: int) -> int:
    """Remove what is too old; the number of files.

    A graph that advice names is touched: the time of a graph is the day on which it was last named.

    Parameters
    ----------
    wanted
        Digests of the graphs that advice names to this user.
    now : int
        Seconds since the epoch.

    Raises
    ------
    SpoolError
        A folder cannot be used.
    """
    old = []
    others: list[tuple[int, str]] = []
    for info in spool.list("graphs"):
        match = _GRAPH.match(info.name)
        if not match:
            continue
        if match[1] in wanted:
            spool.touch("graphs", info.name, now)
        else:
            others.append((-info.modified, info.name))
    for number, (modified, name) in enumerate(sorted(others)):
        if number >= MOST_GRAPHS or now + modified > GRAPH_S:
            old.append(("graphs", name))
    for folder in ("graphs", "plans", "traces"):
        halves = [f for f in spool.list(folder) if _HALF.search(f.name)]
        old += [(folder, f.name) for f in halves if now - f.modified > _DAY_S]
    old += [("rejected", f.name) for f in spool.list("rejected") if now - f.modified > FORGET_S]
    for folder, name in old:
        spool.remove(folder, name)
    return len(old)
