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
    if not any(level.link_bandwidth or _total(level) for level in levels[at + 1 :]):
        return None
    found = _shared(levels, groups)
    for i in range(at, len(levels) - 1):
        level = levels[i + 1]
        share = owned_share[node] if i == at else 1.0
        below = levels[i]
        if level.link_bandwidth:
            found[i] = level.links * level.link_bandwidth * share
        elif _total(level) and (i == at or _total(level) < _NARROWER * (_total(below) or np.inf)):
            found[i] = _total(level) * share
        elif i > at:
            # As wide as the links of all nodes below, less what the tier is slower by.
            first = np.unique(node, return_index=True)[1]
            _, inverse = np.unique(groups[i], return_inverse=True)
            sums = np.bincount(inverse[first], found[at][first])
            found[i] = sums[inverse] * min(1.0, level.bandwidth / levels[at + 1].bandwidth)
    return found


def _total(level: Level) -> float:
    """What all pairs of a calibration carried together over the links of two nodes, B/s; 0 without one."""
    total = getattr(level, "meta", {}).get("total_bandwidth", 0.0)
    return float(total) if isinstance(total, int | float) and 0 < total < float("inf") else 0.0


def _shared(levels: Sequence[Level], groups: Sequence[Ints]) -> Floats:
    found = np.full((len(levels), groups[0].size), np.inf)
    for i, level in enumerate(levels[1:]):
        _, inverse, sizes = np.unique(groups[i], return_inverse=True, return_counts=True)
        with np.errstate(over="ignore"):
            found[i] = sizes[inverse] * level.bandwidth
    return found
