"""From the history to columns. The only place of the reports that speaks SQL."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import ColumnElement, Connection, Engine, Select, and_, case, func, select

from slurm_topo.history.schema import decisions, jobs, machines, programs, steps, traffic
from slurm_topo.report.runs import Labels, Program, Records, Runs, Traffic, no_traffic, runs_of

# Rows that are made to arrays at once: few enough to stay in the cache of the processor.
_ROWS = 500
# The unit separator of ASCII. Only the reason, which comes last, may hold one: users write it.
_BETWEEN = "\x1f"
_VARIABLES = 500
# Newest runs of each side and program whose steps and decisions are read, at most this many in all.
_DETAILS_EACH, _DETAILS_ALL = 5, 30_000


@dataclass(frozen=True)
class Filter:
    """Which runs a report is about; None and empty mean all.

    Attributes
    ----------
    since, until : float or None
        Ended (an open run: submitted) at or after, and before; seconds since the epoch.
    programs : tuple of str
        Numbers, or names with ``*`` and ``?``.
    users, accounts, partitions : tuple of str
        Names.
    """

    since: float | None = None
    until: float | None = None
    programs: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()

    def wanted(self, program: Program) -> bool:
        """Whether the program is one of those asked for."""
        return not self.programs or any(
            pattern == str(program.number) or fnmatchcase(program.name, pattern) for pattern in self.programs
        )


def load(engine: Engine, wanted: Filter) -> Records:
    """The runs that the filter lets through, their programs and their traffic.

    Raises
    ------
    sqlalchemy.exc.SQLAlchemyError
        The database cannot be read.
    """
    with engine.connect() as connection, connection.begin():
        known = {p.number: p for p in _programs(connection) if wanted.wanted(p)}
        runs = _runs(connection, wanted, known if wanted.programs else None)
        newest = newest_rows(runs)
        runs = _with_details(connection, runs, newest)
        unknown = _unknown(connection, wanted)
        costs = _level_costs(connection)
        return Records(runs, known, _traffic(connection, runs, newest), unknown=unknown, level_costs=costs)


def _level_costs(connection: Connection) -> dict[str, str]:
    """Origins of the levels' costs in the newest cluster description that steps were held against."""
    statement = (
        select(machines.c.description)
        .join_from(steps, machines, steps.c.machine == machines.c.digest)
        .order_by(steps.c.id.desc())
        .limit(1)
    )
    text = connection.execute(statement).scalar()
    levels = json.loads(text).get("levels", []) if text else []
    return {level["name"]: level.get("origin", "given") for level in levels}


def load_for_comparison(engine: Engine, wanted: Filter) -> Records:
    """The runs that the filter lets through, each with what was measured of it; no traffic.

    Unlike :func:`load` it knows of every run whether it was traced.

    Raises
    ------
    sqlalchemy.exc.SQLAlchemyError
        The database cannot be read.
    """
    with engine.connect() as connection, connection.begin():
        known = {p.number: p for p in _programs(connection) if wanted.wanted(p)}
        runs = _runs(connection, wanted, known if wanted.programs else None)
        traced = connection.execute(select(steps.c.job_id).where(steps.c.graph.is_not(None)).distinct())
        with_graph = np.array([row[0] for row in traced], dtype=np.int64)
        runs.traced[:] = runs.decision.isin(("trace",)) | np.isin(runs.row, with_graph)
        chosen = newest_rows(runs)
        details = _with_details(connection, runs.take(chosen), np.arange(len(chosen)))
        runs.overhead[chosen] = details.overhead
        return Records(runs, known, no_traffic())


def with_end(engine: Engine, wanted: Filter) -> Filter:
    """The filter with an end, just after the last run that there is, so that later runs never join in."""
    if wanted.until is not None:
        return wanted
    j = jobs.c
    statement = select(func.max(func.coalesce(j.ended, j.submitted))).where(*_conditions(wanted))
    with engine.connect() as connection:
        last = connection.execute(statement).scalar()
    return wanted if last is None else replace(wanted, until=float(last) + 1)


def _programs(connection: Connection) -> Iterator[Program]:
    p = programs.c
    statement = select(
        p.id,
        p.name,
        p.user_name,
        p.account,
        p.ranks,
        p.graph,
        p.arm,
        p.arm_reason,
        p.variant,
        p.variant_reason,
    )
    for number, name, user, account, ranks, graph, arm, reason, *variant in connection.execute(statement):
        back = (reason or f"limited to {arm}") if arm else ""
        yield Program(
            number, name, user, account, ranks or 0, graph or "", back, variant[0] or "", variant[1]
        )


_TEXTS = ("user", "account", "partition", "state", "arm", "variant", "decision", "reason")
_NUMBERS = (
    "row",
    "job",
    "program",
    "start",
    "wait",
    "elapsed",
    "nodes",
    "cores",
    "gpus",
    "ranks",
    "energy",
    "placed",
    "eligible",
)


def _statement(wanted: Filter) -> Select[Any]:
    j = jobs.c
    decision, reason = _decided()
    joined: ColumnElement[str] = j.user_name
    for column in (j.account, j.partition_name, j.state, j.arm, j.variant, decision, reason):
        joined = joined + _BETWEEN + column
    statement = select(
        joined,
        j.id,
        j.job,
        j.program_id,
        func.coalesce(j.started, j.submitted),
        j.started - j.submitted,
        func.coalesce(j.run_s, j.elapsed_s),
        j.nodes,
        j.cpus,
        j.gpus,
        j.tasks,
        j.energy_j,
        j.placed,
        case((j.advised_graph.is_not(None), 1), else_=0),
    ).where(j.program_id.is_not(None))
    return statement.where(*_conditions(wanted)).order_by(j.id)


def _decided() -> tuple[ColumnElement[str], ColumnElement[str]]:
    """Decision and reason of a job: of the launch, or of the submit hook where it left the job alone."""
    j = jobs.c
    hook = and_(j.decision == "", j.arm == "off", j.arm_reason != "")
    decision: ColumnElement[str] = case((hook, "stand-down"), else_=j.decision)
    reason: ColumnElement[str] = case((hook, j.arm_reason), (j.decision == "stand-down", j.reason), else_="")
    return decision, reason


def _conditions(wanted: Filter) -> list[ColumnElement[bool]]:
    j = jobs.c
    # The time of a run is that of its end, as in all questions to the history; of an open one its submission.
    when = func.coalesce(j.ended, j.submitted)
    found: list[ColumnElement[bool]] = []
    if wanted.since is not None:
        found.append(when >= int(wanted.since))
    if wanted.until is not None:
        found.append(when < int(wanted.until))
    for column, names in (
        (j.user_name, wanted.users),
        (j.account, wanted.accounts),
        (j.partition_name, wanted.partitions),
    ):
        if names:
            found.append(column.in_(names))
    return found


def _unknown(connection: Connection, wanted: Filter) -> dict[str, int]:
    """Jobs that belong to no program, by the reason why they were left alone (empty: none was given)."""
    if wanted.programs:
        return {}
    decision, reason = _decided()
    left = case((decision == "stand-down", reason), else_="")
    statement = (
        select(left, func.count()).where(jobs.c.program_id.is_(None), *_conditions(wanted)).group_by(left)
    )
    return {row[0]: row[1] for row in connection.execute(statement)}


def _runs(connection: Connection, wanted: Filter, known: Mapping[int, Program] | None) -> Runs:
    """Rows in chunks: each becomes arrays before the next is read.

    The text columns come joined, so that one look-up a row codes them all.
    """
    seen: dict[str, int] = {}
    codes: list[NDArray[np.int32]] = []
    numbers: dict[str, list[NDArray[np.float64]]] = {name: [] for name in _NUMBERS}
    for rows in _row_chunks(connection, _statement(wanted)):
        texts, *columns = zip(*rows, strict=True)
        codes.append(np.array([seen.setdefault(text, len(seen)) for text in texts], dtype=np.int32))
        for name, column in zip(_NUMBERS, columns, strict=True):
            numbers[name].append(np.array(column, dtype=np.float64))
    made: dict[str, Any] = dict(
        _labels(seen, np.concatenate(codes) if codes else np.zeros(0, dtype=np.int32))
    )
    for name, parts in numbers.items():
        made[name] = np.concatenate(parts) if parts else np.zeros(0)
        parts.clear()
    runs = runs_of(made)
    if known is None:
        return runs
    return runs.take(np.isin(runs.program, list(known)))


def _row_chunks(connection: Connection, statement: Select[Any]) -> Iterator[Sequence[Any]]:
    if connection.dialect.name != "sqlite":
        yield from connection.execution_options(yield_per=_ROWS).execute(statement).partitions()
        return
    # Straight from the driver: SQLAlchemy's rows around a million tuples cost as much as reading them.
    result = connection.execute(statement)
    cursor: Any = result.cursor
    while rows := cursor.fetchmany(_ROWS):
        yield rows
    result.close()


def _labels(seen: Mapping[str, int], codes: NDArray[np.int32]) -> Iterator[tuple[str, Labels]]:
    """The joined text columns, apart again."""
    apart = (text.split(_BETWEEN, len(_TEXTS) - 1) for text in seen)
    parts = list(zip(*apart, strict=True)) or [()] * len(_TEXTS)
    for name, part in zip(_TEXTS, parts, strict=True):
        column = Labels.of(text.replace(_BETWEEN, " ") for text in part)
        yield name, Labels(column.codes[codes], column.names)


def newest_rows(runs: Runs) -> NDArray[np.intp]:
    """Positions of the newest runs of each program, placed and not placed: what is read in detail."""
    count = len(np.unique(runs.program)) or 1
    each = max(1, min(_DETAILS_EACH, _DETAILS_ALL // (2 * count)))
    side = runs.program.astype(np.int64) * 2 + runs.placed
    order = np.lexsort((-np.nan_to_num(runs.start), side))
    fresh = np.r_[True, np.diff(side[order]) != 0] if len(order) else np.zeros(0, dtype=bool)
    first = np.maximum.accumulate(np.where(fresh, np.arange(len(order)), 0))
    return np.sort(order[np.arange(len(order)) - first < each])


def _chunks(numbers: NDArray[np.int64]) -> Iterator[list[int]]:
    for i in range(0, len(numbers), _VARIABLES):
        yield numbers[i : i + _VARIABLES].tolist()


def _with_details(connection: Connection, runs: Runs, newest: NDArray[np.intp]) -> Runs:
    """Adds cost, baseline, overhead and traced of the newest runs (and traced where the decision says so)."""
    at = {int(row): int(i) for row, i in zip(runs.row[newest], newest, strict=True)}
    traced = runs.decision.isin(("trace",))
    s, d = steps.c, decisions.c
    for ids in _chunks(runs.row[newest]):
        own = select(s.job_id, func.sum(s.cost_before), func.sum(s.cost_after), func.count(s.graph))
        for row, before, after, graphs in connection.execute(own.where(s.job_id.in_(ids)).group_by(s.job_id)):
            i = at[row]
            runs.baseline[i] = np.nan if before is None else before
            runs.cost[i] = np.nan if after is None else after
            traced[i] |= graphs > 0
        told = select(d.job_id, func.sum(d.cost), func.sum(d.baseline), func.sum(d.seconds))
        told = told.where(d.job_id.in_(ids), d.source == "srun").group_by(d.job_id)
        for row, cost, baseline, seconds in connection.execute(told):
            i = at[row]
            # What srun predicted is what was decided on; the steps' own figures stand where it is silent.
            if cost is not None and baseline is not None:
                runs.cost[i], runs.baseline[i] = cost, baseline
            runs.overhead[i] = np.nan if seconds is None else seconds
    runs.traced[:] = traced
    return runs


def _traffic(connection: Connection, runs: Runs, newest: NDArray[np.intp]) -> Traffic:
    """Mean bytes of a run by program, side and level, from the newest runs.

    Where some of these runs were traced themselves, only they count: measured goes before modelled.
    """
    program_of = dict(zip(runs.row[newest].tolist(), runs.program[newest].tolist(), strict=True))
    # (program, after, traced) -> level -> bytes, and the runs behind them.
    sums: dict[tuple[int, bool, bool], dict[tuple[int, str], float]] = {}
    counted: dict[tuple[int, bool, bool], set[int]] = {}
    t, s = traffic.c, steps.c
    for ids in _chunks(runs.row[newest]):
        statement = (
            select(s.job_id, t.side, t.depth, t.level, func.sum(t.nbytes), func.count(s.graph), func.count())
            .join_from(steps, traffic, t.step_id == s.id)
            .where(s.job_id.in_(ids))
            .group_by(s.job_id, t.side, t.depth, t.level)
        )
        for row, side, depth, level, nbytes, graphs, rows in connection.execute(statement):
            group = (program_of[row], side == "after", graphs == rows)
            levels = sums.setdefault(group, {})
            levels[depth, level] = levels.get((depth, level), 0.0) + float(nbytes)
            counted.setdefault(group, set()).add(row)
    groups = sorted(g for g in sums if g[2] or (g[0], g[1], True) not in sums)
    keys = [(g, level) for g in groups for level in sorted(sums[g])]
    runs_in = [len(counted[g]) for g, _ in keys]
    return Traffic(
        program=np.array([g[0] for g, _ in keys], dtype=np.int32),
        after=np.array([g[1] for g, _ in keys], dtype=bool),
        depth=np.array([level[0] for _, level in keys], dtype=np.int32),
        level=Labels.of(level[1] for _, level in keys),
        nbytes=np.array(
            [sums[g][level] / n for (g, level), n in zip(keys, runs_in, strict=True)], dtype=float
        ),
        runs=np.array(runs_in, dtype=np.int32),
        measured=np.array([g[2] for g, _ in keys], dtype=bool),
    )
