"""The item that the submit hook leaves in ``admin_comment`` (docs/formats.md)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from slurm_topo.config import ARMS

_ITEM = re.compile(r"(?:^|;\s*)slurm-topo:1((?:\s+\w+=[^\s;]*)*)\s*(?=;|$)")
_KEY = re.compile(r"^[snux][0-9a-f]{22}$")
_STEP_KEY = re.compile(r"^[ce][0-9a-f]{22}$")


@dataclass(frozen=True)
class SubmitMark:
    """What the hook decided: arm, why, fingerprint keys (exact to loose), program and graph as advised."""

    arm: str
    reason: str
    keys: tuple[str, ...]
    program: int | None
    graph: str | None


def parse_comment(text: str) -> SubmitMark | None:
    """The last item of ours in a comment, None where there is none or it is damaged.

    Examples
    --------
    >>> parse_comment("project=42; slurm-topo:1 arm=off reason=tasks").reason
    'tasks'
    """
    items = _ITEM.findall(text)
    if not items:
        return None
    found = dict(word.split("=", 1) for word in items[-1].split())
    if found.get("arm") not in ARMS:
        return None
    return SubmitMark(
        arm=found["arm"],
        reason=found.get("reason", ""),
        keys=parse_keys(found.get("keys", "")),
        program=int(found["program"]) if found.get("program", "").isdigit() else None,
        graph=found.get("graph") or None,
    )


def parse_keys(text: str) -> tuple[str, ...]:
    """The well-formed keys of a list joined by ``:``."""
    return tuple(key for key in text.split(":") if _KEY.match(key))


def parse_step_keys(text: str) -> tuple[str, ...]:
    """The keys of a step among those of its trace."""
    return tuple(key for key in text.split(":") if _STEP_KEY.match(key))
