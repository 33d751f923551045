"""``slurm-topo judge``: simulated times of a graph on a machine, from outside the optimiser."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from slurm_topo.cli.emit import emit
from slurm_topo.cli.place import read_machine_argument
from slurm_topo.errors import PlacementError

if TYPE_CHECKING:
    from slurm_topo.campaign.agreement import Agreement
    from slurm_topo.judge.run import Judgement
    from slurm_topo.model import CommGraph, Ints, Machine

FORMAT = "slurm-topo-judgement"
AGREEMENT_FORMAT = "slurm-topo-agreement"
VERSION = 1
# Two leaf switches with four nodes of two packages of four cores each: all tiers matter at 64 ranks.
EXAMPLE_LEVELS = ("l3", "node", "switch", "switch2")
EXAMPLE_TREE = "tree:4:2:4:2/1:1:1:1"


@click.command("judge", short_help="Simulated times of placements, by SimGrid.")
@click.option("--graph", metavar="FILE", help="Graph as for `slurm-topo place`.")
@click.option("--machine", metavar="MACHINE", help="Machine as for `slurm-topo place`.")
@click.option(
    "--placement",
    metavar="FILE",
    help="Result of `slurm-topo place --format json`; without it, one is searched.",
)
@click.option(
    "--rounds", type=click.IntRange(1, 1000), default=1, show_default=True, help="Iterations to simulate."
)
@click.option(
    "--window", type=click.IntRange(1), default=64, show_default=True, help="Most messages a rank has open."
)
@click.option(
    "--network-latency",
    type=click.FloatRange(0, min_open=True),
    default=1.0,
    help="Factor on latencies of switches.",
)
@click.option(
    "--network-bandwidth",
    type=click.FloatRange(0, min_open=True),
    default=1.0,
    help="Factor on bandwidths of switches.",
)
@click.option("--agreement", is_flag=True, help="How well objectives and simulated times agree, by pattern.")
@click.option("--ranks", type=click.IntRange(8, 512), default=64, show_default=True, help="With --agreement.")
@click.option("--mappings", type=click.IntRange(8), default=60, show_default=True, help="With --agreement.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Random seed.")
@click.option("--format", "format_", type=click.Choice(["table", "json"]), default="table", show_default=True)
@click.option("-o", "--output", metavar="FILE", help="Write there instead of standard output.")
def judge(
    graph: str | None,
    machine: str | None,
    placement: str | None,
    rounds: int,
    window: int,
    network_latency: float,
    network_bandwidth: float,
    agreement: bool,
    ranks: int,
    mappings: int,
    seed: int,
    format_: str,
    output: str | None,
) -> None:
    """Replay a communication graph on a simulated machine.

    Slurm's own distributions and the placement are replayed by SimGrid's SMPI on a platform that is written
    from the machine model, without the optimiser's cost function. Needs SimGrid (Debian: libsimgrid-dev).
    """
    if agreement:
        if graph or placement:
            raise click.UsageError("--agreement makes its own graphs; leave --graph and --placement out")
        text = _agreement(machine, ranks, mappings, seed, rounds, format_)
        emit(text, output)
        return
    if not graph or not machine:
        raise click.UsageError("give --graph FILE and --machine MACHINE, or --agreement")
    from slurm_topo.judge.platform import Overrides
    from slurm_topo.judge.run import judge as run
    from slurm_topo.trace import read_graph

    traffic, model = read_graph(graph), read_machine_argument(machine)
    tried = _placements(traffic, model, placement, seed)
    found = run(
        traffic,
        model,
        tried,
        rounds=rounds,
        window=window,
        overrides=Overrides(network_latency, network_bandwidth),
    )
    render = _judgement_json if format_ == "json" else _judgement_table
    emit(render(traffic, model, tried, found), output)


def _placements(graph: CommGraph, machine: Machine, file: str | None, seed: int) -> dict[str, Ints]:
    """Slurm's distributions, and what is to be judged beside them."""
    import numpy as np

    from slurm_topo.cli.place_input import read_placement
    from slurm_topo.placement.baselines import baselines
    from slurm_topo.placement.cost import check_placement
    from slurm_topo.placement.solve import place

    tried = baselines(machine, graph.ranks)
    if file is None:
        tried["placed"] = place(graph, machine, objective="auto", seed=seed).core_of_rank
    else:
        tried["placed"] = np.array(read_placement(file, "--placement"), dtype=np.int32)
        check_placement(graph, machine, tried["placed"])
    return tried


def _judgement_json(graph: CommGraph, machine: Machine, tried: dict[str, Ints], found: Judgement) -> str:
    from slurm_topo.placement.cost import cost

    values: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "ranks": graph.ranks,
        "cores": machine.cores,
        "iterations": found.iterations,
        "rounds": found.rounds,
        "seconds": dict(found.seconds),
        "cost": {name: cost(graph, machine, cores) for name, cores in tried.items()},
        "ratio": _ratio(found),
    }
    return json.dumps(values) + "\n"


def _ratio(found: Judgement) -> float | None:
    """Placed over the quickest of Slurm's distributions."""
    before = min(seconds for name, seconds in found.seconds.items() if name != "placed")
    return found.seconds["placed"] / before if before else None


def _judgement_table(graph: CommGraph, machine: Machine, tried: dict[str, Ints], found: Judgement) -> str:
    from slurm_topo.placement.cost import cost

    placed = found.seconds["placed"]
    lines = [
        f"{graph.ranks} ranks on {machine.cores} cores, "
        f"{found.rounds} of {found.iterations:.6g} iterations simulated",
        "",
        f"{'':14} {'simulated s':>14} {'placed':>9} {'cost':>14}",
    ]
    for name, seconds in found.seconds.items():
        share = f"{placed / seconds - 1:+.1%}" if seconds and name != "placed" else ""
        lines.append(f"{name:14} {seconds:14.6g} {share:>9} {cost(graph, machine, tried[name]):14.6g}")
    lines += ["", "Simulated is the communication alone, on links that the job does not share with others."]
    return "\n".join(lines) + "\n"


def _agreement(machine: str | None, ranks: int, mappings: int, seed: int, rounds: int, format_: str) -> str:
    from slurm_topo.campaign.agreement import PATTERNS, agreement

    model = read_machine_argument(machine) if machine else example_machine()
    if ranks > model.cores:
        raise PlacementError(
            f"{ranks} ranks do not fit on {model.cores} cores; give --ranks {model.cores} or less"
        )
    found = []
    for number, (name, make) in enumerate(PATTERNS.items()):
        click.echo(f"{number + 1}/{len(PATTERNS)} {name}", err=True)
        found.append(agreement(name, make(ranks, seed), model, mappings, seed, rounds=rounds))
    return (
        _agreement_json(found, ranks, seed) if format_ == "json" else _agreement_table(found, ranks, mappings)
    )


def example_machine() -> Machine:
    """64 cores under two leaf switches, with the documented costs."""
    from dataclasses import replace

    from slurm_topo.machine.levels import default_level
    from slurm_topo.machine.tree import parse_tree

    return replace(parse_tree(EXAMPLE_TREE), levels=tuple(map(default_level, EXAMPLE_LEVELS)))


def _agreement_json(found: list[Agreement], ranks: int, seed: int) -> str:
    values = [
        {
            "pattern": a.pattern,
            "mappings": a.mappings,
            "spread": a.spread,
            "indifferent": a.indifferent,
            "correlation": {name: None if value != value else value for name, value in a.correlation.items()},
        }
        for a in found
    ]
    document = {
        "format": AGREEMENT_FORMAT,
        "version": VERSION,
        "ranks": ranks,
        "seed": seed,
        "patterns": values,
    }
    return json.dumps(document) + "\n"


def _agreement_table(found: list[Agreement], ranks: int, mappings: int) -> str:
    names = list(found[0].correlation)
    lines = [
        f"rank correlation of objective and simulated time, {ranks} ranks, {mappings} mappings a pattern",
        "",
        f"{'':22} {'slowest':>8}  " + " ".join(f"{name:>8}" for name in names),
    ]
    for a in found:
        values = [
            ("-" if value != value or a.indifferent else f"{value:.3f}") for value in a.correlation.values()
        ]
        lines.append(f"{a.pattern:22} {a.spread:+8.0%}  " + " ".join(f"{value:>8}" for value in values))
    lines += ["", "slowest: over the quickest mapping. -: all mappings take the same time, within 2 %."]
    return "\n".join(lines) + "\n"
