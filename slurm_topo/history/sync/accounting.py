"""Slurm's accounting into the tables of jobs and steps."""

from __future__ import annotations

import functools
import pwd
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, bindparam, select, update

from slurm_topo.history.schema import jobs, steps
from slurm_topo.history.sync.comment import SubmitMark, parse_comment
from slurm_topo.history.sync.programs import JobIdentity, ProgramIndex, in_parts
from slurm_topo.slurm.sacct import AccountingRow

# Written by other parts of sync: accounting never overwrites the rest.
_STEP_COLUMNS = (
    "name",
    "state",
    "exit_code",
    "started",
    "ended",
    "elapsed_s",
    "nodes",
    "cpus",
    "tasks",
    "node_list",
    "cpu_s",
    "average_cpu_s",
    "max_rss",
    "energy_j",
    "usage_text",
)
# Cluster, job id, time of submission: ids are used again.
Identity = tuple[str, int, int]


@dataclass(frozen=True)
class AccountedJob:
    """A job and its steps, in the order of sacct."""

    job: AccountingRow
    steps: tuple[AccountingRow, ...]

    @property
    def identity(self) -> Identity:
        """What tells this submission from all others."""
        return self.job.cluster, self.job.job, self.job.submitted or 0


def group_rows(rows: Iterable[AccountingRow]) -> Iterator[AccountedJob]:
    """Jobs of the lines of sacct, which prints the steps of a job after it."""
    head: AccountingRow | None = None
    below: list[AccountingRow] = []
    for row in rows:
        if row.step == "":
            if head:
                yield AccountedJob(head, tuple(below))
            head, below = row, []
        elif head and head.job == row.job:
            below.append(row)
    if head:
        yield AccountedJob(head, tuple(below))


def store_jobs(connection: Connection, batch: Iterable[AccountedJob]) -> int:
    """Write jobs and their steps; the same input again changes nothing.

    Returns
    -------
    int
        Number of jobs of which anything was written.
    """
    wanted = {accounted.identity: accounted for accounted in batch}
    known = _known_jobs(connection, [job for _, job, _ in wanted])
    marks = {name: parse_comment(a.job.admin_comment) for name, a in wanted.items()}
    index = ProgramIndex(connection, (key for mark in marks.values() if mark for key in mark.keys))
    added, moved = [], []
    for name, accounted in wanted.items():
        before, values = known.get(name), _job_values(accounted)
        values |= _mark_values(index, accounted.job, values, marks[name], before)
        if before is None:
            added.append({"cluster": name[0], "job": name[1], "submitted": name[2], **values})
        elif any(before[column] != value for column, value in values.items()):
            moved.append((before["id"], values))
    index.flush()
    for rows in _of_equal_columns(added):
        connection.execute(jobs.insert(), rows)
    for number, values in moved:
        connection.execute(update(jobs).where(jobs.c.id == number).values(**values))
    _supersede(connection, known, wanted)
    numbers = {name: row["id"] for name, row in known.items()}
    new = _known_jobs(connection, [row["job"] for row in added]) if added else {}
    numbers |= {name: row["id"] for name, row in new.items()}
    changed = {number for number, _ in moved} | {
        numbers[r["cluster"], r["job"], r["submitted"]] for r in added
    }
    return len(changed | _store_steps(connection, {numbers[name]: a for name, a in wanted.items()}))


def _known_jobs(connection: Connection, ids: Sequence[int]) -> dict[Identity, Any]:
    found = {}
    for part in in_parts(ids):
        for row in connection.execute(select(jobs).where(jobs.c.job.in_(part))).mappings():
            found[row["cluster"], row["job"], row["submitted"]] = row
    return found


def _of_equal_columns(rows: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Rows that one statement can insert: jobs that the hook saw have more columns."""
    groups: dict[frozenset[str], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(frozenset(row), []).append(row)
    yield from groups.values()


def _mark_values(
    index: ProgramIndex,
    row: AccountingRow,
    values: Mapping[str, Any],
    mark: SubmitMark | None,
    before: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """What the submit hook said of a job, and its program."""
    if mark is None:
        return {}
    found: dict[str, Any] = {"arm": mark.arm, "arm_reason": mark.reason, "advised_graph": mark.graph}
    keys = ":".join(mark.keys)
    # Again where a trace spoke first: Slurm accounts the comment when the job ends.
    if before is None or before["program_id"] is None or before["fingerprints"] != keys:
        found["fingerprints"] = keys
        found["program_id"] = index.find_or_add(_identity(row, values, mark.keys))
    return found


def _supersede(connection: Connection, known: Mapping[Identity, Any], wanted: Mapping[Identity, Any]) -> None:
    """A requeued job has a new record: the open one of before will never be closed by accounting."""
    newest: dict[tuple[str, int], int] = {}
    for cluster, job, submitted in wanted:
        newest[cluster, job] = max(submitted, newest.get((cluster, job), 0))
    left = [
        row["id"]
        for (cluster, job, submitted), row in known.items()
        if not row["final"]
        and (cluster, job, submitted) not in wanted
        and submitted < newest.get((cluster, job), 0)
    ]
    for part in in_parts(left):
        connection.execute(update(jobs).where(jobs.c.id.in_(part)).values(final=1, state="REQUEUED"))


def _identity(row: AccountingRow, values: Mapping[str, Any], keys: tuple[str, ...]) -> JobIdentity:
    tasks, cpus = values["tasks"], row.cpus
    return JobIdentity(
        user=row.user,
        uid=values["uid"],
        account=row.account,
        name=row.name,
        keys=keys,
        ranks=tasks,
        cpus_per_task=max(cpus // tasks, 1) if tasks and cpus else None,
        submitted=row.submitted or 0,
    )


def _job_values(accounted: AccountedJob) -> dict[str, Any]:
    row = accounted.job
    numbered = [s for s in accounted.steps if s.step.isdigit()]
    tasks = [s.tasks for s in numbered if s.tasks is not None]
    energies = [s.energy_j for s in accounted.steps if s.energy_j is not None]
    return {
        "user_name": row.user,
        "uid": row.uid if row.uid is not None else user_number(row.user),
        "account": row.account,
        "partition_name": row.partition,
        "name": row.name[:1024],
        "array_job": row.array_job,
        "array_task": row.array_task,
        "het_job": row.het_job,
        "het_offset": row.het_offset,
        "state": row.state[:32],
        "final": int(row.final),
        "exit_code": row.exit_code[:16],
        "started": row.started,
        "ended": row.ended,
        "elapsed_s": row.elapsed_s,
        "run_s": busy_seconds(numbered),
        "nodes": row.nodes,
        "cpus": row.cpus,
        "tasks": row.tasks if row.tasks is not None else max(tasks, default=None),
        "gpus": row.gpus,
        "node_list": row.node_list,
        "alloc_tres": row.alloc_tres,
        "cpu_s": row.cpu_s,
        "energy_j": row.energy_j if row.energy_j is not None else (sum(energies) if energies else None),
        "admin_comment": row.admin_comment,
        "comment": row.comment,
    }


@functools.lru_cache(maxsize=4096)
def user_number(name: str) -> int | None:
    """Numeric id of a user of this host: an old slurmdbd may not tell it, and the spool is sorted by it."""
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        return None


def busy_seconds(numbered: Sequence[AccountingRow]) -> float | None:
    """Time in which at least one of the steps ran, seconds: steps may run side by side."""
    spans = [
        (float(s.started), s.started + s.elapsed_s)
        for s in numbered
        if s.started is not None and s.elapsed_s is not None
    ]
    if not spans:
        return None
    total, until = 0.0, float("-inf")
    for begin, end in sorted(spans):
        total += max(end - max(begin, until), 0.0)
        until = max(until, end)
    return total


def _store_steps(connection: Connection, batch: dict[int, AccountedJob]) -> set[int]:
    """Write the steps of jobs (by number of the job); returns the numbers of jobs where any was written."""
    known: dict[tuple[int, str], Any] = {}
    for part in in_parts(batch):
        for row in connection.execute(select(steps).where(steps.c.job_id.in_(part))).mappings():
            known[row["job_id"], row["step"]] = row
    added: dict[tuple[int, str], dict[str, Any]] = {}
    moved = []
    for number, accounted in batch.items():
        for step in accounted.steps:
            name, values = (number, step.step[:32]), _step_values(step)
            before = known.get(name)
            if before is None:
                added[name] = {"job_id": number, "step": name[1], **values}
            elif any(before[column] != values[column] for column in _STEP_COLUMNS):
                moved.append({"_id": before["id"], "_job": number, **values})
    if added:
        connection.execute(steps.insert(), list(added.values()))
    changed = {row.pop("_job") for row in moved} | {number for number, _ in added}
    if moved:
        connection.execute(update(steps).where(steps.c.id == bindparam("_id")), moved)
    return changed


def _step_values(row: AccountingRow) -> dict[str, Any]:
    values = {name: getattr(row, name) for name in _STEP_COLUMNS if name != "usage_text"}
    return {
        **values,
        "usage_text": row.usage,
        "name": row.name[:1024],
        "state": row.state[:32],
        "exit_code": row.exit_code[:16],
    }


def open_jobs(connection: Connection, before: int | None = None) -> list[int]:
    """Raw ids of the jobs whose accounting record was not closed when it was read last."""
    query = select(jobs.c.job).where(jobs.c.final == 0)
    if before is not None:
        query = query.where(jobs.c.submitted < before)
    return sorted(set(connection.execute(query).scalars()))


def give_up(connection: Connection, lost: set[int]) -> None:
    """Close the open jobs that accounting does not know any more (purged, or of another database)."""
    for job in lost:
        connection.execute(
            update(jobs).where(jobs.c.job == job, jobs.c.final == 0).values(final=1, state="UNKNOWN")
        )
