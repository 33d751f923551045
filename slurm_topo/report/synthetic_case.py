"""A traced and placed run in full for synthetic histories: graph, cluster description, plan."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from sqlalchemy import Engine, insert, update

from slurm_topo.history.schema import decisions, graphs, machines, steps
from slurm_topo.model import CommGraph, Ints
from slurm_topo.slurm.plan import Plan, RankPlace, format_plan
from slurm_topo.trace import build_graph, format_graph, graph_digest
from slurm_topo.units import fold_hostlist


def halo(
    shape: tuple[int, int, int], order: Ints, nbytes: float = 2.0e9, messages: float = 4000.0
) -> CommGraph:
    """A three-dimensional halo exchange whose cell i is computed by rank ``order[i]``."""
    cells = np.arange(int(np.prod(shape))).reshape(shape)
    source, target = [], []
    for axis in range(3):
        inner = np.take(cells, range(shape[axis] - 1), axis).ravel()
        outer = np.take(cells, range(1, shape[axis]), axis).ravel()
        source += [order[inner], order[outer]]
        target += [order[outer], order[inner]]
    rows, columns = np.concatenate(source), np.concatenate(target)
    return build_graph(
        len(order),
        rows,
        columns,
        np.full(len(rows), nbytes),
        np.full(len(rows), messages),
        np.zeros(len(rows)),
    )


def cluster_text(leaves: int, nodes_each: int, cores: int) -> str:
    """A cluster description: ``leaves`` switches of ``nodes_each`` nodes below one root."""
    hosts = [[f"n{leaf * nodes_each + i + 1}" for i in range(nodes_each)] for leaf in range(leaves)]
    switches: list[dict[str, str]] = [
        {"name": f"leaf{i + 1}", "nodes": fold_hostlist(names)} for i, names in enumerate(hosts)
    ]
    switches.append({"name": "root", "switches": ",".join(f"leaf{i + 1}" for i in range(leaves))})
    return json.dumps(
        {
            "format": "slurm-topo-cluster",
            "version": 1,
            "name": "synthetic",
            "classes": {"c": {"sockets": 2, "cores_per_socket": cores // 2, "threads_per_core": 1}},
            "nodes": [{"names": fold_hostlist([n for names in hosts for n in names]), "class": "c"}],
            "switches": switches,
        }
    )


def write_case(engine: Engine, job_row: int, seed: int = 1, nbytes: float = 2.0e9) -> None:
    """Give the placed job of this row a graph of 64 ranks, a machine of 8 nodes and a plan."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(64).astype(np.int32)
    graph = halo((4, 4, 4), order, nbytes, nbytes / 1e5)
    text = cluster_text(2, 4, 8)
    # The halves of a 4 x 4 x 4 cube, halved again: blocks of 2 x 2 x 2 cells, one a node.
    cell = np.arange(64)
    block = (cell // 16 // 2) * 4 + (cell // 4 % 4 // 2) * 2 + cell % 4 // 2
    places: list[Any] = [None] * 64
    for node in range(8):
        for core, c in enumerate(np.flatnonzero(block == node)):
            places[order[c]] = RankPlace(node, (core,))
    plan = Plan(
        job=str(job_row),
        ranks=64,
        cpus_per_task=1,
        decision="place",
        reason="cost",
        graph=graph_digest(graph),
        machine="synthetic",
        solver="halves",
        nodes=tuple(f"n{i + 1}" for i in range(8)),
        places=tuple(places),
    )
    _write(engine, job_row, graph, text, plan)


def _write(engine: Engine, job_row: int, graph: CommGraph, text: str, plan: Plan) -> None:
    graph_row = {
        "digest": plan.graph,
        "ranks": graph.ranks,
        "edges": len(graph.source),
        "nbytes": float(graph.nbytes.sum()),
        "messages": float(graph.messages.sum()),
        "content": format_graph(graph),
        "first_seen": 0,
    }
    machine = f"synthetic{job_row}"
    with engine.connect().execution_options(writes=True) as connection, connection.begin():
        connection.execute(insert(graphs), [graph_row])
        connection.execute(
            insert(machines),
            [{"digest": machine, "cores": 64, "nodes": 8, "description": text, "first_seen": 0}],
        )
        connection.execute(update(steps).where(steps.c.job_id == job_row).values(machine=machine))
        connection.execute(
            update(decisions)
            .where(decisions.c.job_id == job_row)
            .values(plan=format_plan(plan), graph=plan.graph, baseline_name="block:block")
        )
