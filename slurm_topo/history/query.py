"""The filter as SQL, and connections whose errors are of one line."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Connection, Engine, and_, func

from slurm_topo.history import schema
from slurm_topo.history.database import database_errors
from slurm_topo.history.rows import Filter


class Reading:
    """A read-only connection whose errors are :class:`HistoryError`."""

    def __init__(self, engine: Engine, database: str) -> None:
        self._errors = database_errors(database)
        self._engine = engine
        self._connection: Connection | None = None

    def __enter__(self) -> Connection:
        self._errors.__enter__()
        try:
            self._connection = self._engine.connect()
        except BaseException as error:
            self._errors.__exit__(type(error), error, error.__traceback__)
            raise
        return self._connection

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        if self._connection is not None:
            self._connection.close()
        self._errors.__exit__(kind, error, traceback)


def condition(chosen: Filter) -> ColumnElement[bool]:
    """The filter as SQL on the table of jobs."""
    jobs = schema.jobs.c
    when = func.coalesce(jobs.ended, jobs.submitted)
    parts: list[ColumnElement[bool]] = [jobs.id > 0]
    if chosen.since is not None:
        parts.append(when >= chosen.since)
    if chosen.until is not None:
        parts.append(when < chosen.until)
    for column, value in (
        (jobs.user_name, chosen.user),
        (jobs.account, chosen.account),
        (jobs.partition_name, chosen.partition),
        (jobs.cluster, chosen.cluster),
        (jobs.program_id, chosen.program),
    ):
        if value is not None:
            parts.append(column == value)
    return and_(*parts)
