"""Searches ahead of time: the best placement of each program that is placed, as a start for its launches.

A launch has a fraction of a second; here there are minutes, at the lowest priority of the system.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, select

from slurm_topo.config import Settings
from slurm_topo.errors import SlurmTopoError
from slurm_topo.history.database import transaction
from slurm_topo.history.schema import jobs, programs, steps
from slurm_topo.history.store import History
from slurm_topo.history.sync import measure
from slurm_topo.history.sync.files import SpoolError
from slurm_topo.history.sync.spool import open_spool
from slurm_topo.history.sync.state import set_state
from slurm_topo.machine import Cluster
from slurm_topo.model import CommGraph, Machine
from slurm_topo.placement.slots import make_slots
from slurm_topo.slurm.start import SUFFIX, find_order, format_start, shape_digest

_LEAST_S = 0.1


@dataclass(frozen=True)
class _Wish:
    """A graph that a user's launches are placed with, on the allocation that its newest run had."""

    uid: int
    digest: str
    graph: CommGraph
    machine: Machine


def search_ahead(
    settings: Settings, history: History, cluster: Cluster, wanted: Mapping[int, set[str]]
) -> tuple[int, list[str]]:
    """Write starts of graphs that have none for the shape of their newest run.

    Parameters
    ----------
    wanted : mapping of int to set of str
        Digests of the graphs in each user's spool.

    Returns
    -------
    tuple of int and list of str
        Number of starts written, and what could not be done.

    Notes
    -----
    Ends when ``ahead_s`` seconds have passed; the next pass goes on. A search that this cuts short is written
    as far as it came, for it holds its best placement at any time.
    """
    until = time.monotonic() + settings.ahead_s
    written = 0
    warnings: list[str] = []
    for uid, digests in sorted(wanted.items()):
        for digest in sorted(digests):
            if until - time.monotonic() < _LEAST_S:
                return written, warnings
            try:
                with history.engine.connect() as connection:
                    wish = _wish(connection, cluster, uid, digest)
                if wish is None:
                    continue
                name, shape = f"start {uid} {digest}", shape_digest(wish.machine)
                if history.state(name) == shape:
                    continue
                order = find_order(wish.graph, wish.machine, settings.objective, until - time.monotonic())
                with open_spool(settings.spool, uid) as spool:
                    spool.write("graphs", digest + SUFFIX, format_start(digest, order))
                with transaction(history.engine) as connection:
                    set_state(connection, name, shape)
                written += 1
            except (SlurmTopoError, SpoolError, OSError) as error:
                warnings.append(f"start of graph {digest} for user {uid}: {error}")
    return written, warnings


def _wish(connection: Connection, cluster: Cluster, uid: int, digest: str) -> _Wish | None:
    """None where no run tells which nodes the program gets."""
    query = (
        select(steps.c.bindings, programs.c.cpus_per_task)
        .join(jobs, jobs.c.id == steps.c.job_id)
        .join(programs, programs.c.id == jobs.c.program_id)
        .where(jobs.c.uid == uid, programs.c.graph == digest, steps.c.bindings != "")
        .order_by(jobs.c.submitted.desc(), steps.c.id.desc())
    )
    newest = connection.execute(query).first()
    graph = measure.load_graph(connection, digest)
    places = measure.bound_places(newest.bindings, graph.ranks) if newest and graph else None
    if newest is None or graph is None or places is None:
        return None
    nodes = list(dict.fromkeys(places[0]))
    tasks = [places[0].count(node) for node in nodes]
    slots = make_slots(cluster.machine(nodes), tasks, newest.cpus_per_task or 1)
    return _Wish(uid, digest, graph, slots.machine)
