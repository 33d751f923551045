"""``slurm-topo place``: match a communication graph with a machine."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from slurm_topo.cli.emit import emit
from slurm_topo.config import OBJECTIVES
from slurm_topo.model import Machine, Placement

if TYPE_CHECKING:
    from slurm_topo.placement.problem import Problem


@dataclass(frozen=True)
class PlaceOptions:
    """What the user asked for."""

    graph: str
    machine: str | None
    format: str
    effort: str
    budget_s: float | None
    seed: int
    output: str | None
    objective: str | None = None
    cores: tuple[str, ...] = ()
    cores_per_rank: int = 1
    fixed: tuple[str, ...] = ()
    start: str | None = None
    distances: str | None = None
    gpus: bool = False
    links: str | None = None
    explain: bool = False
    draw: str | None = None


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
    "--objective",
    type=click.Choice(OBJECTIVES),
    help="What is minimised: the sum over all traffic, the most loaded link, or auto (that link, latencies "
    "and some of the sum). [default: auto; sum for a tree: machine]",
)
@click.option(
    "--cores",
    multiple=True,
    metavar="LIST",
    help="Use these cores only: 0-15,32 of the machine, or HOST:0-7 (may be repeated).",
)
@click.option(
    "--cores-per-rank", type=click.IntRange(min=1), default=1, show_default=True, help="Cores of each rank."
)
@click.option(
    "--fix",
    "fixed",
    multiple=True,
    metavar="RANK=CORE|FILE",
    help="Ranks that stay where they are (may be repeated); a file has one RANK CORE a line.",
)
@click.option(
    "--distances",
    metavar="FILE",
    help="What a byte costs between all cores or all nodes: a symmetric matrix (.npz, .mtx).",
)
@click.option("--gpus", is_flag=True, help="One rank a GPU: costs are those from GPU to GPU.")
@click.option(
    "--links",
    metavar="FILE",
    help="What nvidia-smi topo -m or rocm-smi --showtopo printed on the nodes (with --gpus).",
)
@click.option(
    "--explain",
    is_flag=True,
    help="Say why: cost by level, the pairs that pay most, what more search, nodes or switches would bring.",
)
@click.option("--draw", metavar="FILE", help="Draw traffic and machine before and after (.svg, .png).")
@click.option("--start", metavar="FILE", help="A placement to start from: JSON of place, or a core a rank.")
@click.option(
    "--allocation",
    type=click.Choice(["slurm"]),
    help="Place on the Slurm allocation of this environment instead of --machine.",
)
@click.option("--ntasks", type=click.IntRange(min=1), help="Ranks of the step (with --allocation).")
@click.option("--cpus-per-task", type=click.IntRange(min=1), help="CPUs of a rank (with --allocation).")
@click.option(
    "--nodes", type=click.IntRange(min=1), help="The step uses the first so many nodes (with --allocation)."
)
@click.option("--exact", is_flag=True, help="No rank gets more than its CPUs (with --allocation).")
@click.option("--one-thread", is_flag=True, help="One hardware thread of each core only (with --allocation).")
@click.option(
    "--keep-nodes", is_flag=True, help="Ranks stay on the nodes where Slurm has put them (with --allocation)."
)
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
    nodes: int | None,
    exact: bool,
    one_thread: bool,
    keep_nodes: bool,
    plan: str | None,
    objective: str | None,
    cores: tuple[str, ...],
    cores_per_rank: int,
    fixed: tuple[str, ...],
    start: str | None,
    distances: str | None,
    gpus: bool,
    links: str | None,
    explain: bool,
    draw: str | None,
) -> None:
    """Match a communication graph with a machine.

    Finds a core for each rank so that the traffic costs least, and says what Slurm's own distributions would
    cost. Ctrl-C ends the search with the best placement found so far.
    """
    if allocation:
        from slurm_topo.cli.launch import LaunchOptions, run_launch
        from slurm_topo.config import load_settings

        if cores or cores_per_rank > 1 or fixed or start or distances or explain or draw:
            raise click.UsageError(
                "--cores, --cores-per-rank, --fix, --start, --distances, --explain, --draw go with --machine"
            )
        if machine or not plan:
            raise click.UsageError("--allocation slurm takes --plan FILE and no --machine")
        settings = load_settings((ctx.obj or {}).get("config_file"), budget_s=budget, objective=objective)
        step = LaunchOptions(graph, plan, ntasks, cpus_per_task, nodes, exact, one_thread, keep_nodes, seed)
        run_launch(settings, step)
        return
    if links and not gpus:
        raise click.UsageError("--links goes with --gpus")
    if gpus and (distances or cores or cores_per_rank > 1 or not machine):
        raise click.UsageError("--gpus goes with --machine, without --distances, --cores, --cores-per-rank")
    if not machine and not distances:
        raise click.UsageError("give --machine MACHINE (or --allocation slurm with --plan FILE)")
    if plan or ntasks or cpus_per_task or nodes or exact or one_thread or keep_nodes:
        raise click.UsageError("options of a step (--plan, --ntasks, ...) go with --allocation slurm")
    run_place(
        PlaceOptions(
            graph=graph,
            machine=machine,
            format=format_,
            effort=effort,
            budget_s=budget,
            seed=seed,
            output=output,
            objective=objective,
            cores=cores,
            cores_per_rank=cores_per_rank,
            fixed=fixed,
            start=start,
            distances=distances,
            gpus=gpus,
            links=links,
            explain=explain,
            draw=draw,
        )
    )


def run_place(options: PlaceOptions) -> None:
    """Read, place, write."""
    from slurm_topo.cli.place_draw import check_picture, draw_file
    from slurm_topo.cli.place_explain import explain_problem, explain_text
    from slurm_topo.cli.place_table import as_table, describe

    problem = read_problem(options)
    if options.draw:
        check_picture(options.draw)
    with termination_as_interrupt():
        placement = _solve(problem, options)
    said = explain_problem(problem, placement, options.effort) if options.explain else None
    if options.draw:
        draw_file(problem, placement, options.draw)
    if options.format == "json":
        document = describe(problem, placement) | ({"explain": said} if said else {})
        emit(json.dumps(document) + "\n", options.output)
    else:
        more = "\n" + explain_text(problem, said) if said else ""
        emit(as_table(problem, placement) + more, options.output)


def read_problem(options: PlaceOptions) -> Problem:
    """Graph, machine and wishes, checked against each other."""
    from slurm_topo.cli.place_input import read_cores, read_fixed, read_gpu_machine, read_start
    from slurm_topo.placement.problem import make_problem
    from slurm_topo.trace import read_graph

    graph = read_graph(options.graph)
    if options.gpus:
        machine, places = read_gpu_machine(options.machine or "", options.links)
        start, fixed = read_start(options.start), read_fixed(options.fixed)
        return replace(make_problem(graph, machine, start=start, fixed=fixed), gpus=places)
    machine = _read_machine(options)
    return make_problem(
        graph,
        machine,
        cores=read_cores(machine, options.cores),
        cores_per_rank=options.cores_per_rank,
        start=read_start(options.start),
        fixed=read_fixed(options.fixed),
    )


def _read_machine(options: PlaceOptions) -> Machine:
    """The machine, with the distances that were given."""
    if options.distances is None:
        return read_machine_argument(options.machine or "")
    from slurm_topo.machine.distances import machine_of_distances, read_distances, with_distances

    matrix = read_distances(options.distances)
    if options.machine is None:
        return machine_of_distances(matrix)
    return with_distances(read_machine_argument(options.machine), matrix)


def _objective(problem: Problem, options: PlaceOptions) -> str:
    """What is minimised where nobody said: the sum where nothing but costs is known."""
    from slurm_topo.machine.tree import PREFIX

    plain = problem.machine.distances is not None or (options.machine or "").startswith(PREFIX)
    return options.objective or ("sum" if plain else "auto")


def _solve(problem: Problem, options: PlaceOptions) -> Placement:
    from slurm_topo.placement.solve import place as solve

    return solve(
        problem.graph,
        problem.machine,
        effort=options.effort,  # type: ignore[arg-type]
        budget_s=options.budget_s,
        seed=options.seed,
        start=problem.start,
        fixed=problem.fixed,
        objective=_objective(problem, options),
    )


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
