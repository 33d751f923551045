"""``slurm-topo machine import``: texts of other tools into a cluster description or an encoded node."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import click

from slurm_topo.errors import InputError, MachineError
from slurm_topo.machine import Cluster, NodeShape, build_cluster, write_cluster
from slurm_topo.machine.cluster import synthetic_entry
from slurm_topo.machine.fabrics import FabricText
from slurm_topo.machine.gpulinks import (
    LinkMatrix,
    ListedGpu,
    NvLinks,
    PeerMatrix,
    parse_gpu_list,
    parse_nvlink_status,
    parse_peer_matrix,
    parse_rocm_topo,
    parse_topo_matrix,
)
from slurm_topo.machine.importing import kind_of_text, one_line_a_node, parse_fabric, read_text
from slurm_topo.output import write_output


@dataclass(frozen=True)
class ImportOptions:
    """What the command line asks for."""

    files: tuple[str, ...]
    output: str
    hwloc: str
    synthetic: str
    topology: str
    name: str
    form: str


@dataclass
class _Found:
    """What the files hold, by kind."""

    nodes: list[NodeShape] = field(default_factory=list)
    fabrics: list[FabricText] = field(default_factory=list)
    xml: dict[str, str] = field(default_factory=dict)
    gres: str = ""
    matrix: LinkMatrix | None = None
    nvlinks: tuple[NvLinks, ...] = ()
    gpus: tuple[ListedGpu, ...] = ()
    peers: PeerMatrix | None = None


def run_import(options: ImportOptions) -> None:
    """Read the files, put them together, write or print the result; notes go to stderr."""
    found = _Found()
    for file in options.files:
        _read(file, options, found)
    if found.nodes or found.fabrics:
        _cluster(options, found)
    elif found.matrix or found.nvlinks or found.gpus or found.peers:
        _links(options, found)
    else:
        raise InputError(
            f"{options.files[0]}: hardware alone; show it with `slurm-topo machine show`, or add "
            "the output of "
            "scontrol show node"
        )


def _read(file: str, options: ImportOptions, found: _Found) -> None:
    text = read_text(file)
    try:
        kind = kind_of_text(text)
        if kind == "hwloc":
            found.xml[Path(file).stem] = file
        elif kind == "cluster":
            raise MachineError("is a cluster description already; show it with `slurm-topo machine show`")
        elif kind == "nodes":
            from slurm_topo.slurm.scontrol import parse_nodes

            found.nodes += parse_nodes(one_line_a_node(text))
        elif kind == "gres.conf":
            found.gres += text + "\n"
        elif kind in ("topology.yaml", "topology.conf", "ibnetdiscover"):
            found.fabrics.append(parse_fabric(kind, text, options.topology))
        elif kind == "nvlink":
            found.nvlinks = parse_nvlink_status(text)
        elif kind == "gpu-list":
            found.gpus = parse_gpu_list(text)
        elif kind == "p2p":
            found.peers = parse_peer_matrix(text)
        else:
            found.matrix = parse_rocm_topo(text) if kind == "rocm-smi" else parse_topo_matrix(text)
    except MachineError as error:
        raise MachineError(f"{file}: {error}") from error


def _cluster(options: ImportOptions, found: _Found) -> None:
    if len(found.fabrics) > 1:
        raise InputError(f"{len(found.fabrics)} fabrics at once: keep the one that Slurm uses")
    fabric = found.fabrics[0] if found.fabrics else None
    nodes = _nodes(options, found, fabric)
    if found.gres:
        from slurm_topo.slurm.scontrol import with_gres_conf

        nodes = with_gres_conf(nodes, found.gres)
    cluster = build_cluster(nodes, fabric.switches if fabric else (), name=options.name)
    if options.synthetic:
        cluster = _with_synthetic(cluster, options.synthetic)
    cluster = _with_links(cluster, _named(found))
    _notes(fabric.notes if fabric else ())
    if fabric:
        strangers = [n for n in fabric.nodes if n not in cluster.nodes]
        _notes(
            (f"{len(strangers)} nodes below switches are no nodes of Slurm, such as {strangers[0]}",)
            if strangers
            else ()
        )
    if options.output:
        write_cluster(cluster, options.output)
        click.echo(
            f"{options.output}: {len(cluster.nodes)} nodes in {len(cluster.classes)} classes", err=True
        )
        return
    from slurm_topo.machine.clusterfile import cluster_json
    from slurm_topo.machine.clustershow import cluster_table

    click.echo(cluster_json(cluster).rstrip() if options.form == "json" else cluster_table(cluster))


def _nodes(options: ImportOptions, found: _Found, fabric: FabricText | None) -> list[NodeShape]:
    """Slurm's nodes, else those below the switches; each with its hwloc XML where there is one."""
    known = bool(found.nodes or options.hwloc or options.synthetic or found.xml)
    if not known:
        raise InputError(
            f"{options.files[0]}: switches and node names, but no hardware; add the output of "
            "scontrol show node, "
            "or --hwloc XML, or --synthetic S"
        )
    nodes = found.nodes or [NodeShape(name) for name in (fabric.nodes if fabric else ())]
    base = Path(options.output).parent if options.output else None
    given = {name: _relative(path, base) for name, path in found.xml.items()}
    default = _relative(options.hwloc, base) if options.hwloc else ""
    if len(found.xml) == 1 and not default and not set(found.xml) & {n.name for n in nodes}:
        # One file that is named after no node: all nodes are like it.
        default = next(iter(given.values()))
    unused = sorted(set(found.xml) - {n.name for n in nodes})
    if unused and not default:
        raise InputError(
            f"{found.xml[unused[0]]}: there is no node {unused[0]}; name each XML file after its node"
        )
    return [replace(node, hwloc=given.get(node.name, default)) for node in nodes]


def _relative(path: str, base: Path | None) -> str:
    """Absolute: a description is read from other folders than the present one."""
    return str(Path(path).resolve()) if base is not None else path


def _with_synthetic(cluster: Cluster, synthetic: str) -> Cluster:
    entry = synthetic_entry(synthetic)
    classes = {name: (old if old.hwloc else entry) for name, old in cluster.classes.items()}
    return replace(cluster, classes=classes)


def _with_links(cluster: Cluster, matrix: LinkMatrix | None) -> Cluster:
    """The links that the driver shows, for all classes with that number of GPUs."""
    if matrix is None:
        return cluster
    from slurm_topo.machine.gpus import gpus_of_matrix, with_links

    count = gpus_of_matrix(matrix).count
    fits = [name for name, entry in cluster.classes.items() if entry.gpus and entry.gpus.count == count]
    if not fits:
        _notes((f"{matrix.tool}: shows {count} GPUs, no class of nodes has that many",))
    classes = {
        name: replace(entry, gpus=with_links(entry.gpus, matrix)) for name, entry in cluster.classes.items()
    }
    return replace(cluster, classes=classes)


def _links(options: ImportOptions, found: _Found) -> None:
    document = _links_json(options, found)
    if options.output:
        write_output(options.output, (json.dumps(document, indent=1) + "\n").encode())
        click.echo(f"{options.output}: {document.get('gpus', 0)} GPUs", err=True)
    elif options.form == "json":
        click.echo(json.dumps(document, indent=1))
    else:
        click.echo(_links_table(options, found))
    _notes(document.get("notes", ()))


def _links_json(options: ImportOptions, found: _Found) -> dict[str, Any]:
    from slurm_topo.machine.encoding import encode_matrix
    from slurm_topo.machine.gpulinks.paths import paths_of

    document: dict[str, Any] = {"format": "slurm-topo-links", "version": 1}
    matrix = _named(found)
    if matrix and (options.hwloc or found.xml):
        from slurm_topo.hwloc import reader
        from slurm_topo.machine.describe import describe

        document = describe(reader.load_xml(options.hwloc or next(iter(found.xml.values()))), matrix)
    elif matrix:
        document = encode_matrix(matrix)
        document["switched"] = any(p.kind == "nvswitch" for row in paths_of(matrix) for p in row)
    if found.nvlinks:
        document["nvlinks"] = [
            {
                "gpu": g.index,
                "model": g.model,
                "links": [speed for _, speed in g.links],
                "gb_per_s": round(g.total_gbs, 3),
            }
            for g in found.nvlinks
        ]
    if found.gpus:
        document["listed_gpus"] = [
            {"gpu": g.index, "model": g.model, "mig": [profile for profile, _ in g.mig]} for g in found.gpus
        ]
    if found.peers:
        document["peer_access"] = {
            "labels": list(found.peers.labels),
            "status": [list(r) for r in found.peers.status],
        }
    document.setdefault(
        "gpus", len(found.nvlinks or found.gpus or (found.peers.labels if found.peers else ()))
    )
    return document


def _named(found: _Found) -> LinkMatrix | None:
    """The matrix with the models that the other outputs tell."""
    if found.matrix is None:
        return None
    models = {g.index: g.model for g in found.gpus} | {g.index: g.model for g in found.nvlinks}
    devices = tuple(
        replace(d, name=models.get(int(d.label[3:]), d.name)) if d.kind == "gpu" else d
        for d in found.matrix.devices
    )
    return replace(found.matrix, devices=devices)


def _links_table(options: ImportOptions, found: _Found) -> str:
    from slurm_topo.machine.affinity import find_affinity, from_matrix
    from slurm_topo.machine.encoding import affinity_table

    lines: list[str] = []
    matrix = _named(found)
    if matrix:
        xml = options.hwloc or next(iter(found.xml.values()), "")
        if xml:
            from slurm_topo.hwloc import reader

            lines.append(affinity_table(find_affinity(reader.load_xml(xml), matrix)))
        else:
            lines.append(affinity_table(from_matrix(matrix)))
    for gpu in found.nvlinks:
        lines.append(f"GPU {gpu.index}  {gpu.model}  {len(gpu.links)} links  {gpu.total_gbs:.1f} GB/s")
    for one in found.gpus:
        lines.append(f"GPU {one.index}  {one.model}  {' '.join(p for p, _ in one.mig)}".rstrip())
    if found.peers:
        lines.append("  ".join(["peers", *found.peers.labels]))
        lines += ["  ".join([a, *row]) for a, row in zip(found.peers.labels, found.peers.status, strict=True)]
    return "\n".join(lines)


def _notes(notes: Sequence[str]) -> None:
    for note in notes:
        click.echo(f"slurm-topo: note: {note}", err=True)
