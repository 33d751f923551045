"""Finds in the history what a :class:`~slurm_topo.report.cases.Case` is made of."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from sqlalchemy import Connection, Engine, select

from slurm_topo.errors import SlurmTopoError
from slurm_topo.history.schema import decisions, graphs, jobs, machines, steps
from slurm_topo.machine.cluster import Cluster
from slurm_topo.machine.clusterfile import parse_cluster
from slurm_topo.model import CommGraph, Ints, Machine
from slurm_topo.placement.baselines import baselines
from slurm_topo.report.cases import Case, side_of
from slurm_topo.slurm.plan import Plan, parse_plan
from slurm_topo.trace import parse_graph
from slurm_topo.units import expand_ints

# Placed runs that are tried for one program until one is complete.
_TRIES = 5


def load_cases(engine: Engine, programs: Iterable[int], most: int) -> dict[int, Case]:
    """A case of the first ``most`` programs whose graph, machine and plan the history holds.

    Programs for which something is missing or damaged are left out: a picture less, never a report less.
    """
    found: dict[int, Case] = {}
    with engine.connect() as connection:
        for program in programs:
            if len(found) >= most:
                break
            for case in _candidates(connection, program):
                found[program] = case
                break
    return found


def _candidates(connection: Connection, program: int) -> Iterator[Case]:
    """Cases of the newest placed runs, then of the newest traced ones."""
    yield from _placed(connection, program)
    yield from _traced(connection, program)


def _placed(connection: Connection, program: int) -> Iterator[Case]:
    d, j = decisions.c, jobs.c
    query = (
        select(j.job, d.plan, d.graph, d.baseline_name, j.id)
        .join_from(decisions, jobs, d.job_id == j.id)
        .where(j.program_id == program, j.placed == 1, d.decision == "place", d.plan != "")
        .order_by(j.id.desc())
        .limit(_TRIES)
    )
    for job, text, graph_digest, baseline, job_id in connection.execute(query).all():
        try:
            plan = parse_plan(text)
            graph = _graph(connection, graph_digest or plan.graph)
            cluster = _cluster(connection, job_id)
            if graph is None or cluster is None or graph.ranks != plan.ranks:
                continue
            machine = cluster.machine(plan.nodes)
            yield _case(program, job, graph, machine, cluster, baseline, _cores_of_plan(plan, machine))
        except (SlurmTopoError, ValueError, KeyError, IndexError):
            continue


def _traced(connection: Connection, program: int) -> Iterator[Case]:
    s, j = steps.c, jobs.c
    query = (
        select(j.job, s.graph, s.bindings, j.id)
        .join_from(steps, jobs, s.job_id == j.id)
        .where(j.program_id == program, s.graph.is_not(None))
        .order_by(j.id.desc())
        .limit(_TRIES)
    )
    for job, digest, bindings, job_id in connection.execute(query).all():
        try:
            graph, cluster = _graph(connection, digest), _cluster(connection, job_id)
            if graph is None or cluster is None:
                continue
            machine = cluster.machine(json.loads(bindings)["nodes"] if bindings else None)
            real = _cores_of_bindings(bindings, machine) if bindings else None
            if real is not None and len(real) != graph.ranks:
                continue
            yield _case(program, job, graph, machine, cluster, "", None, real)
        except (SlurmTopoError, ValueError, KeyError, IndexError, TypeError):
            continue


def _graph(connection: Connection, digest: str) -> CommGraph | None:
    content = connection.execute(select(graphs.c.content).where(graphs.c.digest == digest)).scalar()
    if content is None:
        return None
    return parse_graph(content, f"graph {digest} of the history")


def _cluster(connection: Connection, job_id: int) -> Cluster | None:
    """The machine of a step of the job."""
    query = (
        select(machines.c.description)
        .join_from(steps, machines, steps.c.machine == machines.c.digest)
        .where(steps.c.job_id == job_id)
        .limit(1)
    )
    text = connection.execute(query).scalar()
    return None if text is None else parse_cluster(text.encode(), "machine of the history", Path("/"))


def parents_of(cluster: Cluster) -> dict[str, str]:
    """The switch above each node and each switch."""
    return {**cluster.fabric.leaf, **cluster.fabric.parent}


def _cores_of_plan(plan: Plan, machine: Machine) -> Ints:
    """Core of each rank: the one that owns its first CPU.

    Raises
    ------
    KeyError
        The plan uses a CPU that the machine does not have.
    """
    core = {(int(machine.node[i]), pu): i for i, pus in enumerate(machine.pus) for pu in pus}
    return np.array([core[place.node, place.cpus[0]] for place in plan.places], dtype=np.int32)


def _cores_of_bindings(text: str, machine: Machine) -> Ints:
    """Core of each rank from the recorded bindings (``steps.bindings``)."""
    bound = json.loads(text)
    where = {name: i for i, name in enumerate(machine.node_names)}
    core = {(int(machine.node[i]), pu): i for i, pus in enumerate(machine.pus) for pu in pus}
    return np.array(
        [core[where[bound["nodes"][node]], expand_ints(cpus)[0]] for node, cpus in bound["rank"]],
        dtype=np.int32,
    )


def _case(
    program: int,
    job: int,
    graph: CommGraph,
    machine: Machine,
    cluster: Cluster,
    baseline: str,
    placed: Ints | None,
    real: Ints | None = None,
) -> Case:
    known = baselines(machine, graph.ranks)
    name = baseline if baseline in known else "block:block"
    if real is not None:
        name, known = "as it ran", {"as it ran": real}
    parents = parents_of(cluster)
    return Case(
        program=program,
        ranks=graph.ranks,
        job=job,
        baseline=name,
        levels=machine.levels,
        nodes=machine.node_names,
        parents=parents,
        before=side_of(graph, machine, known[name], parents),
        after=None if placed is None else side_of(graph, machine, placed, parents),
    )
