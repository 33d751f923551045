"""Which runs are compared, and why each of the others is not. Every run has exactly one fate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slurm_topo.model import Ints
from slurm_topo.report.comparison.method import Method
from slurm_topo.report.runs import Labels, Mask, Runs

BEFORE, AFTER = "before", "after"
# In this order: the first that applies is the reason.
REASONS = (
    "did not complete",
    "time is not known",
    "shorter than the limit",
    "arm is neither observe nor enforce",
    "carried the tracer",
    "no graph was known at submission",
    "stood down although assigned",
    "part of the key is not known",
    "no run of the other side with the same key",
)


@dataclass(frozen=True, eq=False)
class Selection:
    """The fate of every run.

    Attributes
    ----------
    reason : int32 array, shape (n,)
        Index into :data:`REASONS`, -1 for a run that is used.
    after : bool array, shape (n,)
        The side of a run (meaningful where it is used).
    key : int64 array, shape (n,)
        Runs of one key are comparable; numbered from 0, -1 for a run that is not used.
    cluster : int64 array, shape (n,)
        Program and user; numbered from 0, -1 for a run that is not used.
    """

    reason: Ints
    after: Mask
    key: NDArray[np.int64]
    cluster: NDArray[np.int64]

    @property
    def used(self) -> Mask:
        """Runs that are compared, shape (n,)."""
        return self.reason < 0

    def counts(self) -> dict[str, int]:
        """Excluded runs by reason, those without any left out."""
        found = np.bincount(self.reason[~self.used], minlength=len(REASONS))
        return {name: int(n) for name, n in zip(REASONS, found, strict=True) if n}


def select(runs: Runs, method: Method) -> Selection:
    """Decide the fate of every run.

    Parameters
    ----------
    runs : Runs
        All runs of the window. Arm ``observe`` is before, ``enforce`` is after; for the estimand ``calendar``
        what was placed is after, all others are before.
    method : Method
        What was fixed beforehand.
    """
    calendar = method.estimand == "calendar"
    after, before = runs.arm.isin(("enforce",)), runs.arm.isin(("observe",))
    if calendar:
        before = (after | before) & ~runs.placed
        after = after & runs.placed
    unknown = ~_key_known(runs, method)
    tests = (
        ~runs.state.isin(("COMPLETED",)),
        ~(np.isfinite(runs.elapsed) & (runs.elapsed > 0)),
        runs.elapsed < method.shortest_s,
        ~(after | before),
        runs.traced & method.exclude_traced,
        ~runs.eligible & (not calendar),
        after & ~runs.placed & (method.estimand == "placed"),
        unknown,
    )
    reason = np.full(len(runs), -1, dtype=np.int32)
    for i, test in enumerate(tests):
        reason[(reason < 0) & test] = i
    key = _numbered(runs, method.key)
    both = _both_sides(key, after, reason < 0)
    reason[(reason < 0) & ~both] = len(REASONS) - 1
    used = reason < 0
    return Selection(reason, after, _dense(key, used), _dense(_numbered(runs, ("program", "user")), used))


def _column(runs: Runs, name: str) -> NDArray[np.int64]:
    """A column of the key as integers."""
    values = getattr(runs, name)
    if isinstance(values, Labels):
        return values.codes.astype(np.int64)
    if name == "program":
        return np.asarray(values, dtype=np.int64)
    # Equal numbers, equal codes; what is not known is left out before.
    return np.unique(np.nan_to_num(values, nan=-1.0), return_inverse=True)[1].astype(np.int64)


def _numbered(runs: Runs, names: tuple[str, ...]) -> NDArray[np.int64]:
    """One number for each combination of the columns."""
    combined = np.zeros(len(runs), dtype=np.int64)
    for name in names:
        column = np.unique(_column(runs, name), return_inverse=True)[1].astype(np.int64)
        combined = combined * (int(column.max(initial=0)) + 1) + column
        combined = np.unique(combined, return_inverse=True)[1].astype(np.int64)
    return combined


def _key_known(runs: Runs, method: Method) -> Mask:
    good = np.ones(len(runs), dtype=bool)
    for name in method.key:
        values = getattr(runs, name)
        if not isinstance(values, Labels) and name != "program":
            good &= np.isfinite(values)
    return good


def _both_sides(key: NDArray[np.int64], after: Mask, used: Mask) -> Mask:
    count = int(key.max(initial=0)) + 1
    sides = [np.bincount(key[used & (after == side)], minlength=count) > 0 for side in (False, True)]
    both: Mask = (sides[0] & sides[1])[key]
    return both


def _dense(numbers: NDArray[np.int64], used: Mask) -> NDArray[np.int64]:
    found = np.full(len(numbers), -1, dtype=np.int64)
    found[used] = np.unique(numbers[used], return_inverse=True)[1]
    return found
