"""One pass of sync: accounting in, spool in, verdicts, advice out."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import Connection, delete, select

from slurm_topo.config import Settings
from slurm_topo.errors import SlurmError, SlurmTopoError
from slurm_topo.history.database import database_errors, transaction
from slurm_topo.history.schema import files, graphs, jobs
from slurm_topo.history.store import History, open_history
from slurm_topo.history.sync import accounting, advice, judge, measure, packing, scaled, stepkeys
from slurm_topo.history.sync.ahead import search_ahead
from slurm_topo.history.sync.cluster import update_cluster
from slurm_topo.history.sync.files import SpoolDeniedError, SpoolError
from slurm_topo.history.sync.inbox import list_jobs
from slurm_topo.history.sync.jobfiles import Context, Outcome, process_jobs
from slurm_topo.history.sync.lock import only_one
from slurm_topo.history.sync.programs import in_parts
from slurm_topo.history.sync.prune import prune
from slurm_topo.history.sync.spool import open_spool, spool_users
from slurm_topo.history.sync.state import set_state, take_choices
from slurm_topo.history.sync.traces import choose_graphs
from slurm_topo.machine import Cluster
from slurm_topo.slurm.command import Runner, run_command
from slurm_topo.slurm.library import Reader, accounting_reader
from slurm_topo.slurm.recorded import read_accounting_file

# How far back the first sync looks, and how far each later one looks behind the last: slurmdbd may be late.
DAY_S = 86400
FIRST_S, OVERLAP_S = 7 * DAY_S, 3600
# A clock that is ahead for one pass must not make it ask for every day of a century.
_MOST_S = 366 * DAY_S
# Jobs that one transaction takes in.
_BATCH = 500
_REMEMBER_FILES_S = 30 * 86400
_UNTIL, _PRUNED = "accounting_until", "pruned"


@dataclass
class SyncResult:
    """What a pass did.

    Attributes
    ----------
    jobs : int
        Jobs whose lines in the history were written or changed.
    pruned : int
        Old files that were removed from users' folders.
    repacked, switched : lists of str
        Programs whose ranks lie another way from now on, and programs that are placed no more: a line each.
    open_jobs : list of int
        Jobs with files in the spool whose accounting record is not closed yet.
    error : SlurmTopoError or None
        Why accounting could not be read; the rest was done all the same.
    """

    jobs: int = 0
    outcome: Outcome = field(default_factory=Outcome)
    repacked: list[str] = field(default_factory=list)
    switched: list[str] = field(default_factory=list)
    written: int = 0
    removed: int = 0
    graphs: int = 0
    starts: int = 0
    pruned: int = 0
    open_jobs: list[int] = field(default_factory=list)
    error: SlurmTopoError | None = None


def lock_file(settings: Settings) -> Path:
    """The lock that one sync at a time holds."""
    return Path(settings.advice_dir) / ".sync.lock"


def sync_once(
    settings: Settings,
    since: int | None = None,
    run: Runner = run_command,
    clock: Callable[[], float] = time.time,
    hook: Callable[[str], None] = lambda _: None,
) -> SyncResult:
    """Bring the history up to date and publish what follows from it.

    Parameters
    ----------
    settings : Settings
        Database, spool, advice directory, arm and holdout count.
    since : int, optional
        Look at accounting from this time (seconds since the epoch, UTC); default: where the last pass ended.
    run : callable
        Starts Slurm's commands.
    clock : callable
        Seconds since the epoch.
    hook : callable
        Called with a word wherever a crash would matter.

    Raises
    ------
    HistoryError
        Another sync is running, or the database cannot be used.
    """
    now = int(clock())
    with (
        only_one(lock_file(settings)),
        database_errors(settings.database),
        open_history(settings.database, create=True) as history,
    ):
        hook("opened")
        result = SyncResult()
        cluster = _cluster(settings, run, result)
        read = accounting_reader(settings.accounting, run, result.outcome.warnings.append)
        try:
            _take_accounting(history, since, now, read, result, hook)
        except SlurmError as error:
            result.error = error
        with transaction(history.engine) as connection:
            machine = measure.store_machine(connection, cluster, now) if cluster else None
        context = Context(history, cluster, now, hook, machine)
        _take_spool(settings, context, read, result)
        hook("spool-done")
        with transaction(history.engine) as connection:
            choose_graphs(connection, take_choices(connection))
            if settings.packing == "learn":
                result.repacked = packing.choose_variants(connection, now)
            result.switched = judge.switch_back(connection, now, settings.packing)
            connection.execute(
                delete(files).where(files.c.status == "read", files.c.seen < now - _REMEMBER_FILES_S)
            )
        hook("judged")
        with transaction(history.engine) as connection:
            scaled.update_scaled(connection, settings, now, advice.FORGET_S)
        hook("scaled")
        _publish(settings, history, now, result)
        hook("published")
        if cluster and settings.ahead_s > 0:
            _search_ahead(settings, history, cluster, now, result)
        _prune(settings, history, now, result)
        with transaction(history.engine) as connection:
            set_state(connection, "last_sync", str(now))
        return result


def import_accounting(settings: Settings, paths: Sequence[str]) -> int:
    """Take saved accounting into the history (:mod:`slurm_topo.slurm.recorded`), and nothing else.

    Returns
    -------
    int
        Number of jobs of which anything was new.

    Raises
    ------
    InputError
        A file is no accounting.
    HistoryError
        A sync is running, or the database cannot be used.
    """
    result = SyncResult()
    with (
        only_one(lock_file(settings)),
        database_errors(settings.database),
        open_history(settings.database, create=True) as history,
    ):
        for path in paths:
            rows = read_accounting_file(path)
            _store(history, accounting.group_rows(rows), result, lambda _: None)
    return result.jobs


def _cluster(settings: Settings, run: Runner, result: SyncResult) -> Cluster | None:
    try:
        return update_cluster(settings, run)
    except (SlurmTopoError, OSError) as error:
        result.outcome.warnings.append(f"cluster description: {error}")
        return None


def _take_accounting(
    history: History,
    since: int | None,
    now: int,
    read: Reader,
    result: SyncResult,
    hook: Callable[[str], None],
) -> None:
    """Jobs since the last pass, and those that were open then."""
    start = since if since is not None else _start(history.state(_UNTIL), now)
    seen: set[int] = set()
    # Day by day: the output of sacct is in memory at once.
    for day in range(start, max(now, start + 1), DAY_S):
        rows = read(day, min(day + DAY_S, now))
        seen |= _store(history, accounting.group_rows(rows), result, hook)
    with history.engine.connect() as connection:
        rest = [job for job in accounting.open_jobs(connection) if job not in seen]
    if rest:
        found = _store(history, accounting.group_rows(read(jobs=rest)), result, hook)
        with transaction(history.engine) as connection:
            accounting.give_up(connection, set(rest) - found)
    with transaction(history.engine) as connection:
        set_state(connection, _UNTIL, str(now))
    hook("accounted")


def _start(until: str | None, now: int) -> int:
    """Where accounting is read from: an hour before the last pass, whatever the clock did since."""
    if until is None or int(until) > now + OVERLAP_S:
        # The first pass, or the last one had a clock that was ahead: nobody knows what it has missed.
        return now - FIRST_S
    return max(int(until) - OVERLAP_S, now - _MOST_S)


def _store(
    history: History,
    found: Iterable[accounting.AccountedJob],
    result: SyncResult,
    hook: Callable[[str], None],
) -> set[int]:
    """Write jobs, a few hundred a transaction; returns their ids."""
    seen: set[int] = set()
    batch: list[accounting.AccountedJob] = []

    def flush() -> None:
        with transaction(history.engine) as connection:
            result.jobs += accounting.store_jobs(connection, batch)
            hook("accounting-batch")
        batch.clear()

    for accounted in found:
        if accounted.job.submitted is None:
            continue
        seen.add(accounted.job.job)
        batch.append(accounted)
        if len(batch) >= _BATCH:
            flush()
    if batch:
        flush()
    return seen


def _take_spool(settings: Settings, context: Context, read: Reader, result: SyncResult) -> None:
    warnings = result.outcome.warnings
    try:
        users = spool_users(settings.spool)
    except SpoolError as error:
        warnings.append(f"{settings.spool}: cannot be read ({error}); traces and records stay there")
        return
    denied = []
    for uid in users:
        try:
            with open_spool(settings.spool, uid) as spool:
                found = list_jobs(spool)
                _ask_for_unknown(context, uid, [f.job for f in found], read, result)
                process_jobs(context, spool, uid, found, result.outcome)
                left = {f.job for f in list_jobs(spool)}
                result.open_jobs += _open_among(context.history, left)
        except SpoolDeniedError:
            denied.append(uid)
        except (SpoolError, OSError) as error:
            warnings.append(f"{settings.spool}/{uid}: cannot be used ({error}); its files stay there")
    if denied:
        warnings.append(
            f"{settings.spool}: folders of {len(denied)} other users cannot be read; "
            "run sync as root for their traces and graphs"
        )


def _ask_for_unknown(context: Context, uid: int, found: list[int], read: Reader, result: SyncResult) -> None:
    """Jobs that left files but lie outside the time that was asked for."""
    with context.history.engine.connect() as connection:
        known: set[int] = set()
        for part in in_parts(found):
            query = select(jobs.c.job).where(jobs.c.uid == uid, jobs.c.job.in_(part))
            known.update(connection.execute(query).scalars())
    rest = [job for job in found if job not in known]
    if rest and result.error is None:
        try:
            rows = read(jobs=rest)
            _store(context.history, accounting.group_rows(rows), result, context.hook)
        except SlurmError as error:
            result.error = error


def _open_among(history: History, found: set[int]) -> list[int]:
    with history.engine.connect() as connection:
        return [job for job in accounting.open_jobs(connection) if job in found]


def _wanted(
    connection: Connection, settings: Settings, now: int
) -> tuple[dict[int, set[str]], dict[int, list[stepkeys.StepAdvice]]]:
    """Graphs that advice names to each user, and her advice for steps."""
    wanted = advice.wanted_graphs(connection, settings, now)
    own = stepkeys.make_step_advice(connection, settings, now)
    for uid, lines in own.items():
        wanted.setdefault(uid, set()).update(line.graph for line in lines if line.graph)
    return wanted, own


def _publish(settings: Settings, history: History, now: int, result: SyncResult) -> None:
    """Graphs first, then the advice that names them."""
    with history.engine.connect() as connection:
        wanted, own = _wanted(connection, settings, now)
        texts = {a.key: advice.format_advice(a) for a in advice.make_advice(connection, settings, now)}
    try:
        users = set(spool_users(settings.spool))
    except SpoolError:
        users = set()
    holdout = advice.format_share(settings.holdout)
    for uid in sorted(users):
        lines = own.get(uid, [])
        digests = wanted.get(uid, set())
        try:
            if digests:
                result.graphs += _publish_graphs(settings, history, uid, digests)
            _publish_steps(settings, uid, lines, holdout)
        except SpoolDeniedError:
            # Said once already, where its files could not be read.
            continue
        except (SpoolError, OSError) as error:
            result.outcome.warnings.append(
                f"{settings.spool}/{uid}: graphs cannot be written ({error}); its jobs are not placed"
            )
    result.written, result.removed = advice.publish(
        Path(settings.advice_dir), texts, advice.format_site(settings)
    )


def _publish_graphs(settings: Settings, history: History, uid: int, digests: set[str]) -> int:
    written = 0
    with open_spool(settings.spool, uid) as spool:
        present = {info.name: info.size for info in spool.list("graphs")}
        for digest in sorted(digests):
            with history.engine.connect() as connection:
                content = connection.execute(
                    select(graphs.c.content).where(graphs.c.digest == digest)
                ).scalar()
            name = f"{digest}.npz"
            if content and present.get(name) != len(content):
                spool.write("graphs", name, content)
                written += 1
    return written


def _search_ahead(
    settings: Settings, history: History, cluster: Cluster, now: int, result: SyncResult
) -> None:
    """Starts for the graphs that are published, in folders that can be written."""
    with history.engine.connect() as connection:
        wanted = advice.wanted_graphs(connection, settings, now)
    try:
        users = set(spool_users(settings.spool))
    except SpoolError:
        return
    mine = {uid: digests for uid, digests in wanted.items() if uid in users and os.geteuid() in (0, uid)}
    result.starts, warnings = search_ahead(settings, history, cluster, mine)
    result.outcome.warnings += warnings


def _prune(settings: Settings, history: History, now: int, result: SyncResult) -> None:
    """Once a day: what is too old in the users' folders."""
    # A clock that jumped back must not put it off for years.
    if abs(now - int(history.state(_PRUNED) or 0)) < DAY_S:
        return
    with history.engine.connect() as connection:
        wanted, _ = _wanted(connection, settings, now)
    try:
        users = spool_users(settings.spool)
    except SpoolError:
        return
    for uid in users:
        # What cannot be used was named when its files were to be read.
        with suppress(SpoolError, OSError), open_spool(settings.spool, uid) as spool:
            result.pruned += prune(spool, wanted.get(uid, set()), now)
    with transaction(history.engine) as connection:
        set_state(connection, _PRUNED, str(now))


def _publish_steps(settings: Settings, uid: int, lines: list[stepkeys.StepAdvice], holdout: str) -> None:
    """The user's own file for srun, where it changes."""
    content = stepkeys.format_step_advice(lines, holdout).encode("ascii")
    with open_spool(settings.spool, uid) as spool:
        present = {info.name: info.size for info in spool.list(stepkeys.FOLDER)}
        if not lines and stepkeys.FILE not in present:
            return
        same = present.get(stepkeys.FILE) == len(content)
        if not same or spool.read(stepkeys.FOLDER, stepkeys.FILE, len(content)) != content:
            spool.write(stepkeys.FOLDER, stepkeys.FILE, content)
