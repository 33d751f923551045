"""Traces of a step's nodes into one communication graph of the history."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlalchemy import Connection, case, distinct, func, select, update

from slurm_topo.errors import GraphError
from slurm_topo.history.schema import graphs, jobs, programs, steps
from slurm_topo.history.sync.inbox import ReadFile
from slurm_topo.history.sync.ledger import Ledger
from slurm_topo.history.sync.programs import better_name, in_parts
from slurm_topo.model import CommGraph
from slurm_topo.trace import (
    Trace,
    build_graph,
    format_graph,
    graph_digest,
    merge_traces,
    parse_graph,
    parse_trace,
)
from slurm_topo.units import expand_ints, fold_ints

# A larger number in a file is a forgery that would cost memory.
MOST_RANKS = 1 << 20
# Steps of a job that differ, beyond this many of the heaviest, change a mean no more.
_MOST_GRAPHS = 64
# States whose traffic is that of a whole run: a program that fails early has sent little.
WHOLE_STATES = ("COMPLETED", "TIMEOUT", "RUNNING")

# What a trace says of its own step, and what would be wrong of a mean even where all agree by chance.
_OF_ONE_STEP = (
    *("step", "seconds", "wait_p2p_seconds", "wait_coll_seconds", "wait_share", "bound_by", "collectives"),
    *("phase_seconds", "phase_bytes", "phase_change", "messages_of_size", "foreign_bytes"),
)

# What messages call a trace: its place in the spool is named beside them.
_SOURCE = "trace"


@dataclass(frozen=True)
class StepTrace:
    """The graph of one step, from the files of all its nodes that could be read.

    Attributes
    ----------
    complete : bool
        The counters of every rank are in it.
    bindings : str
        Where the ranks really were, in the form of the column ``steps.bindings``.
    files : tuple of ReadFile
        What it was read from.
    """

    step: str
    graph: CommGraph
    digest: str
    complete: bool
    bindings: str
    files: tuple[ReadFile, ...]


@dataclass(frozen=True)
class JobTraces:
    """What a job's trace files hold.

    Attributes
    ----------
    graphs : list of StepTrace
    wrong : list of (ReadFile, str)
        Files that are no traces, with the reason of each.
    silent : list of str
        The keys of each step whose traces hold no rank: no MPI.
    """

    graphs: list[StepTrace]
    wrong: list[tuple[ReadFile, str]]
    silent: list[str]


def read_job_traces(reads: Sequence[ReadFile]) -> JobTraces:
    """The graphs of a job's trace files.

    Files of one step belong together, and those that hold ranks of one MPI_COMM_WORLD: mpirun's ranks are in
    the step of the batch script and in that of its daemons. Such a graph is named after the batch script.
    A step without MPI has traces that hold no rank: they are fine, and give no graph.
    """
    found, wrong = _read_all(reads)
    damaged = {read.file.step for read, _ in wrong}
    graphs_found, silent = [], []
    for group in _groups(found):
        if any(trace.ranks for trace, _ in group):
            part = [trace for trace, _ in group]
            names = sorted({read.file.step for _, read in group}, key=_batch_first)
            whole = not damaged.intersection(names)
            files = tuple(read for _, read in group)
            graphs_found.append(_step_trace(names[0], part, files, whole))
        else:
            silent.append(group[0][0].keys)
    return JobTraces(graphs_found, wrong, silent)


def _batch_first(step: str) -> tuple[bool, int, str]:
    return step != "batch", int(step) if step.isdigit() else 1 << 62, step


def _groups(found: Sequence[tuple[Trace, ReadFile]]) -> list[list[tuple[Trace, ReadFile]]]:
    """Traces that share a step or a world, directly or through others."""
    groups: list[tuple[set[object], list[tuple[Trace, ReadFile]]]] = []
    for trace, read in found:
        names: set[object] = {read.file.step, *((r.world, r.size) for r in trace.ranks)}
        members = [(trace, read)]
        for other in [g for g in groups if g[0] & names]:
            groups.remove(other)
            names |= other[0]
            members = other[1] + members
        groups.append((names, members))
    return [members for _, members in groups]


def _step_trace(step: str, found: Sequence[Trace], files: tuple[ReadFile, ...], whole: bool) -> StepTrace:
    graph = merge_traces(found)
    return StepTrace(
        step=step,
        graph=graph,
        digest=graph_digest(graph),
        complete=whole and not graph.meta.get("missing_ranks"),
        bindings=_bindings(graph, found),
        files=files,
    )


def _read_all(
    reads: Sequence[ReadFile],
) -> tuple[list[tuple[Trace, ReadFile]], list[tuple[ReadFile, str]]]:
    """The traces, from what was read once: the user's files may change."""
    found, wrong = [], []
    for read in reads:
        try:
            trace = parse_trace(read.content, _SOURCE)
            if (trace.job, trace.step) != (str(read.file.job), read.file.step) and trace.job:
                raise GraphError(f"is the trace of step {trace.job}.{trace.step}")
            size = max((record.size for record in trace.ranks), default=0)
            if size > MOST_RANKS:
                raise GraphError(f"tells of {size} ranks, more than {MOST_RANKS}")
            found.append((trace, read))
        except (GraphError, ValueError) as error:
            text = str(error).removeprefix(f"{_SOURCE}: ")
            wrong.append((read, " ".join(text.split())[:500]))
    return found, wrong


def _bindings(graph: CommGraph, found: Sequence[Trace]) -> str:
    """Host and CPUs of each rank of the graph's world as JSON."""
    host_of = {
        rank: host for host, listed in graph.meta["hosts"].items() for rank in expand_ints(str(listed))
    }
    nodes = list(dict.fromkeys(host_of[rank] for rank in sorted(host_of)))
    number = {node: i for i, node in enumerate(nodes)}
    listed: list[list[Any] | None] = [None] * graph.ranks
    for trace in found:
        for record in trace.ranks:
            if record.size == graph.ranks and host_of.get(record.rank) == record.host:
                listed[record.rank] = [number[record.host], fold_ints(record.cpus)]
    short = [node.partition(".")[0] for node in nodes]
    return json.dumps({"nodes": short, "rank": listed}, separators=(",", ":"))


def store_trace(ledger: Ledger, job_id: int, trace: StepTrace) -> None:
    """Say which graph a step has; :func:`store_graphs` writes it."""
    row = ledger.step(job_id, trace.step)
    ledger.set_step(row, graph=trace.digest, graph_complete=int(trace.complete))
    if not row["bindings"]:
        # The step daemon's own records, where there are any, are as good and were there before.
        ledger.set_step(row, bindings=trace.bindings)


def store_graphs(connection: Connection, found: Mapping[str, CommGraph], now: int) -> None:
    """Write graphs by digest; those that are there already stay as they are."""
    known: set[str] = set()
    for part in in_parts(found):
        known.update(connection.execute(select(graphs.c.digest).where(graphs.c.digest.in_(part))).scalars())
    rows = [
        {
            "digest": digest,
            "ranks": graph.ranks,
            "edges": int(graph.source.size),
            "nbytes": float(graph.nbytes.sum()),
            "messages": float(graph.messages.sum()),
            "content": format_graph(graph),
            "meta": json.dumps(dict(graph.meta), sort_keys=True),
            "first_seen": now,
        }
        for digest, graph in found.items()
        if digest not in known
    ]
    if rows:
        connection.execute(graphs.insert(), rows)


def choose_graphs(connection: Connection, numbers: Iterable[int]) -> None:
    """Let programs be placed with their newest complete graph.

    Steps of as many ranks as the job come first, for those are placed. Where they differ (two programs in one
    script) it is their mean: cost is linear in the traffic, so what is better for the mean is better for all.
    """
    for part in in_parts(sorted(set(numbers))):
        about = {row.id: row for row in connection.execute(select(programs).where(programs.c.id.in_(part)))}
        newest = _newest_graphs(connection, part)
        means = _mean_graphs(connection, newest)
        for row in newest:
            program = about[row.program_id]
            # Of a program under mpirun accounting knows the number of daemons only.
            changes: dict[str, Any] = {
                "graph": means.get(row.job_id) or row.digest,
                "ranks": row.ranks,
                "name": better_name(program.name, _program(row.meta)),
            }
            changes = {name: value for name, value in changes.items() if getattr(program, name) != value}
            if changes:
                connection.execute(update(programs).where(programs.c.id == program.id).values(**changes))


def _newest_graphs(connection: Connection, numbers: Sequence[int]) -> Sequence[Any]:
    """The step of each program whose graph is to be taken: program_id, job_id, digest, ranks, meta."""
    order = (
        jobs.c.state.in_(WHOLE_STATES).desc(),
        case((graphs.c.ranks == jobs.c.tasks, 1), else_=0).desc(),
        jobs.c.submitted.desc(),
        graphs.c.nbytes.desc(),
        steps.c.id.desc(),
    )
    place = func.row_number().over(partition_by=jobs.c.program_id, order_by=order)
    ranked = (
        select(jobs.c.program_id, steps.c.job_id, graphs.c.digest, graphs.c.ranks, place.label("place"))
        .join(steps, steps.c.job_id == jobs.c.id)
        .join(graphs, graphs.c.digest == steps.c.graph)
        .where(jobs.c.program_id.in_(numbers), steps.c.graph_complete == 1, graphs.c.nbytes > 0)
        .subquery()
    )
    first = select(ranked, graphs.c.meta).join(graphs, graphs.c.digest == ranked.c.digest)
    return connection.execute(first.where(ranked.c.place == 1).order_by(ranked.c.program_id)).all()


def _mean_graphs(connection: Connection, newest: Sequence[Any]) -> dict[int, str]:
    """Store the means of the graphs of jobs whose steps of so many ranks differ; their digests by job."""
    ranks = {row.job_id: row.ranks for row in newest}
    query = (
        select(steps.c.job_id, graphs.c.ranks)
        .join(graphs, graphs.c.digest == steps.c.graph)
        .where(steps.c.job_id.in_(list(ranks)), steps.c.graph_complete == 1, graphs.c.nbytes > 0)
        .group_by(steps.c.job_id, graphs.c.ranks)
        .having(func.count(distinct(graphs.c.digest)) > 1)
    )
    differ = [row.job_id for row in connection.execute(query) if ranks[row.job_id] == row.ranks]
    return {job: _mean_graph(connection, job, ranks[job]) for job in sorted(differ)}


def _mean_graph(connection: Connection, job_id: int, ranks: int) -> str:
    """Store the mean of a job's graphs of so many ranks; its digest."""
    query = (
        select(graphs.c.digest, graphs.c.content, graphs.c.first_seen, func.count().label("times"))
        .join(steps, steps.c.graph == graphs.c.digest)
        .where(steps.c.job_id == job_id, steps.c.graph_complete == 1)
        .where(graphs.c.ranks == ranks, graphs.c.nbytes > 0)
        .group_by(graphs.c.digest)
        .order_by(graphs.c.nbytes.desc(), graphs.c.digest)
        .limit(_MOST_GRAPHS)
    )
    found = connection.execute(query).all()
    times = sum(row.times for row in found)
    parts = [(parse_graph(row.content, row.digest), row.times / times) for row in found]
    mean = build_graph(
        ranks,
        np.concatenate([part.source for part, _ in parts]),
        np.concatenate([part.target for part, _ in parts]),
        np.concatenate([part.nbytes * share for part, share in parts]),
        np.concatenate([part.messages * share for part, share in parts]),
        np.concatenate([part.modelled * share for part, share in parts]),
        _mean_meta([(part, row.times) for (part, _), row in zip(parts, found, strict=True)]),
    )
    digest = graph_digest(mean)
    store_graphs(connection, {digest: mean}, max(row.first_seen for row in found))
    return digest


def _mean_meta(parts: Sequence[tuple[CommGraph, int]]) -> dict[str, Any]:
    """What is true of all the graphs of a mean, and which they were.

    Times, waits and phases are those of one step each: a mean has none.
    """
    metas = [graph.meta for graph, _ in parts]
    shared = {k: v for k, v in metas[0].items() if all(k in m and m[k] == v for m in metas[1:])}
    programs = dict.fromkeys(str(m["program"]) for m in metas if m.get("program"))
    return {
        **{name: value for name, value in shared.items() if name not in _OF_ONE_STEP},
        "origin": "mean",
        "program": ", ".join(programs),
        "start": min((float(m["start"]) for m in metas if m.get("start") is not None), default=0.0),
        "steps": [
            {"step": m.get("step"), "graph": graph_digest(g), "times": n}
            for (g, n), m in zip(parts, metas, strict=True)
        ],
    }


def _program(meta: str) -> str:
    """The program's own script, else its executable, as the trace tells."""
    try:
        told = json.loads(meta)
    except ValueError:
        return ""
    return str(told.get("program") or told.get("executable") or "")[:1024]
