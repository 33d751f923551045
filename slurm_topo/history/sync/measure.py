"""Bytes by level and costs of a step: where its ranks were without us, and where the plan put them.

One objective for everything: :mod:`slurm_topo.placement.cost`. No search happens here.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlalchemy import Connection, select

from slurm_topo.errors import InputError
from slurm_topo.history.schema import graphs, machines
from slurm_topo.history.sync.ledger import Ledger
from slurm_topo.machine import Cluster
from slurm_topo.machine.clusterfile import cluster_json
from slurm_topo.model import CommGraph, Ints, Machine
from slurm_topo.placement.baselines import baselines
from slurm_topo.placement.cost import bytes_by_level, cost
from slurm_topo.placement.slots import Slots, slots_of_places
from slurm_topo.slurm.plan import Plan
from slurm_topo.trace import parse_graph
from slurm_topo.units import expand_ints


@dataclass(frozen=True)
class Side:
    """One placement of a step: bytes by level (name, bytes; innermost first) and the objective, seconds."""

    levels: tuple[tuple[str, float], ...]
    cost: float


def measure_plan(graph: CommGraph, plan: Plan, cluster: Cluster) -> tuple[Side, Side]:
    """What Slurm alone would have done with a planned step, and what the plan did.

    Raises
    ------
    SlurmTopoError
        Graph, plan and cluster do not fit together (a node has gone, a core has more than one rank).
    """
    cpus: dict[str, set[int]] = {name: set() for name in plan.nodes}
    for place in plan.places:
        cpus[plan.nodes[place.node]].update(place.cpus)
    machine = cluster.machine(list(plan.nodes), {name: owned for name, owned in cpus.items() if owned})
    slots = slots_of_places(machine, [(place.node, place.cpus) for place in plan.places])
    after = _side(graph, slots.machine, _slot_of_places(slots, plan))
    return _cheapest_baseline(graph, slots.machine), after


def _slot_of_places(slots: Slots, plan: Plan) -> Ints:
    """The slot that holds the first CPU of each rank."""
    slot_of = {(int(slots.machine.node[i]), cpu): i for i, pus in enumerate(slots.machine.pus) for cpu in pus}
    found = [slot_of.get((p.node, p.cpus[0]), -1) if p.cpus else -1 for p in plan.places]
    return np.array(found, dtype=np.int32)


def _cheapest_baseline(graph: CommGraph, machine: Machine) -> Side:
    sides = [
        _side(graph, machine, placement)
        for name, placement in baselines(machine, graph.ranks).items()
        if name in ("block:block", "block:cyclic")
    ]
    return min(sides, key=lambda side: side.cost)


def measure_observed(
    graph: CommGraph, hosts: Sequence[str], cpus: Sequence[Sequence[int]], cluster: Cluster
) -> Side:
    """Where the ranks of a traced step really were.

    Parameters
    ----------
    hosts : sequence of str, length n
        Host name of each rank.
    cpus : sequence of sequences of int, length n
        OS CPUs that each rank was bound to (empty: not known).

    Raises
    ------
    SlurmTopoError
        The cluster does not know a host, or a node has more ranks than cores.
    """
    machine = cluster.machine(list(dict.fromkeys(hosts)), slots="core")
    return _side(graph, machine, seat_ranks(machine, hosts, cpus))


def seat_ranks(machine: Machine, hosts: Sequence[str], cpus: Sequence[Sequence[int]]) -> Ints:
    """A core of its own for each rank, inside its mask where one is left there; int32 array, shape (n,).

    Ranks with narrow masks choose first: an unbound rank sits anywhere on its node.
    """
    node_of = {name: i for i, name in enumerate(machine.node_names)}
    free: list[list[int]] = [np.flatnonzero(machine.node == i).tolist() for i in range(len(node_of))]
    seats = np.full(len(hosts), -1, dtype=np.int32)
    for rank in sorted(range(len(hosts)), key=lambda r: (len(cpus[r]) or 1 << 30, r)):
        cores, mask = free[node_of[hosts[rank]]], set(cpus[rank])
        inside = next((core for core in cores if mask.intersection(machine.pus[core])), None)
        core = inside if inside is not None else (cores[0] if cores else -1)
        if core >= 0:
            cores.remove(core)
        seats[rank] = core
    return seats


def _side(graph: CommGraph, machine: Machine, placement: Ints) -> Side:
    nbytes = bytes_by_level(graph, machine, placement)
    levels = tuple((level.name, float(b)) for level, b in zip(machine.levels, nbytes, strict=True))
    return Side(levels, cost(graph, machine, placement))


def store_sides(
    ledger: Ledger, step: dict[str, Any], before: Side | None, after: Side | None, machine: str | None
) -> None:
    """Write both sides of a step; what was there before is replaced."""
    ledger.set_traffic(
        step,
        (
            {"side": name, "depth": depth, "level": level, "nbytes": nbytes}
            for name, side in (("before", before), ("after", after))
            if side
            for depth, (level, nbytes) in enumerate(side.levels)
        ),
    )
    ledger.set_step(
        step,
        cost_before=before.cost if before else None,
        cost_after=after.cost if after else None,
        machine=machine,
    )


def store_machine(connection: Connection, cluster: Cluster, now: int) -> str | None:
    """Keep the cluster description that steps are measured on; returns its digest."""
    if not cluster.digest:
        return None
    known = connection.execute(select(machines.c.digest).where(machines.c.digest == cluster.digest)).scalar()
    if known is None:
        shapes = [cluster.shape(name) for name in cluster.nodes]
        connection.execute(
            machines.insert().values(
                digest=cluster.digest,
                cores=sum(shape.cores for shape in shapes),
                nodes=len(shapes),
                description=cluster_json(cluster),
                first_seen=now,
            )
        )
    return cluster.digest


def bound_places(bindings: str, ranks: int) -> tuple[list[str], list[list[int]]] | None:
    """Host and CPUs of each rank from the column ``steps.bindings``, None where a rank is missing."""
    try:
        told = json.loads(bindings)
        nodes, listed = told["nodes"], told["rank"]
        hosts = [str(nodes[entry[0]]) for entry in listed]
        cpus = [expand_ints(entry[1]) for entry in listed]
    except (ValueError, KeyError, TypeError, IndexError, InputError):
        return None
    return (hosts, cpus) if len(hosts) == ranks else None


def load_graph(connection: Connection, digest: str) -> CommGraph | None:
    """A graph of the history, None where it is not there."""
    content = connection.execute(select(graphs.c.content).where(graphs.c.digest == digest)).scalar()
    return parse_graph(content, digest) if content else None
