"""Slurm's accounting into the tables of jobs and steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select, update

from slurm_topo.history.schema import jobs, steps
from slurm_topo.history.sync.comment import parse_comment
from slurm_topo.history.sync.programs import JobIdentity, find_or_add_program
from slurm_topo.slurm.sacct import AccountingRow

# Written by other parts of sync: accounting never overwrites them.
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


@dataclass(frozen=True)
class AccountedJob:
    """A job and its steps, in the order of sacct."""

    job: AccountingRow
    steps: tuple[AccountingRow, ...]


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


def store_job(connection: Connection, accounted: AccountedJob) -> tuple[int, bool]:
    """Write a job and its steps; the same input again changes nothing.

    Returns
    -------
    number, changed : int, bool
        Number of the job in the history, and whether anything was written.
    """
    row = accounted.job
    values = _job_values(accounted)
    identity = (jobs.c.cluster == row.cluster) & (jobs.c.job == row.job) & (jobs.c.submitted == row.submitted)
    known = connection.execute(select(jobs).where(identity)).mappings().first()
    if known and known["final"] and all(known[k] == v for k, v in values.items()):
        return known["id"], _store_steps(connection, known["id"], accounted.steps)
    number, changed = _store_row(connection, known, values, row)
    _supersede(connection, row, number)
    return number, _store_steps(connection, number, accounted.steps) or changed


def _store_row(
    connection: Connection, known: Any, values: dict[str, Any], row: AccountingRow
) -> tuple[int, bool]:
    mark = parse_comment(row.admin_comment)
    if mark and (known is None or known["program_id"] is None):
        values["fingerprints"] = ":".join(mark.keys)
        values["program_id"] = find_or_add_program(connection, _identity(row, values, mark.keys))
    if mark:
        values |= {"arm": mark.arm, "arm_reason": mark.reason, "advised_graph": mark.graph}
    if known is None:
        result = connection.execute(
            jobs.insert().values(cluster=row.cluster, job=row.job, submitted=row.submitted, **values)
        )
        assert result.inserted_primary_key is not None
        return int(result.inserted_primary_key[0]), True
    changes = {name: value for name, value in values.items() if known[name] != value}
    if changes:
        connection.execute(update(jobs).where(jobs.c.id == known["id"]).values(**changes))
    return known["id"], bool(changes)


def _supersede(connection: Connection, row: AccountingRow, number: int) -> None:
    """A requeued job has a new record: the open one of before will never be closed by accounting."""
    earlier = (
        (jobs.c.cluster == row.cluster)
        & (jobs.c.job == row.job)
        & (jobs.c.id != number)
        & (jobs.c.submitted < row.submitted)
        & (jobs.c.final == 0)
    )
    connection.execute(update(jobs).where(earlier).values(final=1, state="REQUEUED"))


def _identity(row: AccountingRow, values: dict[str, Any], keys: tuple[str, ...]) -> JobIdentity:
    tasks, cpus = values["tasks"], row.cpus
    return JobIdentity(
        user=row.user,
        uid=row.uid,
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
    times = [s.elapsed_s for s in numbered if s.elapsed_s is not None]
    tasks = [s.tasks for s in numbered if s.tasks is not None]
    energies = [s.energy_j for s in accounted.steps if s.energy_j is not None]
    return {
        "user_name": row.user,
        "uid": row.uid,
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
        "run_s": sum(times) if times else None,
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


def _store_steps(connection: Connection, job_id: int, rows: Sequence[AccountingRow]) -> bool:
    if not rows:
        return False
    query = select(steps).where(steps.c.job_id == job_id)
    known = {row["step"]: row for row in connection.execute(query).mappings()}
    added, changed = [], False
    for row in rows:
        values = _step_values(row)
        before = known.get(row.step[:32])
        if before is None:
            added.append({"job_id": job_id, "step": row.step[:32], **values})
        elif any(before[name] != values[name] for name in _STEP_COLUMNS):
            connection.execute(update(steps).where(steps.c.id == before["id"]).values(**values))
            changed = True
    if added:
        connection.execute(steps.insert(), added)
    return changed or bool(added)


def _step_values(row: AccountingRow) -> dict[str, Any]:
    values = {name: getattr(row, name) for name in _STEP_COLUMNS if name != "usage_text"}
    return {
        **values,
        "usage_text": row.usage,
        "name": row.name[:1024],
        "state": row.state[:32],
        "exit_code": row.exit_code[:16],
    }


def step_id(connection: Connection, job_id: int, step: str) -> int:
    """Number of a step of a job in the history; it is added where accounting has not named it yet."""
    query = select(steps.c.id).where(steps.c.job_id == job_id, steps.c.step == step[:32])
    found = connection.execute(query).scalar()
    if found is not None:
        return int(found)
    result = connection.execute(steps.insert().values(job_id=job_id, step=step[:32]))
    assert result.inserted_primary_key is not None
    return int(result.inserted_primary_key[0])


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
