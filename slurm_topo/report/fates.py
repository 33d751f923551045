"""What became of each run: every run has exactly one fate, so that the counts add up to the runs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slurm_topo.report.runs import Mask, Runs

PLACED, LEFT_ALONE = "placed", "left alone"
# In this order: the first that applies is the fate.
FATES = (
    # At least one step ran where a plan put it.
    PLACED,
    # A launch or the submit hook stood down.
    LEFT_ALONE,
    # The launch was traced.
    "traced",
    # By the arm, where no launch has left a decision other than "none".
    "observed",
    "advised",
    "switched off",
    # Arm enforce without a record: cancelled before a launch, no srun, records lost.
    "no launch recorded",
    # The submit hook did not see the run, or its mark was lost.
    "not seen",
)
_OF_ARM = {
    "observe": "observed",
    "advise": "advised",
    "off": "switched off",
    "enforce": "no launch recorded",
}
Counts = tuple[tuple[str, int], ...]


def left_alone(runs: Runs) -> Mask:
    """Runs that were left alone, shape (n,)."""
    return runs.decision.isin(("stand-down",)) & ~runs.placed


def fates_of(runs: Runs) -> NDArray[np.int64]:
    """Index of the fate of each run in :data:`FATES`, shape (n,)."""
    by_arm = [FATES.index(_OF_ARM.get(name, "not seen")) for name in runs.arm.names] or [0]
    found = np.array(by_arm, dtype=np.int64)[runs.arm.codes]
    found[runs.decision.isin(("trace",))] = FATES.index("traced")
    found[left_alone(runs)] = FATES.index(LEFT_ALONE)
    found[runs.placed] = FATES.index(PLACED)
    return found


def counted_fates(fates: NDArray[np.int64]) -> Counts:
    """Runs by fate, in the order of :data:`FATES`; those without runs are left out."""
    counts = np.bincount(fates, minlength=len(FATES)).tolist()
    return tuple((name, n) for name, n in zip(FATES, counts, strict=True) if n)
