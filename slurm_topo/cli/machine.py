"""``slurm-topo machine``: show, import and capture machines."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import click

from slurm_topo.cli.emit import emit
from slurm_topo.errors import InputError, MachineError


@click.group()
def machine() -> None:
    """Show, import and capture machines."""


@machine.command()
@click.argument("source", required=False, metavar="[XML | CLUSTER]")
@click.option(
    "--synthetic", metavar="S", help="A hwloc synthetic string, for example 'package:2 core:8 pu:2'."
)
@click.option(
    "--links", metavar="FILE", help="Output of nvidia-smi topo -m or rocm-smi --showtopo of that node."
)
@click.option("--affinity", is_flag=True, help="Table: add the paths between all devices and NUMA nodes.")
@click.option(
    "--workers", type=int, metavar="N", help="Add where N equal workers would go: memory spread, GPUs near."
)
@click.option("--format", "output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def show(source: str | None, output: str, **options: Any) -> None:
    """Show this machine, a hwloc XML file, or a cluster description."""
    if source and options["synthetic"]:
        raise InputError(f"{source} and --synthetic: two machines at once; give one of them")
    if source and _is_cluster(source):
        _show_cluster(source, output)
        return
    _show_node(_topology(source, options["synthetic"]), output, **options)


def _show_node(
    topology: Any, output: str, links: str | None, affinity: bool, workers: int | None, synthetic: str | None
) -> None:
    from slurm_topo.machine.describe import describe
    from slurm_topo.machine.table import node_table, workers_table
    from slurm_topo.machine.workers import spread_workers

    matrix = _links(links) if links else None
    places = spread_workers(topology, workers) if workers is not None else ()
    if output == "json":
        document = describe(topology, matrix)
        if places:
            document["workers"] = [asdict(worker) for worker in places]
        click.echo(json.dumps(document, indent=1))
        return
    click.echo(node_table(topology))
    if affinity or matrix:
        from slurm_topo.machine.affinity import find_affinity
        from slurm_topo.machine.encoding import affinity_table

        click.echo("\nPaths (kind:GB/s, one direction)\n" + affinity_table(find_affinity(topology, matrix)))
    if places:
        click.echo("\n" + workers_table(places))


@machine.command("import")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("-o", "--output", default="", metavar="OUT", help="Write JSON there instead of printing.")
@click.option(
    "--hwloc", default="", metavar="XML", help="Hardware of the nodes (or of the node with the GPUs)."
)
@click.option(
    "--synthetic", default="", metavar="S", help="Hardware of the nodes as a hwloc synthetic string."
)
@click.option("--topology", default="", metavar="NAME", help="Which topology of a topology.yaml.")
@click.option("--name", default="", metavar="CLUSTER", help="Slurm's name of the cluster.")
@click.option("--format", "form", type=click.Choice(["table", "json"]), default="table", show_default=True)
def import_(**options: Any) -> None:
    """Make a cluster description, or the encoding of a node, from the output of other tools.

    Known are: scontrol show node, topology.conf, topology.yaml, scontrol show topology, ibnetdiscover,
    hwloc XML (named after its node), nvidia-smi topo -m | topo -p2p | nvlink -s | -L, rocm-smi --showtopo.
    A file named - is standard input.
    """
    from slurm_topo.cli.machine_import import ImportOptions, run_import

    run_import(ImportOptions(**options))


@machine.command()
@click.option("-o", "--output", default="", metavar="OUT", help="Write there instead of to standard output.")
@click.option(
    "--compare",
    default="",
    metavar="XML|CLUSTER",
    help="Say what changed since then; exit with 1 if anything.",
)
@click.option(
    "--node", default="", metavar="NAME", help="Name of this node in CLUSTER [default: its host name]."
)
@click.pass_context
def capture(ctx: click.Context, output: str, compare: str, node: str) -> None:
    """Write this machine as hwloc XML, devices included; beside it what the GPU driver says of its links."""
    from slurm_topo.cli.machine_capture import capture_machine, compare_machine

    if compare:
        ctx.exit(compare_machine(compare, node))
    capture_machine(output)


@machine.command()
@click.argument("source", required=False, metavar="[XML | CLUSTER]")
@click.option("--synthetic", metavar="S", help="A hwloc synthetic string.")
@click.option(
    "--links", metavar="FILE", help="Output of nvidia-smi topo -m or rocm-smi --showtopo of that node."
)
@click.option(
    "-o", "--output", default="", metavar="OUT.svg", help="Write there instead of to standard output."
)
def draw(source: str | None, synthetic: str | None, links: str | None, output: str) -> None:
    """Draw this machine, a hwloc XML file, or a cluster description as SVG."""
    from slurm_topo.machine.draw import draw_cluster, draw_node

    if source and synthetic:
        raise InputError(f"{source} and --synthetic: two machines at once; give one of them")
    if source and _is_cluster(source):
        from slurm_topo.machine import read_cluster

        text = draw_cluster(read_cluster(source))
    else:
        text = draw_node(_topology(source, synthetic), _links(links) if links else None)
    emit(text, output)


@machine.command()
@click.argument("source", default="", metavar="[CLUSTER | XML]")
@click.option("--nodes", default="", metavar="HOSTLIST", help="Of a cluster: measure on these nodes.")
@click.option("--pairs", default=4, show_default=True, help="Pairs of a level that play at the same time.")
@click.option(
    "--launch",
    default="",
    metavar="COMMAND",
    help="Starts the ranks, instead of srun or mpirun: may hold {ranks} {nodes} {per_node} {hosts}.",
)
@click.option("--compiler", default="mpicc", show_default=True, help="Compiles the measuring program.")
@click.option(
    "--work", default="", metavar="DIR", help="Folder that all nodes see [default: the present one]."
)
@click.option("--timeout", default=600.0, show_default=True, help="Seconds that the measurement may take.")
@click.option(
    "-o", "--output", default="", metavar="OUT", help="Write the cluster description with the costs there."
)
@click.option("--format", "form", type=click.Choice(["table", "json"]), default="table", show_default=True)
def calibrate(**options: Any) -> None:
    """Measure latency and bandwidth of every level with MPI ping-pong between bound ranks."""
    from slurm_topo.cli.machine_calibrate import CalibrateOptions, run_calibrate

    run_calibrate(CalibrateOptions(**options))


def _is_cluster(source: str) -> bool:
    from slurm_topo.machine.read import kind_of

    return kind_of(source) == "cluster"


def _links(path: str) -> Any:
    from slurm_topo.machine.gpulinks import is_rocm_topo, parse_rocm_topo, parse_topo_matrix
    from slurm_topo.machine.importing import read_text

    text = read_text(path)
    return parse_rocm_topo(text) if is_rocm_topo(text) else parse_topo_matrix(text)


def _topology(source: str | None, synthetic: str | None) -> Any:
    from slurm_topo.hwloc import reader

    if synthetic is not None:
        return reader.load_synthetic(synthetic)
    if not source:
        return reader.load_this_machine()
    try:
        return reader.load_xml(source)
    except MachineError:
        _hint(source)
        raise


def _hint(source: str) -> None:
    """Say it better where a file is the output of another tool and no hwloc XML at all."""
    from slurm_topo.machine.importing import kind_of_text, read_text

    try:
        kind = kind_of_text(read_text(source))
    except MachineError:
        return
    if kind not in ("hwloc", "cluster"):
        raise MachineError(f"{source}: is output of {kind}; use `slurm-topo machine import {source}`")


def _show_cluster(source: str, output: str) -> None:
    from slurm_topo.machine import read_cluster
    from slurm_topo.machine.clustershow import cluster_summary, cluster_table

    cluster = read_cluster(source)
    click.echo(json.dumps(cluster_summary(cluster), indent=1) if output == "json" else cluster_table(cluster))
