"""What the history says of some jobs: read at once, changed in memory, written at once.

A statement a table instead of dozens a job: a day of a large site is a hundred thousand files.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Table, bindparam, delete, select, update

from slurm_topo.history.schema import decisions, jobs, steps, traffic
from slurm_topo.history.sync.programs import in_parts

# Columns of a step that sync itself fills; accounting has its own.
_STEP_COLUMNS = ("graph", "graph_complete", "machine", "cost_before", "cost_after", "bindings")
_NEW_STEP = dict.fromkeys(steps.c.keys()) | {"bindings": "", "graph_complete": 0}
Row = dict[str, Any]


class Ledger:
    """Rows of jobs, of their steps and of their decisions, for one transaction; :meth:`flush` writes them.

    Parameters
    ----------
    connection : Connection
        In a transaction that writes.
    numbers : sequence of int
        Jobs of the history.

    Attributes
    ----------
    jobs : dict of int to dict
        Rows by number of the job.
    """

    def __init__(self, connection: Connection, numbers: Sequence[int]) -> None:
        self.connection = connection
        self.jobs: dict[int, Row] = {}
        self._steps: dict[int, dict[str, Row]] = {number: {} for number in numbers}
        self._decisions: dict[int, list[Row]] = {number: [] for number in numbers}
        self._job_changes: dict[int, Row] = {}
        self._changed_steps: list[Row] = []
        self._moved: list[Row] = []
        self._traffic: list[tuple[Row, list[Row]]] = []
        for part in in_parts(numbers):
            self._load(part)

    def _load(self, part: list[int]) -> None:
        for row in self.connection.execute(select(jobs).where(jobs.c.id.in_(part))).mappings():
            self.jobs[row["id"]] = dict(row)
        found = self.connection.execute(select(steps).where(steps.c.job_id.in_(part)).order_by(steps.c.id))
        for row in found.mappings():
            self._steps[row["job_id"]][row["step"]] = dict(row)
        order = (decisions.c.decided, decisions.c.id)
        told = self.connection.execute(select(decisions).where(decisions.c.job_id.in_(part)).order_by(*order))
        for row in told.mappings():
            self._decisions[row["job_id"]].append(dict(row))

    def set_job(self, number: int, **values: Any) -> None:
        """Change columns of a job."""
        changed = {k: v for k, v in values.items() if self.jobs[number][k] != v}
        self.jobs[number] |= changed
        if changed:
            self._job_changes.setdefault(number, {}).update(changed)

    def steps_of(self, number: int) -> list[Row]:
        """Steps of a job, in the order in which they came into the history."""
        return list(self._steps[number].values())

    def step(self, number: int, name: str) -> Row:
        """A step of a job; it is added where accounting has not named it yet."""
        name = name[:32]
        found = self._steps[number].get(name)
        if found is None:
            found = self._steps[number][name] = _NEW_STEP | {"job_id": number, "step": name}
            self._changed_steps.append(found)
        return found

    def set_step(self, row: Row, **values: Any) -> None:
        """Change columns of a step."""
        if all(row[k] == v for k, v in values.items()):
            return
        row |= values
        self._changed_steps.append(row)

    def set_traffic(self, row: Row, lines: Iterable[Mapping[str, Any]]) -> None:
        """Bytes by level of a step; what was there before is replaced."""
        self._traffic.append((row, [dict(line) for line in lines]))

    def decisions_of(self, number: int) -> list[Row]:
        """Decisions of a job in their order."""
        return self._decisions[number]

    def add_decisions(self, number: int, rows: Iterable[Row]) -> None:
        """Add decisions of a job."""
        self._decisions[number] += [row | {"id": None, "job_id": number} for row in rows]
        # Stable: those that were there come first, as their numbers will.
        self._decisions[number].sort(key=lambda row: row["decided"])

    def set_decision_step(self, row: Row, step: str) -> None:
        """Say which step a decision was about."""
        row["step"] = step
        if row["id"] is not None:
            self._moved.append({"_id": row["id"], "step": step})

    def flush(self) -> None:
        """Write everything that changed."""
        self._flush_steps()
        new = [row for rows in self._decisions.values() for row in rows if row["id"] is None]
        self._insert(decisions, [{k: v for k, v in row.items() if k != "id"} for row in new])
        if self._moved:
            here = update(decisions).where(decisions.c.id == bindparam("_id"))
            self.connection.execute(here, self._moved)
        for names, rows in _of_equal_columns(self._job_changes).items():
            here = update(jobs).where(jobs.c.id == bindparam("_id"))
            self.connection.execute(here.values({name: bindparam(name) for name in names}), rows)

    def _flush_steps(self) -> None:
        # A step that changed twice is written once: by its identity as a row.
        changed = list({id(row): row for row in self._changed_steps}.values())
        new = [row for row in changed if row["id"] is None]
        old = [
            {"_id": row["id"], **{k: row[k] for k in _STEP_COLUMNS}}
            for row in changed
            if row["id"] is not None
        ]
        self._insert(steps, [{k: row[k] for k in ("job_id", "step", *_STEP_COLUMNS)} for row in new])
        if new:
            self._number(new)
        if old:
            self.connection.execute(update(steps).where(steps.c.id == bindparam("_id")), old)
        written = [row["id"] for row, _ in self._traffic]
        for part in in_parts(written):
            self.connection.execute(delete(traffic).where(traffic.c.step_id.in_(part)))
        self._insert(
            traffic, [line | {"step_id": row["id"]} for row, lines in self._traffic for line in lines]
        )

    def _number(self, new: Collection[Row]) -> None:
        wanted = {(row["job_id"], row["step"]): row for row in new}
        for part in in_parts({row["job_id"] for row in new}):
            query = select(steps.c.id, steps.c.job_id, steps.c.step).where(steps.c.job_id.in_(part))
            for number, job, step in self.connection.execute(query):
                if (job, step) in wanted:
                    wanted[job, step]["id"] = number

    def _insert(self, table: Table, rows: list[Row]) -> None:
        if rows:
            self.connection.execute(table.insert(), rows)


def _of_equal_columns(changes: Mapping[int, Row]) -> dict[tuple[str, ...], list[Row]]:
    """Changes of jobs by the columns that they touch: what one statement can write."""
    groups: dict[tuple[str, ...], list[Row]] = {}
    for number, values in changes.items():
        groups.setdefault(tuple(sorted(values)), []).append({"_id": number, **values})
    return groups
