"""From runs to the figures of a report. Pure functions."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slurm_topo.config import ARMS, VARIANTS
from slurm_topo.model import Floats
from slurm_topo.report.fates import Counts, counted_fates, fates_of, left_alone
from slurm_topo.report.notice import notices
from slurm_topo.report.numbers import (
    ArmFigures,
    GroupFigures,
    LevelFigures,
    Notice,
    ProgramFigures,
    Report,
    VariantFigures,
)
from slurm_topo.report.periods import period_labels, period_names, period_of
from slurm_topo.report.runs import Indices, Labels, Program, Records, Runs, Traffic
from slurm_topo.report.statistics import Samples, median_ratio, quantile, samples
from slurm_topo.report.values import MEASURED, MODELLED, Value, known, missing


def summarise(records: Records, most: int | None = None) -> Report:
    """All figures of a report.

    Parameters
    ----------
    records : Records
        Runs of the window and what is known of their programs.
    most : int or None
        Programs in the report: those that saved most, and all that were switched back. None: every program.
    """
    runs = records.runs
    numbers, which = np.unique(runs.program, return_inverse=True)
    facts = _facts(runs, which, len(numbers))
    traffic: dict[int, list[int]] = {}
    for row, number in enumerate(records.traffic.program.tolist()):
        traffic.setdefault(number, []).append(row)
    of = [records.programs.get(number) or Program(number, "?", "", "") for number in numbers.tolist()]
    order = _by_saving(facts, len(numbers))
    shown = order if most is None else [k for i, k in enumerate(order) if i < most or of[k].switched_back]
    programs = [_program(k, of[k], records, facts, traffic) for k in shown]
    starts = runs.start[np.isfinite(runs.start)]
    levels = _levels(records.traffic, range(len(records.traffic.program)))
    return Report(
        since=float(starts.min()) if len(starts) else 0.0,
        until=float(starts.max()) if len(starts) else 0.0,
        filters=records.filters,
        runs=len(runs),
        completed=int(runs.completed.sum()),
        placed=int(runs.placed.sum()),
        traced=int(runs.traced.sum()),
        users=len(np.unique(runs.user.codes)),
        all_programs=len(numbers),
        fates=counted_fates(facts.fates),
        unknown=sum(records.unknown.values()),
        node_hours=_total(runs.node_hours),
        saved=_saved(facts, np.arange(len(runs))),
        overhead=_overhead(runs),
        programs=tuple(programs),
        notices=_notices(runs, facts, of),
        levels=levels,
        level_costs=tuple((level.level, records.level_costs.get(level.level, "assumed")) for level in levels),
        stood_down=_reasons(runs, facts, np.arange(len(runs)), records.unknown),
        left_alone=_reasons(runs, facts, np.arange(len(runs))),
        unknown_left_alone=_ordered({reason: n for reason, n in records.unknown.items() if reason}),
        groups=tuple((kind, _groups(labels, runs, facts)) for kind, labels in _kinds(runs)),
        series=_series(runs, facts),
    )


@dataclass(frozen=True, eq=False)
class _Facts:
    """Per program k: times and factors; per run: node-hours that placing saved."""

    rows: list[Indices]
    arm_times: NDArray[np.float64]
    arm_counts: NDArray[np.int64]
    arm_all: NDArray[np.int64]
    arm_placed: NDArray[np.int64]
    side_times: NDArray[np.float64]
    side_counts: NDArray[np.int64]
    ratio: Floats
    low: Floats
    high: Floats
    which: NDArray[np.integer]
    hours: Floats
    placed_hours: Floats
    stood_down: NDArray[np.bool_]
    fates: NDArray[np.int64]


def arm_index(labels: Labels) -> NDArray[np.int64]:
    """Position of each run's arm in :data:`ARM_NAMES`, shape (n,)."""
    table = [ARM_NAMES.index(name) if name in ARM_NAMES else 0 for name in labels.names] or [0]
    return np.array(table, dtype=np.int64)[labels.codes]


# "-": the submit hook did not see the run.
ARM_NAMES = ("-", *ARMS)


def _facts(runs: Runs, which: NDArray[np.integer], k: int) -> _Facts:
    done, placed = runs.completed, runs.placed
    times = np.where(done, runs.elapsed, np.nan)
    by_arm = which * len(ARM_NAMES) + arm_index(runs.arm)
    by_side = which * 2 + placed
    arms = samples(times, by_arm, k * len(ARM_NAMES))
    sides = samples(times, by_side, k * 2)
    # Even samples are not placed, odd ones are; the logarithm keeps the order.
    before, after = (
        Samples(np.log(sides.values), sides.starts[side::2], sides.counts[side::2]) for side in (0, 1)
    )
    ratio, low, high = median_ratio(after, before)
    order = np.argsort(which, kind="stable")
    return _Facts(
        rows=np.split(order, np.cumsum(np.bincount(which, minlength=k))[:-1]) if k else [],
        arm_times=np.stack([quantile(arms, q) for q in (0.5, 0.25, 0.75)], axis=1),
        arm_counts=arms.counts,
        arm_all=np.bincount(by_arm, minlength=k * len(ARM_NAMES)),
        arm_placed=np.bincount(by_arm[placed], minlength=k * len(ARM_NAMES)),
        side_times=np.stack([quantile(sides, q) for q in (0.5, 0.25, 0.75)], axis=1),
        side_counts=sides.counts,
        ratio=ratio,
        low=low,
        high=high,
        which=which,
        hours=runs.node_hours,
        placed_hours=np.where(placed, np.nan_to_num(runs.node_hours), 0.0),
        stood_down=left_alone(runs),
        fates=fates_of(runs),
    )


def _notices(runs: Runs, facts: _Facts, of: Sequence[Program]) -> tuple[Notice, ...]:
    which, k = facts.which, len(of)
    return notices(
        of,
        runs=np.bincount(which, minlength=k),
        placed=np.bincount(which[runs.placed], minlength=k),
        left=np.bincount(which[facts.stood_down], minlength=k),
        hours=np.bincount(which, weights=np.nan_to_num(facts.hours), minlength=k).astype(np.float64),
        best=1 - facts.low,
        reason=lambda i: _reasons(runs, facts, facts.rows[i])[0][0],
    )


def _by_saving(facts: _Facts, k: int) -> list[int]:
    """Programs in the order of the node-hours that they saved, then of those that they used."""
    used = np.bincount(facts.which, weights=np.nan_to_num(facts.hours), minlength=k)
    placed = np.bincount(facts.which, weights=facts.placed_hours, minlength=k)
    order: list[int] = np.lexsort((-used, -np.nan_to_num(placed * (1 / facts.ratio - 1)))).tolist()
    return order


def _time(row: Floats, n: int) -> Value:
    return known(float(row[0]), "s", MEASURED, int(n), (float(row[1]), float(row[2])))


def _program(
    k: int, program: Program, records: Records, facts: _Facts, traffic: Mapping[int, list[int]]
) -> ProgramFigures:
    rows, runs = facts.rows[k], records.runs
    ranks = runs.ranks[rows]
    placed = int(facts.side_counts[2 * k + 1])
    saving = known(
        1 - float(facts.ratio[k]),
        "ratio",
        MEASURED,
        placed + int(facts.side_counts[2 * k]),
        (1 - float(facts.high[k]), 1 - float(facts.low[k])),
    )
    return ProgramFigures(
        program=program.number,
        name=program.name or "?",
        user=program.user,
        account=program.account,
        ranks=program.ranks or (int(np.nanmax(ranks)) if np.isfinite(ranks).any() else 0),
        runs=len(rows),
        fates=counted_fates(facts.fates[rows]),
        arms=_arms(k, facts),
        levels=_levels(records.traffic, traffic.get(program.number, [])),
        cost_before=_mean(runs.baseline[rows], "s"),
        cost_after=_mean(_placed_costs(runs, rows), "s"),
        time_before=_time(facts.side_times[2 * k], facts.side_counts[2 * k]),
        time_after=_time(facts.side_times[2 * k + 1], placed),
        saving=saving,
        node_hours=_total(facts.hours[rows]),
        saved=_saved(facts, rows),
        stood_down=_reasons(runs, facts, rows),
        switched_back=program.switched_back,
        **_packing(program, runs, rows),
    )


def _placed_costs(runs: Runs, rows: NDArray[np.intp]) -> Floats:
    """Costs of placed runs; where there are none, what arm ``advise`` would have placed."""
    placed = runs.placed[rows]
    counts = placed if placed.any() else runs.arm.isin(("advise",))[rows]
    return np.where(counts, runs.cost[rows], np.nan)


def _arms(k: int, facts: _Facts) -> tuple[ArmFigures, ...]:
    made = []
    for i, arm in enumerate(ARM_NAMES):
        j = k * len(ARM_NAMES) + i
        if facts.arm_all[j]:
            time = _time(facts.arm_times[j], facts.arm_counts[j])
            counts = int(facts.arm_all[j]), int(facts.arm_counts[j]), int(facts.arm_placed[j])
            made.append(ArmFigures(arm, *counts, time))
    return tuple(made)


def _packing(program: Program, runs: Runs, rows: NDArray[np.intp]) -> dict[str, Any]:
    """How the ranks lay on their nodes, where there was a choice, and what that led to."""
    figures = []
    for variant in VARIANTS:
        mine = rows[runs.variant.isin((variant,))[rows]]
        times = runs.elapsed[mine[runs.completed[mine]]]
        if len(mine):
            found = np.quantile(times, (0.5, 0.25, 0.75)) if len(times) else np.full(3, np.nan)
            figures.append(VariantFigures(variant, len(mine), len(times), _time(found, len(times))))
    if not figures:
        return {}
    reason = program.variant_reason or "no difference shown yet"
    return {"variants": tuple(figures), "variant": program.variant or VARIANTS[0], "variant_reason": reason}


def _levels(traffic: Traffic, rows: Iterable[int]) -> tuple[LevelFigures, ...]:
    """Bytes by level of these rows; levels of one name and depth are added up."""
    sums: dict[tuple[int, str], list[float]] = {}
    counts, measured = [0, 0], [True, True]
    for row in rows:
        key = (int(traffic.depth[row]), traffic.level.names[traffic.level.codes[row]])
        side = int(traffic.after[row])
        sums.setdefault(key, [math.nan, math.nan])
        before = sums[key][side]
        sums[key][side] = float(traffic.nbytes[row]) + (0.0 if math.isnan(before) else before)
        counts[side] = max(counts[side], int(traffic.runs[row]))
        measured[side] &= bool(traffic.measured[row])
    return tuple(
        LevelFigures(level, depth, *(_bytes(pair[side], counts[side], measured[side]) for side in (0, 1)))
        for (depth, level), pair in sorted(sums.items())
    )


def _bytes(nbytes: float, runs: int, measured: bool) -> Value:
    # A level that a side does not name carries nothing there, if the side is known at all.
    if not runs:
        return missing("B")
    origin = MEASURED if measured else MODELLED
    return Value(0.0 if math.isnan(nbytes) else nbytes, "B", origin, n=runs)


def _mean(values: Floats, unit: str) -> Value:
    finite = values[np.isfinite(values)]
    return known(float(finite.mean()), unit, MODELLED, len(finite)) if len(finite) else missing(unit)


def _total(hours: Floats) -> Value:
    finite = hours[np.isfinite(hours)]
    return known(float(finite.sum()), "node-h", MEASURED, len(finite)) if len(finite) else missing("node-h")


def _overhead(runs: Runs) -> Value:
    """Node-hours of our own part at launch: the mean of the newest runs, taken for all placed ones."""
    known_rows = np.isfinite(runs.overhead) & np.isfinite(runs.nodes)
    if not known_rows.any():
        return missing("node-h")
    one = float((runs.overhead * runs.nodes)[known_rows].mean()) / 3600.0
    return known(one * int(runs.placed.sum()), "node-h", MODELLED, int(known_rows.sum()))


def _saved(facts: _Facts, rows: Indices) -> Value:
    """Node-hours that placing saved in these runs: what they would have taken, less what they took.

    Programs are taken as independent: the half widths of their intervals add up in quadrature.
    """
    which, position = np.unique(facts.which[rows], return_inverse=True)
    hours = np.bincount(position, weights=facts.placed_hours[rows], minlength=len(which))
    usable = (hours > 0) & np.isfinite(facts.ratio[which])
    if not usable.any():
        return missing("node-h")
    hours, which = hours[usable], which[usable]
    saved = hours * (1 / facts.ratio[which] - 1)
    down = saved - hours * (1 / facts.high[which] - 1)
    up = hours * (1 / facts.low[which] - 1) - saved
    total = float(saved.sum())
    interval = total - math.sqrt(float((down**2).sum())), total + math.sqrt(float((up**2).sum()))
    return known(total, "node-h", MEASURED, int((facts.placed_hours[rows] > 0).sum()), interval)


def _reasons(runs: Runs, facts: _Facts, rows: Indices, unknown: Mapping[str, int] | None = None) -> Counts:
    """Why runs were left alone, with counts, most frequent first; jobs of no program are added."""
    reasons = runs.reason.codes[rows[facts.stood_down[rows]]]
    counts = Counter({runs.reason.names[c] or "not said": int(n) for c, n in _counted(reasons)})
    counts.update({reason: n for reason, n in (unknown or {}).items() if reason})
    return _ordered(counts)


def _ordered(counts: Mapping[str, int]) -> Counts:
    return tuple(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _counted(codes: NDArray[np.int32]) -> list[tuple[int, int]]:
    values, counts = np.unique(codes, return_counts=True)
    return list(zip(values.tolist(), counts.tolist(), strict=True))


def _kinds(runs: Runs) -> list[tuple[str, Labels]]:
    return [
        ("user", runs.user),
        ("account", runs.account),
        ("partition", runs.partition),
        ("week", period_labels(runs.start, "week")),
    ]


def _groups(labels: Labels, runs: Runs, facts: _Facts) -> tuple[GroupFigures, ...]:
    if not len(runs):
        return ()
    order = np.argsort(labels.codes, kind="stable")
    codes, starts = np.unique(labels.codes[order], return_index=True)
    made = [
        GroupFigures(
            labels.names[code] or "-",
            len(rows),
            int(runs.placed[rows].sum()),
            _total(facts.hours[rows]),
            _saved(facts, rows),
        )
        for code, rows in zip(codes.tolist(), np.split(order, starts[1:]), strict=True)
    ]
    return tuple(sorted(made, key=lambda g: g.name))


def _series(runs: Runs, facts: _Facts) -> tuple[str, tuple[GroupFigures, ...]]:
    """Runs and savings over time; periods without runs are there, so that a gap is seen."""
    known_rows = np.flatnonzero(np.isfinite(runs.start))
    if not len(known_rows):
        return "week", ()
    first, last = float(runs.start[known_rows].min()), float(runs.start[known_rows].max())
    unit = period_of(last - first)
    found = {g.name: g for g in _groups(period_labels(runs.start, unit), runs, facts)}
    none = missing("node-h")
    names = period_names(first, last, unit)
    return unit, tuple(found.get(name) or GroupFigures(name, 0, 0, none, none) for name in names)
