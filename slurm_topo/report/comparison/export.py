"""A comparison as JSON: everything that the documents say, for other programs."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import Any

from slurm_topo.report.comparison.baseline import Baseline
from slurm_topo.report.comparison.effect import Effect
from slurm_topo.report.comparison.result import FORMAT, VERSION, Comparison
from slurm_topo.report.export import plain


def render_json(c: Comparison) -> str:
    """The comparison as one JSON object, described in docs/compare.md."""
    analysis = c.analysis
    body = {
        "format": FORMAT,
        "version": VERSION,
        "source": c.source,
        "filters": dict(c.filters),
        "first_start": c.first,
        "last_start": c.last,
        "design": c.design,
        "method": asdict(c.method),
        "runs": {"all": c.runs, "before": c.before, "after": c.after, "excluded": dict(c.excluded)},
        "baseline": _baseline(analysis.baseline, analysis.unknown),
        "effect": _effect(analysis.effect),
        "saving": plain(c.saving),
        "avoided": plain(analysis.avoided),
        "verdict": analysis.verdict,
        "because": analysis.because,
        "costs": plain(c.costs),
        "prices": asdict(c.prices),
        "programs": plain(c.programs),
        "alternatives": plain(c.alternatives),
        "sha256": dict(c.digests),
        "software": dict(c.versions),
        "command": c.command,
    }
    return json.dumps(_finite(body), indent=1, allow_nan=False) + "\n"


def _baseline(model: Baseline | None, unknown: tuple[str, ...]) -> dict[str, Any] | None:
    if model is None:
        return None
    return {
        "slopes": dict(zip(model.terms, model.slopes.tolist(), strict=True)),
        "not_adjusted_for": list(unknown),
        "cv_rmse": model.cv_rmse,
        "nmbe": model.nmbe,
        "runs": model.runs,
        "keys": model.keys,
    }


def _effect(effect: Effect) -> dict[str, Any]:
    return {name: value for name, value in asdict(effect).items() if name not in ("saving", "low", "high")}


def _finite(thing: Any) -> Any:
    """NaN is not known: null."""
    if isinstance(thing, dict):
        return {key: _finite(value) for key, value in thing.items()}
    if isinstance(thing, list | tuple):
        return [_finite(item) for item in thing]
    if isinstance(thing, float) and not math.isfinite(thing):
        return None
    return thing
