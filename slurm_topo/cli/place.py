"""``slurm-topo place``: match a communication graph with a machine."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import click

from slurm_topo.cli.emit import emit
from slurm_topo.model import CommGraph, Machine, Placement

FORMAT = "slurm-topo-placement"
VERSION = 1


@dataclass(frozen=True)
class PlaceOptions:
    """What the user asked for."""

    graph: str
    machine: str
    format: str
    effort: str
    budget_s: float | None
    seed: int
    output: str | None


@click.command("place", short_help="Match a communication graph with a machine.")
@click.option(
    "--graph",
    required=True,
    metavar="FILE",
    help="Traced graph (.npz), SciPy sparse matrix (.npz) or Matrix Market (.mtx).",
)
@click.option(
    "--machine",
    metavar="MACHINE",
    help="hwloc XML, hwloc synthetic string, cluster description, or tree:a1:..:ak/d1:..:dk "
    "(innermost level first; d is the cost of a byte).",
)
@click.option("--format", "format_", type=click.Choice(["table", "json"]), default="table", show_default=True)
@click.option(
    "--effort",
    type=click.Choice(["launch", "best"]),
    default="launch",
    show_default=True,
    help="How much work the search is worth.",
)
@click.option(
    "--budget",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="End after this time with the best placement found.",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Random seed.")
@click.option("-o", "--output", metavar="FILE", help="Write there instead of standard output.")
@click.option(
    "--allocation",
    type=click.Choice(["slurm"]),
    help="Place on the Slurm allocation of this environment instead of --machine.",
)
@click.option("--ntasks", type=click.IntRange(min=1), help="Ranks of the step (with --allocation).")
@click.option("--cpus-per-task", type=click.IntRange(min=1), help="CPUs of a rank (with --allocation).")
@click.option("--plan", metavar="FILE", help="Plan file to write (with --allocation).")
@click.pass_context
def place(
    ctx: click.Context,
    graph: str,
    machine: str | None,
    format_: str,
    effort: str,
    budget: float | None,
    seed: int,
    output: str | None,
    allocation: str | None,
    ntasks: int | None,
    cpus_per_task: int | None,
    plan: str | None,
) -> None:
    """Match a communication graph with a machine.

    Finds a core for each rank so that the traffic costs least, and says what Slurm's own distributions would
    cost. Ctrl-C ends the search with the best placement found so far.
    """
    if allocation:
        _launch(ctx, graph, machine, plan, ntasks, cpus_per_task, seed, budget)
        return
    if not machine:
        raise click.UsageError("give --machine MACHINE (or --allocation slurm with --plan FILE)")
    if plan or ntasks or cpus_per_task:
        raise click.UsageError("--plan, --ntasks and --cpus-per-task go with --allocation slurm")
    run_place(PlaceOptions(graph, machine, format_, effort, budget, seed, output))


def _launch(
    ctx: click.Context,
    graph: str,
    machine: str | None,
    plan: str | None,
    ntasks: int | None,
    cpus_per_task: int | None,
    seed: int,
    budget: float | None,
) -> None:
    """The launch path: the allocation of the environment, a plan as the result."""
    from slurm_topo.cli.launch import run_launch
    from slurm_topo.config import load_settings

    if machine or not plan:
        raise click.UsageError("--allocation slurm takes --plan FILE and no --machine")
    settings = load_settings((ctx.obj or {}).get("config_file"), budget_s=budget)
    run_launch(settings, graph, plan, ntasks, cpus_per_task, seed)


def run_place(options: PlaceOptions) -> None:
    """Read, place, write."""
    from slurm_topo.placement.solve import place as solve
    from slurm_topo.trace import read_graph

    graph = read_graph(options.graph)
    machine = read_machine_argument(options.machine)
    with termination_as_interrupt():
        placement = solve(
            graph,
            machine,
            effort=options.effort,  # type: ignore[arg-type]
            budget_s=options.budget_s,
            seed=options.seed,
        )
    render = _as_json if options.format == "json" else _as_table
    emit(render(graph, machine, placement), options.output)


def read_machine_argument(text: str) -> Machine:
    """The machine that the text names: a tree, or what :func:`slurm_topo.machine.read_machine` knows."""
    from slurm_topo.machine.tree import PREFIX, parse_tree

    if text.startswith(PREFIX):
        return parse_tree(text)
    from slurm_topo.machine import read_machine

    return read_machine(text)


@contextmanager
def termination_as_interrupt() -> Iterator[None]:
    """SIGTERM ends the search as Ctrl-C does."""

    def interrupt(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


def describe(graph: CommGraph, machine: Machine, placement: Placement) -> dict[str, Any]:
    """The placement as JSON values (docs/placement.md)."""
    from slurm_topo.placement.cost import bytes_by_level

    return {
        "format": FORMAT,
        "version": VERSION,
        "ranks": graph.ranks,
        "cores": machine.cores,
        "cost": placement.cost,
        "baselines": dict(placement.baselines),
        "solver": placement.solver,
        "seed": placement.seed,
        "seconds": round(placement.seconds, 4),
        "levels": [level.name for level in machine.levels],
        "costs": {level.name: level.origin for level in machine.levels},
        "bytes_by_level": bytes_by_level(graph, machine, placement.core_of_rank).tolist(),
        "placement": placement.core_of_rank.tolist(),
    }


def _as_json(graph: CommGraph, machine: Machine, placement: Placement) -> str:
    return json.dumps(describe(graph, machine, placement)) + "\n"


def _costs_line(machine: Machine) -> str:
    """Whether anybody has measured what the levels cost."""
    from slurm_topo.report.text import costs_of_levels

    said = costs_of_levels((level.name, level.origin) for level in machine.levels)
    assumed = any(level.origin == "assumed" for level in machine.levels)
    return said + (" `slurm-topo machine calibrate` measures them." if assumed else "")


def _as_table(graph: CommGraph, machine: Machine, placement: Placement) -> str:
    lines = [f"{graph.ranks} ranks on {machine.cores} cores, seed {placement.seed}, {placement.solver}", ""]
    if not graph.source.size:
        lines[1:] = ["No traffic in this graph: placed as Slurm does.", ""]
    lines += _cost_lines(placement)
    lines += ["", *_level_lines(graph, machine, placement)]
    lines += ["", _costs_line(machine), "", *_rank_lines(machine, placement)]
    return "\n".join(lines) + "\n"


def _cost_lines(placement: Placement) -> list[str]:
    lines = [f"{'':14} {'cost':>14}  {'this placement':>14}"]
    for name, cost in placement.baselines.items():
        share = f"{placement.cost / cost - 1:+.1%}" if cost > 0 else "the same"
        lines.append(f"{name:14} {cost:14.6g}  {share:>14}")
    return [*lines, f"{'placed':14} {placement.cost:14.6g}"]


def _level_lines(graph: CommGraph, machine: Machine, placement: Placement) -> list[str]:
    """Bytes by level, before (the best baseline) and after."""
    from slurm_topo.placement.baselines import baselines
    from slurm_topo.placement.cost import bytes_by_level

    name = min(placement.baselines, key=lambda key: placement.baselines[key])
    before = bytes_by_level(graph, machine, baselines(machine, graph.ranks)[name])
    after = bytes_by_level(graph, machine, placement.core_of_rank)
    total = float(after.sum()) or 1.0
    lines = [f"{'bytes within':14} {name:>14}  {'placed':>14}"]
    for level, old, new in zip(machine.levels, before, after, strict=True):
        lines.append(f"{level.name:14} {old / total:14.1%}  {new / total:14.1%}")
    return lines


def _rank_lines(machine: Machine, placement: Placement) -> list[str]:
    """A line a node, or a line for every eight ranks of a machine without nodes."""
    cores = placement.core_of_rank.tolist()
    if len(machine.node_names) == 1:
        lines = [f"{'rank':>8}  core"]
        for first in range(0, len(cores), 8):
            lines.append(f"{first:8}  " + " ".join(f"{core:6}" for core in cores[first : first + 8]))
        return lines
    ranks: dict[int, list[str]] = {}
    for rank, core in enumerate(cores):
        ranks.setdefault(int(machine.node[core]), []).append(f"{rank}:{core}")
    lines = [f"{'node':14} rank:core"]
    return lines + [f"{machine.node_names[node]:14} {' '.join(ranks[node])}" for node in sorted(ranks)]
