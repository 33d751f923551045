"""Small pieces of SVG. Colours are classes of the page, so that dark mode and paper change them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from html import escape


def number(value: float) -> str:
    """A coordinate, short."""
    return f"{value:.2f}".rstrip("0").rstrip(".") or "0"


def picture(width: float, height: float, body: Iterable[str], title: str) -> str:
    """An SVG picture that fills the width of its place; ``title`` is read aloud."""
    view = f"0 0 {number(width)} {number(height)}"
    return (
        f'<svg viewBox="{view}" role="img" aria-label="{escape(title)}"><title>{escape(title)}</title>'
        + "".join(body)
        + "</svg>"
    )


def text(x: float, y: float, words: str, css: str = "t", anchor: str = "start") -> str:
    """A line of text; anchor is start, middle or end."""
    place = "" if anchor == "start" else f' text-anchor="{anchor}"'
    return f'<text x="{number(x)}" y="{number(y)}" class="{css}"{place}>{escape(words)}</text>'


def rect(x: float, y: float, width: float, height: float, css: str, hint: str = "", radius: float = 0) -> str:
    """A rectangle; ``hint`` is shown when the pointer rests on it."""
    round_ = f' rx="{number(radius)}"' if radius else ""
    size = f'width="{number(max(width, 0))}" height="{number(max(height, 0))}"'
    return _hinted(f'<rect x="{number(x)}" y="{number(y)}" {size} class="{css}"{round_}', "rect", hint)


def line(x1: float, y1: float, x2: float, y2: float, css: str, width: float = 0, hint: str = "") -> str:
    """A straight line; a width overrides that of the class."""
    wide = f' style="stroke-width:{number(width)}"' if width else ""
    ends = f'x1="{number(x1)}" y1="{number(y1)}" x2="{number(x2)}" y2="{number(y2)}"'
    return _hinted(f'<line {ends} class="{css}"{wide}', "line", hint)


def dot(x: float, y: float, radius: float, css: str, hint: str = "") -> str:
    """A filled circle."""
    return _hinted(
        f'<circle cx="{number(x)}" cy="{number(y)}" r="{number(radius)}" class="{css}"', "circle", hint
    )


def path(data: str, css: str) -> str:
    """A path."""
    return f'<path d="{data}" class="{css}"/>'


def _hinted(start: str, name: str, hint: str) -> str:
    return f"{start}><title>{escape(hint)}</title></{name}>" if hint else f"{start}/>"


def nice_step(span: float, most: int = 5) -> float:
    """A round step (1, 2, 5 times a power of ten) of which at most ``most`` fit into the span.

    Examples
    --------
    >>> nice_step(100), nice_step(7), nice_step(0)
    (20.0, 2.0, 1.0)
    """
    if span <= 0:
        return 1.0
    step = 10.0 ** math.floor(math.log10(span / most))
    return next(step * factor for factor in (1.0, 2.0, 5.0, 10.0) if step * factor >= span / most)
