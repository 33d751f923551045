"""The cluster description in the spool, from what slurmctld says of its nodes and switches."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from slurm_topo.config import Settings
from slurm_topo.errors import InputError, MachineError
from slurm_topo.machine import Cluster, NodeShape, build_cluster, read_cluster, write_cluster
from slurm_topo.machine.cluster import with_known_links
from slurm_topo.machine.clusterfile import cluster_json
from slurm_topo.slurm.command import Runner
from slurm_topo.slurm.scontrol import (
    read_cluster_name,
    read_gres_conf,
    read_nodes,
    read_switches,
    with_gres_conf,
)


def update_cluster(settings: Settings, run: Runner) -> Cluster:
    """The description that launches are placed on, written anew where nodes or switches have changed.

    Costs of levels, shapes of nodes from hwloc and links of GPUs that stand in it are kept. A description
    that the site names itself (setting ``cluster``) is only read.

    Raises
    ------
    SlurmTopoError
        slurmctld does not answer, or the description cannot be read or written.
    """
    path = settings.cluster_file
    if settings.cluster:
        return read_cluster(path)
    known = _known(path)
    if not path.parent.exists():
        path.parent.mkdir(parents=True)
        path.parent.chmod(0o1777)
    nodes, switches = read_nodes(run), read_switches(run)
    if not nodes:
        raise MachineError("slurmctld names no node with sockets and cores; check NodeName in slurm.conf")
    if any(node.gpus for node in nodes):
        # What cannot be read there is no reason to place nothing.
        with suppress(InputError):
            nodes = with_gres_conf(nodes, read_gres_conf(run))
    levels = known.levels if known else ()
    made = build_cluster(_with_known(nodes, known, path), switches, levels, read_cluster_name(run))
    made = with_known_links(made, known) if known else made
    if known is None or cluster_json(made) != cluster_json(known):
        write_cluster(made, path)
    return read_cluster(path)


def _known(path: Path) -> Cluster | None:
    """The description, where it is ours; a folder that somebody has put in its place is moved aside."""
    if _is_ours(path):
        return read_cluster(path)
    if path.is_dir() and not path.is_symlink():
        aside = next(
            p for n in range(1 << 20) if not os.path.lexists(p := path.with_name(f"{path.name}.{n}"))
        )
        path.rename(aside)
    return None


def _is_ours(path: Path) -> bool:
    """Whether root or this user wrote it: anybody may make files in the spool."""
    try:
        about = path.lstat()
    except OSError:
        return False
    return stat.S_ISREG(about.st_mode) and about.st_uid in (0, os.geteuid())


def _with_known(nodes: Sequence[NodeShape], known: Cluster | None, path: Path) -> list[NodeShape]:
    """Nodes with the hwloc file that the present description has for them."""
    if known is None:
        return list(nodes)
    found = []
    for node in nodes:
        entry = known.classes.get(known.nodes.get(node.name, ""))
        xml = path.parent / entry.hwloc if entry and entry.hwloc else None
        if xml is not None and xml.exists():
            node = replace(node, hwloc=str(xml))
        found.append(node)
    return found
