"""``slurm-topo machine``: show, import and capture machines."""

from __future__ import annotations

import json
from typing import Any

import click

from slurm_topo.errors import InputError


@click.group()
def machine() -> None:
    """Show, import and capture machines."""


@machine.command()
@click.argument("source", required=False, metavar="[XML | CLUSTER]")
@click.option(
    "--synthetic", metavar="S", help="A hwloc synthetic string, for example 'package:2 core:8 pu:2'."
)
@click.option("--format", "output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def show(source: str | None, synthetic: str | None, output: str) -> None:
    """Show this machine, a hwloc XML file, or a cluster description."""
    if source and synthetic:
        raise InputError(f"{source} and --synthetic: two machines at once; give one of them")
    if source and _is_cluster(source):
        _show_cluster(source, output)
        return
    from slurm_topo.machine.describe import describe
    from slurm_topo.machine.table import node_table

    topology = _topology(source, synthetic)
    click.echo(json.dumps(describe(topology), indent=1) if output == "json" else node_table(topology))


def _is_cluster(source: str) -> bool:
    from slurm_topo.machine.read import kind_of

    return kind_of(source) == "cluster"


def _topology(source: str | None, synthetic: str | None) -> Any:
    from slurm_topo.hwloc import reader

    if synthetic is not None:
        return reader.load_synthetic(synthetic)
    return reader.load_xml(source) if source else reader.load_this_machine()


def _show_cluster(source: str, output: str) -> None:
    from slurm_topo.machine import read_cluster
    from slurm_topo.machine.clustershow import cluster_summary, cluster_table

    cluster = read_cluster(source)
    click.echo(json.dumps(cluster_summary(cluster), indent=1) if output == "json" else cluster_table(cluster))
