"""What a level costs when nobody has measured it: documented defaults, always marked ``assumed``.

docs/machine.md names the published figures behind the numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from slurm_topo.errors import MachineError
from slurm_topo.model import Level

# level: (latency in s of a small MPI message, B/s that one core keeps while all others communicate too)
_DEFAULTS = {
    "core": (2.0e-7, 12.0e9),
    "l2": (2.2e-7, 11.0e9),
    "l3": (2.5e-7, 10.0e9),
    "die": (3.0e-7, 7.0e9),
    "numa": (3.5e-7, 5.0e9),
    "package": (4.5e-7, 4.0e9),
    "node": (7.0e-7, 2.5e9),
    "switch": (1.3e-6, 0.8e9),
}
# Each further tier of switches: two more hops and cables, and fewer links upward than downward.
_TIER_LATENCY_S = 4.0e-7
_TIER_SHARE = 0.6
_SWITCH = re.compile(r"^switch([0-9]*)$")
ORIGINS = ("assumed", "measured", "given")


@dataclass(frozen=True)
class MeasuredLevel(Level):
    """A level with how it was measured (date, method, spread), which the description keeps under ``meta``."""

    meta: Mapping[str, Any] = field(default_factory=dict, compare=False)


def switch_level(height: int) -> str:
    """Name of a level of switches: ``switch`` for leaves (height 1), ``switch2`` above them, and so on."""
    return "switch" if height == 1 else f"switch{height}"


def is_level(name: str) -> bool:
    """True for a name of the vocabulary."""
    return name in _DEFAULTS or bool(_SWITCH.match(name))


def default_level(name: str) -> Level:
    """The documented default of a level.

    Raises
    ------
    MachineError
        The name is not of the vocabulary.

    Examples
    --------
    >>> default_level("switch2").origin
    'assumed'
    """
    if name in _DEFAULTS:
        latency, bandwidth = _DEFAULTS[name]
        return Level(name, latency, 1.0 / bandwidth, "assumed")
    match = _SWITCH.match(name)
    if not match:
        raise MachineError(
            f"level {name!r}: unknown; known are {', '.join(_DEFAULTS)}, switch2, switch3 and so on"
        )
    latency, bandwidth = _DEFAULTS["switch"]
    above = max(int(match[1] or 1), 1) - 1
    # Beyond any real fabric the bandwidth stays: it must not underflow.
    share = _TIER_SHARE ** min(above, 50)
    return Level(name, latency + above * _TIER_LATENCY_S, 1.0 / (bandwidth * share), "assumed")


def level_of(name: str, known: Mapping[str, Level]) -> Level:
    """The measured or given level of this name, else the default."""
    return known.get(name) or default_level(name)


def origin_of(levels: Iterable[Level]) -> str:
    """``assumed``, ``measured``, ``given``, or several joined by ``+``: what a report says of its costs."""
    return "+".join(sorted({level.origin for level in levels}))
