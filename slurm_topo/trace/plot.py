"""A picture of a communication matrix (needs matplotlib)."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import numpy as np

from slurm_topo.errors import ConfigError
from slurm_topo.model import CommGraph, Floats
from slurm_topo.output import write_output
from slurm_topo.units import format_size

FORMATS = (".png", ".svg", ".pdf")
PIXELS = 512


def plot_graph(graph: CommGraph, path: str | os.PathLike[str]) -> None:
    """Draw who sent how much to whom; the suffix of the path chooses the format.

    Raises
    ------
    ConfigError
        matplotlib is not installed, or the suffix is not known.
    InputError
        The picture cannot be written.
    """
    file = Path(path)
    if file.suffix.lower() not in FORMATS:
        raise ConfigError(f"{file}: pictures are {', '.join(FORMATS)}; choose one of these suffixes")
    figure = _figure(graph)
    stream = io.BytesIO()
    figure.savefig(stream, format=file.suffix[1:].lower())
    write_output(path, stream.getvalue())


def density(graph: CommGraph, pixels: int = PIXELS) -> Floats:
    """Bytes by sender (rows) and receiver (columns), several ranks to a cell beyond the pixels."""
    cells = min(graph.ranks, pixels)
    row = graph.source.astype(np.int64) * cells // graph.ranks
    column = graph.target.astype(np.int64) * cells // graph.ranks
    matrix = np.zeros((cells, cells))
    np.add.at(matrix, (row, column), graph.nbytes)
    return matrix


def _figure(graph: CommGraph) -> Any:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.colors import LogNorm
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ConfigError(
            f"matplotlib: is not installed ({error}); install it with: pip install 'slurm-topo[plot]'"
        ) from error
    matrix = density(graph)
    figure = Figure(figsize=(6.4, 5.6), layout="constrained", dpi=150)
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    shown = np.ma.masked_less_equal(matrix, 0)
    norm = LogNorm() if matrix.max() > 0 else None
    image = axes.imshow(
        shown,
        norm=norm,
        cmap="viridis",
        interpolation="nearest",
        extent=(-0.5, graph.ranks - 0.5, graph.ranks - 0.5, -0.5),
    )
    axes.set_xlabel("receiving rank")
    axes.set_ylabel("sending rank")
    program = graph.meta.get("program") or "communication"
    axes.set_title(f"{program}: {graph.ranks} ranks, {format_size(float(graph.nbytes.sum()))}")
    figure.colorbar(image, ax=axes, label="bytes")
    return figure
