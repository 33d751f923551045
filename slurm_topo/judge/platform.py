"""The machine as a network of shared links: what a simulator needs, written from the machine model alone.

A level of the model says what one core keeps while all cores communicate at that level. So the link from a
group to the level above it carries that, times the cores of the group. Cores share links as they come: a core
alone gets more, up to what one core can copy; many cores that send to one place get less. Where the machine
knows its links better (measured or given), that counts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slurm_topo.errors import MachineError
from slurm_topo.model import Floats, Ints, Level, Machine

# A level at which a byte costs nothing: beyond any link, yet a number that a simulator can add up.
FREE = 1e18
# The simulator counts seconds with an absolute precision: the fastest link is brought near real ones.
FASTEST = 1e10


@dataclass(frozen=True)
class Overrides:
    """Assumptions to vary: factors on the latencies and bandwidths of the network (levels of switches)."""

    latency: float = 1.0
    bandwidth: float = 1.0


@dataclass(frozen=True)
class Platform:
    """A tree of links. Zone 0 is the root; hosts are the cores.

    Attributes
    ----------
    parent : int32 array, shape (z + c,)
        Zone above each zone (-1 for the root) and, behind the z zones, above each of the c cores.
    capacity : float64 array, shape (z + c,)
        Bytes per simulated second, each way, of the link to the parent.
    latency : float64 array, shape (z + c,)
        Simulated seconds of the link to the parent.
    zones : int
        Number of zones z.
    unit : float
        Seconds of the machine model that a simulated second stands for.
    """

    parent: Ints
    capacity: Floats
    latency: Floats
    zones: int
    unit: float

    def text(self) -> str:
        """The file that native/platform.cpp reads: zones before their children."""
        lines = [f"slurm-topo-platform 1 {self.zones} {self.parent.size - self.zones}"]
        lines += [
            f"{parent} {capacity!r} {latency!r}"
            for parent, capacity, latency in zip(
                self.parent.tolist(), self.capacity.tolist(), self.latency.tolist(), strict=True
            )
        ]
        return "\n".join(lines) + "\n"


def platform_of(machine: Machine, overrides: Overrides | None = None) -> Platform:
    """The links of a machine.

    Parameters
    ----------
    machine : Machine
        c cores, k levels.
    overrides : Overrides, optional
        Other assumptions about the network.

    Raises
    ------
    MachineError
        The machine has no level, or a latency falls from a level to the one above it (a path that crosses
        more links would be quicker).
    """
    levels = _vary(machine.levels, overrides or Overrides())
    if not levels:
        raise MachineError("machine: has no level; give one with cores that can communicate")
    bandwidth = [1.0 / level.seconds_per_byte if level.seconds_per_byte else FREE for level in levels]
    unit = FASTEST / max((b for b in bandwidth if b < FREE), default=FASTEST)
    speed = np.array(bandwidth) * unit
    step = _latency_steps(levels) / unit
    parents, capacities, latencies = [np.array([-1])], [np.array([FREE])], [np.array([0.0])]
    first, above = 0, np.zeros(machine.cores, dtype=np.int64)
    for level in range(len(levels) - 2, -1, -1):
        _, members, inverse, sizes = np.unique(
            machine.groups[level], return_index=True, return_inverse=True, return_counts=True
        )
        parents.append(above[members])
        known = _known(machine, level, members, overrides) * unit
        capacities.append(np.where(known > 0, np.minimum(known, FREE), sizes * speed[level + 1]))
        latencies.append(np.full(sizes.size, step[level + 1]))
        first += parents[-2].size
        above = first + inverse.astype(np.int64)
    zones = first + parents[-1].size
    parents.append(above)
    capacities.append(np.full(machine.cores, speed[0]))
    latencies.append(np.full(machine.cores, step[0]))
    return Platform(
        np.concatenate(parents).astype(np.int32),
        np.concatenate(capacities),
        np.concatenate(latencies),
        zones,
        unit,
    )


def _known(machine: Machine, level: int, cores: NDArray[np.intp], overrides: Overrides | None) -> Floats:
    """What the machine knows of the links of some groups, B/s each way; 0 where it knows nothing."""
    if machine.link_bandwidth is None:
        return np.zeros(cores.size)
    network = machine.levels[level + 1].name.startswith("switch")
    factor = overrides.bandwidth if overrides and network else 1.0
    found: Floats = machine.link_bandwidth[level, cores] * factor
    return found


def _vary(levels: tuple[Level, ...], overrides: Overrides) -> list[Level]:
    """The levels with other costs of the network: of a latency, what it adds to that of the node."""
    inside = max((level.latency_s for level in levels if not level.name.startswith("switch")), default=0.0)
    return [
        Level(
            level.name,
            inside + (level.latency_s - inside) * overrides.latency,
            level.seconds_per_byte / overrides.bandwidth,
            level.origin,
        )
        if level.name.startswith("switch")
        else level
        for level in levels
    ]


def _latency_steps(levels: list[Level]) -> Floats:
    """What the two links of a level add to the latency of a path, each; float64 array, shape (k,)."""
    latency = np.array([level.latency_s for level in levels])
    steps = np.diff(latency, prepend=0.0) / 2
    if (steps < 0).any():
        at = int(np.flatnonzero(steps < 0)[0])
        raise MachineError(
            f"machine: a message takes {latency[at]:g} s at level {levels[at].name} and "
            f"{latency[at - 1]:g} s at {levels[at - 1].name} inside it; calibrate the machine again"
        )
    return steps
