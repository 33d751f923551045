"""What the links of a machine carry: from the levels, or from what somebody gave or measured."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slurm_topo.model import Floats, Ints, Level, Machine

# Calibration between two nodes sees the tier above a leaf only where it carries less than their own links.
_NARROWER = 0.9


def link_bandwidths(machine: Machine) -> Floats:
    """Bytes per second, each direction, of the links above each core's groups; float64 array, shape (k, c).

    Notes
    -----
    A level's bandwidth is what a core keeps while all others communicate too (docs/machine.md). So the links
    that join a group with level l + 1 carry the number of its cores times the bandwidth of level l + 1,
    unless ``machine.link_bandwidth`` knows better. The root has no links: infinite.
    """
    if machine.link_bandwidth is not None:
        return machine.link_bandwidth
    return _shared(machine.levels, list(machine.groups))


def known_links(
    levels: Sequence[Level], groups: Sequence[Ints], node: Ints, owned_share: Floats
) -> Floats | None:
    """``Machine.link_bandwidth``, or None where the levels say all that is known.

    Parameters
    ----------
    levels, groups : sequences of length k
        As in a machine.
    node : int32 array, shape (c,)
        Node of each core.
    owned_share : float64 array, shape (n,)
        The part of each node's cores that the job has: so much of the node's links is counted.
    """
    at = next((i for i, level in enumerate(levels) if level.name == "node"), len(levels))
    if not any(level.link_bandwidth or _measured(level) for level in levels[at + 1 :]):
        return None
    found = _shared(levels, groups)
    for i in range(at, len(levels) - 1):
        level = levels[i + 1]
        share = owned_share[node] if i == at else 1.0
        below = levels[i]
        if level.link_bandwidth:
            found[i] = level.links * level.link_bandwidth * share
        elif _measured(level) and (i == at or _measured(level) < _NARROWER * (_measured(below) or np.inf)):
            found[i] = _measured(level) * share
        elif i > at:
            # As wide as the links of all nodes below, less what the tier is slower by.
            first = np.unique(node, return_index=True)[1]
            _, inverse = np.unique(groups[i], return_inverse=True)
            sums = np.bincount(inverse[first], found[at][first])
            found[i] = sums[inverse] * min(1.0, level.bandwidth / levels[at + 1].bandwidth)
    return found


def _measured(level: Level) -> float:
    """What a calibration says that the links of two nodes carry, B/s each way; 0 without one.

    What all pairs carried together may have gone both ways at once, so half of it each way at least; and the
    link carries no less than one pair did.
    """
    meta = getattr(level, "meta", {})
    total, one = (meta.get(name, 0.0) for name in ("total_bandwidth", "one_pair_bandwidth"))
    known = [v for v in (_number(total) / 2, _number(one)) if 0 < v < float("inf")]
    return max(known) if _number(total) else 0.0


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) and 0 < value < float("inf") else 0.0


def _shared(levels: Sequence[Level], groups: Sequence[Ints]) -> Floats:
    found = np.full((len(levels), groups[0].size), np.inf)
    for i, level in enumerate(levels[1:]):
        _, inverse, sizes = np.unique(groups[i], return_inverse=True, return_counts=True)
        with np.errstate(over="ignore"):
            found[i] = sizes[inverse] * level.bandwidth
    return found
