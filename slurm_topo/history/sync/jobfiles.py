"""One job's spool files into the history: one transaction, and only then are the files deleted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, select, update

from slurm_topo.errors import SlurmTopoError
from slurm_topo.history.database import transaction
from slurm_topo.history.schema import decisions, jobs, steps
from slurm_topo.history.store import History
from slurm_topo.history.sync import adoption, inbox, measure, records, traces
from slurm_topo.history.sync.accounting import step_id
from slurm_topo.history.sync.files import SpoolError
from slurm_topo.history.sync.inbox import JobFiles, ReadFile, SpoolFile
from slurm_topo.history.sync.spool import UserSpool
from slurm_topo.machine import Cluster
from slurm_topo.model import CommGraph
from slurm_topo.slurm.plan import Plan

# The step daemons of the last node may still be writing when accounting has closed a job.
SETTLE_S = 5
# Files of a job that accounting does not know are kept this long.
ORPHAN_S = 2 * 86400
# All files of a job together: they are in memory at once.
MAX_JOB_BYTES = 2 << 30
_GRAPHS_KEPT = 16


@dataclass
class Outcome:
    """What happened to the files of a run of sync."""

    traces: int = 0
    records: int = 0
    rejected: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Context:
    """What the processing of files needs to know.

    Attributes
    ----------
    cluster : Cluster or None
        What steps are measured on; None: bytes by level stay unknown.
    now : int
        Seconds since the epoch.
    hook : callable
        Called with a word at every point where a crash would matter (tests end the process there).
    machine : str or None
        Digest of the cluster in the history.
    graphs : dict
        The graphs that were needed last, by digest.
    """

    history: History
    cluster: Cluster | None
    now: int
    hook: Callable[[str], None] = lambda _: None
    machine: str | None = None
    graphs: dict[str, CommGraph] = field(default_factory=dict)

    def graph(self, connection: Connection, digest: str) -> CommGraph | None:
        """A graph of the history, None where it is not there."""
        if digest not in self.graphs:
            found = measure.load_graph(connection, digest)
            if found is None:
                return None
            if len(self.graphs) >= _GRAPHS_KEPT:
                self.graphs.clear()
            self.graphs[digest] = found
        return self.graphs[digest]


def process_job(context: Context, spool: UserSpool, uid: int, files: JobFiles, outcome: Outcome) -> None:
    """Take in what is ready of a job's files; what is not ready stays."""
    with context.history.engine.connect() as connection:
        row = (
            connection.execute(
                select(jobs)
                .where(jobs.c.job == files.job, jobs.c.uid == uid)
                .order_by(jobs.c.submitted.desc())
            )
            .mappings()
            .first()
        )
        ready = _ready(connection, row, files, context.now) if row else []
    if row is None:
        if context.now - files.modified > ORPHAN_S:
            reads = _read(spool, uid, files.all(), outcome)
            _reject(context, spool, uid, reads, "accounting knows no such job of this user", outcome)
        return
    reads = _read(spool, uid, ready, outcome)
    if not reads:
        return
    context.hook("read")
    with transaction(context.history.engine) as connection:
        refused, waiting = _store(context, connection, row, uid, reads, outcome)
        context.hook("before-commit")
    context.hook("after-commit")
    for read in reads:
        if read not in waiting:
            _finish(spool, uid, read.file, read in refused, outcome)
            context.hook("file-done")


def _ready(connection: Connection, row: Any, files: JobFiles, now: int) -> list[SpoolFile]:
    """Everything once the job has ended; before that the traces of steps that ended on all their nodes."""
    query = select(steps.c.step, steps.c.nodes).where(steps.c.job_id == row["id"], steps.c.ended.is_not(None))
    ended: dict[str, int | None] = {row.step: row.nodes for row in connection.execute(query)}
    count: dict[str, int] = {}
    for file in files.traces:
        count[file.step] = count.get(file.step, 0) + 1
    whole = {step for step, found in count.items() if found >= (ended.get(step) or 1 << 30)}
    if row["final"] and (len(whole) == len(count) or now - files.modified >= SETTLE_S):
        return files.all()
    return [f for f in files.traces if f.step in whole]


def _read(spool: UserSpool, uid: int, wanted: Sequence[SpoolFile], outcome: Outcome) -> list[ReadFile]:
    reads: list[ReadFile] = []
    total = sum(file.info.size for file in wanted)
    if total > MAX_JOB_BYTES:
        where = inbox.path_of(uid, wanted[0])
        outcome.warnings.append(f"{where}: its job left {total} bytes, more than is read; they stay there")
        return reads
    for file in wanted:
        try:
            reads.append(inbox.read_file(spool, file))
        except SpoolError as error:
            outcome.warnings.append(f"{inbox.path_of(uid, file)}: cannot be read ({error}); it stays there")
    return reads


def _finish(spool: UserSpool, uid: int, file: SpoolFile, refused: bool, outcome: Outcome) -> None:
    try:
        if refused:
            spool.set_aside(file.folder, file.name)
        else:
            spool.remove(file.folder, file.name)
    except SpoolError as error:
        outcome.warnings.append(
            f"{inbox.path_of(uid, file)}: cannot be removed ({error}); it is read already"
        )


def _reject(
    context: Context, spool: UserSpool, uid: int, reads: Sequence[ReadFile], reason: str, outcome: Outcome
) -> None:
    with transaction(context.history.engine) as connection:
        known = inbox.known_files(connection, uid, reads)
        inbox.remember(connection, uid, dict.fromkeys(reads, reason), known, context.now)
    for read in reads:
        outcome.rejected.append(f"{inbox.path_of(uid, read.file)}: {reason}")
        _finish(spool, uid, read.file, True, outcome)


def _store(
    context: Context,
    connection: Connection,
    row: Any,
    uid: int,
    reads: Sequence[ReadFile],
    outcome: Outcome,
) -> tuple[set[ReadFile], set[ReadFile]]:
    """Everything of these files into the database.

    Returns
    -------
    refused, waiting : sets of ReadFile
        Those that are not what they should be, and those to be read again later.
    """
    known = inbox.known_files(connection, uid, reads)
    status = {read: known.get((inbox.path_of(uid, read.file), read.digest)) for read in reads}
    new = [read for read in reads if status[read] is None]
    wrong = _store_records(connection, row["id"], new, outcome)
    damaged, waiting = _store_traces(context, connection, row, new, outcome)
    reasons = dict([*wrong, *damaged])
    if row["program_id"] is None:
        adoption.adopt_by_graph(connection, row)
    settled = {read: reasons.get(read, "") for read in new if read not in waiting}
    inbox.remember(connection, uid, settled, known, context.now)
    outcome.rejected += [f"{inbox.path_of(uid, read.file)}: {reason}" for read, reason in reasons.items()]
    _measure(context, connection, row["id"], outcome)
    again = {read for read in reads if status[read] == "rejected"}
    return again | reasons.keys(), waiting


def _store_records(
    connection: Connection, job_id: int, reads: Sequence[ReadFile], outcome: Outcome
) -> list[tuple[ReadFile, str]]:
    found, wrong = [], []
    for read in reads:
        if read.file.folder != "records":
            continue
        lines, bad = records.parse_records(read.content)
        # The record of another job, or nothing that is a record: kept aside, the good lines count.
        mine = [r for r in lines if r.values.get("job") == read.file.job]
        found += mine
        if bad or len(mine) < len(lines) or not lines:
            wrong.append((read, f"{bad + len(lines) - len(mine)} lines are no records of this job"))
        outcome.records += len(mine)
    plans = records.read_plans([r for r in reads if r.file.folder == "plans"])
    if found:
        records.store_records(connection, job_id, found, plans)
    return wrong


def _store_traces(
    context: Context,
    connection: Connection,
    row: Any,
    reads: Sequence[ReadFile],
    outcome: Outcome,
) -> tuple[list[tuple[ReadFile, str]], set[ReadFile]]:
    """Graphs of the traces; returns those that are no traces, and those that have to wait.

    While the job runs, a graph that lacks ranks may still get them: from the step of the batch script.
    """
    files = [read for read in reads if read.file.folder == "traces"]
    waiting: set[ReadFile] = set()
    if not files:
        return [], waiting
    found, wrong = traces.read_job_traces(files)
    if row["program_id"] is None:
        adoption.adopt_by_keys(connection, row, (str(trace.graph.meta.get("keys")) for trace in found))
    for trace in found:
        if not trace.complete and not row["final"]:
            waiting.update(trace.files)
            continue
        traces.store_trace(connection, row["id"], trace, context.now)
        outcome.traces += 1
    if len(waiting) < len(files):
        traces.choose_graph(connection, row["id"])
    return wrong, waiting


def _measure(context: Context, connection: Connection, job_id: int, outcome: Outcome) -> None:
    """Bytes by level of every step that has a graph or a plan and was not measured yet."""
    if context.cluster is None:
        return
    planned = _plans(connection, job_id)
    rows = connection.execute(select(steps).where(steps.c.job_id == job_id)).mappings().all()
    for row in rows:
        plan = planned.get(row["step"])
        if row["cost_before"] is not None and (plan is None or row["cost_after"] is not None):
            continue
        try:
            before, after = _sides(context, connection, row, plan)
        except SlurmTopoError as error:
            outcome.warnings.append(f"step {row['step']} of job {job_id}: not measured ({error})")
            continue
        if before or after:
            measure.store_sides(connection, row["id"], before, after, context.machine)


def _sides(
    context: Context, connection: Connection, row: Any, plan: Plan | None
) -> tuple[measure.Side | None, measure.Side | None]:
    assert context.cluster is not None
    digest = row["graph"] or (plan.graph if plan else None)
    graph = context.graph(connection, digest) if digest else None
    if graph is None:
        return None, None
    if plan:
        return measure.measure_plan(graph, plan, context.cluster)
    places = measure.bound_places(row["bindings"], graph.ranks)
    if places is None:
        return None, None
    return measure.measure_observed(graph, *places, context.cluster), None


def _plans(connection: Connection, job_id: int) -> dict[str, Plan]:
    """Plans of the placed steps by step; a placed launch whose step is not known counts for the only step."""
    query = (
        select(decisions.c.id, decisions.c.step, decisions.c.plan, decisions.c.plan_path)
        .where(decisions.c.job_id == job_id, decisions.c.decision == "place")
        .order_by(decisions.c.decided, decisions.c.id)
    )
    texts: dict[str, str] = {}
    found: dict[str, Plan] = {}
    for row in connection.execute(query):
        text = texts.setdefault(row.plan_path, row.plan) or row.plan
        parsed = records.plan_of_text(text)
        step = row.step or _bound_step(connection, job_id, found)
        if parsed and step is not None:
            if row.step is None:
                connection.execute(update(decisions).where(decisions.c.id == row.id).values(step=step))
                step_id(connection, job_id, step)
            found[step] = parsed
    return found


def _bound_step(connection: Connection, job_id: int, taken: dict[str, Plan]) -> str | None:
    """A numbered step that has bindings and no plan yet."""
    query = select(steps.c.step).where(steps.c.job_id == job_id, steps.c.bindings != "").order_by(steps.c.id)
    return next((s for s in connection.execute(query).scalars() if s.isdigit() and s not in taken), None)
