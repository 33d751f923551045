"""The folder of a comparison: documents, JSON, raw records, and the digests of all."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from slurm_topo.errors import InputError
from slurm_topo.report.comparison import document, web
from slurm_topo.report.comparison.evidence import write_records
from slurm_topo.report.comparison.export import render_json
from slurm_topo.report.comparison.result import Comparison, moment
from slurm_topo.report.runs import Runs

SUMS = "SHA256SUMS"


def write_bundle(folder: Path, c: Comparison, runs: Runs) -> list[str]:
    """Write all files, or none; returns their names.

    ``comparison.pdf`` is left out where reportlab is not installed.

    Parameters
    ----------
    folder : Path
        New, empty, or one that an earlier comparison wrote.
    c : Comparison
        What was found.
    runs : Runs
        The raw records, as they were read.

    Raises
    ------
    InputError
        The folder cannot be written, or holds other files.
    """
    _check(folder)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        try:
            names = _write(temporary, c, runs)
            temporary.chmod(0o755)
            if folder.exists():
                shutil.rmtree(folder)
            temporary.replace(folder)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
    except OSError as error:
        raise InputError(
            f"{folder}: cannot be written ({error.strerror}); choose another folder with -o"
        ) from error
    return names


def _check(folder: Path) -> None:
    if not folder.exists():
        return
    if not folder.is_dir():
        raise InputError(f"{folder}: is no folder; choose another one with -o")
    if any(folder.iterdir()) and not (folder / SUMS).exists():
        raise InputError(f"{folder}: holds other files; choose a new folder with -o")


def _write(folder: Path, c: Comparison, runs: Runs) -> list[str]:
    raw = dict(c.digests)["raw records"]
    head = (
        document.TITLE,
        f"{c.source}; runs from {moment(c.first)} to {moment(c.last)}",
        f"raw records sha256 {raw}",
    )
    made: dict[str, bytes] = {
        "comparison.html": web.render(*head, document.blocks(c)).encode(),
        "comparison.json": render_json(c).encode(),
        "method.json": (c.method.text() + "\n").encode(),
    }
    pdf = pdf_renderer()
    if pdf is not None:
        made["comparison.pdf"] = pdf(*head, document.blocks(c))
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in made.items()}
    for name, content in made.items():
        (folder / name).write_bytes(content)
    sums["records.csv"] = write_records(folder / "records.csv", runs, c.analysis)
    lines = "".join(f"{digest}  {name}\n" for name, digest in sorted(sums.items()))
    (folder / SUMS).write_text(lines, encoding="utf-8")
    return sorted([*sums, SUMS])


def pdf_renderer() -> Callable[..., bytes] | None:
    """The renderer of PDF, None where reportlab is not installed."""
    try:
        from slurm_topo.report.comparison import pdf
    except ModuleNotFoundError:
        return None
    return pdf.render
