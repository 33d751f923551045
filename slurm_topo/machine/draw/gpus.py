"""Links between the GPUs of a node as a ring of circles; a switch that all share sits in the middle."""

from __future__ import annotations

import math

from slurm_topo.machine.affinity import Affinity
from slurm_topo.machine.bandwidthclass import class_of
from slurm_topo.machine.draw.canvas import LINKS, Canvas
from slurm_topo.machine.gpulinks.paths import Path

_RADIUS = 26.0
_WORDS = {
    "nvlink": "NVLink",
    "nvswitch": "NVLink through a switch",
    "xgmi": "xGMI",
    "c2c": "chip to chip",
    "pcie-switch": "PCIe switch",
    "host-bridge": "host bridge",
    "numa-link": "between NUMA nodes",
    "socket-link": "between sockets",
}


def draw_links(canvas: Canvas, affinity: Affinity, x: float, y: float) -> float:
    """Draw the GPUs and what connects them; returns the lower edge. One GPU alone is not drawn."""
    gpus = [i for i, end in enumerate(affinity.endpoints) if end.label.startswith("gpu")]
    if len(gpus) < 2:
        return y
    canvas.text(x, y + 14, "Links between GPUs (one direction)", 13, bold=True)
    size = max(110.0, len(gpus) * 24.0)
    cx, cy = x + size + 70, y + size + 64
    place = {
        i: (
            cx + size * math.sin(2 * math.pi * k / len(gpus)),
            cy - size * math.cos(2 * math.pi * k / len(gpus)),
        )
        for k, i in enumerate(gpus)
    }
    seen: dict[tuple[str, float], int] = {}
    switched = [i for i in gpus if any(affinity.paths[i][j].kind == "nvswitch" for j in gpus if j != i)]
    for a in gpus:
        for b in gpus:
            path = affinity.paths[a][b]
            if a < b:
                seen[path.kind, round(path.bandwidth_gbs)] = (
                    seen.get((path.kind, round(path.bandwidth_gbs)), 0) + 1
                )
            if a < b and path.kind != "nvswitch":
                _line(
                    canvas,
                    place[a],
                    place[b],
                    path,
                    f"{affinity.endpoints[a].label} - {affinity.endpoints[b].label}",
                )
    for i in switched:
        path = next(p for j, p in enumerate(affinity.paths[i]) if j in gpus and p.kind == "nvswitch")
        _line(canvas, place[i], (cx, cy), path, affinity.endpoints[i].label)
    if switched:
        canvas.circle("switch", cx, cy, 24, "NVSwitch: two hops between any two GPUs")
        canvas.text(cx, cy + 4, "NVSwitch", 9, anchor="middle")
    for i in gpus:
        _gpu(canvas, affinity, i, place[i])
    _key(canvas, seen, cx + size + 90, y + 50)
    return cy + size + 60


def _line(
    canvas: Canvas, start: tuple[float, float], end: tuple[float, float], path: Path, label: str
) -> None:
    colour, dashes = LINKS.get(path.kind, ("#dddddd", "1 6"))
    width = min(max(path.bandwidth_gbs / 40.0, 0.8), 6.0)
    tip = f"{label}: {_WORDS.get(path.kind, path.kind)}, {path.bandwidth_gbs:.0f} GB/s ({path.origin})"
    canvas.line(*start, *end, stroke=colour, width=width, dashes=dashes, tip=tip)


def _gpu(canvas: Canvas, affinity: Affinity, index: int, place: tuple[float, float]) -> None:
    end = affinity.endpoints[index]
    found = class_of(end.device) if end.device else None
    canvas.circle("gpu", *place, _RADIUS, end.device.model if end.device else end.label)
    canvas.text(place[0], place[1] - 1, end.label, 10, bold=True, anchor="middle")
    numa = f"NUMA {end.numa[0]}" if len(end.numa) == 1 else ""
    canvas.text(place[0], place[1] + 11, numa or (found.name if found else ""), 8, anchor="middle")


def _key(canvas: Canvas, seen: dict[tuple[str, float], int], x: float, y: float) -> None:
    """What each kind of line means, fastest first."""
    for (kind, speed), count in sorted(seen.items(), key=lambda item: -item[0][1]):
        colour, dashes = LINKS.get(kind, ("#dddddd", "1 6"))
        canvas.line(x, y, x + 44, y, colour, min(max(speed / 40.0, 0.8), 6.0), dashes)
        pairs = f"{count} pair{'' if count == 1 else 's'}"
        canvas.text(x + 54, y + 4, f"{_WORDS.get(kind, kind)}, {speed:.0f} GB/s, {pairs}", 11)
        y += 20
