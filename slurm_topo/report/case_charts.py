"""Pictures of one run: the matrix, the machine with its traffic, the time taken apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

import numpy as np

from slurm_topo.model import Floats
from slurm_topo.report import svg
from slurm_topo.report.attribution import Attribution, Part
from slurm_topo.report.cases import Case, Side
from slurm_topo.report.charts import WIDTH
from slurm_topo.report.jobcosts import JobCost
from slurm_topo.report.text import percent, seconds
from slurm_topo.units import format_size

# Steps of the colour ramp of the page (classes r1 .. r5).
RAMP = 5
MOST_BOXES = 16


def matrix(side: Side, highest: float, title: str) -> str:
    """The communication matrix; lines show where a node ends.

    Parameters
    ----------
    side : Side
        Its matrix has shape (m, m).
    highest : float
        Bytes of the darkest step, the same for both sides.
    title : str
        Read aloud.
    """
    m = len(side.matrix)
    cells = _steps(side.matrix, highest)

    def body() -> Iterator[str]:
        yield svg.rect(0, 0, m, m, "paper")
        for step in range(1, RAMP + 1):
            rows, columns = np.nonzero(cells == step)
            data = "".join(f"M{x} {y}h1v1h-1z" for y, x in zip(rows.tolist(), columns.tolist(), strict=True))
            if data:
                yield svg.path(data, f"r{step}")
        for border in side.borders:
            yield svg.line(border, 0, border, m, "border", m / 400)
            yield svg.line(0, border, m, border, "border", m / 400)

    return svg.picture(m, m, body(), title)


def _steps(values: Floats, highest: float) -> Floats:
    """0 for nothing, 1 .. RAMP on a logarithmic scale of three decades."""
    with np.errstate(divide="ignore"):
        place = 1 + np.log10(values / (highest or 1.0)) / 3
    steps: Floats = np.clip(np.ceil(place * RAMP), 1, RAMP)
    return np.where(values > 0, steps, 0)


def inside_share(side: Side, levels: Sequence[str]) -> float:
    """Share of the bytes that stay inside a node."""
    at = list(levels).index("node") if "node" in levels else len(levels) - 1
    total = float(side.nbytes.sum())
    return float(side.nbytes[: at + 1].sum()) / total if total else 0.0


def fabric(case: Case, side: Side, highest: float) -> str:
    """The machine from the top switch to the nodes; the width and colour of a link is its traffic."""
    tiers = _tiers(case)
    gap, box = 62.0, 20.0
    where: dict[str, tuple[float, float]] = {}
    for depth, names in enumerate(tiers):
        for i, name in enumerate(names):
            where[name] = (WIDTH * (i + 0.5) / len(names), 4 + depth * gap)

    def body() -> Iterator[str]:
        for depth, names in enumerate(tiers):
            for name in names:
                above = case.parents.get(name)
                if above in where:
                    yield from _link(where[above], where[name], side.links.get(name, 0.0), highest, name, box)
            yield from _boxes(names, where, depth, box)
        if any(len(names) == MOST_BOXES for names in tiers):
            yield svg.text(WIDTH, len(tiers) * gap - 22, f"the {MOST_BOXES} busiest of each tier", "s", "end")

    return svg.picture(WIDTH, (len(tiers) - 1) * gap + box + 8, body(), "Traffic on the links of the machine")


def _tiers(case: Case) -> list[list[str]]:
    """Switches and nodes from the top down; of many the busiest, in their order."""
    height: dict[str, int] = {}
    for node in case.nodes:
        at, h = case.parents.get(node), 1
        height[node] = 0
        while at is not None:
            height[at] = max(height.get(at, 0), h)
            at, h = case.parents.get(at), h + 1
    busy = {
        n: max(case.before.links.get(n, 0.0), case.after.links.get(n, 0.0) if case.after else 0.0)
        for n in height
    }
    tiers = []
    for h in range(max(height.values(), default=0), -1, -1):
        names = [n for n in height if height[n] == h]
        kept = set(sorted(names, key=lambda n: -busy[n])[:MOST_BOXES])
        tiers.append([n for n in names if n in kept])
    return tiers


def _link(
    top: tuple[float, float], low: tuple[float, float], nbytes: float, highest: float, name: str, box: float
) -> Iterator[str]:
    share = nbytes / highest if highest else 0.0
    step = max(1, min(RAMP, int(np.ceil(share * RAMP)))) if nbytes else 0
    hint = f"{name}: {format_size(nbytes)}"
    yield svg.line(top[0], top[1] + box, low[0], low[1], f"l{step}", 1 + 7 * share, hint)


def _boxes(
    names: Sequence[str], where: dict[str, tuple[float, float]], depth: int, box: float
) -> Iterator[str]:
    wide = min(70.0, WIDTH / len(names) - 3)
    for name in names:
        x, y = where[name]
        yield svg.rect(x - wide / 2, y, wide, box, "box", name, 4)
        if wide > 6.2 * min(len(name), 9):
            yield svg.text(x, y + 14, name[:11], "t", "middle")


def time_bar(one: Attribution | JobCost, longest: float) -> str:
    """The time of a run taken apart, on the scale of the longest run beside it."""
    parts = [p for p in one.parts if p.name != "queue"]
    wide = WIDTH * (one.time.value or 0.0) / (longest or 1.0)
    total = sum(p.seconds.value or 0.0 for p in parts) or 1.0

    def body() -> Iterator[str]:
        x = 0.0
        for part in parts:
            share = (part.seconds.value or 0.0) / total
            hint = f"{part.name}: {seconds(part.seconds.value or 0.0)}, {percent(share)}"
            yield svg.rect(x, 0, wide * share, 18, part_class(part, parts), hint)
            x += wide * share

    return svg.picture(WIDTH, 18, body(), "The time of a run taken apart")


def part_class(part: Part, parts: Sequence[Part]) -> str:
    """Colour of a part: computation quiet, latency its own, the levels along the ramp."""
    if part.name == "computation":
        return "quiet"
    if part.name in ("latency", "waiting"):
        return part.name
    levels = [p.name for p in parts if p.name.startswith("bandwidth")]
    place = (levels.index(part.name) + 1) / len(levels)
    return f"r{max(1, int(np.ceil(place * RAMP)))}"


def ramp_legend(words: str) -> str:
    """The steps of the ramp, with words."""
    boxes = "".join(f'<i class="key k{i}"></i>' for i in range(1, RAMP + 1))
    return f'<span class="legend">{boxes} {escape(words)}</span>'
