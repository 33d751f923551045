"""A self-contained HTML page: one style sheet (page.css) for screens, phones, dark mode and paper.

No script, nothing loaded.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from importlib import resources


def page(title: str, body: Iterable[str]) -> str:
    """A whole document."""
    style = resources.files("slurm_topo.report").joinpath("page.css").read_text(encoding="utf-8")
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{escape(title)}</title><style>{style}</style></head>\n<body><main>\n"
        + "\n".join(body)
        + "\n</main></body></html>\n"
    )


def tile(value: str, words: str) -> str:
    """A key figure."""
    return f'<div class="tile"><b>{value}</b><span>{escape(words)}</span></div>'


def card(*parts: str, title: str = "") -> str:
    """A box of the grid."""
    head = f"<h3>{escape(title)}</h3>" if title else ""
    return f'<section class="card">{head}{"".join(parts)}</section>'


def table(header: Sequence[str], rows: Iterable[Sequence[str]], css: str = "") -> str:
    """A table of ready cells; a header that begins with ``>`` is a column of numbers.

    On a phone a table of class ``stack`` shows every row as a block with the names of its columns.
    """
    numeric = [name.startswith(">") for name in header]
    names = [name.lstrip(">") for name in header]
    head = "".join(
        f"<th{' class=n' if n else ''}>{escape(name)}</th>" for name, n in zip(names, numeric, strict=True)
    )
    lines = [
        "<tr>" + "".join(_cell(i, cell, names[i], numeric[i]) for i, cell in enumerate(row)) + "</tr>"
        for row in rows
    ]
    kind = f' class="{css}"' if css else ""
    body = f"<thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody>"
    return f'<div class="wide"><table{kind}>{body}</table></div>'


def _cell(i: int, cell: str, name: str, numeric: bool) -> str:
    if cell.startswith("<td"):
        return cell
    label = f' data-name="{escape(name)}"' if i and name else ""
    return f"<td{' class=n' if numeric else ''}{label}>{cell}</td>"
