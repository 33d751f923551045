"""``slurm-topo compare``: before and after, as an audit report."""

from __future__ import annotations

import shlex
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from slurm_topo.cli.emit import emit
from slurm_topo.cli.report import filter_options, make_filter
from slurm_topo.config import load_settings
from slurm_topo.errors import HistoryError, InputError
from slurm_topo.history.database import database_errors, open_engine
from slurm_topo.report.comparison.bundle import pdf_renderer, write_bundle
from slurm_topo.report.comparison.csvruns import read_csv_runs
from slurm_topo.report.comparison.document import headline
from slurm_topo.report.comparison.evidence import changed_records, digest_of_file
from slurm_topo.report.comparison.export import render_json
from slurm_topo.report.comparison.method import Method, read_method
from slurm_topo.report.comparison.prices import Prices, read_prices
from slurm_topo.report.comparison.result import BY_ARM, BY_CALENDAR, Origin
from slurm_topo.report.comparison.result import compare as compare_runs
from slurm_topo.report.load import Filter, load_for_comparison, with_end
from slurm_topo.report.runs import Records

_FILE = click.Path(dir_okay=False)
# Records that are named one by one when they differ.
_NAMED = 20


@click.command()
@filter_options
@click.option("--before", type=_FILE, help="CSV of runs before, instead of the history (with --after).")
@click.option("--after", type=_FILE, help="CSV of runs after.")
@click.option("--method", type=_FILE, help="TOML file that fixes the method (docs/compare.md).")
@click.option("--prices", type=_FILE, help="TOML file of prices, PUE, carbon, power (docs/compare.md).")
@click.option("--seed", type=click.IntRange(0), help="Seed of the random generator [default: the method's].")
@click.option("-o", "--output", metavar="FOLDER", help="Folder for HTML, PDF, JSON, records.")
@click.option(
    "--verify", type=_FILE, help="Compare the records with an earlier records.csv and name changes."
)
@click.option(
    "--format", "form", type=click.Choice(["table", "json"]), default="table", show_default=True,
    help="What is printed.",
)  # fmt: skip
@click.option("--database", metavar="URL", help="History to read (a path or an SQLAlchemy URL).")
@click.pass_context
def compare(
    ctx: click.Context,
    /,
    before: str | None,
    after: str | None,
    method: str | None,
    prices: str | None,
    seed: int | None,
    output: str | None,
    verify: str | None,
    form: str,
    database: str | None,
    **options: Any,
) -> None:
    """The cost before and after placement, compared so that a third party can check it."""
    if bool(before) != bool(after):
        raise InputError("--before and --after: one is missing; give both files, or none for the history")
    chosen = read_method(method) if method else Method()
    chosen = chosen if seed is None else replace(chosen, seed=seed)
    site = read_prices(prices) if prices else Prices()
    wanted, shown = make_filter(options, time.time())
    if before and after:
        if shown:
            raise InputError(
                f"--{shown[0][0]}: chooses from the history; leave it out with --before and --after"
            )
        records = read_csv_runs(before, after)
        source, design = f"{before} and {after}", BY_CALENDAR
        files = [("before", before), ("after", after)]
    else:
        settings = load_settings((ctx.obj or {}).get("config_file"), database=database)
        records, wanted = _history(settings.database, wanted)
        source, design, files = f"history {settings.database}", BY_ARM, []
    if verify:
        _verify(Path(verify), records)
        return
    inputs = [*files, *((k, v) for k, v in (("method file", method), ("prices file", prices)) if v)]
    command = _command(before, after, method, prices, chosen.seed, source, wanted)
    origin = Origin(
        source, design, command, tuple((f"{k} ({v})", digest_of_file(Path(v))) for k, v in inputs)
    )
    result = compare_runs(records, chosen, site, origin)
    if output:
        names = write_bundle(Path(output), result, records.runs)
        click.echo(f"{output}: {', '.join(names)}", err=True)
        if pdf_renderer() is None:
            click.echo("no PDF: reportlab is not installed (pip install 'slurm-topo[audit]')", err=True)
    emit(render_json(result) if form == "json" else headline(result), None)


def _history(database: str, wanted: Filter) -> tuple[Records, Filter]:
    """Runs of the history, and the filter with its end fixed so that the command can be repeated."""
    engine = open_engine(database, create=False)
    try:
        with database_errors(database):
            wanted = with_end(engine, wanted)
            records = load_for_comparison(engine, wanted)
    finally:
        engine.dispose()
    argv = _chosen(wanted)
    shown: dict[str, list[str]] = {}
    for name, value in zip(argv[::2], argv[1::2], strict=True):
        shown.setdefault(name.removeprefix("--"), []).append(value)
    return replace(records, filters=tuple((k, ", ".join(v)) for k, v in shown.items())), wanted


def _chosen(wanted: Filter) -> list[str]:
    """The filter as options; every span is a fixed time."""
    argv = []
    for name, time_of in (("--since", wanted.since), ("--until", wanted.until)):
        if time_of is not None:
            argv += [name, datetime.fromtimestamp(time_of, UTC).strftime("%Y-%m-%dT%H:%M:%S")]
    for name, values in (
        ("--program", wanted.programs),
        ("--user", wanted.users),
        ("--account", wanted.accounts),
        ("--partition", wanted.partitions),
    ):
        for value in values:
            argv += [name, value]
    return argv


def _verify(path: Path, records: Records) -> None:
    """Name the records that differ from an earlier comparison.

    Raises
    ------
    HistoryError
        There are some.
    """
    found = changed_records(path, records.runs)
    if not found:
        click.echo(f"{path}: all {len(records.runs):,} records are as they were")
        return
    for one in found[:_NAMED]:
        click.echo(f"record {one.row}, job {one.job}: {one.what}")
    if len(found) > _NAMED:
        click.echo(f"... and {len(found) - _NAMED:,} more")
    raise HistoryError(
        f"{path}: {len(found):,} records are not what they were; find out who changed them and why"
    )


def _command(
    before: str | None,
    after: str | None,
    method: str | None,
    prices: str | None,
    seed: int,
    source: str,
    wanted: Filter,
) -> str:
    """The command that makes the same files again."""
    argv = ["slurm-topo", "compare"]
    if before and after:
        argv += ["--before", before, "--after", after]
    else:
        argv += ["--database", source.removeprefix("history ")]
    argv += _chosen(wanted)
    for name, value in (("--method", method), ("--prices", prices)):
        argv += [name, value] if value else []
    return shlex.join([*argv, "--seed", str(seed), "-o", "comparison"])
