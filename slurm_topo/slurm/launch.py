"""The placement of one step at launch: graph and allocation in, plan out.

Started by the SPANK plugin in srun, with a deadline. Whatever is not certain ends in a plan that says
``stand-down`` and why, so that the next step of the same shape need not ask again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from slurm_topo.config import Settings
from slurm_topo.errors import PlacementError
from slurm_topo.model import CommGraph, Machine, Placement
from slurm_topo.placement.baselines import baseline_costs
from slurm_topo.placement.cost import cost
from slurm_topo.placement.load import baseline_values, objective_value
from slurm_topo.placement.slots import Slots, make_slots, with_spare
from slurm_topo.slurm.layout import StepLayout
from slurm_topo.slurm.plan import Plan, RankPlace
from slurm_topo.slurm.start import seat

# The kernel's policy for each setting of `memory`. Preferred memory that is full gives way to the next.
_POLICIES = {
    "preferred": "preferred",
    "strict": "bind",
    "interleave": "interleave",
    "hbm": "preferred",
    "none": "none",
}


def plan_step(
    graph: CommGraph,
    digest: str,
    machine: Machine,
    layout: StepLayout,
    cpus_per_task: int,
    job: str,
    settings: Settings,
    seed: int = 0,
    variant: str = "",
    order: Sequence[int] | None = None,
) -> Plan:
    """Plan of a step on the allocation that Slurm gave.

    Parameters
    ----------
    graph
        Communication graph of the program.
    digest
        Its digest, recorded in the plan.
    machine
        Cores of the step's nodes, in Slurm's order.
    layout
        How many ranks Slurm puts on each node, and whether they have to stay there.
    settings
        ``margin``, ``budget_s``, ``objective``, ``packing`` and ``memory`` count.
    variant
        ``spread`` or ``packed`` as drawn for this job, which counts where ``packing`` is ``learn``; empty:
        ``spread``.
    order
        Ranks in the order of a placement that was found ahead of time (:mod:`slurm_topo.slurm.start`).

    Returns
    -------
    Plan
        ``place``, or ``stand-down`` with reason ``ranks`` (graph of another size), ``cores`` (more ranks
        than cores) or ``margin`` (not better than what Slurm does by the margin).
    """
    ranks = sum(layout.tasks_per_node)

    def stand_down(reason: str, placement: Placement | None = None) -> Plan:
        return _plan(job, ranks, cpus_per_task, "stand-down", reason, digest, machine, placement)

    if graph.ranks != ranks:
        return stand_down("ranks")
    try:
        wanted = variant if settings.packing == "learn" else settings.packing
        slots, baseline, variant = _choose(machine, layout.tasks_per_node, cpus_per_task, wanted)
    except PlacementError:
        return stand_down("cores")

    from slurm_topo.placement.inside import place_inside
    from slurm_topo.placement.solve import place

    if layout.node_of_rank is None:
        placement = place(
            graph,
            slots.machine,
            effort="launch",
            budget_s=settings.budget_s,
            seed=seed,
            start=None if order is None else seat(order, slots.machine),
            objective=settings.objective,
        )
    else:
        placement = place_inside(
            graph,
            slots.machine,
            layout.node_of_rank,
            budget_s=settings.budget_s,
            seed=seed,
            objective=settings.objective,
        )
    if baseline is not slots:
        # Slurm's own order of the sockets is cyclic: what it does alone is spread.
        costs, values = _baselines(graph, baseline.machine, layout, settings.objective)
        placement = replace(placement, baselines=costs, baseline_values=values)
    if not placement.value < (1.0 - settings.margin) * placement.baseline_values[slurm_way(placement)]:
        # They lie as Slurm has them, which a program that could be packed has to be compared with.
        return replace(stand_down("margin", placement), variant=variant and "spread")
    plan = _plan(job, ranks, cpus_per_task, "place", "cost", digest, machine, placement)
    plan = replace(plan, variant=variant, memory=_POLICIES[settings.memory])
    if not layout.exact and variant != "packed":
        slots = with_spare(machine, slots)
    return _with_places(plan, machine, slots, placement, settings.memory)


def _baselines(
    graph: CommGraph, machine: Machine, layout: StepLayout, objective: str
) -> tuple[dict[str, float], dict[str, float]]:
    """Cost and objective of Slurm's ways on these slots, the ranks on their nodes where these are given."""
    from slurm_topo.placement.inside import baselines_inside

    if layout.node_of_rank is None:
        return baseline_costs(graph, machine), baseline_values(objective, graph, machine)
    ways = baselines_inside(machine, layout.node_of_rank)
    costs = {name: cost(graph, machine, way) for name, way in ways.items()}
    return costs, {name: objective_value(objective, graph, machine, way) for name, way in ways.items()}


def _choose(
    machine: Machine, tasks_per_node: list[int], cpus_per_task: int, variant: str
) -> tuple[Slots, Slots, str]:
    """Slots to place on, those that Slurm alone would take, and the variant; empty: there is one way only."""
    spread = make_slots(machine, tasks_per_node, cpus_per_task)
    packed = make_slots(machine, tasks_per_node, cpus_per_task, packed=True)
    if {frozenset(slot) for slot in spread.cores} == {frozenset(slot) for slot in packed.cores}:
        return spread, spread, ""
    return (packed, spread, "packed") if variant == "packed" else (spread, spread, "spread")


def slurm_way(placement: Placement) -> str:
    """Baseline that Slurm alone would do: block over nodes, the cheaper of its two ways inside a node."""
    return min(("block:block", "block:cyclic"), key=placement.baseline_values.__getitem__)


def _slurm_first(placement: Placement) -> dict[str, float]:
    """The baselines, the one that the placement was held against first (docs/formats.md)."""
    first = slurm_way(placement)
    return {first: placement.baseline_values[first], **placement.baseline_values}


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
        cost=placement.value if placement else float("nan"),
        baselines=_slurm_first(placement) if placement else {},
        search=placement.ended if placement else "",
    )


def _with_places(plan: Plan, machine: Machine, slots: Slots, placement: Placement, memory: str) -> Plan:
    places = []
    nodes_of = _interleaved(machine) if memory == "interleave" else {}
    for slot in placement.core_of_rank.tolist():
        cores = slots.cores[slot]
        cpus = sorted(p for c in cores for p in machine.pus[c])
        node = int(machine.node[cores[0]])
        mem = nodes_of.get(node) or _near_memory(machine, cores, memory == "hbm")
        places.append(RankPlace(node, tuple(cpus), mem))
    return replace(plan, nodes=machine.node_names, places=tuple(places))


def _near_memory(machine: Machine, cores: tuple[int, ...], hbm: bool) -> tuple[int, ...]:
    """NUMA nodes of these cores; of high-bandwidth memory where that is wanted and there."""
    fast = {n for c in cores for n in machine.hbm[c]} if hbm and machine.hbm else set()
    return tuple(sorted(fast or {int(machine.numa[c]) for c in cores if machine.numa[c] >= 0}))


def _interleaved(machine: Machine) -> dict[int, tuple[int, ...]]:
    """NUMA nodes of all cores of the job, by node: pages of every rank go round them."""
    pairs = {(int(n), int(m)) for n, m in zip(machine.node, machine.numa, strict=True) if m >= 0}
    return {node: tuple(sorted(m for n, m in pairs if n == node)) for node, _ in pairs}


def graph_digest_of(path: Path) -> str:
    """Digest in the name of a graph file of the spool (``<digest>.npz``)."""
    return path.name.removesuffix(".npz")
