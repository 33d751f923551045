"""From times to levels: latency of the smallest message, bandwidth from the slope between the largest two."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from slurm_topo.errors import MachineError
from slurm_topo.machine.calibrate.pairs import CalibrationPlan
from slurm_topo.machine.levels import MeasuredLevel

# test -> pair -> size -> seconds one way, a number a repeat
Times = dict[int, dict[int, dict[int, list[float]]]]


@dataclass(frozen=True)
class LevelFit:
    """What was found at one level.

    Attributes
    ----------
    name : str
        Level.
    latency_s : float
        Seconds of the smallest message, one pair alone, the fastest repeat.
    one_pair : float
        B/s of one pair alone.
    share : float
        B/s that each pair keeps while all pairs play.
    total : float
        B/s of all pairs together: what the link between them carries.
    pairs : int
        Pairs that played together.
    spread : float
        (slowest - fastest) / median of the repeats of the largest message, one pair alone.
    """

    name: str
    latency_s: float
    one_pair: float
    share: float
    total: float
    pairs: int
    spread: float

    def level(self, date: str, method: str) -> MeasuredLevel:
        """The level as placements use it: a core's share of the bandwidth while others communicate too."""
        meta = {
            "date": date,
            "method": method,
            "pairs": self.pairs,
            "latency_s": self.latency_s,
            "share_bandwidth": self.share,
            "one_pair_bandwidth": self.one_pair,
            "total_bandwidth": self.total,
            "spread": round(self.spread, 4),
        }
        return MeasuredLevel(self.name, self.latency_s, 1.0 / self.share, "measured", meta=meta)


def parse_results(text: str) -> tuple[Times, int]:
    """Times of a run of pingpong, and how many ranks could not be bound.

    Raises
    ------
    MachineError
        The output is incomplete.
    """
    times: Times = {}
    unbound, ended = 0, False
    for line in text.splitlines():
        words = line.split()
        try:
            if words[:1] == ["unbound"]:
                unbound = int(words[1])
            elif words[:1] == ["end"]:
                ended = True
            elif words[:1] == ["result"]:
                test, pair, size = (int(w) for w in words[1:4])
                times.setdefault(test, {}).setdefault(pair, {})[size] = [float(w) for w in words[4:]]
        except (ValueError, IndexError) as error:
            raise MachineError(f"calibration: {line[:60]!r} cannot be understood; run it again") from error
    if not ended or not times:
        raise MachineError("calibration: the measurement did not come to its end; run it again with --debug")
    return times, unbound


def fit_levels(plan: CalibrationPlan, times: Times) -> list[LevelFit]:
    """What each level of the plan costs.

    Raises
    ------
    MachineError
        Times of a level are missing or not above 0.
    """
    fits = []
    for i, name in enumerate(plan.levels):
        alone, together = times.get(2 * i), times.get(2 * i + 1)
        if not alone or not together:
            raise MachineError(f"calibration: no times of level {name}; run it again")
        one = alone[0]
        smallest, largest = min(one), max(one)
        if any(t <= 0 for pair in (*alone.values(), *together.values()) for ts in pair.values() for t in ts):
            raise MachineError(f"calibration: times of level {name} are not above 0; run it again")
        share = [_slope({s: statistics.median(ts) for s, ts in pair.items()}) for pair in together.values()]
        repeats = one[largest]
        fits.append(
            LevelFit(
                name=name,
                latency_s=min(one[smallest]),
                one_pair=_slope({size: min(ts) for size, ts in one.items()}),
                share=statistics.fmean(share),
                total=sum(share),
                pairs=len(together),
                spread=(max(repeats) - min(repeats)) / statistics.median(repeats),
            )
        )
    return fits


def measured_levels(fits: Sequence[LevelFit], date: str, method: str) -> list[MeasuredLevel]:
    """Levels to store, none cheaper than the one inside it; ``meta`` keeps what was measured."""
    found: list[MeasuredLevel] = []
    latency = per_byte = 0.0
    for fit in fits:
        level = fit.level(date, method)
        latency, per_byte = max(latency, level.latency_s), max(per_byte, level.seconds_per_byte)
        found.append(replace(level, latency_s=latency, seconds_per_byte=per_byte))
    return found


def _slope(seconds: Mapping[int, float]) -> float:
    """B/s between the two largest messages; from the largest alone where noise turned them round."""
    sizes = sorted(seconds)
    if len(sizes) > 1:
        small, large = sizes[-2:]
        rise = seconds[large] - seconds[small]
        if rise > 0.2 * seconds[large]:
            return (large - small) / rise
    return sizes[-1] / seconds[sizes[-1]]


def oddities(fits: Sequence[LevelFit]) -> list[str]:
    """Levels that came out faster than the one inside them: noise, or a model that is not the machine."""
    found = []
    for inner, outer in pairwise(fits):
        if outer.latency_s < 0.9 * inner.latency_s:
            found.append(f"latency of {outer.name} is below that of {inner.name}")
        if outer.share > 1.1 * inner.share:
            found.append(f"bandwidth of {outer.name} is above that of {inner.name}")
    return found
