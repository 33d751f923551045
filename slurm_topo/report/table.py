"""A report for a terminal of 100 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from slurm_topo.report.jobcosts import JobCost
from slurm_topo.report.numbers import GroupFigures, LevelFigures, ProgramFigures, Report
from slurm_topo.report.text import (
    LEGEND,
    clip,
    columns,
    costs_of_levels,
    counted,
    day,
    digits,
    figure,
    interval,
    percent,
)
from slurm_topo.report.values import Value, missing

WIDTH = 100
_BAR = 14
_UNKNOWN = missing("s")
EMPTY = "The history holds no runs of known programs yet: run `slurm-topo sync` after some jobs have ended."
NOTHING = "No run matches these filters; without them `slurm-topo report` shows the whole history."


def render(report: Report, top: int = 20, details: int = 4) -> str:
    """The report as text.

    Parameters
    ----------
    report : Report
        The figures.
    top : int
        Programs in the list.
    details : int
        Programs that are shown in full, where the list has no more than that.
    """
    if not report.runs and not report.unknown:
        return (NOTHING if report.filters else EMPTY) + "\n"
    lines = [*_head(report), "", *_programs(report.programs[:top], report.all_programs)]
    if report.all_programs <= details:
        for program in report.programs:
            lines += ["", *_program(program)]
    elif any(level.before.known for level in report.levels):
        lines += ["", "BYTES OF ONE RUN OF EVERY PROGRAM, BY THE LEVEL THEY CROSS", *_levels(report.levels)]
    lines += [
        *_notices(report),
        *_left_alone(report),
        *_switched_back(report.programs),
        *_groups(report.groups),
    ]
    lines += ["", f"{LEGEND} 95 %: interval, from 4 runs on each side."]
    if report.level_costs:
        lines.append(costs_of_levels(report.level_costs))
    return "\n".join(lines) + "\n"


def _head(report: Report) -> Iterator[str]:
    window = f"{day(report.since)} .. {day(report.until)} UTC"
    yield clip("  ".join(["slurm-topo report", window, *(f"{k}={v}" for k, v in report.filters)]), WIDTH)
    yield (
        f"{counted(report.runs, 'run')} of {counted(report.all_programs, 'program')} by "
        f"{counted(report.users, 'user')}:"
    )
    yield from textwrap.wrap(
        counted_fates_text(report.fates), WIDTH, initial_indent="  ", subsequent_indent="  "
    )
    if report.unknown:
        yield f"and {unknown_text(report)}"
    line = f"{figure(report.node_hours)} used, {figure(report.saved)} saved by placing"
    if interval(report.saved):
        line += f" (95 %: {interval(report.saved)})"
    yield f"{line}; launching took {figure(report.overhead)}"


def counted_fates_text(fates: Sequence[tuple[str, int]]) -> str:
    """What became of the runs; the numbers add up to all of them."""
    return " + ".join(f"{count:,} {name}" for name, count in fates)


def unknown_text(report: Report) -> str:
    """Jobs that are no runs, since nobody knows of which program."""
    left = sum(count for _, count in report.unknown_left_alone)
    return (
        f"{counted(report.unknown, 'job')} of no known program: {left:,} left alone at submission + "
        f"{report.unknown - left:,} not seen"
    )


_PROGRAM_WIDTHS = (5, 14, 8, -5, -6, -6, -9, -9, -7, 14, -7)


def _programs(programs: Sequence[ProgramFigures], all_of_them: int) -> Iterator[str]:
    header = (
        "NO",
        "PROGRAM",
        "USER",
        "RANKS",
        "RUNS",
        "PLACED",
        "BEFORE",
        "AFTER",
        "SAVING",
        "95 %",
        "NODE-H",
    )
    rows = [
        (
            str(p.program),
            p.name,
            p.user,
            str(p.ranks or "-"),
            str(p.runs),
            str(sum(arm.placed for arm in p.arms)),
            figure(p.time_before),
            figure(p.time_after, like=p.time_before),
            figure(p.saving),
            interval(p.saving).replace(" .. ", ".."),
            figure(p.saved, unit=False),
        )
        for p in programs
    ]
    yield "PROGRAMS  (median time of a run, not placed and placed; node-hours saved)"
    yield from columns(header, rows, _PROGRAM_WIDTHS)
    if all_of_them > len(programs):
        yield f"... and {all_of_them - len(programs):,} more: --top {all_of_them}, or --format csv for all"


def _program(program: ProgramFigures) -> Iterator[str]:
    of = ", ".join(part for part in (program.user, program.account) if part)
    yield clip(f"PROGRAM {program.program}: {program.name} ({of}), {program.ranks or '?'} ranks", WIDTH)
    rows = [
        (
            arm.arm,
            str(arm.runs),
            str(arm.completed),
            str(arm.placed),
            figure(arm.time),
            interval(arm.time),
        )
        for arm in program.arms
    ]
    header = ("ARM", "RUNS", "ENDED", "PLACED", "MEDIAN", "QUARTILES")
    yield from columns(header, rows, (12, -6, -6, -6, -11, 28), indent=2)
    yield from _levels(program.levels)
    if program.cost_before.known or program.cost_after.known:
        change = _change(program.cost_before, program.cost_after)
        if change and not any(arm.placed for arm in program.arms):
            change += "  if it were placed"
        yield f"  communication cost  {figure(program.cost_before)} -> {figure(program.cost_after)}{change}"
    if program.saving.known:
        within = f"  (95 %: {interval(program.saving)})" if interval(program.saving) else ""
        after = figure(program.time_after, like=program.time_before)
        change = f"  saving {figure(program.saving)}{within}"
        yield f"  time                {figure(program.time_before)} -> {after}{change}"
    for variant in program.variants:
        times = f"median {figure(variant.time)}" + (
            f" ({interval(variant.time)})" if variant.completed else ""
        )
        yield f"  ranks {variant.variant:14}{counted(variant.runs, 'run')}, {times}"
    if program.variants:
        yield clip(f"  in use: {program.variant:12}{program.variant_reason}", WIDTH)
    if program.stood_down:
        reasons = ", ".join(f"{reason} {count}" for reason, count in program.stood_down)
        yield clip(f"  left alone          {reasons}", WIDTH)


def _change(before: Value, after: Value) -> str:
    if not before.value or after.value is None:
        return ""
    return f"  ({(after.value / before.value - 1) * 100:+.1f} %)"


def _levels(levels: Sequence[LevelFigures]) -> Iterator[str]:
    """One line a level, innermost first, with the share of the bytes as a bar."""
    if not levels:
        return
    totals = [
        sum(v.value or 0.0 for v in side) for side in zip(*((x.before, x.after) for x in levels), strict=True)
    ]
    rows = [
        (level.level, *_share(level.before, totals[0]), *_share(level.after, totals[1])) for level in levels
    ]
    header = ("BYTES MEET AT", "BEFORE", "", "", "AFTER", "", "")
    yield from columns(header, rows, (14, -11, -8, _BAR, -11, -8, _BAR), indent=2)


def _share(value: Value, total: float) -> tuple[str, str, str]:
    if value.value is None or not total:
        return figure(value), "", ""
    share = value.value / total
    return figure(value), percent(share), "#" * round(share * _BAR)


def _notices(report: Report) -> Iterator[str]:
    if not report.notices:
        return
    yield ""
    yield "WORTH A LOOK"
    rows = [(str(n.program), n.name, n.user, _hours(n.node_hours), n.why) for n in report.notices]
    yield from columns(("NO", "PROGRAM", "USER", "NODE-H", "WHY"), rows, (5, 14, 8, -8, 61))


def _left_alone(report: Report) -> Iterator[str]:
    if not report.stood_down:
        return
    yield ""
    yield "LEFT ALONE, AND WHY"
    total = sum(count for _, count in report.left_alone) or 1
    runs, others = dict(report.left_alone), dict(report.unknown_left_alone)
    rows = [
        (f"{runs.get(r, 0):,}", percent(runs.get(r, 0) / total), f"{others.get(r, 0):,}", r)
        for r, _ in report.stood_down
    ]
    yield from columns(("RUNS", "SHARE", "OTHER JOBS", "REASON"), rows, (-9, -8, -10, 68))


def _switched_back(programs: Sequence[ProgramFigures]) -> Iterator[str]:
    back = [p for p in programs if p.switched_back]
    if not back:
        return
    yield ""
    yield "SWITCHED BACK  (placing did not pay: these run as Slurm alone would run them)"
    rows = [(str(p.program), p.name, p.user, figure(p.saving), p.switched_back) for p in back]
    yield from columns(("NO", "PROGRAM", "USER", "SAVING", "WHY"), rows, (5, 14, 8, -8, 61))


def _groups(groups: Sequence[tuple[str, tuple[GroupFigures, ...]]]) -> Iterator[str]:
    """Savings by user, account, partition and week, where there is more than one of them."""
    for kind, members in groups:
        if len(members) < 2:
            continue
        # Weeks in their order, the newest of them; all others by what they saved.
        chosen = (
            members[-12:] if kind == "week" else sorted(members, key=lambda g: -(g.saved.value or 0.0))[:8]
        )
        rows = [
            (g.name, f"{g.runs:,}", f"{g.placed:,}", _hours(g.node_hours), _hours(g.saved), interval(g.saved))
            for g in chosen
        ]
        yield ""
        header = (kind.upper(), "RUNS", "PLACED", "NODE-HOURS", "SAVED", "95 %")
        yield from columns(header, rows, (20, -9, -9, -12, -11, 30))
        if len(members) > len(chosen):
            yield f"... of {len(members):,} in all"


def _hours(value: Value) -> str:
    return (
        digits(value.value)
        if value.value is not None and value.origin == "measured"
        else figure(value, False)
    )


def render_jobs(jobs: Sequence[JobCost]) -> str:
    """Single jobs, each taken apart; empty for none."""
    if not jobs:
        return ""
    rows = []
    for one in jobs:
        of = {part.name: part.seconds for part in one.parts}
        rows.append(
            (
                str(one.job),
                one.name,
                one.user,
                figure(one.time),
                *(figure(of.get(name, _UNKNOWN)) for name in ("computation", "waiting", "latency")),
                one.dominant or "-",
                "-" if one.energy.value is None else digits(one.energy.value / 3.6e6),
            )
        )
    header = ("JOB", "PROGRAM", "USER", "TIME", "COMPUTE", "WAIT", "LATENCY", "DOMINANT", "KWH")
    lines = ["", "JOB BY JOB  (the newest; time, and what of it the ranks spent on what)"]
    lines += columns(header, rows, (8, 14, 8, -9, -10, -9, -9, 18, -7))
    return "\n".join(lines) + "\n"
