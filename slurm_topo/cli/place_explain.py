"""``slurm-topo place --explain`` in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from slurm_topo.model import Ints, Machine, Placement
from slurm_topo.placement.explain import explain
from slurm_topo.placement.problem import Problem
from slurm_topo.placement.solve import EFFORTS, place
from slurm_topo.units import format_size


def explain_problem(problem: Problem, placement: Placement, effort: str) -> dict[str, Any]:
    """Everything that is said of the placement, as JSON values."""
    full = EFFORTS[effort]

    def solver(machine: Machine, start: Ints | None, share: float) -> Placement:
        return place(
            problem.graph,
            machine,
            effort=replace(full, seconds_at_128=full.seconds_at_128 * share),
            seed=placement.seed,
            start=problem.start if start is None else start,
            fixed=problem.fixed,
            objective=placement.objective,
        )

    return explain(problem.graph, problem.machine, placement, solver)


def explain_text(problem: Problem, said: Mapping[str, Any]) -> str:
    """The same for people."""
    names = list(said["cost_by_level"])
    lines = [f"{'cost within':14} " + "  ".join(f"{name:>14}" for name in names)]
    for i, level in enumerate(problem.machine.levels):
        costs = (said["cost_by_level"][name][i] for name in names)
        lines.append(f"{level.name:14} " + "  ".join(f"{cost:14.6g}" for cost in costs))
    lines += ["", f"{'pays most':14} {'within':>10}  {'bytes':>10}  {'cost':>12}  {'share':>6}"]
    for pair in said["dearest_pairs"]:
        ranks = " - ".join(str(rank) for rank in pair["ranks"])
        lines.append(
            f"{ranks:14} {pair['level']:>10}  {format_size(pair['nbytes']):>10}  "
            f"{pair['seconds']:12.6g}  {pair['share']:6.1%}"
        )
    return "\n".join([*lines, "", *_outlook_lines(said)]) + "\n"


def _outlook_lines(said: Mapping[str, Any]) -> list[str]:
    search = said["search"]
    seen = ", ".join(f"{value:.6g}" for value in search["values"])
    shares = ", ".join(f"{share:g}" for share in search["work"])
    lines = [
        f"another hour of search: {search['estimated_gain_share']:.1%} better, estimated. "
        f"With {shares} of the work: {seen}; {search['basis']}."
    ]
    for change in said["changed_machines"]:
        if "value" in change:
            lines.append(
                f"{change['change']} ({change['cores']} places): {change['value']:.6g}, "
                f"{change['gain_share']:.1%} better, computed"
            )
        else:
            lines.append(f"{change['change']}: not computed ({change['reason']})")
    return lines
