"""Graphs for numbers of ranks at which a program has not been traced yet (docs/tracing.md).

A program whose traced graph is regular gets, for its user and its name (key ``u``), graphs at other numbers
of ranks, as long as the prediction is sure enough. They are marked as scaled, jobs that use them are traced,
and the first real trace takes their place.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, delete, select

from slurm_topo.config import Settings
from slurm_topo.errors import GraphError
from slurm_topo.history.schema import decisions, graphs, jobs, program_keys, programs, steps, sync_state
from slurm_topo.model import CommGraph
from slurm_topo.slurm.fingerprint import fingerprint_keys
from slurm_topo.trace import format_graph, graph_digest, parse_graph
from slurm_topo.trace.structure import recognise, scale

PREFIX = "scaled."
# Looked at in one pass; the rest has its turn in the next ones.
MOST_NEW = 16
MOST_RANKS, MOST_PAIRS = 4096, 500_000
_STEPS = (2, 4, 8)


@dataclass(frozen=True)
class Scaled:
    """Advice of a key that nobody has used yet: the graph that its first job is placed with."""

    key: str
    program: int
    uid: int
    graph: str
    ranks: int
    confidence: float


@dataclass(frozen=True)
class _Program:
    number: int
    uid: int
    cpus: int
    graph: str
    ranks: int
    name: str


def update_scaled(connection: Connection, settings: Settings, now: int, forget_s: int) -> None:
    """Predict what is missing, forget what is not wanted any more."""
    known = _known(connection)
    regular = list(_programs(connection, now - forget_s))
    wanted = {program.graph for program in regular} if settings.scale_confidence < 1 else set()
    for digest in known.keys() - wanted:
        connection.execute(delete(sync_state).where(sync_state.c.name == PREFIX + digest))
    kept = {graph for digest in known.keys() & wanted for graph, _ in known[digest].values()}
    gone = {graph for digest in known.keys() - wanted for graph, _ in known[digest].values()}
    _forget(connection, sorted(gone - kept))
    missing = sorted(wanted - known.keys())[:MOST_NEW]
    for digest in missing:
        found = _predict(connection, digest, now)
        connection.execute(sync_state.insert().values(name=PREFIX + digest, value=json.dumps(found)))


def scaled_advice(connection: Connection, settings: Settings, since: int) -> list[Scaled]:
    """What may be advised: predictions that are at least as sure as the site wants them, surest first."""
    known, found = _known(connection), []
    for program in _programs(connection, since):
        for ranks, (graph, confidence) in known.get(program.graph, {}).items():
            if confidence >= settings.scale_confidence:
                key = _key(program.uid, int(ranks), program.cpus, program.name)
                found.append(Scaled(key, program.number, program.uid, graph, int(ranks), confidence))
    return sorted(found, key=lambda scaled: -scaled.confidence)


def _known(connection: Connection) -> dict[str, dict[str, tuple[str, float]]]:
    """Traced graph -> number of ranks -> graph and its confidence."""
    query = select(sync_state).where(sync_state.c.name.startswith(PREFIX))
    return {
        row.name.removeprefix(PREFIX): {n: (g, float(c)) for n, (g, c) in json.loads(row.value).items()}
        for row in connection.execute(query)
    }


def _programs(connection: Connection, since: int) -> Iterator[_Program]:
    """Programs whose key ``u`` can be told from what their trace says, oldest first."""
    query = (
        select(programs, graphs.c.ranks.label("traced"), graphs.c.meta)
        .join(graphs, graphs.c.digest == programs.c.graph)
        .where(programs.c.last_seen >= since, programs.c.uid.is_not(None))
        .where(graphs.c.ranks <= MOST_RANKS, graphs.c.edges <= MOST_PAIRS)
        .order_by(programs.c.last_seen, programs.c.id)
    )
    rows = connection.execute(query).mappings().all()
    keys: dict[int, set[str]] = defaultdict(set)
    exact = select(program_keys.c.program_id, program_keys.c.fingerprint)
    for number, key in connection.execute(exact.where(program_keys.c.fingerprint.startswith("u"))):
        keys[number].add(key)
    for row in rows:
        uid, cpus, ranks = int(row["uid"]), int(row["cpus_per_task"] or 1), int(row["traced"])
        for name in _names(row["meta"]):
            if _key(uid, ranks, cpus, name) in keys[row["id"]]:
                yield _Program(row["id"], uid, cpus, row["graph"], ranks, name)
                break


def _names(meta: str) -> Iterator[str]:
    """What the script may have called the program."""
    try:
        told: Mapping[str, Any] = json.loads(meta)
    except ValueError:
        return
    executable = str(told.get("executable") or "").rsplit("/", 1)[-1]
    script = str(told.get("program") or "").rsplit("/", 1)[-1]
    yield executable
    yield f"{executable} {script}"
    yield f"python3 {script}"
    yield f"python {script}"


def _key(uid: int, ranks: int, cpus: int, name: str) -> str:
    """The key ``u``; empty where a program of that name has none."""
    keys = fingerprint_keys(str(uid), f"{ranks}x{cpus}", executable=name.encode())
    return next((key for key in keys if key[0] == "u"), "")


def _predict(connection: Connection, digest: str, now: int) -> dict[str, tuple[str, float]]:
    """Store the graphs at other numbers of ranks; number -> digest and confidence."""
    content = connection.execute(select(graphs.c.content).where(graphs.c.digest == digest)).scalar_one()
    try:
        traced = parse_graph(content, digest)
    except GraphError:
        return {}
    structure = recognise(traced)
    if structure is None:
        return {}
    found = {}
    for ranks in _counts(traced.ranks):
        try:
            graph, confidence = scale(structure, ranks)
        except GraphError:
            continue
        if graph.source.size <= MOST_PAIRS and graph.source.size:
            found[str(ranks)] = (_store(connection, graph, digest, traced.meta, now), round(confidence, 4))
    return found


def _counts(ranks: int) -> Iterator[int]:
    """Twice to eight times as many, and as few."""
    for step in _STEPS:
        if ranks * step <= MOST_RANKS:
            yield ranks * step
        if ranks % step == 0 and ranks // step >= 4:
            yield ranks // step


def _store(connection: Connection, graph: CommGraph, traced: str, meta: Mapping[str, Any], now: int) -> str:
    digest = graph_digest(graph)
    told = {**graph.meta, "scaled_graph": traced}
    told |= {name: meta[name] for name in ("program", "executable", "library") if name in meta}
    if connection.execute(select(graphs.c.digest).where(graphs.c.digest == digest)).scalar() is None:
        content = format_graph(replace(graph, meta=told))
        connection.execute(
            graphs.insert().values(
                digest=digest,
                ranks=graph.ranks,
                edges=int(graph.source.size),
                nbytes=float(graph.nbytes.sum()),
                messages=float(graph.messages.sum()),
                content=content,
                meta=json.dumps(told, sort_keys=True),
                first_seen=now,
            )
        )
    return digest


def _forget(connection: Connection, digests: Sequence[str]) -> None:
    """Remove predicted graphs that no job has used."""
    for digest in digests:
        used = any(
            connection.execute(select(column).where(column == digest).limit(1)).first() is not None
            for column in (steps.c.graph, decisions.c.graph, jobs.c.advised_graph, programs.c.graph)
        )
        if not used:
            connection.execute(delete(graphs).where(graphs.c.digest == digest))
