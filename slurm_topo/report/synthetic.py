"""Histories with a known effect, to verify the statistics and the speed of the reports on them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlalchemy import Engine, insert

from slurm_topo.history.schema import decisions, jobs, programs, steps, traffic
from slurm_topo.report.runs import Labels, Runs, runs_of

_LEVELS = ("l3", "numa", "package", "node", "switch", "switch2")
# Share of the bytes by level in Slurm's order and placed.
_BEFORE = (0.05, 0.05, 0.05, 0.15, 0.30, 0.40)
_AFTER = (0.30, 0.20, 0.15, 0.20, 0.10, 0.05)
_REASONS = ("margin", "user-binding", "no-graph", "shape", "deadline")
_START = 1_790_000_000


@dataclass(frozen=True)
class Design:
    """How a history comes about.

    Attributes
    ----------
    runs, programs, users : int
        Counts.
    effect : float
        Share of the time that placing saves, in every placed run (0.2: 20 %).
    effect_spread : float
        Standard deviation of that share between programs.
    noise : float
        Standard deviation of the logarithm of the time between runs of one program.
    share : float
        Share of the runs that are assigned to be placed.
    confounder : str
        ``none``; ``size``, ``user`` or ``hour``: what makes runs longer also makes them more often placed.
    days : float
        Length of the history.
    """

    runs: int = 1000
    programs: int = 40
    users: int = 20
    effect: float = 0.2
    effect_spread: float = 0.0
    noise: float = 0.1
    share: float = 0.5
    confounder: str = "none"
    days: float = 60.0


def synthetic_runs(design: Design, rng: np.random.Generator) -> Runs:
    """Runs of a history with a known effect.

    Notes
    -----
    ``log t = base[program] + speed[user] + log size + 0.3 cos(hour) + log(1 - effect) placed + noise``.
    """
    n, k = design.runs, design.programs
    program = rng.integers(0, k, n)
    user = rng.integers(0, design.users, n) if design.users > k else program % design.users
    size = np.exp(rng.normal(0.0, 0.5, n)) if design.confounder == "size" else np.ones(n)
    start = _START + np.sort(rng.uniform(0, design.days * 86400, n)).round()
    hour = np.cos(2 * np.pi * (start % 86400) / 86400)
    speed = rng.normal(0, 0.3, max(design.users, k))[user]
    push = {"size": np.log(size) * 2, "user": speed * 4, "hour": hour * 1.5}.get(design.confounder, 0.0)
    odds = np.log(design.share / (1 - design.share)) + push
    placed = rng.random(n) < 1 / (1 + np.exp(-odds))
    saves = np.clip(design.effect + rng.normal(0, design.effect_spread, k), -0.5, 0.9)[program]
    base = rng.normal(7.0, 1.0, k)[program]
    slow = 0.3 * hour if design.confounder == "hour" else 0.0
    log_time = base + speed + np.log(size) + slow + np.log1p(-saves * placed) + rng.normal(0, design.noise, n)
    return _columns(design, program, user, size, start, placed, np.exp(log_time), rng)


def _columns(
    design: Design, program: Any, user: Any, size: Any, start: Any, placed: Any, elapsed: Any, rng: Any
) -> Runs:
    n = design.runs
    nodes = 2.0 ** rng.integers(0, 5, design.programs)[program]
    failed = rng.random(n) < 0.02
    left = ~placed & (rng.random(n) < 0.3)
    reason = np.where(left, rng.integers(1, len(_REASONS) + 1, n), 0)
    cost = elapsed * 0.2
    return runs_of(
        {
            "row": np.arange(1, n + 1),
            "job": np.arange(1000, n + 1000),
            "program": program + 1,
            "user": Labels(user.astype(np.int32), tuple(f"user{i:03d}" for i in range(int(user.max()) + 1))),
            "account": Labels((user % 7).astype(np.int32), tuple(f"project{i}" for i in range(7))),
            "partition": Labels((program % 2).astype(np.int32), ("batch", "large")),
            "arm": Labels((placed | left).astype(np.int32), ("observe", "enforce")),
            "decision": Labels(np.where(placed, 1, np.where(left, 2, 0)).astype(np.int32), _DECISIONS),
            "reason": Labels(reason.astype(np.int32), ("", *_REASONS)),
            "state": Labels(failed.astype(np.int32), ("COMPLETED", "FAILED")),
            "start": start,
            "wait": rng.exponential(600.0, n).round(),
            "elapsed": elapsed,
            "nodes": nodes,
            "cores": nodes * 32,
            "gpus": np.zeros(n),
            "ranks": nodes * 32,
            "energy": np.where(rng.random(n) < 0.9, elapsed * nodes * 350.0, np.nan),
            "cost": np.where(placed, cost * 0.5, np.nan),
            "baseline": np.where(placed, cost, np.nan),
            "overhead": np.where(placed, 0.05, np.nan),
            "size": size,
            "placed": placed,
        }
    )


_DECISIONS = ("none", "place", "stand-down")


def write_history(engine: Engine, runs: Runs) -> None:
    """Write runs into an empty history: programs, jobs, and step, decision and traffic of the placed runs."""
    numbers, first = np.unique(runs.program, return_index=True)
    named = runs.user.texts(), runs.account.texts(), runs.partition.texts()
    rows = [
        {
            "id": int(number),
            "user_name": named[0][i],
            "account": named[1][i],
            "name": f"solver{number:03d}",
            "ranks": int(runs.ranks[i]),
            "first_seen": _START,
            "last_seen": _START,
        }
        for number, i in zip(numbers, first.tolist(), strict=True)
    ]
    with engine.connect().execution_options(writes=True) as connection, connection.begin():
        connection.execute(insert(programs), rows)
        for chunk in _pieces(len(runs)):
            connection.execute(insert(jobs), [_job(runs, named, i) for i in chunk])
            made = [i for i in chunk if runs.placed[i]]
            if made:
                connection.execute(insert(steps), [_step(runs, i) for i in made])
                connection.execute(insert(decisions), [_decision(runs, i) for i in made])
                connection.execute(insert(traffic), [row for i in made for row in _bytes(runs, i)])


def _pieces(n: int, size: int = 5000) -> Iterator[range]:
    for i in range(0, n, size):
        yield range(i, min(n, i + size))


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _job(runs: Runs, named: tuple[list[str], list[str], list[str]], i: int) -> dict[str, Any]:
    labels = {name: getattr(runs, name) for name in ("arm", "decision", "reason", "state")}
    start, elapsed = float(runs.start[i]), float(runs.elapsed[i])
    return {
        "id": int(runs.row[i]),
        "job": int(runs.job[i]),
        "submitted": int(start - runs.wait[i]),
        "started": int(start),
        "ended": int(start + elapsed),
        "elapsed_s": float(round(elapsed)),
        "run_s": elapsed,
        "program_id": int(runs.program[i]),
        "user_name": named[0][i],
        "account": named[1][i],
        "partition_name": named[2][i],
        "final": 1,
        "advised_graph": "0" * 16 if runs.eligible[i] else None,
        "nodes": int(runs.nodes[i]),
        "cpus": int(runs.cores[i]),
        "tasks": int(runs.ranks[i]),
        "gpus": int(runs.gpus[i]),
        "energy_j": _number(runs.energy[i]),
        "placed": int(runs.placed[i]),
        **{name: column.names[column.codes[i]] for name, column in labels.items()},
    }


def _step(runs: Runs, i: int) -> dict[str, Any]:
    return {
        "id": int(runs.row[i]),
        "job_id": int(runs.row[i]),
        "step": "0",
        "state": "COMPLETED",
        "elapsed_s": float(runs.elapsed[i]),
        "nodes": int(runs.nodes[i]),
        "tasks": int(runs.ranks[i]),
        "cost_before": float(runs.baseline[i]),
        "cost_after": float(runs.cost[i]),
    }


def _decision(runs: Runs, i: int) -> dict[str, Any]:
    return {
        "job_id": int(runs.row[i]),
        "decided": int(runs.start[i]),
        "source": "srun",
        "decision": "place",
        "arm": "enforce",
        "ranks": int(runs.ranks[i]),
        "cost": float(runs.cost[i]),
        "baseline": float(runs.baseline[i]),
        "seconds": float(runs.overhead[i]),
        "record_digest": f"{i:x}",
    }


def _bytes(runs: Runs, i: int) -> Iterator[dict[str, Any]]:
    volume = float(runs.ranks[i]) * 64 * 2**20
    for side, shares in (("before", _BEFORE), ("after", _AFTER)):
        for depth, (level, share) in enumerate(zip(_LEVELS, shares, strict=True)):
            yield {
                "step_id": int(runs.row[i]),
                "side": side,
                "depth": depth,
                "level": level,
                "nbytes": volume * share,
            }
