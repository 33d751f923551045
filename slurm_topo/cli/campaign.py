"""``slurm-topo campaign``: what placing would save a centre, in a simulation."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from slurm_topo.cli.emit import emit
from slurm_topo.errors import InputError

if TYPE_CHECKING:
    from slurm_topo.campaign.centre import Job
    from slurm_topo.campaign.results import Results
    from slurm_topo.campaign.run import Outcome, Site
    from slurm_topo.model import CommGraph

FORMAT = "slurm-topo-campaign"
VERSION = 1
NODE = "package:2 numa:2 l3:2 core:4 pu:1"
# (what is changed, factor on latencies, factor on bandwidths)
VARIATIONS = (
    ("latency halved", 0.5, 1.0),
    ("latency doubled", 2.0, 1.0),
    ("bandwidth halved", 1.0, 0.5),
    ("bandwidth doubled", 1.0, 2.0),
)
SHARES = (0.1, 0.2, 0.3, 0.4, 0.5)
UNITS = {
    "completion_min": ("mean completion time", "min"),
    "wait_min": ("  of that, waiting", "min"),
    "run_min": ("  of that, running", "min"),
    "cost_per_job": ("unit compute cost", "a job"),
    "cross_numa": ("bytes across NUMA domains", "%"),
}


@click.command("campaign", short_help="A centre's jobs in a simulation, before and after.")
@click.option("--jobs", "count", type=click.IntRange(10), default=1000, show_default=True, help="Jobs.")
@click.option("--programs", type=click.IntRange(1), default=40, show_default=True, help="Programs to make.")
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True, help="Random seed.")
@click.option(
    "--trace", metavar="FILE", help="Log of a real centre (SWF or sacct) for sizes, times and arrival."
)
@click.option("--graphs", metavar="FOLDER", help="Traced graphs that are programs too.")
@click.option(
    "--node",
    default=NODE,
    show_default=True,
    metavar="MACHINE",
    help="hwloc XML or synthetic string of a node.",
)
@click.option("--switches", type=click.IntRange(1), default=4, show_default=True, help="Leaf switches.")
@click.option("--nodes", "each", type=click.IntRange(1), default=8, show_default=True, help="Nodes of each.")
@click.option("--largest", type=click.IntRange(1), default=8, show_default=True, help="Most nodes of a job.")
@click.option(
    "--share",
    nargs=2,
    type=click.FloatRange(0, 1),
    default=(0.2, 0.5),
    show_default=True,
    help="Communication takes a share of a program's run time between these.",
)
@click.option(
    "--baseline",
    type=click.Choice(["best", "block:block", "block:cyclic", "cyclic"]),
    default="best",
    show_default=True,
    help="What Slurm alone does; best: the cheaper of block:block and block:cyclic for each job.",
)
@click.option(
    "--margin", type=click.FloatRange(0, 1), default=0.02, show_default=True, help="As in the settings."
)
@click.option(
    "--price", type=click.FloatRange(0), default=1.0, show_default=True, help="Cost of a node for an hour."
)
@click.option("--no-sensitivity", is_flag=True, help="Leave out the other latencies and bandwidths.")
@click.option(
    "--folder",
    default="campaign",
    show_default=True,
    metavar="FOLDER",
    help="Simulated times are kept there: an interrupted campaign goes on.",
)
@click.option("--format", "format_", type=click.Choice(["table", "json"]), default="table", show_default=True)
@click.option("-o", "--output", metavar="FILE", help="Write there instead of standard output.")
def campaign(**options: Any) -> None:
    """Run a centre's jobs through Slurm's own distribution and through the placement.

    All times are simulated: SimGrid replays the communication of each program on each allocation. Says what
    it would save in completion time and cost, with intervals, and how many jobs gain, lose or are left alone.
    """
    from slurm_topo.campaign.results import results_of
    from slurm_topo.campaign.run import Bench, run_campaign

    began = time.monotonic()
    site = _site(options["node"], options["switches"], options["each"])
    jobs = _jobs(options, site)
    store = _store(options["folder"])
    steps = _Progress("simulated")
    bench = Bench(site, options["baseline"], options["margin"], options["seed"], store, progress=steps)
    outcomes = run_campaign(jobs, bench)
    results = results_of(outcomes, options["price"], options["seed"])
    sensitivity = {} if options["no_sensitivity"] else _sensitivity(options, site, outcomes, store)
    seconds = time.monotonic() - began
    document = _document(options, results, outcomes, sensitivity, seconds)
    text = json.dumps(document) + "\n" if options["format_"] == "json" else _table(options, document)
    emit(text, options["output"])


class _Progress:
    """A line now and then on standard error."""

    def __init__(self, what: str) -> None:
        self.what, self.begun = what, time.monotonic()
        self.said = self.begun

    def __call__(self, count: int) -> None:
        now = time.monotonic()
        if now - self.said > 5:
            self.said = now
            click.echo(f"{now - self.begun:6.0f} s  {count} programs on allocations {self.what}", err=True)


def _site(node: str, switches: int, each: int) -> Site:
    from slurm_topo.campaign.run import Site
    from slurm_topo.machine import read_machine
    from slurm_topo.machine.levels import default_level, switch_level

    return Site(
        read_machine(node), switches, each, default_level(switch_level(1)), default_level(switch_level(2))
    )


def _jobs(options: dict[str, Any], site: Site) -> list[Job]:
    import numpy as np

    from slurm_topo.campaign.centre import draw_requests, make_jobs, make_programs, read_requests

    if options["share"][0] > options["share"][1]:
        raise click.UsageError("--share takes the lower value first")
    random = np.random.default_rng(options["seed"])
    if options["trace"]:
        requests = read_requests(options["trace"], options["count"])
    else:
        requests = draw_requests(options["count"], random)
    if len(requests) < options["count"]:
        raise InputError(f"{options['trace']}: {len(requests)} jobs of a minute; give --jobs {len(requests)}")
    largest = min(options["largest"], site.nodes)
    traced = _traced(options["graphs"], site.node.cores * largest)

    return make_jobs(
        requests,
        site.nodes,
        largest,
        lambda sizes: make_programs(
            options["programs"], sizes, site.node.cores, options["share"], random, traced
        ),
        random,
    )


def _traced(folder: str | None, most: int) -> list[tuple[str, CommGraph]]:
    """Graphs of a folder that fit."""
    from slurm_topo.trace import read_graph

    if not folder:
        return []
    files = sorted(p for p in Path(folder).glob("*") if p.suffix in (".npz", ".mtx"))
    if not files:
        raise InputError(f"{folder}: holds no graph (.npz or .mtx); give a folder of graphs")
    graphs = [(file.stem, read_graph(file)) for file in files]
    return [(name, graph) for name, graph in graphs if graph.ranks <= most]


def _store(folder: str) -> Path:
    path = Path(folder)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be made ({error.strerror}); give another --folder") from error
    return path / "judged.jsonl"


def _sensitivity(
    options: dict[str, Any], site: Site, outcomes: list[Outcome], store: Path
) -> dict[str, dict[str, float]]:
    """The same jobs on the same allocations with other figures of the network."""
    from slurm_topo.campaign.run import Bench
    from slurm_topo.judge.platform import Overrides

    found: dict[str, dict[str, float]] = {}
    for name, latency, bandwidth in (("as assumed", 1.0, 1.0), *VARIATIONS):
        steps = _Progress(f"simulated with {name}")
        bench = Bench(
            site,
            options["baseline"],
            options["margin"],
            options["seed"],
            store,
            Overrides(latency, bandwidth),
            steps,
        )
        before = after = 0.0
        for o in outcomes:
            judged = bench.judged(o.job.program, o.after.shape)
            share, ratio = o.job.program.share, 1.0 if o.traced else judged.ratio
            before += o.job.run_s
            after += o.job.run_s * (1 - share + share * ratio)
        found[name] = {"run_change": after / before - 1}
    return found


def _document(
    options: dict[str, Any],
    results: Results,
    outcomes: list[Outcome],
    sensitivity: dict[str, dict[str, float]],
    seconds: float,
) -> dict[str, Any]:
    from slurm_topo.campaign.results import PUBLISHED, run_change_at
    from slurm_topo.campaign.run import as_values

    return {
        "format": FORMAT,
        "version": VERSION,
        "simulated": "all times; see docs/campaign.md",
        "options": {k: v for k, v in options.items() if k not in ("output", "format_", "folder")},
        "jobs": results.jobs,
        "programs": results.programs,
        "figures": {name: figure.__dict__ for name, figure in results.figures.items()},
        "decisions": dict(results.decisions),
        "gained": results.gained,
        "lost": results.lost,
        "worst_ratio": results.worst,
        "by_kind": {
            kind: {"jobs": n, "communication": None if r != r else r}
            for kind, (n, r) in results.by_kind.items()
        },
        "published": {name: list(values) for name, values in PUBLISHED.items()},
        "sensitivity": sensitivity,
        "run_change_by_share": {str(share): run_change_at(outcomes, share) for share in SHARES},
        "wall_seconds": round(seconds, 1),
        "outcomes": [as_values(outcome) for outcome in outcomes],
    }


def _table(options: dict[str, Any], document: dict[str, Any]) -> str:
    lines = [
        f"{document['jobs']} jobs of {document['programs']} programs on "
        f"{options['switches']} x {options['each']} nodes, "
        f"seed {options['seed']}, {document['wall_seconds']:.0f} s. All times are simulated.",
        "",
        f"{'':28} {'Slurm':>10} {'placed':>10} {'change':>9}  {'95 % interval':>18}  {'published':>9}",
    ]
    for name, (label, unit) in UNITS.items():
        lines.append(_figure_line(label, unit, document["figures"][name], document["published"].get(name)))
    decisions = document["decisions"]
    lines += [
        "",
        f"placed {decisions['placed']} (quicker {document['gained']}, slower {document['lost']}, the worst "
        f"{document['worst_ratio'] - 1:+.1%} of its communication), left alone {decisions['left alone']}, "
        f"traced {decisions['traced']}",
        "",
        f"{'kind of program':28} {'jobs':>6} {'communication':>14}",
    ]
    for kind, values in document["by_kind"].items():
        ratio = values["communication"]
        lines.append(f"{kind:28} {values['jobs']:6} {'-' if ratio is None else f'{ratio - 1:+.1%}':>14}")
    lines += ["", "run time on the same allocations, if"]
    lines += [f"  {name:40} {values['run_change']:+7.1%}" for name, values in document["sensitivity"].items()]
    lines += [
        f"  communication took {float(share):4.0%} of every program {change:+13.1%}"
        for share, change in document["run_change_by_share"].items()
    ]
    return "\n".join(lines) + "\n"


def _figure_line(label: str, unit: str, figure: dict[str, float], published: list[float] | None) -> str:
    scale = 100.0 if unit == "%" else 1.0
    interval = f"{figure['low']:+.1%} .. {figure['high']:+.1%}"
    said = f"{published[1] / published[0] - 1:+.1%}" if published else ""
    return (
        f"{label + ', ' + unit:28} {figure['before'] * scale:10.2f} {figure['after'] * scale:10.2f} "
        f"{figure['change']:+9.1%}  {interval:>18}  {said:>9}"
    )
