"""The audit report as PDF (reportlab): the same bytes for the same comparison."""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import Any
from xml.sax.saxutils import escape

from reportlab.lib.colors import HexColor, white
from reportlab.lib.pagesizes import A4
from reportlab.lib.styles import ParagraphStyle
from reportlab.lib.units import mm
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import KeepTogether, SimpleDocTemplate, Spacer
from reportlab.platypus import Paragraph as Words
from reportlab.platypus import Table as Grid

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
from slurm_topo.report.comparison.pdf_figure import SvgFigure

_INK, _SOFT, _LINE = HexColor("#111111"), HexColor("#555555"), HexColor("#bbbbbb")
_KINDS = {"good": HexColor("#1c7d4d"), "bad": HexColor("#b8322a"), "unsure": HexColor("#555f6b")}
_MARGIN = 18 * mm
# The frame of a page keeps 6 points on each side.
_WIDTH = A4[0] - 2 * _MARGIN - 12


def _style(name: str, size: float, **more: Any) -> ParagraphStyle:
    return ParagraphStyle(
        name, fontName="Helvetica", fontSize=size, leading=size * 1.32, textColor=_INK, **more
    )


_BODY = _style("body", 9, spaceAfter=5, keepWithNext=1)
_QUIET = ParagraphStyle("quiet", parent=_BODY, textColor=_SOFT, fontSize=8, leading=10.5, keepWithNext=0)
_HEAD = _style("head", 12.5, spaceBefore=12, spaceAfter=5, keepWithNext=1)
_TITLE = _style("title", 18, spaceAfter=3)
_CELL, _NUMBER = _style("cell", 8), _style("number", 8, alignment=2)
_LABEL = ParagraphStyle("label", parent=_CELL, textColor=_SOFT)
_NUMBER_LABEL = ParagraphStyle("number label", parent=_NUMBER, textColor=_SOFT)
_CODE = ParagraphStyle("code", fontName="Courier", fontSize=7.5, leading=10, spaceAfter=6)
_BIG = ParagraphStyle("big", fontName="Helvetica-Bold", fontSize=15, leading=19, textColor=white)
_SMALL = ParagraphStyle("small", fontName="Helvetica", fontSize=9, leading=12, textColor=white)


def latin(text: str) -> str:
    """The text in the characters of the standard fonts, safe in markup; others become a question mark."""
    plain = "".join(c if c.isprintable() else " " for c in text)
    return escape(plain.encode("cp1252", "replace").decode("cp1252"))


def render(title: str, subtitle: str, footer: str, parts: Iterable[Block]) -> bytes:
    """The document as PDF.

    Parameters
    ----------
    title, subtitle : str
        Its head.
    footer : str
        Stands on every page, beside the page number.
    parts : iterable of Block
        Its content.
    """
    stream = io.BytesIO()
    # invariant: no date, no random identifier, so that the bytes depend on the content alone.
    document = SimpleDocTemplate(
        stream, pagesize=A4, leftMargin=_MARGIN, rightMargin=_MARGIN, topMargin=16 * mm, bottomMargin=18 * mm,
        title=latin(title), author="slurm-topo", invariant=1,
    )  # fmt: skip
    story = [Words(latin(title), _TITLE), Words(latin(subtitle), _QUIET), Spacer(1, 4)]
    number = 0
    for part in parts:
        if isinstance(part, Heading):
            number += 1
            story.append(Words(f"<b>{number}. {latin(part.text)}</b>", _HEAD))
        else:
            story += _flow(part)
    document.build(story, canvasmaker=_numbered(latin(footer)))
    return stream.getvalue()


def _flow(part: Block) -> list[Any]:
    if isinstance(part, Paragraph):
        return [Words(latin(part.text), _QUIET if part.soft else _BODY)]
    if isinstance(part, Verdict):
        return [_verdict(part), Spacer(1, 6)]
    if isinstance(part, Table):
        return [_table(part), Spacer(1, 6)]
    if isinstance(part, Figure):
        return [KeepTogether([SvgFigure(part.svg, _WIDTH * 0.72), Words(latin(part.caption), _QUIET)])]
    if isinstance(part, Code):
        return [Words(latin(part.text), _CODE)]
    if isinstance(part, Signatures):
        return [KeepTogether([_signatures(part)])]
    return []


def _verdict(part: Verdict) -> Any:
    box = Grid(
        [[Words(latin(part.text.capitalize()), _BIG)], [Words(latin(part.detail), _SMALL)]],
        [_WIDTH],
        hAlign="LEFT",
    )
    box.setStyle([("BACKGROUND", (0, 0), (-1, -1), _KINDS[part.kind]), ("BOTTOMPADDING", (0, 1), (0, 1), 8)])
    return box


def _table(part: Table) -> Any:
    numeric = [name.startswith(">") for name in part.header]
    head = [
        Words(latin(name.lstrip(">")), _NUMBER_LABEL if n else _LABEL)
        for name, n in zip(part.header, numeric, strict=True)
    ]
    rows = [
        [Words(latin(cell), _NUMBER if n else _CELL) for cell, n in zip(row, numeric, strict=True)]
        for row in part.rows
    ]
    grid = Grid([head, *rows], [_WIDTH * w for w in part.widths], repeatRows=1, hAlign="LEFT")
    grid.setStyle(
        [
            ("LINEBELOW", (0, 0), (-1, -1), 0.4, _LINE),
            ("VALIGN", (0, 0), (-1, -1), "TOP"),
            ("LEFTPADDING", (0, 0), (-1, -1), 0),
            ("RIGHTPADDING", (0, 0), (-1, -1), 6),
            ("TOPPADDING", (0, 0), (-1, -1), 2),
            ("BOTTOMPADDING", (0, 0), (-1, -1), 2.5),
        ]
    )
    return grid


def _signatures(part: Signatures) -> Any:
    wide = _WIDTH / 2
    cells = [[_role(role, wide) for role in part.roles]]
    return Grid(cells, [wide] * len(part.roles), hAlign="LEFT")


def _role(role: str, wide: float) -> Any:
    rows = [[Words(f"<b>{latin(role)}</b>", _CELL)]]
    rows += [[Words(word, _LABEL)] for word in ("Name", "Organisation", "Place and date", "Signature")]
    box = Grid(rows, [wide - 12], [14, 24, 24, 24, 34])
    box.setStyle([("LINEBELOW", (0, 1), (-1, -1), 0.5, _SOFT), ("LEFTPADDING", (0, 0), (-1, -1), 0)])
    return box


def _numbered(footer: str) -> type[Canvas]:
    """A canvas that writes "page n of m", which is known only at the end."""

    class Numbered(Canvas):  # type: ignore[misc]
        def __init__(self, *argv: Any, **named: Any) -> None:
            super().__init__(*argv, **named)
            self.pages: list[dict[str, Any]] = []

        def showPage(self) -> None:  # noqa: N802
            self.pages.append(dict(self.__dict__))
            self._startPage()

        def save(self) -> None:
            for i, state in enumerate(self.pages):
                self.__dict__.update(state)
                self.setFont("Helvetica", 7)
                self.setFillColor(_SOFT)
                self.drawString(_MARGIN, 10 * mm, footer)
                self.drawRightString(A4[0] - _MARGIN, 10 * mm, f"page {i + 1} of {len(self.pages)}")
                super().showPage()
            super().save()

    return Numbered
