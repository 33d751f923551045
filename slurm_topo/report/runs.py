"""The runs of a history as columns: what every report is computed from.

A run is one job whose program is known. Columns instead of objects, so that a million of them fit into some
hundred megabytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slurm_topo.model import Floats, Ints

Mask = NDArray[np.bool_]
Indices = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Labels:
    """A column of few different texts.

    Attributes
    ----------
    codes : int32 array, shape (n,)
        Index into ``names``.
    names : tuple of str
        The texts, each once.
    """

    codes: Ints
    names: tuple[str, ...]

    @classmethod
    def of(cls, texts: Iterable[str | None]) -> Labels:
        """A column of these texts; None becomes the empty text."""
        index: dict[str, int] = {}
        codes = [index.setdefault(text or "", len(index)) for text in texts]
        return cls(np.array(codes, dtype=np.int32), tuple(index))

    def __len__(self) -> int:
        return len(self.codes)

    def take(self, rows: Indices | Mask) -> Labels:
        """These rows, with the same names."""
        return Labels(self.codes[rows], self.names)

    def isin(self, names: Iterable[str]) -> Mask:
        """Which rows hold one of the names, shape (n,)."""
        wanted = set(names)
        return np.array([name in wanted for name in self.names] or [False], dtype=bool)[self.codes]

    def texts(self) -> list[str]:
        """The column as a list."""
        return [self.names[code] for code in self.codes]


@dataclass(frozen=True, eq=False)
class Runs:
    """Runs as columns, each of shape (n,). NaN is "not known".

    Attributes
    ----------
    row, job : int64
        Row of the history and Slurm's job number.
    program : int32 array
        Number of the program in the history.
    user, account, partition : Labels
        Who and where.
    arm : Labels
        off, observe, advise, enforce.
    decision, reason : Labels
        place, stand-down, trace, none; and why.
    variant : Labels
        spread or packed: how the ranks of a placed run lay on their nodes; empty: one way only.
    state : Labels
        Slurm's state, upper case, one word.
    start : float64
        Seconds since the epoch, UTC.
    elapsed, wait : float64
        Seconds.
    nodes, cores, gpus, ranks : float64
        Counts.
    energy : float64
        Joules of the run from Slurm's accounting.
    cost, baseline : float64
        Predicted seconds of communication of the placement and of what Slurm alone would do.
    overhead : float64
        Seconds that our own part took at launch.
    size, input, clock, load : float64
        Covariates of a comparison: problem size, bytes of input, GHz, load of the cluster (0..1).
    placed : bool
        At least one step ran where a plan put it.
    traced : bool
        The run carried the tracer.
    eligible : bool
        A graph was known when the run was submitted: it could have been placed, whatever its arm.
    """

    row: NDArray[np.int64]
    job: NDArray[np.int64]
    program: Ints
    user: Labels
    account: Labels
    partition: Labels
    arm: Labels
    decision: Labels
    reason: Labels
    variant: Labels
    state: Labels
    start: Floats
    elapsed: Floats
    wait: Floats
    nodes: Floats
    cores: Floats
    gpus: Floats
    ranks: Floats
    energy: Floats
    cost: Floats
    baseline: Floats
    overhead: Floats
    size: Floats
    input: Floats
    clock: Floats
    load: Floats
    placed: Mask
    traced: Mask
    eligible: Mask

    def __len__(self) -> int:
        return len(self.job)

    def take(self, rows: Indices | Mask) -> Runs:
        """These rows of every column."""
        changed: dict[str, Any] = {}
        for column in COLUMNS:
            values = getattr(self, column)
            changed[column] = values.take(rows) if isinstance(values, Labels) else values[rows]
        return replace(self, **changed)

    @property
    def node_hours(self) -> Floats:
        """Node-hours of each run."""
        return self.nodes * self.elapsed / 3600.0

    @property
    def completed(self) -> Mask:
        """Runs that ended by themselves, well, and whose time is known."""
        return self.state.isin(("COMPLETED",)) & np.isfinite(self.elapsed) & (self.elapsed > 0)


COLUMNS = tuple(f.name for f in fields(Runs))
LABELS = ("user", "account", "partition", "arm", "decision", "reason", "variant", "state")
NUMBERS = tuple(
    c for c in COLUMNS if c not in (*LABELS, "row", "job", "program", "placed", "traced", "eligible")
)


def runs_of(columns: Mapping[str, Any]) -> Runs:
    """Runs of these columns; a column that is not given is unknown (NaN, empty text, False)."""
    n = len(columns["job"])
    made: dict[str, Any] = {
        "row": np.asarray(columns.get("row", columns["job"]), dtype=np.int64),
        "job": np.asarray(columns["job"], dtype=np.int64),
        "program": np.asarray(columns["program"], dtype=np.int32),
        "placed": np.asarray(columns.get("placed", np.zeros(n)), dtype=bool),
        "traced": np.asarray(columns.get("traced", np.zeros(n)), dtype=bool),
        "eligible": np.asarray(columns.get("eligible", np.ones(n)), dtype=bool),
    }
    for column in LABELS:
        given = columns.get(column)
        made[column] = (
            given if isinstance(given, Labels) else Labels.of(given if given is not None else [""] * n)
        )
    for column in NUMBERS:
        given = columns.get(column)
        made[column] = np.full(n, np.nan) if given is None else np.asarray(given, dtype=np.float64)
    return Runs(**made)


@dataclass(frozen=True)
class Program:
    """One program of the history.

    Attributes
    ----------
    number : int
        Its number.
    name, user, account : str
        What it is called and whose it is.
    ranks : int
        MPI ranks, 0 where unknown.
    graph : str
        Digest of its communication graph; empty: none is known.
    switched_back : str
        Why placing was ended for it; empty: it was not.
    variant, variant_reason : str
        The way in which its ranks lie on their nodes (spread, packed), and what showed it; empty: nothing.
    """

    number: int
    name: str
    user: str
    account: str
    ranks: int = 0
    graph: str = ""
    switched_back: str = ""
    variant: str = ""
    variant_reason: str = ""


@dataclass(frozen=True, eq=False)
class Traffic:
    """Bytes by level of the newest runs of each program, one row a program, side and level.

    Attributes
    ----------
    program : int32 array, shape (t,)
        Number of the program.
    after : bool array, shape (t,)
        As the ranks were placed (True) or as Slurm alone would have them.
    depth : int32 array, shape (t,)
        0 is the innermost level.
    level : Labels, length t
        Its name.
    nbytes : float64 array, shape (t,)
        Mean bytes of a run.
    runs : int32 array, shape (t,)
        Runs in that mean.
    measured : bool array, shape (t,)
        All of these runs were traced themselves; otherwise another run's graph was laid on their placement.
    """

    program: Ints
    after: Mask
    depth: Ints
    level: Labels
    nbytes: Floats
    runs: Ints
    measured: Mask


def no_traffic() -> Traffic:
    """Traffic of no program."""
    none = np.zeros(0, dtype=np.int32)
    return Traffic(none, none > 0, none, Labels(none, ()), none.astype(float), none, none > 0)


@dataclass(frozen=True, eq=False)
class Records:
    """What a report is computed from.

    Attributes
    ----------
    runs : Runs
        Runs of known programs.
    programs : mapping of int to Program
        What is known of them.
    traffic : Traffic
        Their bytes by level.
    filters : tuple of (str, str)
        What was asked for.
    unknown : mapping of str to int
        Jobs of no program, by the reason why they were left alone (empty text: none was given).
    level_costs : mapping of str to str
        ``measured`` or ``given``, for the levels of the newest machine whose costs are not ``assumed``.
    """

    runs: Runs
    programs: Mapping[int, Program]
    traffic: Traffic
    filters: tuple[tuple[str, str], ...] = ()
    unknown: Mapping[str, int] = field(default_factory=dict)
    level_costs: Mapping[str, str] = field(default_factory=dict)
