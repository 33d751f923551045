"""What ``slurm-topo place`` prints: the placement as a table and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slurm_topo.model import Machine, Placement
from slurm_topo.placement.baselines import baselines
from slurm_topo.placement.load import LinkLoad, Loads, find_loads, loads_json
from slurm_topo.placement.problem import Problem
from slurm_topo.report.text import costs_of_levels
from slurm_topo.units import fold_ints, format_size

FORMAT = "slurm-topo-placement"
VERSION = 1
PLACED = "placed"


def loads_of(problem: Problem, placement: Placement) -> dict[str, Loads]:
    """Figures of the baselines and, last, of the placement."""
    known = baselines(problem.machine, problem.graph.ranks)
    sides = {**known, PLACED: placement.core_of_rank}
    return {name: find_loads(problem.graph, problem.machine, cores) for name, cores in sides.items()}


def describe(problem: Problem, placement: Placement) -> dict[str, Any]:
    """The placement as JSON values (docs/placement.md)."""
    machine = problem.machine
    loads = loads_of(problem, placement)
    cores = problem.cores_of(placement.core_of_rank)
    width = max(len(own) for own in cores)
    return {
        "format": FORMAT,
        "version": VERSION,
        "ranks": problem.graph.ranks,
        "cores": problem.whole.cores,
        "cores_per_rank": width,
        "cost": placement.cost,
        "baselines": dict(placement.baselines),
        "objective": placement.objective,
        "value": placement.value,
        "baseline_values": dict(placement.baseline_values),
        "solver": placement.solver,
        "seed": placement.seed,
        "seconds": round(placement.seconds, 4),
        "levels": [level.name for level in machine.levels],
        "costs": {level.name: level.origin for level in machine.levels},
        "bytes_by_level": loads[PLACED].bytes_by_level.tolist(),
        "loads": {name: loads_json(one) for name, one in loads.items()},
        "placement": [own[0] for own in cores],
        **({"gpus": _gpus(problem, placement)} if problem.gpus else {}),
        **({"cores_of_rank": [list(own) for own in cores]} if width > 1 else {}),
    }


def _gpus(problem: Problem, placement: Placement) -> list[dict[str, Any]]:
    """Node, GPU and adapter of each rank, and a core of the whole machine next to it."""
    places = [problem.gpus[slot] for slot in placement.core_of_rank.tolist()]
    return [
        {"node": problem.whole.node_names[p.node], "gpu": p.gpu, "nic": p.nic, "core": p.core} for p in places
    ]


def as_table(problem: Problem, placement: Placement) -> str:
    """The placement for people."""
    machine = problem.machine
    loads = loads_of(problem, placement)
    lines = [
        f"{problem.graph.ranks} ranks on {problem.whole.cores} cores, seed {placement.seed}, "
        f"objective {placement.objective}, {placement.solver}",
        "",
    ]
    if not problem.graph.source.size:
        lines[1:] = ["No traffic in this graph: placed as Slurm does.", ""]
    lines += _cost_lines(placement, loads)
    lines += ["", *_most_loaded_lines(loads)]
    lines += ["", *_level_lines(machine, loads)]
    said = costs_of_levels((level.name, level.origin) for level in machine.levels)
    assumed = any(level.origin == "assumed" for level in machine.levels)
    lines += ["", said + (" `slurm-topo machine calibrate` measures them." if assumed else ""), ""]
    lines += _gpu_lines(problem, placement) if problem.gpus else _rank_lines(problem, placement)
    return "\n".join(lines) + "\n"


def _seconds(link: Any) -> str:
    return f"{link.seconds:.4g}" if link else "-"


def _cost_lines(placement: Placement, loads: Mapping[str, Loads]) -> list[str]:
    """A row a baseline, the last one the placement; beside the sum what is loaded most."""
    lines = [
        f"{'':14} {'cost':>14}  {'this placement':>14}  {'node uplink':>12}  {'switch uplink':>13}  "
        f"{'rank':>10}"
    ]
    for name, one in loads.items():
        share = ""
        if name != PLACED:
            share = f"{placement.cost / one.cost - 1:+.1%}" if one.cost > 0 else "the same"
        lines.append(
            f"{name:14} {one.cost:14.6g}  {share:>14}  {_seconds(one.node):>12}  "
            f"{_seconds(one.switch):>13}  {_seconds(one.rank):>10}"
        )
    if placement.objective != "sum":
        best = min(placement.baseline_values, key=lambda key: placement.baseline_values[key])
        before = placement.baseline_values[best]
        share = f", {placement.value / before - 1:+.1%}" if before > 0 else ""
        lines.append(
            f"objective {placement.objective}: {placement.value:.6g} "
            f"(best baseline, {best}: {before:.6g}{share})"
        )
    return lines


def _most_loaded_lines(loads: Mapping[str, Loads]) -> list[str]:
    placed = loads[PLACED]
    lines = []
    for what, link in (("node uplink", placed.node), ("switch uplink", placed.switch)):
        lines.append(f"most loaded {what:14} " + (_link(link) if link else "nothing crosses one"))
    if placed.rank:
        way = "sends" if placed.rank.direction == "out" else "receives"
        nbytes, seconds = format_size(placed.rank.nbytes), placed.rank.seconds
        lines.append(f"most loaded {'rank':14} {placed.rank.rank} {way} {nbytes}: {seconds:.4g}")
    return lines


def _link(link: LinkLoad) -> str:
    return f"{link.name}, {link.direction}: {format_size(link.nbytes)} take {link.seconds:.4g}"


def _level_lines(machine: Machine, loads: Mapping[str, Loads]) -> list[str]:
    """Share of the bytes at each level, of the baselines and the placement."""
    lines = [f"{'bytes within':14} " + "  ".join(f"{name:>14}" for name in loads)]
    for i, level in enumerate(machine.levels):
        shares = []
        for one in loads.values():
            total = float(one.bytes_by_level.sum()) or 1.0
            shares.append(f"{one.bytes_by_level[i] / total:14.1%}")
        lines.append(f"{level.name:14} " + "  ".join(shares))
    return lines


def _gpu_lines(problem: Problem, placement: Placement) -> list[str]:
    lines = [f"{'rank':>8}  {'node':14} {'gpu':>4}  nic"]
    for rank, place in enumerate(_gpus(problem, placement)):
        lines.append(f"{rank:8}  {place['node']:14} {place['gpu']:4}  {place['nic'] or '-'}")
    return lines


def _rank_lines(problem: Problem, placement: Placement) -> list[str]:
    """A line a node, or a line for every eight ranks of a machine without nodes."""
    machine = problem.whole
    cores = problem.cores_of(placement.core_of_rank)
    shown = [fold_ints(own) for own in cores]
    if len(machine.node_names) == 1:
        wide = max(6, *(len(text) for text in shown))
        lines = [f"{'rank':>8}  core"]
        for first in range(0, len(cores), 8):
            lines.append(f"{first:8}  " + " ".join(f"{text:>{wide}}" for text in shown[first : first + 8]))
        return lines
    ranks: dict[int, list[str]] = {}
    for rank, own in enumerate(cores):
        ranks.setdefault(int(machine.node[own[0]]), []).append(f"{rank}:{shown[rank]}")
    lines = [f"{'node':14} rank:core"]
    return lines + [f"{machine.node_names[node]:14} {' '.join(ranks[node])}" for node in sorted(ranks)]
