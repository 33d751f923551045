"""``slurm-topo trace``: trace a launch, show, draw and export communication graphs."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from slurm_topo.errors import GraphError, InputError, LaunchError
from slurm_topo.output import check_output

if TYPE_CHECKING:
    from slurm_topo.model import CommGraph
    from slurm_topo.trace.structure import Structure

FORMAT = "slurm-topo-communication"
VERSION = 1
SHOWN_PAIRS = 20
# Below that, phases look alike: the ends of a program always differ a little.
CHANGING = 0.2
MOST_PAIRS_TO_RECOGNISE = 500_000


@dataclass(frozen=True)
class ShowOptions:
    """What the user asked for."""

    files: tuple[str, ...]
    format: str
    plots: tuple[str, ...]
    exports: tuple[str, ...]
    pairs: int


@click.group("trace")
def trace() -> None:
    """Trace a launch, show and export communication graphs."""


@trace.command("run", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option(
    "-o",
    "--output",
    required=True,
    metavar="FILE",
    help="Trace to write; with the suffix .npz or .mtx the graph is written instead.",
)
@click.option(
    "--measured",
    is_flag=True,
    help="Let Open MPI's monitoring tell the messages of collectives, instead of modelling them.",
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.pass_context
def run(ctx: click.Context, output: str, measured: bool, command: tuple[str, ...]) -> None:
    """Run COMMAND (such as: mpirun -n 8 ./app) and write who sent how much to whom.

    The exit code is COMMAND's. Where COMMAND succeeded and no rank was traced, it is 11.
    """
    from slurm_topo.config import load_settings
    from slurm_topo.trace import run_traced

    settings = load_settings((ctx.obj or {}).get("config_file"))
    target = Path(output)
    check_output(target)
    written = target if _kind(target) == "trace" else target.with_name(f".{target.name}.trace")
    try:
        launch = run_traced(command, written, settings, measure=measured)
        _tell(launch.ranks, launch.reason, output)
        if launch.ranks and written != target:
            _export(_load([str(written)]), target)
    finally:
        if written != target:
            written.unlink(missing_ok=True)
    if not launch.ranks and not launch.exit_code:
        ctx.exit(LaunchError.exit_code)
    ctx.exit(launch.exit_code)


def _tell(ranks: int, reason: str, output: str) -> None:
    if not ranks:
        why = reason or "no MPI program, a static one, or one of an unknown MPI library was started here"
        click.echo(f"slurm-topo: {output}: not written, no rank was traced ({why})", err=True)
    elif reason:
        click.echo(f"slurm-topo: {output}: some counters are missing ({reason})", err=True)


@trace.command("show")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--format", "format_", type=click.Choice(["table", "json"]), default="table", show_default=True)
@click.option(
    "--plot",
    "plots",
    multiple=True,
    metavar="PICTURE",
    help="Draw the matrix to a .png, .svg or .pdf file; may be given again.",
)
@click.option(
    "--export",
    "exports",
    multiple=True,
    metavar="GRAPH",
    help="Write the bytes to .npz (SciPy sparse matrix) or .mtx (Matrix Market); may be given again.",
)
@click.option(
    "--pairs",
    type=click.IntRange(min=0),
    default=SHOWN_PAIRS,
    show_default=True,
    help="Heaviest pairs in the table.",
)
def show(
    files: tuple[str, ...], format_: str, plots: tuple[str, ...], exports: tuple[str, ...], pairs: int
) -> None:
    """Show FILE: a trace (or those of all nodes of a step), or any graph that 'place' takes."""
    run_show(ShowOptions(files, format_, plots, exports, pairs))


@trace.command("import")
@click.option("-o", "--output", required=True, metavar="GRAPH", help="Graph to write: .npz or .mtx.")
@click.argument("file", metavar="FILE")
def import_(file: str, output: str) -> None:
    """Read the trace of another tool and write its graph.

    FILE: a .prof file of Open MPI's monitoring (the other ranks' are found beside it) or their folder; an IPM
    report written with IPM_LOG=full; an OTF2 archive (traces.otf2 or its folder); a time-independent trace of
    SimGrid; Matrix Market, SciPy .npz, or a trace of our own.
    """
    from slurm_topo.trace.foreign import read_foreign

    target = Path(output)
    _graph_suffix(target)
    graph = read_foreign(file)
    _export(graph, target)
    click.echo(f"{target}: {graph.ranks} ranks, {graph.source.size} pairs", err=True)
    for line in _reservations(graph):
        click.echo(f"slurm-topo: {file}: {line}", err=True)


def _reservations(graph: CommGraph) -> Iterator[str]:
    """What a foreign trace could not tell."""
    from slurm_topo.units import format_size

    calls = sum((graph.meta.get("collective_calls") or {}).values())
    if calls and not graph.modelled.any():
        size = format_size(graph.meta["collective_bytes"])
        yield f"{calls} calls of collectives ({size}) are not in the graph: who sent to whom is not told"
    if not graph.meta.get("partners_of_world", True):
        yield (
            "IPM 2 notes the partner's rank in the communicator of the call, and not which one that is: what "
            "went through others than MPI_COMM_WORLD is between the wrong ranks; trace such a program"
        )
    if graph.meta.get("foreign_messages"):
        yield f"{graph.meta['foreign_messages']} messages went to no rank of this world and were left out"


@trace.command("scale")
@click.option("-n", "--ranks", required=True, type=click.IntRange(min=2), help="Number of ranks wanted.")
@click.option("-o", "--output", required=True, metavar="GRAPH", help="Graph to write: .npz or .mtx.")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
def scale(files: tuple[str, ...], ranks: int, output: str) -> None:
    """Predict the graph of FILE at another number of ranks, where its structure is regular.

    Several FILEs of the same program at different numbers of ranks tell how sizes change with that number.
    Says how sure the prediction is (0..1). Where no regular structure is found, nothing is written.
    """
    from slurm_topo.trace.growth import fit_growth
    from slurm_topo.trace.structure import recognise
    from slurm_topo.trace.structure import scale as scale_structure

    target = Path(output)
    _graph_suffix(target)
    found = []
    for file in files:
        given = _load([file])
        structure = recognise(given)
        if structure is None:
            raise GraphError(f"{file}: has no regular structure; trace the program at {ranks} ranks")
        found.append((given.ranks, structure))
    # The nearest one is what the prediction begins with.
    found.sort(key=lambda item: -abs(math.log(item[0] / ranks)))
    growth = fit_growth(found)
    if growth is None:
        raise GraphError(
            f"{files[0]}: its structure is another one than of the others; trace it at {ranks} ranks"
        )
    graph, confidence = scale_structure(found[-1][1], ranks, growth)
    _export(graph, target)
    click.echo(f"{target}: from a {found[-1][1].describe()}; this prediction: {confidence:.2f}", err=True)
    click.echo(f"{target}: sizes {_sizes(graph.meta['sizes'])}", err=True)


def _sizes(sizes: Mapping[str, Any]) -> str:
    """What is known of the sizes, in words."""
    span = f"all of them x {sizes['least']:.2f} .. {sizes['most']:.2f}"
    if sizes["law"] == "assumed":
        return f"as they were: one number of ranks does not tell; if the problem keeps its size, {span}"
    words = {
        "constant": "stay",
        "surface": "shrink as the faces of a fixed problem",
        "power": "follow a power",
    }
    return f"{words[sizes['law']]}, by graphs of {', '.join(map(str, sizes['counts']))} ranks; {span}"


def run_show(options: ShowOptions) -> None:
    """Read, draw, export, print."""
    for export in options.exports:
        _graph_suffix(Path(export), "exported")
    graph = _load(options.files)
    for plot in options.plots:
        from slurm_topo.trace.plot import plot_graph

        plot_graph(graph, plot)
    for export in options.exports:
        _export_matrix(graph, Path(export))
    if options.format == "json":
        click.echo(json.dumps(_as_json(graph), indent=1))
    else:
        click.echo("\n".join(_as_table(graph, options.pairs)))


def _load(files: Sequence[str]) -> CommGraph:
    from slurm_topo.trace import is_trace, read_graph, read_traces

    if all(is_trace(file) for file in files):
        return read_traces(files)
    if len(files) > 1:
        raise GraphError(f"{files[0]}: only traces of one step can be shown together; give one graph")
    return read_graph(files[0])


def _kind(path: Path) -> str:
    return {".npz": "npz", ".mtx": "mtx"}.get(path.suffix.lower(), "trace")


def _graph_suffix(path: Path, done: str = "written") -> None:
    """Said before anything is read or written."""
    if _kind(path) == "trace":
        raise InputError(f"{path}: graphs are {done} as .npz or .mtx; choose one of these suffixes")


def _export(graph: CommGraph, path: Path) -> None:
    """The graph with all it holds, or as Matrix Market."""
    from slurm_topo.trace import export_mtx, write_graph

    (export_mtx if _kind(path) == "mtx" else write_graph)(graph, path)


def _export_matrix(graph: CommGraph, path: Path) -> None:
    from slurm_topo.trace import export_mtx, export_scipy

    (export_mtx if _kind(path) == "mtx" else export_scipy)(graph, path)


def _as_json(graph: CommGraph) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "version": VERSION,
        "ranks": graph.ranks,
        "bytes": float(graph.nbytes.sum()),
        "messages": float(graph.messages.sum()),
        "modelled_bytes": float(graph.modelled.sum()),
        "structure": _structure(graph),
        "meta": dict(graph.meta),
        "pairs": {
            "source": graph.source.tolist(),
            "target": graph.target.tolist(),
            "bytes": graph.nbytes.tolist(),
            "messages": graph.messages.tolist(),
            "modelled": graph.modelled.tolist(),
        },
    }


def _recognised(graph: CommGraph) -> Structure | None:
    from slurm_topo.trace.structure import recognise

    return recognise(graph) if graph.source.size <= MOST_PAIRS_TO_RECOGNISE else None


def _structure(graph: CommGraph) -> dict[str, Any] | None:
    found = _recognised(graph)
    if found is None:
        return None
    return {
        "kind": found.kind,
        "dims": list(found.dims),
        "periodic": list(found.periodic),
        "directions": [{"offset": list(d.offset), "bytes": d.nbytes} for d in found.directions],
        "confidence": found.confidence,
    }


def _as_table(graph: CommGraph, pairs: int) -> Iterator[str]:
    from slurm_topo.units import format_size

    total, messages = float(graph.nbytes.sum()), float(graph.messages.sum())
    yield from _origin(graph)
    yield f"ranks        {graph.ranks}"
    structure = _recognised(graph)
    if structure:
        yield f"structure    {structure.describe()}"
    yield f"pairs        {graph.source.size}"
    yield f"bytes        {format_size(total)}" + _share(float(graph.modelled.sum()), total)
    if messages:
        yield f"messages     {messages:.0f}, mean {format_size(total / messages)}"
    yield from _heaviest(graph, pairs)


def _share(modelled: float, total: float) -> str:
    return f" ({modelled / total:.0%} of it modelled: collectives)" if modelled and total else ""


def _origin(graph: CommGraph) -> Iterator[str]:
    from slurm_topo.units import fold_ints

    meta = graph.meta
    if meta.get("program"):
        yield f"program      {meta['program']}" + (f" ({meta['library']})" if meta.get("library") else "")
    if meta.get("origin") == "scaled":
        yield f"predicted    from {meta['scaled_from']} ranks, confidence {meta['confidence']:.2f}"
    if meta.get("seconds"):
        ended = "" if meta.get("finalized", True) else ", ended before MPI_Finalize"
        yield f"time         {meta['seconds']:.3f} s{ended}"
    if meta.get("bound_by"):
        least, mean, most = meta["wait_share"]
        yield f"waiting      {mean:.0%} of the time ({least:.0%} .. {most:.0%}): bound by {meta['bound_by']}"
    if meta.get("phase_change", 0) > CHANGING:
        yield f"phases       {meta['phase_change']:.0%} of the traffic goes elsewhere from phase to phase"
    for host, ranks in dict(meta.get("hosts") or {}).items():
        yield f"host         {host}: ranks {ranks}"
    missing = meta.get("missing_ranks")
    if missing:
        reason = f" ({meta['missing_reason']})" if meta.get("missing_reason") else ""
        yield f"missing      ranks {fold_ints(missing)} left no counters{reason}"
    if meta.get("other_worlds"):
        yield f"left out     {meta['other_worlds']} other MPI_COMM_WORLD"


def _heaviest(graph: CommGraph, pairs: int) -> Iterator[str]:
    from slurm_topo.units import format_size

    order = (-graph.nbytes).argsort(kind="stable")[:pairs]
    if not order.size:
        return
    yield ""
    yield f"{'from':>8} {'to':>8} {'bytes':>12} {'messages':>12} {'modelled':>9}"
    for i in order:
        part = graph.modelled[i] / graph.nbytes[i] if graph.nbytes[i] else 0.0
        yield (
            f"{graph.source[i]:>8} {graph.target[i]:>8} {format_size(graph.nbytes[i]):>12} "
            f"{graph.messages[i]:>12.0f} {part:>9.0%}"
        )
    if graph.source.size > order.size:
        yield f"{'...':>8} {graph.source.size - order.size} more pairs"
