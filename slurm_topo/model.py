"""The frozen dataclasses that cross stages. No I/O here.

Units are SI: bytes, seconds, bytes per second. Arrays are numpy, shapes are given in the docstrings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int32]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class CommGraph:
    """Who sent how much to whom, in ranks of MPI_COMM_WORLD.

    Coordinate form, sorted by (source, target), every pair at most once, no pair with source == target.

    Attributes
    ----------
    ranks : int
        Number of ranks n, at least 1.
    source, target : int32 array, shape (e,)
        Ranks in 0..n-1.
    nbytes : float64 array, shape (e,)
        Bytes sent from source to target (any non-negative weight for a graph that was not traced).
    messages : float64 array, shape (e,)
        Messages sent from source to target; zeros where the origin does not know them.
    modelled : float64 array, shape (e,)
        The part of ``nbytes`` that comes from the decomposition of collectives (modelled, not observed).
    meta : mapping
        Origin of the graph: JSON values only (program, host names, MPI library, start, seconds, ...).
    """

    ranks: int
    source: Ints
    target: Ints
    nbytes: Floats
    messages: Floats
    modelled: Floats
    meta: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Level:
    """One level of the machine: what it costs when the lowest common ancestor of two cores is there.

    Attributes
    ----------
    name : str
        ``core``, ``l3``, ``numa``, ``package``, ``node``, ``switch``, ``switch2`` ...; ``level1`` ... for
        a machine given as a tree.
    latency_s : float
        Seconds for one message of no length.
    seconds_per_byte : float
        Seconds for one further byte (the inverse of the bandwidth, so that given costs stay exact).
    origin : str
        ``assumed`` (documented default), ``measured`` (calibrated) or ``given`` (by the user).
    link_bandwidth : float
        Bytes per second, in each direction, of a link that joins a group of the level inside with this level
        (on ``switch``: a node's link); 0 where nobody gave it.
    links : int
        How many of these links a group has.
    """

    name: str
    latency_s: float
    seconds_per_byte: float
    origin: str = "given"
    link_bandwidth: float = 0.0
    links: int = 1

    @property
    def bandwidth(self) -> float:
        """Bytes per second (infinite where a byte costs nothing)."""
        return 1.0 / self.seconds_per_byte if self.seconds_per_byte else float("inf")


@dataclass(frozen=True, eq=False)
class Distances:
    """Costs of a byte that are a graph and not a tree.

    Attributes
    ----------
    seconds_per_byte : float64 array, shape (m, m)
        Symmetric, not negative; the diagonal has no meaning.
    row : int32 array, shape (c,)
        Row of each core: its own, or that of its node. Within one row the levels of the machine count.
    """

    seconds_per_byte: Floats
    row: Ints


@dataclass(frozen=True, eq=False)
class Machine:
    """The cores of an allocation or a cluster and the tree above them.

    Attributes
    ----------
    levels : tuple of Level, length k
        Innermost first. The last one is the root: all cores are in one group there.
    groups : int32 array, shape (k, c)
        ``groups[l, i]`` identifies the group of level l that core i belongs to. Groups are nested: two
        cores in one group at l are in one group at every level above l. Cores i != j communicate at the
        first level l with ``groups[l, i] == groups[l, j]``. Groups of one level may differ in size.
    node : int32 array, shape (c,)
        Index into ``node_names`` of each core (zeros and one name "" for a machine without nodes).
    node_names : tuple of str
        Host names, in the order in which Slurm lists them.
    pus : tuple of tuples of int, length c
        OS indices of the processing units of each core (empty tuples where unknown).
    numa : int32 array, shape (c,)
        OS index of the NUMA node local to each core, -1 where unknown.
    hbm : tuple of tuples of int, length c, or empty
        OS indices of the NUMA nodes of high-bandwidth memory next to each core; empty where there are none.
    meta : mapping
        Origin of the model (file, hash, date).
    link_bandwidth : float64 array, shape (k, c), optional
        Bytes per second, in each direction, of the links that join the group of level l that core i belongs
        to with level l + 1 (infinite at the root). None: what the levels say, see
        :func:`slurm_topo.machine.links.link_bandwidths`.
    distances : Distances, optional
        What a byte costs between cores of different rows instead of what the levels say; messages cost what
        the levels say.
    """

    levels: tuple[Level, ...]
    groups: Ints
    node: Ints
    node_names: tuple[str, ...]
    pus: tuple[tuple[int, ...], ...]
    numa: Ints
    meta: Mapping[str, Any] = field(default_factory=dict)
    hbm: tuple[tuple[int, ...], ...] = ()
    link_bandwidth: Floats | None = None
    distances: Distances | None = None

    @property
    def cores(self) -> int:
        """Number of cores c."""
        return int(self.groups.shape[1])


@dataclass(frozen=True, eq=False)
class Placement:
    """Where each rank goes, and what that costs beside the baselines.

    Attributes
    ----------
    core_of_rank : int32 array, shape (n,)
        Core index (column of ``Machine.groups``) of each rank; no core twice.
    cost : float
        ``placement.cost.cost`` of this placement, seconds (or the unit of the given tree).
    baselines : mapping of str to float
        The same function for ``block:block``, ``block:cyclic`` and ``cyclic``.
    solver : str
        Which start and refinement won; the name of a baseline where that could not be beaten.
    seed : int
        Seed of the random generator.
    seconds : float
        CPU seconds that the search took.
    objective : str
        What was minimised: ``sum``, ``load`` or ``auto``.
    value : float
        The objective of this placement, seconds; with ``sum`` it is ``cost``.
    baseline_values : mapping of str to float
        The same of the baselines.
    ended : str
        ``work``: all of the search was done; ``budget``: its time was up before; ``interrupted``.
    """

    core_of_rank: Ints
    cost: float
    baselines: Mapping[str, float]
    solver: str
    seed: int
    seconds: float
    objective: str
    value: float
    baseline_values: Mapping[str, float]
    ended: str = "work"
