"""A report as one HTML file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape

import numpy as np

from slurm_topo import __version__
from slurm_topo.config import VARIANTS
from slurm_topo.report import case_charts, charts
from slurm_topo.report.attribution import Attribution
from slurm_topo.report.cases import Case, Side
from slurm_topo.report.fates import LEFT_ALONE
from slurm_topo.report.jobcosts import JobCost
from slurm_topo.report.numbers import GroupFigures, ProgramFigures, Report
from slurm_topo.report.page import card, page, table, tile
from slurm_topo.report.runs import Runs
from slurm_topo.report.table import EMPTY, NOTHING, counted_fates_text, unknown_text
from slurm_topo.report.text import costs_of_levels, counted, day, digits, figure, interval, percent, seconds
from slurm_topo.report.values import MODELLED, Value

# Programs in the list, programs shown in full, runs in one picture.
MOST_PROGRAMS, MOST_CASES, MOST_DOTS = 40, 8, 400
_NO = "&ndash;"
_BEFORE_AFTER = (
    '<p><span class="legend"><i class="key kb"></i>before (Slurm alone)</span>'
    '<span class="legend"><i class="key ka"></i>after (placed)</span></p>'
)


def render(
    report: Report,
    runs: Runs,
    cases: Mapping[int, Case],
    parts: Sequence[Attribution],
    jobs: Sequence[JobCost] = (),
) -> str:
    """The report as a page.

    Parameters
    ----------
    report : Report
        The figures.
    runs : Runs
        The runs that they come from, for the pictures.
    cases : mapping of int to Case
        Programs that are shown in full.
    parts : sequence of Attribution
        Their times, taken apart.
    jobs : sequence of JobCost
        Single jobs, taken apart.
    """
    return page("slurm-topo report", _body(report, runs, cases, parts, jobs))


def _body(
    report: Report,
    runs: Runs,
    cases: Mapping[int, Case],
    parts: Sequence[Attribution],
    jobs: Sequence[JobCost],
) -> Iterator[str]:
    window = f"{day(report.since)} to {day(report.until)} (UTC)" if report.runs else ""
    filters = "".join(f" &middot; {escape(k)} {escape(v)}" for k, v in report.filters)
    yield f'<header><h1>What placing was worth</h1><p class="soft">{window}{filters}</p></header>'
    if not report.runs:
        yield f"<p>{escape(NOTHING if report.filters else EMPTY).replace('`', '')}</p>"
        yield f'<p class="soft" id="fates">0 runs, and {unknown_text(report)}.</p>' if report.unknown else ""
        return
    yield _tiles(report)
    sums = f"{counted(report.runs, 'run')}: {counted_fates_text(report.fates)}"
    others = f", and {unknown_text(report)}" if report.unknown else ""
    yield f'<p class="soft" id="fates">{escape(sums + others)}.</p>'
    yield from _programs(report)
    yield from _overview(report)
    yield from _notices(report)
    yield from _back(report)
    yield from _packing(report)
    if cases:
        yield from _sensitivity(report, parts)
        yield from _attribution(report, parts)
    for program in report.programs:
        if program.program in cases:
            yield from _case(program, cases[program.program], runs)
    yield from _jobs(jobs)
    yield from _groups(report)
    yield (
        f"<footer>{_mark(MODELLED)} modelled, {_NO} missing, everything else measured. An interval is at "
        "95 % and needs four completed runs on each side. docs/report.md describes the figures. "
        f"{escape(costs_of_levels(report.level_costs)) if report.level_costs else ''} "
        f"slurm-topo {escape(__version__)}</footer>"
    )


def _mark(origin: str) -> str:
    return '<abbr title="modelled">~</abbr>' if origin == MODELLED else ""


def shown(value: Value, unit: bool = True, like: Value | None = None) -> str:
    """A value as HTML."""
    if value.value is None:
        return f'<abbr title="missing">{_NO}</abbr>'
    return escape(figure(value, unit, like).rstrip("~")) + _mark(value.origin)


def _tiles(report: Report) -> str:
    left = dict(report.fates).get(LEFT_ALONE, 0)
    words = "node-hours saved by placing"
    if report.saved.value is not None and report.node_hours.value:
        words += f", {percent(report.saved.value / report.node_hours.value)} of all"
    if interval(report.saved):
        words += f"; 95 %: {interval(report.saved)}"
    of = f"{counted(report.all_programs, 'program')}, {counted(report.users, 'user')}"
    tiles = [
        tile(shown(report.saved, unit=False), words),
        tile(shown(report.node_hours, unit=False), f"node-hours used by {counted(report.runs, 'run')}"),
        tile(f"{report.placed:,}", f"runs placed; {of}"),
        tile(f"{left:,}", "runs left alone"),
        tile(shown(report.overhead, unit=False), "node-hours taken by our own part at launch"),
    ]
    return f'<div class="tiles">{"".join(tiles)}</div>'


def _programs(report: Report) -> Iterator[str]:
    chosen = report.programs[:MOST_PROGRAMS]
    bounds = [v for p in chosen for v in (p.saving.low, p.saving.high, p.saving.value) if v is not None]
    low, high = min([-0.05, *bounds]), max([0.05, *bounds])
    low, high = max(low, -0.6), min(high, 0.9)
    rows = [
        (
            f"{escape(p.name)} <small>{escape(p.user)} &middot; no. {p.program}</small>",
            str(p.ranks or _NO),
            f"{p.runs:,}",
            f"{sum(a.placed for a in p.arms):,}",
            shown(p.time_before),
            shown(p.time_after, like=p.time_before),
            shown(p.saving),
            f"<td>{charts.forest(p.saving, low, high)}</td>",
            shown(p.saved, unit=False),
        )
        for p in chosen
    ]
    header = (
        "Program",
        ">Ranks",
        ">Runs",
        ">Placed",
        ">Before",
        ">After",
        ">Saving",
        "",
        ">Node-hours saved",
    )
    more = ""
    if report.all_programs > len(chosen):
        more = f"<p class=soft>The {len(chosen)} that saved most, of {report.all_programs:,}.</p>"
    yield "<h2>Programs</h2>"
    yield card(
        "<p class=soft>Median time of a run, not placed and placed. The line is the 95 % interval of the "
        "saving, the upright line is zero.</p>",
        table(header, rows, "stack"),
        more,
    )


def _overview(report: Report) -> Iterator[str]:
    unit, points = report.series
    yield "<h2>Overview</h2><div class=grid>"
    if any(level.before.known for level in report.levels):
        note = "<p class=soft>One run of every program; where sender and receiver meet.</p>"
        yield card(note, _BEFORE_AFTER, charts.level_bars(report.levels), title="Where the bytes go")
    if points:
        legend = (
            '<p><span class="legend"><i class="key ka"></i>placed</span>'
            '<span class="legend"><i class="key kq"></i>not placed</span></p>'
        )
        saved = any(point.saved.known for point in points)
        # A column of two beside two single ones, or three single ones.
        yield f"<div{' class=col' if report.stood_down else ' style=display:contents'}>"
        yield card(legend, charts.run_series(points), title=f"Runs by {unit}")
        yield card(charts.saving_series(points), title=f"Node-hours saved by {unit}") if saved else ""
        yield "</div>"
    if report.stood_down:
        yield "<div class=col>"
        if report.left_alone:
            yield card(charts.reason_bars(report.left_alone), title="Left alone, and why")
        if report.unknown_left_alone:
            bars = charts.reason_bars(report.unknown_left_alone)
            yield card(bars, title="Jobs of no known program, left alone")
        yield "</div>"
    yield "</div>"


def _notices(report: Report) -> Iterator[str]:
    if report.notices:
        rows = [
            (
                f"{escape(n.name)} <small>{escape(n.user)}</small>",
                shown(n.node_hours, unit=False),
                escape(n.why),
            )
            for n in report.notices
        ]
        yield "<h2>Worth a look</h2>"
        yield card(table(("Program", ">Node-hours", "Why"), rows))


def _back(report: Report) -> Iterator[str]:
    back = [p for p in report.programs if p.switched_back]
    if back:
        rows = [
            (f"{escape(p.name)} <small>{escape(p.user)}</small>", shown(p.saving), escape(p.switched_back))
            for p in back
        ]
        yield "<h2>Switched back</h2>"
        yield card(
            "<p class=soft>Placing did not pay for these: they run as Slurm alone would run them.</p>",
            table(("Program", ">Saving", "Why"), rows),
        )


def _packing(report: Report) -> Iterator[str]:
    """Programs whose ranks leave cores free: how they lie on their nodes, and why."""
    chosen = [p for p in report.programs[:MOST_PROGRAMS] if p.variants]
    if not chosen:
        return
    rows = []
    for program in chosen:
        of = {v.variant: v for v in program.variants}
        cells = [
            cell
            for name in VARIANTS
            for cell in (
                f"{of[name].runs:,}" if name in of else "0",
                shown(of[name].time) if name in of else _NO,
            )
        ]
        name = f"{escape(program.name)} <small>{escape(program.user)}</small>"
        rows.append((name, *cells, escape(program.variant), escape(program.variant_reason)))
    header = ("Program", ">Spread", ">Median", ">Packed", ">Median", "In use", "Why")
    yield "<h2>Spread or packed</h2>"
    yield card(
        "<p class=soft>Runs with fewer ranks than cores: over all memory domains of a node, or in few.</p>",
        table(header, rows, "stack"),
    )


def _sensitivity(report: Report, parts: Sequence[Attribution]) -> Iterator[str]:
    """Heat map: programs by levels, before and after."""
    names = {p.program: p.name for p in report.programs}
    levels = list(dict.fromkeys(level for one in parts for level, _ in one.sensitivity))
    rows = []
    for one in parts:
        of = dict(one.sensitivity)
        cells = [_heat(of.get(level)) for level in levels]
        name = f"{escape(names.get(one.program, '?'))} <small>{_side(one)}</small>"
        rows.append((name, *cells))
    yield "<h2>Sensitivity to the topology</h2>"
    yield card(
        "<p class=soft>How much longer a run would take if one level of the machine were half as fast "
        "(modelled: the level's share of the measured time).</p>",
        table(("Program", *(f">{level}" for level in levels)), rows, "heat"),
    )


def _side(one: Attribution) -> str:
    return "placed" if one.placed else "before"


def _heat(value: Value | None) -> str:
    if value is None or value.value is None:
        return f'<td class="n h0">{_NO}</td>'
    steps = (0.002, 0.01, 0.05, 0.15, 0.3)
    step = sum(value.value >= s for s in steps)
    return f'<td class="n h{step}">{escape(percent(value.value))}</td>'


def _attribution(report: Report, parts: Sequence[Attribution]) -> Iterator[str]:
    names = {p.program: p.name for p in report.programs}
    rows = []
    for one in parts:
        longest = max(x.time.value or 0.0 for x in parts if x.program == one.program)
        energy = digits(one.energy.value / 3.6e6) + " kWh" if one.energy.value is not None else _NO
        rows.append(
            (
                f"{escape(names.get(one.program, '?'))} <small>{_side(one)}</small>",
                shown(one.time),
                f'<td style="width:34%"><div style="min-width:130px">{_bar(one, longest)}</div></td>',
                escape(one.dominant) or _NO,
                escape(one.dominant_communication),
                shown(one.queue),
                energy,
            )
        )
    levels = list(dict.fromkeys(p.name for one in parts for p in one.parts if p.name.startswith("bandwidth")))
    keys = [
        '<span class="legend"><i class="key kq"></i>computation, waiting inside</span>',
        '<span class="legend"><i class="key kl"></i>latency</span>',
        case_charts.ramp_legend(
            "bandwidth, inner to outer level: " + ", ".join(x.split()[-1] for x in levels)
        ),
    ]
    header = ("Program", ">Time", "Taken apart", "Dominant", "In communication", ">In the queue", ">Energy")
    yield "<h2>What the time of a run goes into</h2>"
    yield card(
        "<p class=soft>Medians of completed runs. Communication is modelled (mean of the ranks), computation "
        "is what remains of the measured time (nothing where the model says more than was measured).</p>",
        f'<p style="line-height:1.9">{"".join(keys)}</p>',
        table(header, rows, "stack"),
    )


def _bar(one: Attribution | JobCost, longest: float) -> str:
    return case_charts.time_bar(one, longest).replace(
        "<svg ", '<svg class="stretch" preserveAspectRatio="none" ', 1
    )


def _jobs(jobs: Sequence[JobCost]) -> Iterator[str]:
    """Job by job."""
    if not jobs:
        return
    longest = max(one.time.value or 0.0 for one in jobs)
    rows = []
    for one in jobs:
        of = {part.name: part.seconds for part in one.parts}
        energy = digits(one.energy.value / 3.6e6) + " kWh" if one.energy.value is not None else _NO
        about = (
            f"{escape(one.user)} &middot; job {one.job} &middot; {'placed' if one.placed else 'not placed'}"
        )
        rows.append(
            (
                f"{escape(one.name)} <small>{about}</small>",
                shown(one.time),
                f'<td style="width:28%"><div style="min-width:110px">{_bar(one, longest)}</div></td>',
                escape(one.dominant) or _NO,
                escape(one.dominant_communication) or _NO,
                shown(of["waiting"]),
                shown(of["queue"]),
                energy,
            )
        )
    header = ("Job", ">Time", "Taken apart", "Dominant", "In communication")
    yield "<h2>Job by job</h2>"
    yield card(
        f"<p class=soft>The {len(jobs)} jobs that started last. Waiting (in MPI, beyond what the messages "
        "take) is known where a job was traced. <code>report --format csv --jobs N</code> has them as rows. "
        '<span class="legend"><i class="key kq"></i>computation</span>'
        '<span class="legend"><i class="key kw"></i>waiting</span>'
        '<span class="legend"><i class="key kl"></i>latency</span>'
        f"{case_charts.ramp_legend('bandwidth, inner to outer level')}</p>",
        table((*header, ">Waiting", ">In the queue", ">Energy"), rows, "stack"),
    )


def _case(program: ProgramFigures, case: Case, runs: Runs) -> Iterator[str]:
    """One program in full."""
    origins = ", ".join(sorted({level.origin for level in case.levels}))
    of = f"no. {program.program} &middot; {escape(program.user)} &middot; {case.ranks} ranks"
    yield f"<h2>{escape(program.name)} <small>{of}</small></h2>"
    yield "<div class=grid>"
    yield _matrices(case)
    yield _links(case)
    yield "<div class=col>"
    if any(level.before.known for level in program.levels):
        yield card(_BEFORE_AFTER, charts.level_bars(program.levels), title="Bytes of a run by level")
    mine = np.flatnonzero((runs.program == program.program) & runs.completed & np.isfinite(runs.start))
    mine = mine[np.argsort(runs.start[mine], kind="stable")][-MOST_DOTS:]
    if len(mine) > 1:
        picture = charts.run_times(runs.start[mine], runs.elapsed[mine], runs.placed[mine])
        yield card(picture, title="Time of each run")
    yield "</div></div>"
    source = f"Graph and plan of job {case.job}; costs of the levels: {origins}."
    yield f"<p class=soft><small>{_facts(program)} {source}</small></p>"


def _matrices(case: Case) -> str:
    highest = max(float(s.matrix.max()) for s in (case.before, case.after) if s is not None)
    levels = [level.name for level in case.levels]

    def one(side: Side, words: str) -> str:
        stays = percent(case_charts.inside_share(side, levels))
        picture = case_charts.matrix(side, highest, f"Communication matrix, {words}")
        return f"<div>{picture}<small>{escape(words)}: {stays} inside nodes</small></div>"

    sides = [one(case.before, f"before ({case.baseline})")]
    if case.after is not None:
        sides.append(one(case.after, "after"))
    note = (
        "<p class=soft>Bytes from rank (row) to rank (column), ranks in the order of nodes and cores; "
        "lines are borders of nodes.</p>"
    )
    legend = f'<p style="margin-top:8px">{case_charts.ramp_legend("few to many bytes (logarithmic)")}</p>'
    return card(note, f'<div class="pair">{"".join(sides)}</div>', legend, title="Who talks to whom")


def _links(case: Case) -> str:
    sides = [s for s in (case.before, case.after) if s is not None]
    highest = max((v for s in sides for v in s.links.values()), default=0.0)
    words = [f"before ({case.baseline})", "after"]
    pictures = [
        f"<small>{escape(word)}: {_crossing(case, side)}</small>{case_charts.fabric(case, side, highest)}"
        for word, side in zip(words, sides, strict=False)
    ]
    legend = case_charts.ramp_legend(f"up to {figure(Value(highest, 'B'))} over one link")
    return card(*pictures, f"<p>{legend}</p>", title="Traffic on the links of the machine")


def _crossing(case: Case, side: Side) -> str:
    at = [i for i, level in enumerate(case.levels) if level.name.startswith("switch")]
    crossing = float(side.nbytes[at].sum())
    return f"{figure(Value(crossing, 'B'))} cross switches"


def _facts(program: ProgramFigures) -> str:
    """The rest of what is known of a program, as a sentence."""
    said = [f"{a.arm}: {counted(a.runs, 'run')}, {figure(a.time)}" for a in program.arms]
    if program.cost_before.value and program.cost_after.value is not None:
        change = program.cost_after.value / program.cost_before.value - 1
        before, after = seconds(program.cost_before.value), seconds(program.cost_after.value)
        word = "after" if any(arm.placed for arm in program.arms) else "if it were placed"
        said.append(f"communication cost {before} before, {after} {word} ({change * 100:+.0f} %, modelled)")
    if program.stood_down:
        said.append("left alone: " + ", ".join(f"{reason} {count}" for reason, count in program.stood_down))
    return escape("; ".join(said)) + "."


def _groups(report: Report) -> Iterator[str]:
    yield "<h2>Who saved</h2><div class=grid>"
    for kind, members in report.groups:
        if kind != "week" and members:
            yield card(_group_table(kind, members), title=f"By {kind}")
    yield "</div>"


def _group_table(kind: str, members: Sequence[GroupFigures]) -> str:
    chosen = sorted(members, key=lambda g: -(g.saved.value or 0.0))[:15]
    rows = [
        (
            escape(g.name),
            f"{g.runs:,}",
            shown(g.node_hours, unit=False),
            shown(g.saved, unit=False),
            f"<small>{escape(interval(g.saved))}</small>",
        )
        for g in chosen
    ]
    more = (
        f"<p class=soft><small>{len(chosen)} of {len(members):,}.</small></p>"
        if len(members) > len(chosen)
        else ""
    )
    return table((kind.capitalize(), ">Runs", ">Node-hours", ">Saved", "95 %"), rows) + more
