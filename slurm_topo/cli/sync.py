"""``slurm-topo sync``: accounting, traces and records into the history; advice out."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from slurm_topo.config import Settings, load_settings
from slurm_topo.errors import ConfigError, HistoryError, SlurmTopoError

if TYPE_CHECKING:
    from slurm_topo.history.sync.run import SyncResult


_RUNNING = "RUNNING,SUSPENDED,PENDING,CONFIGURING,STOPPED,RESIZING"


@dataclass(frozen=True)
class SyncOptions:
    """What the user asked for; times in seconds."""

    watch_s: float | None
    since: int | None
    wait_s: float
    set_free: int | None
    quiet: bool


@click.command("sync", short_help="Read traces and accounting into the history, publish advice.")
@click.option("--config", "config_file", type=click.Path(), help="TOML file of settings.")
@click.option("--once", is_flag=True, help="One pass (the default).")
@click.option(
    "--watch", "watch_s", type=click.FloatRange(min=1), metavar="SECONDS", help="A pass every so often."
)
@click.option(
    "--since", metavar="TIME", help="Accounting from this time (UTC), such as 2026-11-30 or 2026-11-30T12:00."
)
@click.option(
    "--wait",
    "wait_s",
    type=click.FloatRange(min=0),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="Wait for the accounting of jobs that have just ended.",
)
@click.option("--set-free", type=int, metavar="PROGRAM", help="Place a program again that was switched back.")
@click.option(
    "--from",
    "saved",
    type=click.Path(),
    multiple=True,
    metavar="FILE",
    help="Take in saved accounting (sacct -P with header, sacct --json, SWF) and nothing else.",
)
@click.option("-q", "--quiet", is_flag=True, help="Print warnings only.")
@click.pass_context
def sync(
    ctx: click.Context,
    config_file: str | None,
    once: bool,
    watch_s: float | None,
    since: str | None,
    wait_s: float,
    set_free: int | None,
    saved: tuple[str, ...],
    quiet: bool,
) -> None:
    """Read traces and accounting into the history, publish advice.

    May be stopped at any time and repeated as often as one likes: nothing is lost, nothing counts twice.
    """
    if once and watch_s is not None:
        raise click.UsageError("--once and --watch contradict each other; give one of them")
    settings = load_settings(config_file or (ctx.obj or {}).get("config_file"))
    if saved:
        from slurm_topo.history.sync.run import import_accounting

        count = import_accounting(settings, saved)
        if not quiet:
            click.echo(f"{count} jobs from {len(saved)} files")
        return
    options = SyncOptions(watch_s, parse_moment(since) if since else None, wait_s, set_free, quiet)
    run_sync(settings, options)


def parse_moment(text: str) -> int:
    """Seconds since the epoch of a date or a time in UTC.

    Raises
    ------
    ConfigError
        The text is neither.
    """
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(
            f"--since {text!r}: no time; write for example 2026-11-30 or 2026-11-30T12:00"
        ) from None
    return int((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp())


def run_sync(settings: Settings, options: SyncOptions) -> None:
    """One pass, or passes until it is interrupted."""
    if options.set_free is not None:
        _set_free(settings, options.set_free)
    if options.watch_s is None:
        _pass(settings, options)
        return
    while True:
        start = time.monotonic()
        try:
            _pass(settings, options)
        except SlurmTopoError as error:
            # The next pass may find the database unlocked and slurmdbd awake.
            click.echo(f"slurm-topo: {error}", err=True)
        time.sleep(max(0.0, options.watch_s - (time.monotonic() - start)))


def _pass(settings: Settings, options: SyncOptions) -> None:
    """One pass, and more of them while slurmdbd has still to hear of jobs that are over."""
    from slurm_topo.history.sync.run import sync_once

    if Path(settings.kill_switch).exists():
        click.echo(f"slurm-topo: {settings.kill_switch} exists: nothing is read or published", err=True)
        return
    start = time.monotonic()
    result = sync_once(settings, options.since)
    while result.open_jobs and result.error is None and time.monotonic() - start < options.wait_s:
        if not _ended(result.open_jobs):
            break
        _report(result, options.quiet)
        time.sleep(min(1.0, options.wait_s))
        result = sync_once(settings, options.since)
    _report(result, options.quiet)
    if result.error:
        raise result.error


def _ended(open_jobs: list[int]) -> bool:
    """Whether slurmctld says that one of these jobs is over: then its accounting will follow at once."""
    from slurm_topo.errors import SlurmError
    from slurm_topo.slurm.command import run_command

    try:
        text = run_command(["squeue", "--noheader", "--format=%A", f"--states={_RUNNING}"])
    except SlurmError:
        return False
    running = {int(word) for word in text.split() if word.isdigit()}
    return any(job not in running for job in open_jobs)


def _set_free(settings: Settings, program: int) -> None:
    from slurm_topo.history.database import database_errors
    from slurm_topo.history.store import open_history
    from slurm_topo.history.sync.judge import set_free

    with (
        database_errors(settings.database),
        open_history(settings.database, create=True) as history,
        history.writing() as connection,
    ):
        if not set_free(connection, program, int(time.time())):
            raise HistoryError(f"program {program}: is not in the history; see `slurm-topo report`")


def _report(result: SyncResult, quiet: bool) -> None:
    """Warnings on stderr, one line of what was done on stdout."""
    outcome = result.outcome
    for line in (*outcome.warnings, *outcome.rejected, *result.repacked, *result.switched):
        click.echo(f"slurm-topo: {line}", err=True)
    if not quiet:
        click.echo(
            f"{result.jobs} jobs, {outcome.traces} traces, {outcome.records} records; "
            f"{result.written} advice files, {result.graphs} graphs written"
            + (f"; {result.starts} placements found ahead of time" if result.starts else "")
            + (f"; {len(outcome.rejected)} files set aside" if outcome.rejected else "")
            + (f"; {len(result.open_jobs)} jobs with files still run" if result.open_jobs else "")
        )
