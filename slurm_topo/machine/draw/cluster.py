"""A cluster drawn: roots on the left, leaf switches in rows, and below each leaf its nodes by class."""

from __future__ import annotations

from slurm_topo.machine.cluster import Cluster
from slurm_topo.machine.clustershow import cluster_summary
from slurm_topo.machine.draw.canvas import Canvas, fitted, text_width
from slurm_topo.units import fold_hostlist, format_rate

_ROW, _INDENT, _NODES, _WIDEST = 30.0, 36.0, 420.0, 330.0
# Fills of classes: lighter and lighter, so that they differ in grey too; beyond them classes repeat with
# their name.
_FILLS = ("#5f86b3", "#d99a4e", "#8fbf80", "#b9a7d9", "#c9d8ea", "#efd9b8", "#dcebd6", "#e8e2f3")


def draw_cluster(cluster: Cluster) -> str:
    """SVG of a cluster: switches, nodes by class, and what the levels cost."""
    canvas = Canvas()
    summary = cluster_summary(cluster)
    title = cluster.name or cluster.source or "cluster"
    canvas.text(20, 34, title, 18, bold=True)
    words = f"{summary['nodes']} nodes · {summary['cores']} cores · {summary['switches']} switches"
    canvas.text(20, 54, f"{words} · costs {summary['costs']}", 12, fill="#444444")
    fills = {name: _FILLS[i % len(_FILLS)] for i, name in enumerate(cluster.classes)}
    y = _draw_tree(canvas, cluster, fills, 76.0)
    y = _draw_classes(canvas, summary, fills, y + 14)
    _draw_levels(canvas, summary, y + 18)
    return canvas.svg(title)


def _rows(cluster: Cluster) -> list[tuple[str, int, list[str]]]:
    """Switches with their own nodes, depth first: name, depth, nodes; at last the nodes without a switch."""
    fabric = cluster.fabric
    rows = []
    waiting = [(s.name, 0) for s in reversed(fabric.switches) if s.name not in fabric.parent]
    while waiting:
        name, depth = waiting.pop()
        switch = fabric.by_name[name]
        rows.append((name, depth, [n for n in switch.nodes if n in cluster.nodes]))
        waiting += [(child, depth + 1) for child in reversed(switch.switches)]
    alone = [n for n in cluster.nodes if n not in fabric.leaf]
    if alone:
        rows.append(("without a switch" if fabric.switches else "all nodes", 0, alone))
    return rows


def _draw_tree(canvas: Canvas, cluster: Cluster, fills: dict[str, str], y: float) -> float:
    rows = _rows(cluster)
    deepest = max((depth for _, depth, _ in rows), default=0)
    most = max((len(nodes) for _, _, nodes in rows), default=1) or 1
    width = min(max((text_width(name, 11) * 1.1 for name, _, _ in rows), default=0) + 14, _WIDEST)
    left = 20 + deepest * _INDENT + width + 30
    lower: dict[int, float] = {}
    for name, depth, nodes in rows:
        x = 20 + depth * _INDENT
        middle = y + _ROW / 2 - 3
        if depth and depth - 1 in lower:
            stem = x - _INDENT / 2
            canvas.line(stem, lower[depth - 1], stem, middle)
            canvas.line(stem, middle, x, middle)
        canvas.box("switch", x, y, width, _ROW - 6, f"{name}: {len(nodes)} nodes")
        canvas.text(x + 6, y + 16, fitted(name, 11, width - 12), 11, bold=True)
        lower[depth] = y + _ROW - 6
        if nodes:
            canvas.line(x + width, middle, left, middle, "#999999")
            _draw_nodes(canvas, cluster, nodes, fills, left, y, most)
        y += _ROW
    return y


def _draw_nodes(
    canvas: Canvas, cluster: Cluster, nodes: list[str], fills: dict[str, str], x: float, y: float, most: int
) -> None:
    """One bar a class; its length is the number of nodes."""
    by_class: dict[str, list[str]] = {}
    for node in nodes:
        by_class.setdefault(cluster.nodes[node], []).append(node)
    for name, members in by_class.items():
        label = f"{len(members)} x {name}"
        width = max(_NODES * len(members) / most, text_width(label, 10) + 12)
        canvas.filled(fills[name], x, y, width, _ROW - 6, f"{name}: {fold_hostlist(members)}")
        canvas.text(x + 6, y + 16, label, 10)
        x += width + 4
    canvas.text(x + 4, y + 16, fitted(fold_hostlist(nodes), 10, 360), 10, fill="#444444")


def _draw_classes(canvas: Canvas, summary: dict[str, object], fills: dict[str, str], y: float) -> float:
    canvas.text(20, y + 12, "Classes of nodes", 13, bold=True)
    y += 22
    entries = summary["classes"]
    for entry in entries if isinstance(entries, list) else []:
        levels = ", ".join(f"{count} {level}" for level, count in entry["levels"].items())
        canvas.filled(fills[entry["name"]], 20, y, 22, 14, entry["name"])
        words = f"{entry['name']}: {entry['nodes']} nodes of {entry['cores']} cores, {entry['pus']} PUs"
        canvas.text(50, y + 11, fitted(f"{words} ({levels or 'one group'}; {entry['from']})", 11, 900), 11)
        y += 20
    return y


def _draw_levels(canvas: Canvas, summary: dict[str, object], y: float) -> None:
    canvas.text(20, y + 12, "What a level costs", 13, bold=True)
    y += 22
    levels = summary["levels"]
    for level in levels if isinstance(levels, list) else []:
        cells = (
            level["name"],
            f"{level['groups']} groups",
            f"{level['latency_s'] * 1e6:.2f} µs",
            format_rate(level["bandwidth"]),
            level["origin"],
        )
        for i, cell in enumerate(cells):
            canvas.text(20 + i * 110, y + 11, cell, 11)
        y += 18
