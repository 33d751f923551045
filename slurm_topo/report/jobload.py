"""Finds in the history what the costs of single jobs are made of."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, select

from slurm_topo.errors import SlurmTopoError
from slurm_topo.history.schema import graphs, machines, steps, traffic
from slurm_topo.machine.clusterfile import parse_cluster
from slurm_topo.machine.levels import is_level, level_of
from slurm_topo.model import Level
from slurm_topo.report.jobcosts import JobFacts, StepCost

_AT_ONCE = 500


def load_job_facts(engine: Engine, rows: Mapping[int, bool]) -> JobFacts:
    """What is known of the steps of some jobs.

    Parameters
    ----------
    rows : mapping of int to bool
        Row of each job, and whether it was placed: then its ranks were where the plan put them.
    """
    found: dict[int, list[StepCost]] = {}
    with engine.connect() as connection:
        levels = _Levels(connection)
        numbers = list(rows)
        for first in range(0, len(numbers), _AT_ONCE):
            part = numbers[first : first + _AT_ONCE]
            nbytes = _traffic(connection, part)
            for step in _steps(connection, part):
                after = rows[step.job_id] and step.cost_after is not None
                cost = step.cost_after if after else step.cost_before
                by_level = nbytes.get((step.id, "after" if after else "before"))
                if cost is not None and by_level and step.tasks:
                    costs = levels.of(step.machine, by_level)
                    made = StepCost(step.tasks, cost, by_level, costs, _waiting(step.meta))
                    found.setdefault(step.job_id, []).append(made)
        return JobFacts(found, levels.of(_newest_machine(connection), _names(connection)))


def _steps(connection: Connection, part: Sequence[int]) -> Sequence[Any]:
    s = steps.c
    query = (
        select(s.id, s.job_id, s.tasks, s.machine, s.cost_before, s.cost_after, graphs.c.meta)
        .join_from(steps, graphs, graphs.c.digest == s.graph, isouter=True)
        .where(s.job_id.in_(part), (s.cost_before.is_not(None)) | (s.cost_after.is_not(None)))
        .order_by(s.id)
    )
    return connection.execute(query).all()


def _traffic(connection: Connection, part: Sequence[int]) -> dict[tuple[int, str], dict[str, float]]:
    t = traffic.c
    query = (
        select(t.step_id, t.side, t.level, t.nbytes)
        .join_from(traffic, steps, t.step_id == steps.c.id)
        .where(steps.c.job_id.in_(part))
        .order_by(t.step_id, t.side, t.depth)
    )
    found: dict[tuple[int, str], dict[str, float]] = {}
    for step, side, level, nbytes in connection.execute(query):
        of = found.setdefault((step, side), {})
        of[level] = of.get(level, 0.0) + nbytes
    return found


def _waiting(meta: str | None) -> float | None:
    """Seconds of the mean rank inside blocking MPI calls, as its tracer measured them."""
    try:
        told = json.loads(meta or "{}")
        return float(told["wait_share"][1]) * float(told["seconds"])
    except (ValueError, KeyError, TypeError, IndexError):
        return None


def _newest_machine(connection: Connection) -> str | None:
    query = select(steps.c.machine).where(steps.c.machine.is_not(None)).order_by(steps.c.id.desc()).limit(1)
    found: str | None = connection.execute(query).scalar()
    return found


def _names(connection: Connection) -> list[str]:
    newest = select(traffic.c.step_id).order_by(traffic.c.step_id.desc()).limit(1).scalar_subquery()
    query = select(traffic.c.level).where(traffic.c.step_id == newest).distinct()
    return list(connection.execute(query).scalars())


class _Levels:
    """Seconds for a byte at the levels of machines; each description is read once."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._known: dict[str | None, dict[str, Level]] = {None: {}}

    def of(self, digest: str | None, names: Iterable[str]) -> dict[str, float]:
        """By name; a level that the description does not cost has its documented default."""
        if digest not in self._known:
            self._known[digest] = self._read(digest)
        known = self._known[digest]
        return {name: level_of(name, known).seconds_per_byte for name in names if is_level(name)}

    def _read(self, digest: str | None) -> dict[str, Level]:
        query = select(machines.c.description).where(machines.c.digest == digest)
        text = self._connection.execute(query).scalar()
        try:
            cluster = parse_cluster((text or "").encode(), "machine of the history", Path("/"))
        except (SlurmTopoError, ValueError, KeyError):
            return {}
        return {level.name: level for level in cluster.levels}
