"""The audit report as one HTML page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape

from slurm_topo.report.comparison.blocks import (
    Block,
    Code,
    Figure,
    Heading,
    Paragraph,
    Signatures,
    Table,
    Verdict,
)
from slurm_topo.report.page import page, table


def render(title: str, subtitle: str, footer: str, parts: Iterable[Block]) -> str:
    """The document as HTML; parameters as :func:`slurm_topo.report.comparison.pdf.render`."""
    return page(title, _body(title, subtitle, footer, parts))


def _body(title: str, subtitle: str, footer: str, parts: Iterable[Block]) -> Iterator[str]:
    head = f"<h1>{escape(title)}</h1><p class=soft>{escape(subtitle)}</p>"
    yield f'<div class="document"><header>{head}</header>'
    number = 0
    for part in parts:
        if isinstance(part, Heading):
            number += 1
            yield f"<h2>{number}. {escape(part.text)}</h2>"
        else:
            yield _html(part)
    yield f"<footer><code>{escape(footer)}</code></footer></div>"


def _html(part: Block) -> str:
    if isinstance(part, Paragraph):
        return f"<p{' class=soft' if part.soft else ''}>{escape(part.text)}</p>"
    if isinstance(part, Verdict):
        words = f"<b>{escape(part.text.capitalize())}</b><span>{escape(part.detail)}</span>"
        return f'<div class="verdict {part.kind}">{words}</div>'
    if isinstance(part, Table):
        cells = ([_cell(cell) for cell in row] for row in part.rows)
        return table(part.header, cells, "stack" if len(part.header) > 3 else "")
    if isinstance(part, Figure):
        return f'<figure>{part.svg}<figcaption class="soft">{escape(part.caption)}</figcaption></figure>'
    if isinstance(part, Code):
        return f"<pre>{escape(part.text)}</pre>"
    if isinstance(part, Signatures):
        return f'<div class="signatures">{"".join(_role(role) for role in part.roles)}</div>'
    return ""


def _cell(text: str) -> str:
    """A digest may be broken anywhere."""
    return f"<code>{text}</code>" if len(text) == 64 and text.isalnum() else escape(text)


def _role(role: str) -> str:
    lines = "".join(
        f"<p><span>{w}</span></p>" for w in ("Name", "Organisation", "Place and date", "Signature")
    )
    return f"<div><b>{escape(role)}</b>{lines}</div>"
