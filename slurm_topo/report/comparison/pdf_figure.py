"""Draws the SVG of :mod:`slurm_topo.report.svg` on a page of reportlab, in the colours of paper."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

from reportlab.lib.colors import HexColor
from reportlab.platypus import Flowable

# As in the print part of page.css.
_FILL = {
    "before": "#c8731d", "after": "#2369b0", "good": "#1c7d4d", "bad": "#b8322a", "unsure": "#666666",
    "quiet": "#c3cbd4", "band": "#dbe9f6", "t": "#000000", "s": "#444444",
}  # fmt: skip
_STROKE = {
    "axis": ("#444444", 1.0), "rule": ("#bbbbbb", 0.7), "before-line": ("#c8731d", 1.6),
    "after-line": ("#2369b0", 1.6), "whisker": ("#000000", 1.2),
}  # fmt: skip
_SIZE = {"t": 11.0, "s": 10.0}


class SvgFigure(Flowable):  # type: ignore[misc]
    """A picture of our own SVG (lines, rectangles, circles, text), scaled to a width.

    Parameters
    ----------
    source : str
        The SVG.
    width : float
        Points.
    """

    def __init__(self, source: str, width: float) -> None:
        super().__init__()
        self.root = ElementTree.fromstring(source)
        self.view = [float(v) for v in self.root.attrib["viewBox"].split()]
        self.scale = width / self.view[2]
        self.width, self.height = width, self.view[3] * self.scale

    def wrap(self, _width: float, _height: float) -> tuple[float, float]:
        """Size in points."""
        return self.width, self.height

    def draw(self) -> None:
        """Draw all elements; y grows downwards in SVG and upwards here."""
        canvas: Any = self.canv
        canvas.saveState()
        canvas.scale(self.scale, self.scale)
        for element in self.root:
            _draw(canvas, element, self.view[3])
        canvas.restoreState()


def _draw(canvas: Any, element: ElementTree.Element, height: float) -> None:
    of = element.attrib
    css = of.get("class", "").split(" ")[0]
    if element.tag == "line" and css in _STROKE:
        colour, width = _STROKE[css]
        canvas.setStrokeColor(HexColor(colour))
        canvas.setLineWidth(width)
        canvas.line(float(of["x1"]), height - float(of["y1"]), float(of["x2"]), height - float(of["y2"]))
        return
    if css not in _FILL:
        return
    canvas.setFillColor(HexColor(_FILL[css]))
    if element.tag == "rect":
        w, h = float(of["width"]), float(of["height"])
        canvas.rect(float(of["x"]), height - float(of["y"]) - h, w, h, stroke=0, fill=1)
    elif element.tag == "circle":
        canvas.circle(float(of["cx"]), height - float(of["cy"]), float(of["r"]), stroke=0, fill=1)
    elif element.tag == "text":
        _text(canvas, element, css, height)


def _text(canvas: Any, element: ElementTree.Element, css: str, height: float) -> None:
    canvas.setFont("Helvetica", _SIZE.get(css, 10.0))
    x, y = float(element.attrib["x"]), height - float(element.attrib["y"])
    write = {"end": canvas.drawRightString, "middle": canvas.drawCentredString}
    write.get(element.attrib.get("text-anchor", ""), canvas.drawString)(x, y, element.text or "")
