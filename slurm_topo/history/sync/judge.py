"""Switches a program back to ``observe`` where placing did not pay, by its measured times."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, func, literal, select, update

from slurm_topo.history.schema import jobs, programs
from slurm_topo.history.sync.packing import DEFAULT

# Runs of each kind that a verdict needs, and the newest that count.
ENOUGH, NEWEST = 5, 50
# Slurm's clock has whole seconds, and no site wants to hear of less than this share.
CLOCK_S, LEAST = 1.0, 0.02
# Standard error of a median over that of a mean, and the normal quantile of a one-sided 0.1 %.
_MEDIAN, _QUANTILE = 1.2533, 3.09


@dataclass(frozen=True)
class Verdict:
    """Medians of the placed and of the other runs, seconds, and the difference that noise explains."""

    placed_s: float
    other_s: float
    noise_s: float

    @property
    def worse(self) -> bool:
        """Placed runs took longer than noise explains."""
        return self.placed_s - self.other_s > self.noise_s


def judge(placed: Sequence[float], other: Sequence[float]) -> Verdict | None:
    """Compare times of placed and other runs; None where there are not enough of both.

    Notes
    -----
    The noise is 3.09 standard errors of the difference of the medians (each 1.2533 * s / sqrt(n), s from the
    median absolute deviation), and at least 2 % and one second.
    """
    if min(len(placed), len(other)) < ENOUGH:
        return None
    error = math.hypot(_standard_error(placed), _standard_error(other))
    median = statistics.median(other)
    noise = max(_QUANTILE * error, LEAST * median, CLOCK_S)
    return Verdict(statistics.median(placed), median, noise)


def _standard_error(times: Sequence[float]) -> float:
    median = statistics.median(times)
    deviation = 1.4826 * statistics.median(abs(t - median) for t in times)
    return _MEDIAN * deviation / math.sqrt(len(times))


def switch_back(connection: Connection, now: int, packing: str = "learn") -> list[str]:
    """Set the arm of programs that do not pay; returns a line for each.

    A program that was set free by an administrator (``arm_time`` without ``arm``) is judged by later runs.
    """
    columns = (programs.c.id, programs.c.name, programs.c.user_name, programs.c.arm_time)
    waiting = {row.id: row for row in connection.execute(select(*columns).where(programs.c.arm.is_(None)))}
    lines = []
    for number, (placed, other) in sorted(_times(connection, set(waiting), packing).items()):
        verdict = judge(placed, other)
        if verdict is None or not verdict.worse:
            continue
        reason = (
            f"placed runs take {verdict.placed_s:.1f} s where others take {verdict.other_s:.1f} s "
            f"({len(placed)} and {len(other)} runs, noise {verdict.noise_s:.1f} s)"
        )
        connection.execute(
            update(programs)
            .where(programs.c.id == number)
            .values(arm="observe", arm_reason=reason, arm_time=now)
        )
        lines.append(f"program {number} ({waiting[number].name} of {waiting[number].user_name}): {reason}")
    return lines


def _times(
    connection: Connection, waiting: set[int], packing: str
) -> dict[int, tuple[list[float], list[float]]]:
    """Times of the newest completed runs of each program: placed ones, and those of the arm ``observe``.

    Of the placed ones those count that lay as the program's ranks lie now, not what was or is only tried.
    """
    used = func.coalesce(programs.c.variant, DEFAULT) if packing == "learn" else literal(packing)
    query = (
        select(jobs.c.program_id, jobs.c.placed, jobs.c.run_s, jobs.c.elapsed_s, programs.c.arm_time)
        .join(programs, programs.c.id == jobs.c.program_id)
        .where(jobs.c.state == "COMPLETED", jobs.c.final == 1, programs.c.arm.is_(None))
        .where((jobs.c.placed == 1) | (jobs.c.arm == "observe"))
        .where((jobs.c.variant == "") | (jobs.c.variant == used))
        .order_by(jobs.c.submitted.desc())
    )
    found: dict[int, tuple[list[float], list[float]]] = defaultdict(lambda: ([], []))
    rows = connection.execute(query.add_columns(jobs.c.submitted))
    for number, placed, run_s, elapsed_s, free_since, submitted in rows:
        seconds = run_s if run_s is not None else elapsed_s
        times = found[number][0 if placed else 1]
        if seconds is not None and submitted >= (free_since or 0) and len(times) < NEWEST:
            times.append(seconds)
    return {number: times for number, times in found.items() if number in waiting and times[0]}


def set_free(connection: Connection, program: int, now: int) -> bool:
    """Let a program that was switched back be placed again; False where there is no such program."""
    free = {"arm": None, "arm_reason": "", "arm_time": now}
    done = connection.execute(update(programs).where(programs.c.id == program).values(**free))
    return done.rowcount > 0
