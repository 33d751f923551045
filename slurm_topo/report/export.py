"""A report as JSON and CSV: everything that is known, for other programs."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from slurm_topo import __version__
from slurm_topo.config import VARIANTS
from slurm_topo.report.attribution import Attribution
from slurm_topo.report.fates import FATES, LEFT_ALONE
from slurm_topo.report.jobcosts import JobCost
from slurm_topo.report.numbers import FORMAT, VERSION, ProgramFigures, Report
from slurm_topo.report.values import Value, missing

_NONE = missing("")
_NOTHING = ProgramFigures(
    0, "", "", "", 0, 0, (), (), (), _NONE, _NONE, _NONE, _NONE, _NONE, _NONE, _NONE, (), ""
)
_COUNTED = ("stood_down", "left_alone", "unknown_left_alone", "fates", "filters", "level_costs")


def plain(thing: Any) -> Any:
    """Dataclasses, values and pairs as what JSON knows."""
    if isinstance(thing, Value):
        return thing.as_json()
    if is_dataclass(thing):
        made = {}
        for field in fields(thing):
            value = getattr(thing, field.name)
            made[field.name] = dict(value) if field.name in _COUNTED else plain(value)
        return made
    if isinstance(thing, tuple | list):
        return [plain(item) for item in thing]
    return thing


def render_json(
    report: Report, attributions: Sequence[Attribution] = (), jobs: Sequence[JobCost] = ()
) -> str:
    """The report as one JSON object, described in docs/report.md."""
    body = plain(report)
    body["attribution"] = plain(list(attributions))
    body["jobs"] = plain(list(jobs))
    body["series"] = {"unit": report.series[0], "points": plain(report.series[1])}
    body["groups"] = {kind: plain(members) for kind, members in report.groups}
    return (
        json.dumps({"format": FORMAT, "version": VERSION, "program_version": __version__, **body}, indent=1)
        + "\n"
    )


def render_csv(report: Report) -> str:
    """One line a program; every figure with its origin beside it."""
    levels = [(level.depth, level.level) for level in report.levels]
    stream = io.StringIO()
    # The header comes from a program that knows nothing, so that it is there without any row.
    writer = csv.DictWriter(stream, [*_row(_NOTHING, levels), "level_costs"], lineterminator="\n")
    writer.writeheader()
    costs = ";".join(f"{level}={origin}" for level, origin in report.level_costs)
    writer.writerows({**_row(program, levels), "level_costs": costs} for program in report.programs)
    return stream.getvalue()


def render_jobs_csv(jobs: Sequence[JobCost]) -> str:
    """One line a job: its time and its energy taken apart, every figure with its origin beside it."""
    levels = dict.fromkeys(part.name for job in jobs for part in job.parts)
    names = list(dict.fromkeys((*_PARTS, *levels)))
    stream = io.StringIO()
    header = [*_JOB, *(c for name in ("time", *names, *_ENERGY) for c in _columns(name))]
    writer = csv.DictWriter(stream, [*header, "dominant", "dominant_communication"], lineterminator="\n")
    writer.writeheader()
    for job in jobs:
        row = {name: getattr(job, name) for name in _JOB}
        of = {part.name: part.seconds for part in job.parts}
        values = {"time": job.time, **{name: of.get(name, missing("s")) for name in names}}
        values |= {name: getattr(job, name) for name in _ENERGY}
        for name, value in values.items():
            row.update(zip(_columns(name), (value.value, value.unit, value.origin), strict=True))
        writer.writerow(row | {k: getattr(job, k) for k in ("dominant", "dominant_communication")})
    return stream.getvalue()


_JOB = ("job", "program", "name", "user", "state", "placed", "start")
_PARTS = ("queue", "computation", "waiting", "latency")
_ENERGY = ("energy", "energy_communication")


def _columns(name: str) -> tuple[str, str, str]:
    column = name.replace(" ", "_")
    return column, f"{column}_unit", f"{column}_origin"


def _row(program: ProgramFigures, levels: list[tuple[int, str]]) -> dict[str, Any]:
    row: dict[str, Any] = {
        name: getattr(program, name) for name in ("program", "name", "user", "account", "ranks", "runs")
    }
    fates = dict(program.fates)
    # "left_alone" names the reasons below.
    row.update(
        {"runs_left_alone" if f == LEFT_ALONE else f.replace(" ", "_"): fates.get(f, 0) for f in FATES}
    )
    for name in ("time_before", "time_after", "saving", "node_hours", "saved", "cost_before", "cost_after"):
        row.update(_cells(name, getattr(program, name)))
    of = {(level.depth, level.level): level for level in program.levels}
    for key in levels:
        for side in ("before", "after"):
            value: Value | None = getattr(of[key], side) if key in of else None
            row[f"bytes_{side}_{key[1]}"] = value.value if value else None
            row[f"bytes_{side}_{key[1]}_origin"] = value.origin if value else "missing"
    row["left_alone"] = ";".join(f"{reason}={count}" for reason, count in program.stood_down)
    row["switched_back"] = program.switched_back
    of_variant = {v.variant: v for v in program.variants}
    for name in VARIANTS:
        figures = of_variant.get(name)
        row[f"{name}_runs"] = figures.runs if figures else 0
        row.update(_cells(f"time_{name}", figures.time if figures else missing("s")))
    row["variant"], row["variant_reason"] = program.variant, program.variant_reason
    return row


def _cells(name: str, value: Value) -> dict[str, Any]:
    return {
        name: value.value,
        f"{name}_unit": value.unit,
        f"{name}_origin": value.origin,
        f"{name}_low": value.low,
        f"{name}_high": value.high,
        f"{name}_n": value.n,
    }
