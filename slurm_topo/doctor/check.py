"""All checks together."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from slurm_topo.config import Settings
from slurm_topo.doctor.conf import NodeLine, PluginLine, read_plugstack, read_slurm_conf
from slurm_topo.doctor.finding import Finding
from slurm_topo.doctor.hardware import Hardware, known_hardware
from slurm_topo.doctor.node_checks import check_gres, check_nodes
from slurm_topo.doctor.site_checks import check_plugin, check_site, probe
from slurm_topo.doctor.slurm_checks import check_cgroup, check_hook, check_slurm, check_topology
from slurm_topo.errors import InputError, SlurmTopoError
from slurm_topo.machine import Cluster, read_cluster
from slurm_topo.slurm.command import Runner, run_command

DEFAULT_CONF = "/etc/slurm/slurm.conf"


@dataclass(frozen=True)
class Checkup:
    """What was found, and what it is based on.

    Attributes
    ----------
    findings : tuple of Finding
        Errors first.
    slurm_conf : str
        The file that was read.
    nodes : int
        Nodes in it.
    seen : tuple of str
        Nodes whose hardware hwloc has told.
    """

    findings: tuple[Finding, ...]
    slurm_conf: str
    nodes: int
    seen: tuple[str, ...]


def check(
    settings: Settings,
    slurm_conf: str | None = None,
    hardware: str | None = None,
    config_file: str | None = None,
    ask_nodes: bool = False,
    run: Runner | None = run_command,
) -> Checkup:
    """Check a site.

    Parameters
    ----------
    settings : Settings
        slurm_topo's.
    slurm_conf : str, optional
        ``SLURM_CONF`` of the environment, or /etc/slurm/slurm.conf, by default.
    hardware : str, optional
        Folder with ``NODE.xml`` files.
    config_file : str, optional
        Where the settings stand.
    ask_nodes : bool
        Run a job that asks all nodes what they see.
    run : callable or None
        Starts Slurm's commands; None starts none.

    Raises
    ------
    InputError
        slurm.conf or the folder of hardware cannot be read.
    """
    path = Path(slurm_conf or os.environ.get("SLURM_CONF") or DEFAULT_CONF)
    try:
        conf = read_slurm_conf(path)
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read ({error.strerror}); name Slurm's file with --slurm-conf"
        ) from error
    seen = known_hardware([node.name for node in conf.nodes], hardware)
    cluster, broken = _cluster(settings)
    found = [
        *broken,
        *check_slurm(conf),
        *check_hook(conf),
        *check_topology(conf, cluster),
        *check_cgroup(conf),
        *check_nodes(conf, seen),
        *check_gres(conf, seen),
        *_captured(cluster, seen),
        *check_plugin(conf, settings, run),
        *check_site(conf, settings, config_file),
    ]
    if ask_nodes and run is not None:
        found += _ask(conf.nodes, settings, read_plugstack(conf)[1], run)
        found = [finding for finding in found if finding.name != "spool-local"]
    order = {"error": 0, "warning": 1, "note": 2}
    return Checkup(
        tuple(sorted(found, key=lambda f: order[f.severity])), str(path), len(conf.nodes), tuple(seen)
    )


def _ask(
    nodes: tuple[NodeLine, ...], settings: Settings, lines: list[PluginLine], run: Runner
) -> list[Finding]:
    try:
        return list(probe([node.name for node in nodes], settings, lines, run))
    except SlurmTopoError as error:
        return [
            Finding(
                *("probe-failed", "warning", "srun"),
                str(error),
                "the nodes were not asked what they see",
                "run it when all nodes are free",
            )
        ]


def _cluster(settings: Settings) -> tuple[Cluster | None, list[Finding]]:
    """The description that launches are placed on, where there is one."""
    path = settings.cluster_file
    if not path.exists():
        if not settings.cluster:
            return None, []
        return None, [
            Finding(
                *("cluster-missing", "error", str(path)),
                "the setting `cluster` names a file that is not there",
                "no job is placed",
                f"run: slurm-topo machine import nodes.txt topology.conf -o {path}",
            )
        ]
    try:
        return read_cluster(path), []
    except SlurmTopoError as error:
        return None, [
            Finding(
                *("cluster-damaged", "error", str(path)),
                str(error),
                "no job is placed",
                "run: slurm-topo sync (or import it again)",
            )
        ]


def _captured(cluster: Cluster | None, seen: dict[str, Hardware]) -> list[Finding]:
    """Nodes whose hardware is not what was captured."""
    found = []
    for name, real in seen.items():
        if cluster is None or name not in cluster.nodes:
            continue
        entry = cluster.classes[cluster.nodes[name]]
        if (entry.hwloc or entry.synthetic) and entry.shape.digest != real.shape.digest:
            found.append(
                Finding(
                    *("node-changed", "warning", name),
                    f"{real.source} is not what was captured for its class",
                    "masks are computed for cores that are others now",
                    f"run on {name}: slurm-topo machine capture -o {name}.xml, and import it",
                )
            )
    return found
