"""Reading the history: :func:`open_history` and the questions that reports ask it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from sqlalchemy import Connection, Engine, RowMapping, and_, func, select

from slurm_topo.history import schema
from slurm_topo.history.database import open_engine, transaction
from slurm_topo.history.query import Reading, condition
from slurm_topo.history.rows import (
    ArmSummary,
    DecisionRow,
    Filter,
    GraphRow,
    LevelBytes,
    MachineRow,
    ProgramSummary,
    ReasonCount,
    Run,
    StepRow,
)

_CHUNK = 5000
# The columns of a Run, in its order.
_RUN_COLUMNS = (
    schema.jobs.c.id,
    schema.jobs.c.cluster,
    schema.jobs.c.job,
    schema.jobs.c.program_id,
    schema.jobs.c.user_name,
    schema.jobs.c.account,
    schema.jobs.c.partition_name,
    schema.jobs.c.name,
    schema.jobs.c.arm,
    schema.jobs.c.placed,
    schema.jobs.c.decision,
    schema.jobs.c.reason,
    schema.jobs.c.variant,
    schema.jobs.c.state,
    schema.jobs.c.submitted,
    schema.jobs.c.started,
    schema.jobs.c.ended,
    schema.jobs.c.elapsed_s,
    schema.jobs.c.run_s,
    schema.jobs.c.nodes,
    schema.jobs.c.cpus,
    schema.jobs.c.tasks,
    schema.jobs.c.gpus,
    schema.jobs.c.cpu_s,
    schema.jobs.c.energy_j,
)


def open_history(database: str, create: bool = False) -> History:
    """The history in a database.

    Parameters
    ----------
    database : str
        SQLAlchemy URL, or the path of a SQLite file (``Settings.database``).
    create : bool
        Make it and bring its schema up to date where necessary; reports leave this False.

    Raises
    ------
    HistoryError
        It does not exist, is locked, no database, or of another release.
    """
    return History(open_engine(database, create), database)


class History:
    """The questions that reports ask. A context manager: the connections are closed at its end."""

    def __init__(self, engine: Engine, database: str) -> None:
        self._engine = engine
        self._database = database

    def __enter__(self) -> History:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    @property
    def engine(self) -> Engine:
        """For code that writes (``slurm-topo sync``)."""
        return self._engine

    def writing(self) -> AbstractContextManager[Connection]:
        """A transaction that writes: committed at the end, rolled back on any exception."""
        return transaction(self._engine)

    def runs(self, chosen: Filter | None = None, program_only: bool = False) -> Iterator[Run]:
        """Jobs in order of their end, a few thousand in memory at a time.

        Parameters
        ----------
        chosen : Filter, optional
            Which jobs.
        program_only : bool
            Only jobs that belong to a program.
        """
        wanted = condition(chosen or Filter())
        if program_only:
            wanted = and_(wanted, schema.jobs.c.program_id.is_not(None))
        query = (
            select(*_RUN_COLUMNS).where(wanted).order_by(schema.jobs.c.ended.nulls_last(), schema.jobs.c.id)
        )
        for row in self._stream(query):
            values = list(row)
            values[9] = bool(values[9])
            yield Run(*values)

    def programs(self, chosen: Filter | None = None) -> Iterator[ProgramSummary]:
        """All programs that have a job in the filter, by number, with what was measured of them."""
        chosen = chosen or Filter()
        arms = self._arms(chosen)
        reasons = self._reasons_of_programs(chosen)
        with self._reading() as connection:
            keys = _grouped(connection, schema.program_keys.c.program_id, schema.program_keys.c.fingerprint)
            programs = connection.execute(select(schema.programs).order_by(schema.programs.c.id))
            rows = [row for row in programs.mappings() if row["id"] in arms]
            measured = self._newest_traffic(connection)
        for row in rows:
            yield _summary(row, arms[row["id"]], keys[row["id"]], measured, reasons[row["id"]])

    def reasons(self, chosen: Filter | None = None) -> list[ReasonCount]:
        """What was decided and why, with the number of jobs, most frequent first."""
        jobs = schema.jobs.c
        at_submit = (
            select(jobs.arm, jobs.arm_reason, func.count())
            .where(condition(chosen or Filter()), jobs.arm != "", jobs.arm_reason != "")
            .group_by(jobs.arm, jobs.arm_reason)
        )
        at_launch = (
            select(jobs.arm, jobs.decision, jobs.reason, func.count())
            .where(condition(chosen or Filter()), jobs.decision != "")
            .group_by(jobs.arm, jobs.decision, jobs.reason)
        )
        with self._reading() as connection:
            found = [
                ReasonCount("submit", a, "stand-down" if a == "off" else "none", r, n)
                for a, r, n in connection.execute(at_submit)
            ]
            found += [ReasonCount("launch", a, d, r, n) for a, d, r, n in connection.execute(at_launch)]
        return sorted(found, key=lambda c: (-c.jobs, c.where, c.decision, c.reason))

    def steps(self, job_id: int) -> list[StepRow]:
        """The steps of one job (``Run.id``), with their bytes by level."""
        query = select(schema.steps).where(schema.steps.c.job_id == job_id).order_by(schema.steps.c.id)
        with self._reading() as connection:
            rows = connection.execute(query).mappings().all()
            levels = _traffic(connection, [row["id"] for row in rows])
        return [_step(row, levels) for row in rows]

    def decisions(self, job_id: int) -> list[DecisionRow]:
        """What was decided for one job (``Run.id``), in order of time."""
        table = schema.decisions
        query = select(table).where(table.c.job_id == job_id).order_by(table.c.decided, table.c.id)
        with self._reading() as connection:
            rows = connection.execute(query).mappings().all()
        return [
            DecisionRow(**{k: v for k, v in row.items() if k not in ("id", "record_digest")}) for row in rows
        ]

    def traced_steps(self, program: int) -> list[StepRow]:
        """All steps of a program that have a graph or bytes by level, newest first."""
        steps, jobs = schema.steps, schema.jobs
        query = (
            select(steps)
            .join(jobs, jobs.c.id == steps.c.job_id)
            .where(jobs.c.program_id == program, steps.c.graph.is_not(None) | steps.c.cost_after.is_not(None))
            .order_by(jobs.c.ended.desc().nulls_last(), steps.c.id.desc())
        )
        with self._reading() as connection:
            rows = connection.execute(query).mappings().all()
            levels = _traffic(connection, [row["id"] for row in rows])
        return [_step(row, levels) for row in rows]

    def graph(self, digest: str) -> GraphRow | None:
        """A stored graph, None where the history does not have it."""
        row = self._one(select(schema.graphs).where(schema.graphs.c.digest == digest))
        return GraphRow(**row) if row else None

    def machine(self, digest: str) -> MachineRow | None:
        """A stored machine, None where the history does not have it."""
        row = self._one(select(schema.machines).where(schema.machines.c.digest == digest))
        return MachineRow(**row) if row else None

    def rejected_files(self) -> list[tuple[str, str]]:
        """Path and reason of every spool file that could not be used."""
        files = schema.files.c
        query = select(files.path, files.reason).where(files.status == "rejected").order_by(files.seen)
        with self._reading() as connection:
            return [(path, reason) for path, reason in connection.execute(query)]

    def state(self, name: str) -> str | None:
        """A value that sync remembers: ``accounting_until``, ``last_sync`` ..."""
        row = self._one(select(schema.sync_state.c.value).where(schema.sync_state.c.name == name))
        return str(row["value"]) if row else None

    def _reading(self) -> Reading:
        return Reading(self._engine, self._database)

    def _one(self, query: Any) -> RowMapping | None:
        with self._reading() as connection:
            row: RowMapping | None = connection.execute(query).mappings().first()
        return row

    def _stream(self, query: Any) -> Iterator[Sequence[Any]]:
        with self._reading() as connection:
            result = connection.execution_options(stream_results=True, yield_per=_CHUNK).execute(query)
            for part in result.partitions():
                yield from part

    def _arms(self, chosen: Filter) -> dict[int, list[ArmSummary]]:
        """Ended runs of each program by arm and whether they were placed."""
        jobs = schema.jobs.c
        columns = (
            jobs.program_id,
            jobs.arm,
            jobs.placed,
            jobs.state,
            jobs.run_s,
            jobs.elapsed_s,
            jobs.energy_j,
        )
        query = (
            select(*columns)
            .where(condition(chosen), jobs.program_id.is_not(None))
            .order_by(jobs.ended.nulls_last(), jobs.id)
        )
        runs: dict[tuple[int, str, int], list[Any]] = {}
        for program, arm, placed, state, run_s, elapsed_s, energy in self._stream(query):
            group = runs.setdefault((program, arm, placed), [0, [], []])
            if state in ("PENDING", "RUNNING", "SUSPENDED", "REQUEUED"):
                continue
            group[0] += 1
            seconds = run_s if run_s is not None else elapsed_s
            if state == "COMPLETED" and seconds is not None:
                group[1].append(seconds)
                if energy is not None:
                    group[2].append(energy)
        found: dict[int, list[ArmSummary]] = defaultdict(list)
        for (program, arm, placed), (count, seconds, energies) in sorted(runs.items()):
            found[program].append(ArmSummary(arm, bool(placed), count, tuple(seconds), tuple(energies)))
        return found

    def _reasons_of_programs(self, chosen: Filter) -> dict[int, dict[str, int]]:
        jobs = schema.jobs.c
        query = (
            select(jobs.program_id, jobs.decision, jobs.reason, jobs.arm, jobs.arm_reason, func.count())
            .where(condition(chosen), jobs.program_id.is_not(None))
            .group_by(jobs.program_id, jobs.decision, jobs.reason, jobs.arm, jobs.arm_reason)
        )
        found: dict[int, dict[str, int]] = defaultdict(dict)
        with self._reading() as connection:
            for program, decision, reason, arm, arm_reason, count in connection.execute(query):
                text = f"{decision}: {reason}" if decision else f"{arm}: {arm_reason}" if arm_reason else ""
                if text:
                    found[program][text] = found[program].get(text, 0) + count
        return found

    def _newest_traffic(self, connection: Connection) -> dict[int, dict[str, Any]]:
        """For each program: the levels, costs and machine of its newest placed and newest traced step."""
        steps, jobs, traffic = schema.steps, schema.jobs, schema.traffic
        newest = (
            select(jobs.c.program_id, traffic.c.side, func.max(traffic.c.step_id).label("step_id"))
            .join(steps, steps.c.id == traffic.c.step_id)
            .join(jobs, jobs.c.id == steps.c.job_id)
            .where(jobs.c.program_id.is_not(None))
            .group_by(jobs.c.program_id, traffic.c.side)
        )
        chosen: dict[int, dict[str, int]] = defaultdict(dict)
        for program, side, step_id in connection.execute(newest):
            chosen[program][side] = step_id
        # A placed step has both sides, and they belong together: the same graph on the same nodes.
        wanted = {p: sides.get("after", sides.get("before", 0)) for p, sides in chosen.items()}
        levels = _traffic(connection, list(wanted.values()))
        costs = {
            row.id: row
            for part in _chunks(list(wanted.values()))
            for row in connection.execute(
                select(steps.c.id, steps.c.cost_before, steps.c.cost_after, steps.c.machine).where(
                    steps.c.id.in_(part)
                )
            )
        }
        return {
            program: {
                "before": levels[step].get("before", ()),
                "after": levels[step].get("after", ()),
                "cost_before": costs[step].cost_before,
                "cost_after": costs[step].cost_after,
                "machine": costs[step].machine,
            }
            for program, step in wanted.items()
        }


def _chunks(values: Sequence[int]) -> Iterator[Sequence[int]]:
    for start in range(0, len(values), 500):
        yield values[start : start + 500]


def _grouped(connection: Connection, group: Any, value: Any) -> dict[int, list[str]]:
    found: dict[int, list[str]] = defaultdict(list)
    for key, item in connection.execute(select(group, value).order_by(group, value.desc())):
        found[key].append(item)
    return found


def _traffic(connection: Connection, step_ids: Sequence[int]) -> dict[int, dict[str, tuple[LevelBytes, ...]]]:
    traffic = schema.traffic.c
    found: dict[int, dict[str, tuple[LevelBytes, ...]]] = defaultdict(dict)
    for part in _chunks(step_ids):
        query = (
            select(traffic.step_id, traffic.side, traffic.depth, traffic.level, traffic.nbytes)
            .where(traffic.step_id.in_(part))
            .order_by(traffic.step_id, traffic.side, traffic.depth)
        )
        for step_id, side, depth, level, nbytes in connection.execute(query):
            before = found[step_id].get(side, ())
            found[step_id][side] = (*before, LevelBytes(depth, level, nbytes))
    return found


def _step(row: RowMapping, levels: Mapping[int, Mapping[str, tuple[LevelBytes, ...]]]) -> StepRow:
    values = {k: v for k, v in row.items() if k != "exit_code"}
    values["graph_complete"] = bool(values["graph_complete"])
    sides = levels.get(row["id"], {})
    return StepRow(**values, before=sides.get("before", ()), after=sides.get("after", ()))


def _summary(
    row: RowMapping,
    arms: Sequence[ArmSummary],
    keys: Sequence[str],
    measured: Mapping[int, Mapping[str, Any]],
    reasons: Mapping[str, int],
) -> ProgramSummary:
    nothing = {"before": (), "after": (), "cost_before": None, "cost_after": None, "machine": None}
    return ProgramSummary(
        id=row["id"],
        user=row["user_name"],
        account=row["account"],
        name=row["name"],
        keys=tuple(keys),
        ranks=row["ranks"],
        cpus_per_task=row["cpus_per_task"],
        first_seen=row["first_seen"],
        last_seen=row["last_seen"],
        graph=row["graph"],
        arm=row["arm"],
        arm_reason=row["arm_reason"],
        variant=row["variant"],
        variant_reason=row["variant_reason"],
        arms=tuple(arms),
        reasons=dict(reasons),
        **measured.get(row["id"], nothing),
    )
