"""``slurm-topo place --draw``: the traffic before and after, and the machine coloured by group."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from slurm_topo.errors import InputError
from slurm_topo.machine.draw.canvas import Canvas, fitted
from slurm_topo.model import Floats, Ints, Placement
from slurm_topo.output import check_output, write_output
from slurm_topo.placement.baselines import baselines, node_and_socket
from slurm_topo.placement.problem import Problem

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
_TIMEOUT_S = 120
_CELLS, _SIDE, _LEFT, _BETWEEN = 96, 384.0, 20.0, 40.0
_CORE, _MOST_NODES, _MOST_CORES = 11.0, 64, 128
# Groups beyond these share colours; lightness differs too, so that a grey print tells neighbours apart.
_GROUPS = (
    "#1f4e79", "#f2b872", "#5b8450", "#d6c3ee", "#a3201d", "#a9d3e8", "#7a5a00", "#f4a6b5",
    "#3d3d8f", "#c9e3a8", "#8a4f7d", "#ffe28a", "#2f7d6f", "#e0e0e0", "#d9731a", "#86b3dd",
)  # fmt: skip
_FREE = "#ffffff"


def check_picture(file: str) -> None:
    """Before hours of search: whether the picture could be written.

    Raises
    ------
    InputError
        The name ends in neither .svg nor .png, its folder is not there, or no browser is for a .png.
    """
    ending = Path(file).suffix.lower()
    if ending not in (".svg", ".png"):
        raise InputError(f"--draw {file}: neither .svg nor .png; name the file so")
    check_output(file)
    if ending == ".png" and _browser() is None:
        raise InputError(f"--draw {file}: a PNG needs {BROWSERS[0]}, which is not installed; write an .svg")


def draw_file(problem: Problem, placement: Placement, file: str) -> None:
    """Write the picture, whole or not at all."""
    svg = draw(problem, placement)
    write_output(file, svg.encode() if file.lower().endswith(".svg") else _png(svg))


def draw(problem: Problem, placement: Placement) -> str:
    """SVG of the placement beside its best baseline."""
    name = min(placement.baseline_values, key=lambda key: placement.baseline_values[key])
    before = baselines(problem.machine, problem.graph.ranks)[name]
    canvas = Canvas()
    title = f"{problem.graph.ranks} ranks on {problem.whole.cores} cores"
    canvas.text(_LEFT, 34, title, 18, bold=True)
    words = f"objective {placement.objective}: {placement.value:.4g}, "
    words += f"{name}: {placement.baseline_values[name]:.4g}"
    canvas.text(_LEFT, 54, words, 12, fill="#444444")
    groups = _groups(problem, placement.core_of_rank)
    right = _LEFT + _SIDE + _BETWEEN
    for x, label, cores in ((_LEFT, name, before), (right, "placed", placement.core_of_rank)):
        canvas.text(x, 82, f"{label}: bytes from place to place", 13, bold=True)
        _draw_matrix(canvas, problem, cores, x, 92)
    top = 92 + _SIDE + 34
    canvas.text(_LEFT, top, "Cores by the node that their rank has when placed", 13, bold=True)
    for x, label, cores in ((_LEFT, name, before), (right, "placed", placement.core_of_rank)):
        _draw_cores(canvas, problem, cores, groups, label, x, top + 22)
    return canvas.svg(title)


def _groups(problem: Problem, cores: Ints) -> NDArray[np.int64]:
    """Group of each rank: its node, or within a single node its socket."""
    node, socket = node_and_socket(problem.machine)
    chosen = node if len(np.unique(node[cores])) > 1 else socket
    return np.unique(chosen[cores], return_inverse=True)[1].astype(np.int64)


def _density(problem: Problem, cores: Ints) -> Floats:
    """Bytes between bins of ranks in the order of their cores, as the share of the heaviest bin."""
    graph = problem.graph
    order = np.empty(graph.ranks, dtype=np.int64)
    order[np.argsort(cores, kind="stable")] = np.arange(graph.ranks)
    bins = min(_CELLS, graph.ranks)
    at = order * bins // graph.ranks
    flat = np.bincount(at[graph.source] * bins + at[graph.target], graph.nbytes, minlength=bins * bins)
    most = float(flat.max(initial=0.0)) or 1.0
    return (flat / most).reshape(bins, bins)


def _draw_matrix(canvas: Canvas, problem: Problem, cores: Ints, x: float, y: float) -> None:
    density = _density(problem, cores)
    size = _SIDE / len(density)
    canvas.filled("#ffffff", x, y, _SIDE, _SIDE, stroke="#777777")
    for row, column in np.argwhere(density > 0):
        # The square root keeps light traffic visible beside heavy one.
        grey = round(225 - 225 * float(density[row, column]) ** 0.5)
        fill = f"#{grey:02x}{grey:02x}{min(grey + 30, 255):02x}"
        canvas.filled(fill, x + column * size, y + row * size, size, size, stroke="none")


def _draw_cores(
    canvas: Canvas, problem: Problem, cores: Ints, groups: NDArray[np.int64], label: str, x: float, y: float
) -> None:
    """A row of cells a node, one a place."""
    node, _ = node_and_socket(problem.machine)
    rank_at = {int(core): rank for rank, core in enumerate(cores)}
    canvas.text(x, y, label, 11)
    numbers = list(dict.fromkeys(node.tolist()))
    columns = max(1, int((_SIDE - 70) // _CORE))
    for number in numbers[:_MOST_NODES]:
        own = np.flatnonzero(node == number)[:_MOST_CORES].tolist()
        names = problem.machine.node_names
        name = names[number] if names != ("",) else f"node {number}"
        canvas.text(x, y + 16, fitted(name, 10, 64), 10)
        for i, core in enumerate(own):
            rank = rank_at.get(core)
            fill = _FREE if rank is None else _GROUPS[int(groups[rank]) % len(_GROUPS)]
            tip = f"core {problem.slots[core][0]}: " + ("free" if rank is None else f"rank {rank}")
            left, top = x + 70 + i % columns * _CORE, y + 7 + i // columns * _CORE
            canvas.filled(fill, left, top, _CORE - 1, _CORE - 1, tip, "#999999")
        y += (len(own) - 1) // columns * _CORE + _CORE + 3
    if len(numbers) > _MOST_NODES:
        canvas.text(x, y + 16, f"and {len(numbers) - _MOST_NODES} nodes more", 10)


def _browser() -> str | None:
    return next((found for name in BROWSERS if (found := shutil.which(name))), None)


def _png(svg: str) -> bytes:
    browser = _browser()
    if browser is None:
        raise InputError(f"a PNG needs {BROWSERS[0]}, which is not installed; write an .svg")
    size = svg.split('width="', 1)[1].split('"', 1)[0], svg.split('height="', 1)[1].split('"', 1)[0]
    with tempfile.TemporaryDirectory() as folder:
        page, shot = Path(folder) / "page.html", Path(folder) / "shot.png"
        page.write_text(f"<!doctype html><body style='margin:0'>{svg}</body>", encoding="utf-8")
        command = [
            browser,
            "--headless",
            "--disable-gpu",
            "--hide-scrollbars",
            f"--user-data-dir={folder}/profile",
        ]
        command += ["--no-sandbox"] if os.geteuid() == 0 else []
        command += [f"--window-size={size[0]},{size[1]}", f"--screenshot={shot}", page.as_uri()]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S)
            return shot.read_bytes()
        except subprocess.TimeoutExpired as error:
            raise InputError(f"{browser} made no picture in {_TIMEOUT_S} s; write an .svg") from error
        except OSError as error:
            reason = (done.stderr.strip().splitlines() or ["it says nothing"])[-1]
            raise InputError(f"{browser} made no picture ({reason}); write an .svg") from error
