"""A little SVG: shapes with escaped text, and the colours that drawings share.

Colours differ in lightness as well as in hue, and kinds also differ in outline or hatching, so that a grey
print still tells them apart.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from xml.sax.saxutils import escape, quoteattr

FONT = "DejaVu Sans, Helvetica, Arial, sans-serif"
# Kind: fill, outline, dashes of the outline.
STYLES: dict[str, tuple[str, str, str]] = {
    "paper": ("#ffffff", "none", ""),
    "package": ("#fafafa", "#444444", ""),
    "numa": ("#ffffff", "#777777", "4 3"),
    "l3": ("#edf2f8", "#9aaabd", ""),
    "core": ("#b7cce4", "#4a6484", ""),
    "slowcore": ("#e4ecf5", "#4a6484", "2 1"),
    "unusable": ("url(#hatch)", "#888888", ""),
    "dram": ("#d6ead0", "#5b8450", ""),
    "hbm": ("#8fbf80", "#33612a", ""),
    "othermem": ("#e9e4c9", "#8a8150", "2 2"),
    "root": ("#eeeeee", "#555555", ""),
    "gpu": ("#d9731a", "#5e2f04", ""),
    "nic": ("#86b3dd", "#1d4268", ""),
    "nvme": ("#cfc2e6", "#5d4a86", "3 2"),
    "switch": ("#eeeeee", "#333333", ""),
}
# Links between GPUs: colour, dashes.
LINKS: dict[str, tuple[str, str]] = {
    "nvlink": ("#2f7d1f", ""),
    "nvswitch": ("#2f7d1f", ""),
    "xgmi": ("#a3201d", ""),
    "c2c": ("#2f7d1f", "8 3"),
    "pcie-switch": ("#7a5a00", "6 3"),
    "host-bridge": ("#888888", "3 3"),
    "numa-link": ("#aaaaaa", "2 4"),
    "socket-link": ("#c4c4c4", "1 5"),
}
HATCH = (
    '<pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect width="6" height="6" fill="#f4f4f4"/><line x1="0" y1="0" x2="0" y2="6" stroke="#999999" '
    'stroke-width="2"/></pattern>'
)


def text_width(text: str, size: float) -> float:
    """Pixels that a text takes, a little too many rather than too few."""
    wide = sum(1.0 if ord(c) > 0x2000 else 0.78 if c.isupper() or c in "mwMW@%" else 0.6 for c in text)
    return wide * size


def fitted(text: str, size: float, width: float) -> str:
    """The text, cut with an ellipsis where it would not fit.

    Examples
    --------
    >>> fitted("short", 10, 100)
    'short'
    """
    if text_width(text, size) <= width:
        return text
    while text and text_width(text + "…", size) > width:
        text = text[:-1]
    return text.rstrip() + "…" if text else ""


@dataclass
class Canvas:
    """Collects shapes and knows how far they reach."""

    parts: list[str] = field(default_factory=list)
    right: float = 0.0
    bottom: float = 0.0

    def _reach(self, x: float, y: float) -> None:
        self.right, self.bottom = max(self.right, x), max(self.bottom, y)

    def box(
        self, kind: str, x: float, y: float, width: float, height: float, tip: str = "", round_: float = 3
    ) -> None:
        """A rectangle of a kind; ``tip`` is shown when the pointer rests on it."""
        fill, stroke, dashes = STYLES[kind]
        dash = f' stroke-dasharray="{dashes}"' if dashes else ""
        inner = f"<title>{escape(tip)}</title>" if tip else ""
        self.parts.append(
            f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" '
            f'height="{height:.1f}" rx="{round_}" fill="{fill}" stroke="{stroke}"{dash}>{inner}</rect>'
        )
        self._reach(x + width, y + height)

    def filled(
        self,
        fill: str,
        x: float,
        y: float,
        width: float,
        height: float,
        tip: str = "",
        stroke: str = "#333333",
    ) -> None:
        """A rectangle of any colour."""
        inner = f"<title>{escape(tip)}</title>" if tip else ""
        self.parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" '
            f'fill="{fill}" stroke="{stroke}">{inner}</rect>'
        )
        self._reach(x + width, y + height)

    def text(
        self, x: float, y: float, text: str, size: float = 11, bold: bool = False, anchor: str = "start",
        fill: str = "#111111",
    ) -> None:  # fmt: skip
        """A line of text with its baseline at y."""
        weight = ' font-weight="bold"' if bold else ""
        self.parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}"{weight} text-anchor="{anchor}" fill="{fill}">'
            f"{escape(text)}</text>"
        )
        shift = {"start": 1.0, "middle": 0.5, "end": 0.0}[anchor]
        self._reach(x + shift * text_width(text, size), y + 0.3 * size)

    def line(
        self, x1: float, y1: float, x2: float, y2: float, stroke: str = "#555555", width: float = 1,
        dashes: str = "", tip: str = "",
    ) -> None:  # fmt: skip
        """A straight line."""
        dash = f' stroke-dasharray="{dashes}"' if dashes else ""
        inner = f"<title>{escape(tip)}</title>" if tip else ""
        self.parts.append(
            f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{stroke}" '
            f'stroke-width="{width:.1f}"{dash}>{inner}</line>'
        )
        self._reach(max(x1, x2), max(y1, y2))

    def circle(self, kind: str, x: float, y: float, radius: float, tip: str = "") -> None:
        """A circle of a kind."""
        fill, stroke, _ = STYLES[kind]
        inner = f"<title>{escape(tip)}</title>" if tip else ""
        self.parts.append(
            f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" fill="{fill}" '
            f'stroke="{stroke}" stroke-width="1.5">{inner}</circle>'
        )
        self._reach(x + radius, y + radius)

    def svg(self, title: str) -> str:
        """The document."""
        width, height = self.right + 20, self.bottom + 20
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
            f'viewBox="0 0 {width:.0f} {height:.0f}" font-family={quoteattr(FONT)}>\n'
            f"<title>{escape(title)}</title>\n<defs>{HATCH}</defs>\n"
            f'<rect width="{width:.0f}" height="{height:.0f}" fill="#ffffff"/>\n'
            + "\n".join(self.parts)
            + "\n</svg>\n"
        )
