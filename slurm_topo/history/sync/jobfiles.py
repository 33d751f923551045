"""Jobs' spool files into the history: each job's in one transaction, and only then are the files deleted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, select

from slurm_topo.errors import SlurmTopoError
from slurm_topo.history.database import transaction
from slurm_topo.history.schema import jobs, steps
from slurm_topo.history.store import History
from slurm_topo.history.sync import adoption, inbox, measure, records, stepkeys, traces
from slurm_topo.history.sync.files import SpoolError
from slurm_topo.history.sync.inbox import JobFiles, ReadFile, SpoolFile
from slurm_topo.history.sync.ledger import Ledger
from slurm_topo.history.sync.programs import in_parts
from slurm_topo.history.sync.spool import UserSpool
from slurm_topo.history.sync.state import remember_choices
from slurm_topo.machine import Cluster
from slurm_topo.model import CommGraph
from slurm_topo.slurm.plan import Plan

# The step daemons of the last node may still be writing when accounting has closed a job.
SETTLE_S = 5
# Files of a job that accounting does not know are kept this long.
ORPHAN_S = 2 * 86400
# All files of a job together: they are in memory at once.
MAX_JOB_BYTES = 2 << 30
# Jobs that one transaction takes in, fewer where their files are large.
_JOBS_AT_ONCE, _BYTES_AT_ONCE = 250, 256 << 20
# Pairs in the graphs that are kept for the next job.
_PAIRS_KEPT = 4_000_000


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
            self.keep({digest: found})
        return self.graphs[digest]

    def keep(self, found: Mapping[str, CommGraph]) -> None:
        """Graphs that may be needed again soon."""
        if sum(graph.source.size for graph in self.graphs.values()) > _PAIRS_KEPT:
            self.graphs.clear()
        self.graphs.update(found)


def process_jobs(
    context: Context, spool: UserSpool, uid: int, found: Sequence[JobFiles], outcome: Outcome
) -> None:
    """Take in what is ready of the files of a user's jobs; what is not ready stays."""
    for part in _parts(found):
        _process(context, spool, uid, part, outcome)


def _parts(found: Sequence[JobFiles]) -> Iterator[list[JobFiles]]:
    part: list[JobFiles] = []
    nbytes = 0
    for job in found:
        size = sum(file.info.size for file in job.all())
        if part and (len(part) >= _JOBS_AT_ONCE or nbytes + size > _BYTES_AT_ONCE):
            yield part
            part, nbytes = [], 0
        part.append(job)
        nbytes += size
    if part:
        yield part


def _process(
    context: Context, spool: UserSpool, uid: int, part: Sequence[JobFiles], outcome: Outcome
) -> None:
    with context.history.engine.connect() as connection:
        rows = _newest_rows(connection, uid, [files.job for files in part])
        ended = _ended_steps(connection, [row["id"] for row in rows.values()])
    reads: dict[int, list[ReadFile]] = {}
    for files in part:
        row = rows.get(files.job)
        if row is not None:
            ready = _ready(row, ended.get(row["id"], {}), files, context.now)
            reads[row["id"]] = _read(spool, uid, ready, outcome)
            context.hook("read")
        elif context.now - files.modified > ORPHAN_S:
            orphans = _read(spool, uid, files.all(), outcome)
            _reject(context, spool, uid, orphans, "accounting knows no such job of this user", outcome)
    reads = {number: found for number, found in reads.items() if found}
    if not reads:
        return
    with transaction(context.history.engine) as connection:
        fates = _store(context, connection, uid, reads, outcome)
        context.hook("before-commit")
    context.hook("after-commit")
    for refused, waiting, found in fates:
        for read in found:
            if read not in waiting:
                _finish(spool, uid, read.file, read in refused, outcome)
                context.hook("file-done")


def _newest_rows(connection: Connection, uid: int, numbers: Sequence[int]) -> dict[int, Any]:
    """The newest submission of each of Slurm's job ids of a user."""
    found: dict[int, Any] = {}
    for part in in_parts(numbers):
        query = select(jobs.c.id, jobs.c.job, jobs.c.final).where(jobs.c.job.in_(part), jobs.c.uid == uid)
        for row in connection.execute(query.order_by(jobs.c.submitted)).mappings():
            found[row["job"]] = row
    return found


def _ended_steps(connection: Connection, numbers: Sequence[int]) -> dict[int, dict[str, int | None]]:
    """Number of nodes of the steps that have ended, by job and step."""
    found: dict[int, dict[str, int | None]] = {}
    for part in in_parts(numbers):
        query = select(steps.c.job_id, steps.c.step, steps.c.nodes)
        for row in connection.execute(query.where(steps.c.job_id.in_(part), steps.c.ended.is_not(None))):
            found.setdefault(row.job_id, {})[row.step] = row.nodes
    return found


def _ready(row: Any, ended: Mapping[str, int | None], files: JobFiles, now: int) -> list[SpoolFile]:
    """Everything once the job has ended; before that the traces of steps that ended on all their nodes."""
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


Fate = tuple[set[ReadFile], set[ReadFile], list[ReadFile]]


def _store(
    context: Context,
    connection: Connection,
    uid: int,
    reads: Mapping[int, list[ReadFile]],
    outcome: Outcome,
) -> list[Fate]:
    """Everything of the files of some jobs (by their number in the history) into the database.

    Returns
    -------
    list of (refused, waiting, all)
        For each job the files that are not what they should be, those to be read again later, and all.
    """
    ledger = Ledger(connection, list(reads))
    known = inbox.known_files(connection, uid, [read for found in reads.values() for read in found])
    graphs: dict[str, CommGraph] = {}
    learned: list[stepkeys.Learned] = []
    fates, settled, changed = [], {}, set()
    for number, found in reads.items():
        status = {read: known.get((inbox.path_of(uid, read.file), read.digest)) for read in found}
        new = [read for read in found if status[read] is None]
        wrong = _store_records(ledger, number, new, outcome)
        damaged, waiting, traced = _store_traces(ledger, number, new, outcome, learned)
        graphs.update(traced)
        if ledger.jobs[number]["program_id"] is None:
            adoption.adopt_by_graph(ledger, ledger.jobs[number])
        if traced:
            changed.add(ledger.jobs[number]["program_id"])
        reasons = dict([*wrong, *damaged])
        settled.update({read: reasons.get(read, "") for read in new if read not in waiting})
        outcome.rejected += [f"{inbox.path_of(uid, read.file)}: {reason}" for read, reason in reasons.items()]
        again = {read for read in found if status[read] == "rejected"}
        fates.append((again | reasons.keys(), waiting, found))
    traces.store_graphs(connection, graphs, context.now)
    stepkeys.learn(connection, uid, learned, context.now)
    context.keep(graphs)
    for number in reads:
        _measure(context, ledger, number, outcome)
    inbox.remember(connection, uid, settled, known, context.now)
    ledger.flush()
    remember_choices(connection, changed - {None})
    return fates


def _store_records(
    ledger: Ledger, number: int, reads: Sequence[ReadFile], outcome: Outcome
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
        records.store_records(ledger, number, found, plans)
    return wrong


def _store_traces(
    ledger: Ledger,
    number: int,
    reads: Sequence[ReadFile],
    outcome: Outcome,
    learned: list[stepkeys.Learned],
) -> tuple[list[tuple[ReadFile, str]], set[ReadFile], dict[str, CommGraph]]:
    """Graphs of the traces by digest; those that are no traces, and those that have to wait; fills `learned`.

    While the job runs, a graph that lacks ranks may still get them: from the step of the batch script.
    """
    files = [read for read in reads if read.file.folder == "traces"]
    waiting: set[ReadFile] = set()
    graphs: dict[str, CommGraph] = {}
    if not files:
        return [], waiting, graphs
    job = ledger.jobs[number]
    found = traces.read_job_traces(files)
    if job["program_id"] is None:
        adoption.adopt_by_keys(ledger, job, (str(trace.graph.meta.get("keys")) for trace in found.graphs))
    learned += [stepkeys.Learned(keys, None, 0, job["state"]) for keys in found.silent]
    for trace in found.graphs:
        if not trace.complete and not job["final"]:
            waiting.update(trace.files)
            continue
        traces.store_trace(ledger, number, trace)
        if trace.complete:
            told, silent = str(trace.graph.meta.get("keys")), not trace.graph.nbytes.sum()
            digest = None if silent else trace.digest
            learned.append(stepkeys.Learned(told, digest, trace.graph.ranks, job["state"]))
        graphs[trace.digest] = trace.graph
        outcome.traces += 1
    return found.wrong, waiting, graphs


def _measure(context: Context, ledger: Ledger, number: int, outcome: Outcome) -> None:
    """Bytes by level of every step that has a graph or a plan and was not measured yet."""
    if context.cluster is None:
        return
    planned = _plans(ledger, number)
    for row in ledger.steps_of(number):
        plan = planned.get(row["step"])
        if row["cost_before"] is not None and (plan is None or row["cost_after"] is not None):
            continue
        try:
            before, after = _sides(context, ledger.connection, row, plan)
        except SlurmTopoError as error:
            job = ledger.jobs[number]["job"]
            outcome.warnings.append(f"step {row['step']} of job {job}: not measured ({error})")
            continue
        if before or after:
            measure.store_sides(ledger, row, before, after, context.machine)


def _sides(
    context: Context, connection: Connection, row: Mapping[str, Any], plan: Plan | None
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


def _plans(ledger: Ledger, number: int) -> dict[str, Plan]:
    """Plans of the placed steps by step; a placed launch whose step is not known counts for the only step."""
    texts: dict[str, str] = {}
    found: dict[str, Plan] = {}
    for row in ledger.decisions_of(number):
        if row["decision"] != "place":
            continue
        text = texts.setdefault(row["plan_path"], row["plan"]) or row["plan"]
        parsed = records.plan_of_text(text)
        step = row["step"] or _bound_step(ledger.steps_of(number), found)
        if parsed and step is not None:
            if row["step"] is None:
                ledger.set_decision_step(row, step)
                ledger.step(number, step)
            found[step] = parsed
    return found


def _bound_step(known: Iterable[Mapping[str, Any]], taken: Mapping[str, Plan]) -> str | None:
    """A numbered step that has bindings and no plan yet."""
    bound = (row["step"] for row in known if row["bindings"])
    return next((step for step in bound if step.isdigit() and step not in taken), None)
