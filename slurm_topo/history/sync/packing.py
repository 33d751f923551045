"""Decides from measured times how the ranks of a program lie on their nodes: spread or packed.

Both ways are drawn by the submit hook in the same weeks, the one that is in use for most placed jobs and the
other for the share ``trial``. A switch needs a difference that chance hardly makes; after it only later runs
count, so that a switch back needs new evidence and noise does not make a program go to and fro.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

from sqlalchemy import Connection, select, update

from slurm_topo.config import VARIANTS
from slurm_topo.history.schema import jobs, programs

# Runs of each way that a verdict needs, the newest of the rarer one that count, and the most of the other.
ENOUGH, NEWEST, MOST = 5, 50, 1000
# Two-sided quantile of the rank test (p < 0.0002: sync looks again after every few runs), and the least
# difference that is worth a switch.
QUANTILE, LEAST = 3.72, 0.02
DEFAULT = "spread"


@dataclass(frozen=True)
class Comparison:
    """Times of the way in use and of the other one, seconds.

    Attributes
    ----------
    used_s, other_s : float
        Means of the middle half of the times.
    used, other : int
        Numbers of runs.
    z : float
        Mann-Whitney statistic in standard deviations, positive where the other way is faster.
    """

    used_s: float
    other_s: float
    used: int
    other: int
    z: float

    @property
    def other_is_faster(self) -> bool:
        """By more than chance and by enough to care."""
        return self.z > QUANTILE and self.other_s < (1 - LEAST) * self.used_s

    @property
    def chance(self) -> float:
        """Two-sided p-value."""
        return 2 * NormalDist().cdf(-abs(self.z))


def compare(used: Sequence[float], other: Sequence[float]) -> Comparison | None:
    """Compare times of the way in use and of the other; None where there are not enough of both.

    Notes
    -----
    Ranks instead of times, so that a run that hung counts as one slow run and no more, and Slurm's whole
    seconds as what they are: ties. Normal approximation with the correction for ties (H. B. Mann,
    D. R. Whitney 1947, doi:10.1214/aoms/1177730491).
    """
    if min(len(used), len(other)) < ENOUGH:
        return None
    return Comparison(_middle(used), _middle(other), len(used), len(other), _z(used, other))


def _z(used: Sequence[float], other: Sequence[float]) -> float:
    n, m = len(used), len(other)
    times = sorted([(t, 0) for t in used] + [(t, 1) for t in other])
    rank_sum, ties, first = 0.0, 0.0, 0
    while first < n + m:
        last = first
        while last + 1 < n + m and times[last + 1][0] == times[first][0]:
            last += 1
        equal = last - first + 1
        ties += equal**3 - equal
        rank_sum += sum(1 for _, which in times[first : last + 1] if which == 0) * ((first + last) / 2 + 1)
        first = last + 1
    excess = rank_sum - n * (n + 1) / 2 - n * m / 2
    variance = n * m / 12 * ((n + m + 1) - ties / ((n + m) * (n + m - 1)))
    if variance <= 0:
        return 0.0
    # Half a step less: the statistic jumps by whole ones.
    return math.copysign(max(abs(excess) - 0.5, 0.0), excess) / math.sqrt(variance)


def _middle(times: Sequence[float]) -> float:
    """Mean of the middle half: as robust as a median against few odd runs, and finer than Slurm's seconds."""
    ordered = sorted(times)
    cut = len(ordered) // 4
    kept = ordered[cut : len(ordered) - cut]
    return sum(kept) / len(kept)


def newest_together(runs: Sequence[tuple[int, str, float]], used: str) -> tuple[list[float], list[float]]:
    """Times of the way in use and of the other that belong together.

    Parameters
    ----------
    runs
        Time of submission, variant and seconds of each run, newest first.

    Returns
    -------
    used, other : lists of float
        The newest fifty of the rarer way, and all of the other since then: machine and input change over the
        months, and both must have seen the same of it.
    """
    of: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for submitted, variant, seconds in runs:
        of[variant].append((submitted, seconds))
    mine, others = of[used], [run for name in VARIANTS if name != used for run in of[name]]
    rarer = min(mine, others, key=len)[:NEWEST]
    since = rarer[-1][0] if rarer else 0
    return tuple([s for t, s in side if t >= since][:MOST] for side in (mine, others))  # type: ignore[return-value]


def choose_variants(connection: Connection, now: int) -> list[str]:
    """Switch programs to the way that has proven faster; returns a line for each."""
    columns = (programs.c.id, programs.c.name, programs.c.user_name, programs.c.variant)
    known = {row.id: row for row in connection.execute(select(*columns).where(programs.c.arm.is_(None)))}
    lines = []
    for number, runs in sorted(_runs(connection).items()):
        if number not in known:
            continue
        used = known[number].variant or DEFAULT
        found = compare(*newest_together(runs, used))
        if found is None or not found.other_is_faster:
            continue
        chosen = next(name for name in VARIANTS if name != used)
        reason = (
            f"{chosen} runs take {found.other_s:.1f} s where {used} ones take {found.used_s:.1f} s "
            f"({found.other} and {found.used} runs, p = {found.chance:.1g})"
        )
        values = {"variant": chosen, "variant_reason": reason, "variant_time": now}
        connection.execute(update(programs).where(programs.c.id == number).values(**values))
        lines.append(f"program {number} ({known[number].name} of {known[number].user_name}): {reason}")
    return lines


def _runs(connection: Connection) -> dict[int, list[tuple[int, str, float]]]:
    """Completed runs that could lie in either way since their program's last switch, newest first."""
    query = (
        select(jobs.c.program_id, jobs.c.submitted, jobs.c.variant, jobs.c.run_s, jobs.c.elapsed_s)
        .join(programs, programs.c.id == jobs.c.program_id)
        .where(jobs.c.state == "COMPLETED", jobs.c.final == 1, jobs.c.variant.in_(VARIANTS))
        .where(programs.c.variant_time.is_(None) | (jobs.c.submitted >= programs.c.variant_time))
        .order_by(jobs.c.submitted.desc(), jobs.c.id.desc())
    )
    found: dict[int, list[tuple[int, str, float]]] = defaultdict(list)
    for number, submitted, variant, run_s, elapsed_s in connection.execute(query):
        seconds = run_s if run_s is not None else elapsed_s
        if seconds is not None:
            found[number].append((submitted, variant, seconds))
    return found


def with_choice(connection: Connection) -> set[int]:
    """Programs of which a run could lie in either way."""
    query = select(jobs.c.program_id).where(jobs.c.variant != "", jobs.c.program_id.is_not(None)).distinct()
    return set(connection.execute(query).scalars())
