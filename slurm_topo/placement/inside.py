"""Placement where each rank has its node already: only its core there can be chosen."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from slurm_topo.errors import PlacementError
from slurm_topo.model import CommGraph, Ints, Machine, Placement
from slurm_topo.placement.baselines import baselines
from slurm_topo.placement.cost import cost
from slurm_topo.placement.load import objective_value
from slurm_topo.placement.solve import place


def place_inside(
    graph: CommGraph,
    machine: Machine,
    node_of_rank: NDArray[np.integer],
    *,
    budget_s: float | None = None,
    seed: int = 0,
    objective: str = "sum",
) -> Placement:
    """Match the ranks of each node with its cores.

    Parameters
    ----------
    graph : CommGraph
        Who sent how much to whom, n ranks.
    machine : Machine
        Cores with their nodes.
    node_of_rank : int array, shape (n,)
        Index into ``machine.node_names`` of each rank.
    budget_s : float, optional
        Seconds for all nodes together.
    seed : int
        Seed of the random generator.
    objective : {"sum", "load", "auto"}
        What counts of the whole; inside each node it is the sum.

    Returns
    -------
    Placement
        Its baselines are Slurm's two ways inside the nodes, with the ranks on the given nodes; its objective
        is never above theirs.

    Raises
    ------
    PlacementError
        A node has fewer cores than ranks.
    """
    began, wall = time.process_time(), time.monotonic()
    ways = baselines_inside(machine, node_of_rank)
    found = ways["block:block"].copy()
    solvers, ended = set(), "work"
    nodes = np.unique(node_of_rank)
    for turn, node in enumerate(nodes):
        ranks = np.flatnonzero(node_of_rank == node)
        cores = np.flatnonzero(machine.node == node)
        part, here = _part(graph, ranks), _only(machine, cores)
        left = None if budget_s is None else max(budget_s - (time.monotonic() - wall), 1e-3)
        share = None if left is None else left / (nodes.size - turn)
        placed = place(part, here, effort="launch", budget_s=share, seed=seed)
        found[ranks] = cores[placed.core_of_rank]
        solvers.add(placed.solver)
        ended = placed.ended if placed.ended != "work" else ended
    values = {name: objective_value(objective, graph, machine, way) for name, way in ways.items()}
    value = objective_value(objective, graph, machine, found)
    best = min(values, key=lambda name: values[name])
    if values[best] <= value:
        found, value, solvers = ways[best], values[best], {best}
    return Placement(
        core_of_rank=found,
        cost=cost(graph, machine, found),
        baselines={name: cost(graph, machine, way) for name, way in ways.items()},
        solver="inside:" + max(solvers, key=len),
        seed=seed,
        seconds=time.process_time() - began,
        objective=objective,
        value=value,
        baseline_values=values,
        ended=ended,
    )


def baselines_inside(machine: Machine, node_of_rank: NDArray[np.integer]) -> dict[str, Ints]:
    """Slurm's two ways inside the nodes, with each rank on its node; int32 arrays, shape (n,).

    Raises
    ------
    PlacementError
        A node has fewer cores than ranks.
    """
    ways = {name: np.full(node_of_rank.size, -1, dtype=np.int32) for name in ("block:block", "block:cyclic")}
    for node in np.unique(node_of_rank):
        ranks, cores = np.flatnonzero(node_of_rank == node), np.flatnonzero(machine.node == node)
        if ranks.size > cores.size:
            raise PlacementError(
                f"node {machine.node_names[node]}: {ranks.size} ranks on {cores.size} cores; "
                "ask for more cores or fewer ranks"
            )
        known = baselines(_only(machine, cores), int(ranks.size))
        for name, way in ways.items():
            way[ranks] = cores[known[name]]
    return ways


def _part(graph: CommGraph, ranks: NDArray[np.integer]) -> CommGraph:
    """The traffic among some ranks, which are numbered from 0 in their order."""
    index = np.full(graph.ranks, -1, dtype=np.int32)
    index[ranks] = np.arange(ranks.size, dtype=np.int32)
    kept = (index[graph.source] >= 0) & (index[graph.target] >= 0)
    return CommGraph(
        ranks=int(ranks.size),
        source=index[graph.source[kept]],
        target=index[graph.target[kept]],
        nbytes=graph.nbytes[kept],
        messages=graph.messages[kept],
        modelled=graph.modelled[kept],
    )


def _only(machine: Machine, cores: NDArray[np.integer]) -> Machine:
    """The machine of some cores."""
    chosen: Ints = cores.astype(np.int32)
    return replace(
        machine,
        groups=np.ascontiguousarray(machine.groups[:, chosen]),
        node=machine.node[chosen],
        pus=tuple(machine.pus[c] for c in chosen),
        numa=machine.numa[chosen],
        hbm=tuple(machine.hbm[c] for c in chosen) if machine.hbm else (),
        link_bandwidth=None if machine.link_bandwidth is None else machine.link_bandwidth[:, chosen],
        # Between nodes only: inside one the tree is all there is.
        distances=None,
    )
