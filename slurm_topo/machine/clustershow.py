"""A cluster for people and for programs: classes of nodes, switches, costs."""

from __future__ import annotations

from collections import Counter
from typing import Any

from slurm_topo.machine.cluster import Cluster
from slurm_topo.machine.clusterfile import ordered_hostlist
from slurm_topo.machine.levels import origin_of
from slurm_topo.units import fold_hostlist, format_rate


def cluster_summary(cluster: Cluster) -> dict[str, Any]:
    """Counts, classes, switches and the costs of all levels, as JSON values."""
    machine = cluster.machine()
    sizes = Counter(cluster.nodes.values())
    return {
        "format": "slurm-topo-cluster-summary",
        "version": 1,
        "origin": cluster.source,
        "digest": cluster.digest,
        "name": cluster.name,
        "nodes": len(cluster.nodes),
        "cores": machine.cores,
        "pus": sum(len(pus) for pus in machine.pus),
        "switches": len(cluster.fabric.switches),
        "nodes_without_switch": sum(node not in cluster.fabric.leaf for node in cluster.nodes),
        "classes": [
            {
                "name": name,
                "nodes": sizes[name],
                "names": ordered_hostlist(n for n, c in cluster.nodes.items() if c == name),
                "cores": entry.shape.cores,
                "pus": sum(len(p) for p in entry.shape.pus),
                "gpus": entry.gpus.count if entry.gpus else 0,
                "levels": {level: max(groups) + 1 for level, groups in entry.shape.groups},
                "from": entry.hwloc or entry.synthetic or "counts",
                "digest": entry.shape.digest,
            }
            for name, entry in cluster.classes.items()
        ],
        "levels": [
            {
                "name": level.name,
                "latency_s": level.latency_s,
                "bandwidth": level.bandwidth,
                "origin": level.origin,
                "groups": int(machine.groups[i].max()) + 1,
            }
            for i, level in enumerate(machine.levels)
        ],
        "costs": origin_of(machine.levels),
    }


def cluster_table(cluster: Cluster) -> str:
    """The cluster as text: a headline, classes, the tree of switches, the costs."""
    summary = cluster_summary(cluster)
    title = cluster.name or cluster.source or "cluster"
    counted = ", ".join(
        f"{summary[key]} {word}{'' if summary[key] == 1 else plural}"
        for key, word, plural in (
            ("nodes", "node", "s"),
            ("cores", "core", "s"),
            ("pus", "PU", "s"),
            ("switches", "switch", "es"),
        )
    )
    lines = [f"{title}: {counted}", ""]
    rows = [["class", "nodes", "cores", "PUs", "GPUs", "levels", "from", "names"]]
    for entry in summary["classes"]:
        levels = " ".join(f"{level}:{count}" for level, count in entry["levels"].items())
        rows.append(
            [
                *(str(entry[key]) for key in ("name", "nodes", "cores", "pus", "gpus")),
                levels or "-",
                entry["from"],
                entry["names"],
            ]
        )
    lines += [*_aligned(rows), "", *_switch_lines(cluster)]
    rows = [["level", "groups", "latency", "bandwidth", "origin"]]
    for level in summary["levels"]:
        latency, bandwidth = f"{level['latency_s'] * 1e6:.2f} us", format_rate(level["bandwidth"])
        rows.append([level["name"], str(level["groups"]), latency, bandwidth, level["origin"]])
    return "\n".join(lines + _aligned(rows))


def _switch_lines(cluster: Cluster) -> list[str]:
    fabric = cluster.fabric
    lines: list[str] = []
    # Iterative: a chain of switches may be deeper than Python's stack.
    waiting = [(s.name, "") for s in reversed(fabric.switches) if s.name not in fabric.parent]
    while waiting:
        name, indent = waiting.pop()
        switch = fabric.by_name[name]
        lines.append(f"{indent}{name}  {fold_hostlist(switch.nodes)}".rstrip())
        waiting += [(child, indent + "  ") for child in reversed(switch.switches)]
    alone = [n for n in cluster.nodes if n not in fabric.leaf]
    if alone and fabric.switches:
        lines.append(f"without a switch  {fold_hostlist(alone)}")
    return [*lines, ""] if lines else lines


def _aligned(rows: list[list[str]]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in rows]
