"""``slurm-topo report``: what was placed, what was left alone and why, and what it was worth."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import click

from slurm_topo.cli.emit import emit
from slurm_topo.config import load_settings
from slurm_topo.history.database import database_errors, open_engine
from slurm_topo.report.attribution import attributions
from slurm_topo.report.case_load import load_cases
from slurm_topo.report.cases import Case
from slurm_topo.report.export import render_csv, render_jobs_csv, render_json
from slurm_topo.report.html import MOST_CASES, MOST_PROGRAMS
from slurm_topo.report.html import render as render_html
from slurm_topo.report.jobcosts import JobCost, job_costs, newest
from slurm_topo.report.jobload import load_job_facts
from slurm_topo.report.load import Filter, load
from slurm_topo.report.numbers import Report
from slurm_topo.report.runs import Records
from slurm_topo.report.summary import summarise
from slurm_topo.report.table import EMPTY, NOTHING, render, render_jobs
from slurm_topo.report.when import parse_when

# Jobs that JSON and HTML take apart without being asked.
JOBS_SHOWN = 100


def filter_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that choose runs, shared by report and compare."""
    many: dict[str, Any] = {"multiple": True, "metavar": "NAME"}
    for option in reversed(
        (
            click.option(
                "--since", metavar="TIME", help="Ended at or after: 2026-11-30, 7d, yesterday (UTC)."
            ),
            click.option("--until", metavar="TIME", help="Ended before."),
            click.option("--program", "programs", **many, help="Number or name (* and ? match); repeatable."),
            click.option("--user", "users", **many, help="Only runs of this user; repeatable."),
            click.option("--account", "accounts", **many, help="Only runs of this account; repeatable."),
            click.option(
                "--partition", "partitions", **many, help="Only runs in this partition; repeatable."
            ),
        )
    ):
        command = option(command)
    return command


def make_filter(options: dict[str, Any], now: float) -> tuple[Filter, tuple[tuple[str, str], ...]]:
    """The filter of the options, and what to print of it."""
    times: dict[str, Any] = {
        k: parse_when(options[k], now) if options[k] else None for k in ("since", "until")
    }
    names: dict[str, Any] = {k: tuple(options[k]) for k in ("programs", "users", "accounts", "partitions")}
    shown = [(k, options[k]) for k in ("since", "until") if options[k]]
    shown += [(k[:-1], ",".join(v)) for k, v in names.items() if v]
    return Filter(**times, **names), tuple(shown)


def read_history(
    database: str,
    wanted: Filter,
    shown: tuple[tuple[str, str], ...],
    most: int | None,
    cases: int,
    jobs: int = 0,
) -> tuple[Report, Records, dict[int, Case], tuple[JobCost, ...]]:
    """Figures, records, up to ``cases`` programs in full and the last ``jobs`` taken apart.

    Raises
    ------
    HistoryError
        It cannot be read.
    """
    engine = open_engine(database, create=False)
    try:
        with database_errors(database):
            records = replace(load(engine, wanted), filters=shown)
            figures = summarise(records, most)
            found = load_cases(engine, [p.program for p in figures.programs[: 2 * cases]], cases)
            rows = newest(records, jobs)
            placed = dict(
                zip(records.runs.row[rows].tolist(), records.runs.placed[rows].tolist(), strict=True)
            )
            single = job_costs(records, rows, load_job_facts(engine, placed)) if placed else ()
    finally:
        engine.dispose()
    return figures, records, found, single


@click.command()
@filter_options
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "json", "csv", "html"]),
    default="table",
    show_default=True,
    help="How to write it.",
)
@click.option("-o", "--output", metavar="FILE", help="Write to this file.")
@click.option(
    "--jobs",
    type=click.IntRange(0),
    metavar="N",
    help="The N jobs that started last, each taken apart (CSV: these rows instead of the programs').",
)
@click.option("--top", type=click.IntRange(1), default=20, show_default=True, help="Programs in the table.")
@click.option("--database", metavar="URL", help="History to read (a path or an SQLAlchemy URL).")
@click.pass_context
def report(
    ctx: click.Context,
    /,
    form: str,
    output: str | None,
    jobs: int | None,
    top: int,
    database: str | None,
    **options: Any,
) -> None:
    """What was placed, what was left alone and why, and what it was worth."""
    settings = load_settings((ctx.obj or {}).get("config_file"), database=database)
    wanted, shown = make_filter(options, time.time())
    most = {"table": top, "html": MOST_PROGRAMS}.get(form)
    cases = MOST_CASES if form in ("html", "json") else 0
    detailed = jobs if jobs is not None else JOBS_SHOWN if form in ("html", "json") else 0
    figures, records, found, single = read_history(settings.database, wanted, shown, most, cases, detailed)
    if not figures.runs and form in ("csv", "html"):
        click.echo(NOTHING if shown else EMPTY, err=True)
    if form == "csv":
        text = render_csv(figures) if jobs is None else render_jobs_csv(single)
    elif form == "table":
        text = render(figures, top) + render_jobs(single)
    else:
        parts = attributions(records.runs, found)
        text = (
            render_json(figures, parts, single)
            if form == "json"
            else render_html(figures, records.runs, found, parts, single)
        )
    emit(text, output)
