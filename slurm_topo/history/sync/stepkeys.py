"""What is known of steps by their own keys, and the file from which srun learns it (docs/formats.md)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, bindparam, select, update

from slurm_topo.config import ARMS, Settings
from slurm_topo.history.schema import graphs, jobs, programs, step_keys, steps
from slurm_topo.history.sync.comment import parse_step_keys
from slurm_topo.history.sync.programs import in_parts
from slurm_topo.history.sync.traces import WHOLE_STATES
from slurm_topo.slurm.fingerprint import program_key

# Steps that nobody ran for this long are forgotten; a graph as old is traced again.
FORGET_S = 180 * 86400
# A command that was traced so often and showed no MPI traffic is traced no more.
TRIES = 3
# Of a user's commands the newest so many are published: srun reads all of them.
MOST = 4000
FOLDER, FILE = "advice", "steps"


@dataclass(frozen=True)
class StepAdvice:
    """One line of the file."""

    key: str
    graph: str | None
    ranks: int | None
    arm: str
    trace: bool


@dataclass(frozen=True)
class Learned:
    """What the traces of one step showed.

    Attributes
    ----------
    keys : str
        As its traces hold them, joined by ``:``; those of steps count.
    graph : str or None
        Digest of the complete graph, None where there was no traffic.
    ranks : int
        Of the graph.
    state : str
        Of the job: what ended early replaces no graph.
    """

    keys: str
    graph: str | None
    ranks: int
    state: str


def learn(connection: Connection, uid: int, learned: Sequence[Learned], now: int) -> None:
    """Remember for a user what traces showed; later ones count more. The graphs must be stored already."""
    keys = {key for item in learned for key in parse_step_keys(item.keys)}
    known: dict[str, dict[str, Any]] = {}
    for part in in_parts(sorted(keys)):
        query = select(step_keys).where(step_keys.c.uid == uid, step_keys.c.fingerprint.in_(part))
        known |= {row["fingerprint"]: dict(row) for row in connection.execute(query).mappings()}
    before = set(known)
    for item in learned:
        for key in parse_step_keys(item.keys):
            row = known.setdefault(
                key, {"uid": uid, "fingerprint": key, "ranks": None, "graph": None, "in_vain": 0}
            )
            row["seen"] = now
            if item.graph is None:
                row["in_vain"] += 1
            elif row["graph"] is None or item.state in WHOLE_STATES:
                row |= {"graph": item.graph, "ranks": item.ranks, "in_vain": 0}
    new = [row for key, row in known.items() if key not in before]
    if new:
        connection.execute(step_keys.insert(), new)
    if before:
        columns = ("ranks", "graph", "in_vain", "seen")
        mine = (step_keys.c.uid == uid) & (step_keys.c.fingerprint == bindparam("_key"))
        change = update(step_keys).where(mine).values({name: bindparam(name) for name in columns})
        rows = [{"_key": key, **{name: known[key][name] for name in columns}} for key in sorted(before)]
        connection.execute(change, rows)


def make_step_advice(connection: Connection, settings: Settings, now: int) -> dict[int, list[StepAdvice]]:
    """Lines for each user: her commands, and each number of ranks of her programs."""
    found: dict[int, list[StepAdvice]] = defaultdict(list)
    query = (
        select(step_keys, graphs.c.first_seen)
        .outerjoin(graphs, graphs.c.digest == step_keys.c.graph)
        .where(step_keys.c.seen >= now - FORGET_S)
        .order_by(step_keys.c.seen.desc(), step_keys.c.fingerprint)
    )
    for row in connection.execute(query):
        if len(found[row.uid]) < MOST:
            old = row.graph is not None and row.first_seen < now - FORGET_S
            trace = old or (row.graph is None and row.in_vain < TRIES)
            found[row.uid].append(StepAdvice(row.fingerprint, row.graph, row.ranks, settings.arm, trace))
    for uid, number, arm, ranks, graph in _program_graphs(connection, now):
        lowest = min(settings.arm, arm or settings.arm, key=ARMS.index)
        found[uid].append(StepAdvice(program_key(str(uid), number, ranks), graph, ranks, lowest, False))
    return dict(found)


def _program_graphs(connection: Connection, now: int) -> list[tuple[int, int, str | None, int, str]]:
    """User, program, its arm, ranks and graph: of each number of ranks the newest whole one.

    The graph that the program is placed with counts for its own number of ranks.
    """
    query = (
        select(
            programs.c.uid, programs.c.id, programs.c.arm, programs.c.graph, graphs.c.ranks, graphs.c.digest
        )
        .join(jobs, jobs.c.program_id == programs.c.id)
        .join(steps, steps.c.job_id == jobs.c.id)
        .join(graphs, graphs.c.digest == steps.c.graph)
        .where(programs.c.uid.is_not(None), programs.c.graph.is_not(None))
        .where(programs.c.last_seen >= now - FORGET_S)
        .where(steps.c.graph_complete == 1, graphs.c.nbytes > 0)
        .order_by(jobs.c.state.in_(WHOLE_STATES).desc(), jobs.c.submitted.desc(), graphs.c.nbytes.desc())
    )
    found: dict[tuple[int, int], tuple[int, int, str | None, int, str]] = {}
    own = {
        row.digest: row.ranks
        for row in connection.execute(
            select(graphs.c.digest, graphs.c.ranks).join(programs, programs.c.graph == graphs.c.digest)
        )
    }
    for row in connection.execute(query):
        graph = row.graph if own.get(row.graph) == row.ranks else row.digest
        found.setdefault((row.id, row.ranks), (row.uid, row.id, row.arm, row.ranks, graph))
    return [found[key] for key in sorted(found)]


def format_step_advice(lines: list[StepAdvice], holdout: str) -> str:
    """Text of the file."""
    rows = [
        f"step {a.key} graph={a.graph or '-'}{f' ranks={a.ranks}' if a.ranks else ''} "
        f"arm={a.arm} trace={int(a.trace)}"
        for a in sorted(lines, key=lambda a: a.key)
    ]
    return "\n".join(["slurm-topo-steps 1", f"holdout {holdout}", *rows, f"end {len(rows)}"]) + "\n"
