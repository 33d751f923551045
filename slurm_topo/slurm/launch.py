"""The placement of one step at launch: graph and allocation in, plan out.

Started by the SPANK plugin in srun, with a deadline. Whatever is not certain ends in a plan that says
``stand-down`` and why, so that the next step of the same shape need not ask again.
"""

from __future__ import annotations

from pathlib import Path

from slurm_topo.config import Settings
from slurm_topo.errors import PlacementError
from slurm_topo.model import CommGraph, Machine, Placement
from slurm_topo.slurm.plan import Plan, RankPlace
from slurm_topo.slurm.slots import Slots, make_slots


def plan_step(
    graph: CommGraph,
    digest: str,
    machine: Machine,
    tasks_per_node: list[int],
    cpus_per_task: int,
    job: str,
    settings: Settings,
    seed: int = 0,
) -> Plan:
    """Plan of a step on the allocation that Slurm gave.

    Parameters
    ----------
    graph
        Communication graph of the program.
    digest
        Its digest, recorded in the plan.
    machine
        Cores of the allocation, nodes in Slurm's order.
    tasks_per_node
        How many ranks Slurm puts on each node.
    settings
        ``margin`` and ``budget_s`` count.

    Returns
    -------
    Plan
        ``place``, or ``stand-down`` with reason ``ranks`` (graph of another size), ``cores`` (more ranks
        than cores) or ``margin`` (not better than what Slurm does by the margin).
    """
    ranks = sum(tasks_per_node)

    def stand_down(reason: str, placement: Placement | None = None) -> Plan:
        return _plan(job, ranks, cpus_per_task, "stand-down", reason, digest, machine, placement)

    if graph.ranks != ranks:
        return stand_down("ranks")
    try:
        slots = make_slots(machine, tasks_per_node, cpus_per_task)
    except PlacementError:
        return stand_down("cores")

    from slurm_topo.placement.solve import place

    placement = place(graph, slots.machine, effort="launch", budget_s=settings.budget_s, seed=seed)
    if not placement.cost < (1.0 - settings.margin) * placement.baselines[slurm_way(placement)]:
        return stand_down("margin", placement)
    plan = _plan(job, ranks, cpus_per_task, "place", "cost", digest, machine, placement)
    return _with_places(plan, machine, slots, placement)


def slurm_way(placement: Placement) -> str:
    """Baseline that Slurm alone would do: block over nodes, the cheaper of its two ways inside a node."""
    return min(("block:block", "block:cyclic"), key=placement.baselines.__getitem__)


def _slurm_first(placement: Placement) -> dict[str, float]:
    """The baselines, the one that the placement was held against first (docs/formats.md)."""
    first = slurm_way(placement)
    return {first: placement.baselines[first], **placement.baselines}


def _plan(
    job: str,
    ranks: int,
    cpus_per_task: int,
    decision: str,
    reason: str,
    digest: str,
    machine: Machine,
    placement: Placement | None,
) -> Plan:
    return Plan(
        job=job,
        ranks=ranks,
        cpus_per_task=cpus_per_task,
        decision=decision,
        reason=reason,
        graph=digest or "-",
        machine=str(machine.meta.get("digest", "-")),
        solver=placement.solver.replace(" ", "_") if placement else "-",
        cost=placement.cost if placement else float("nan"),
        baselines=_slurm_first(placement) if placement else {},
    )


def _with_places(plan: Plan, machine: Machine, slots: Slots, placement: Placement) -> Plan:
    places = []
    for slot in placement.core_of_rank.tolist():
        cores = slots.cores[slot]
        cpus = sorted(p for c in cores for p in machine.pus[c])
        mem = sorted({int(machine.numa[c]) for c in cores if machine.numa[c] >= 0})
        places.append(RankPlace(int(machine.node[cores[0]]), tuple(cpus), tuple(mem)))
    return Plan(**{**vars(plan), "nodes": machine.node_names, "places": tuple(places)})


def graph_digest_of(path: Path) -> str:
    """Digest in the name of a graph file of the spool (``<digest>.npz``)."""
    return path.name.removesuffix(".npz")
