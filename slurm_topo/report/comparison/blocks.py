"""What a document is made of; :mod:`~slurm_topo.report.comparison.web` and ``pdf`` render it alike."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Heading:
    """A numbered section."""

    text: str


@dataclass(frozen=True)
class Paragraph:
    """Running text."""

    text: str
    soft: bool = False


@dataclass(frozen=True)
class Verdict:
    """The verdict in large letters; kind is good, bad or unsure."""

    text: str
    detail: str
    kind: str


@dataclass(frozen=True)
class Table:
    """Rows under a header; a header that begins with ``>`` is a column of numbers; widths are shares."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    widths: tuple[float, ...]


@dataclass(frozen=True)
class Figure:
    """An SVG picture of the page's classes and its caption."""

    svg: str
    caption: str


@dataclass(frozen=True)
class Code:
    """Text that is kept as it is."""

    text: str


@dataclass(frozen=True)
class Signatures:
    """Lines to sign on."""

    roles: tuple[str, ...]


Block = Heading | Paragraph | Verdict | Table | Figure | Code | Signatures
