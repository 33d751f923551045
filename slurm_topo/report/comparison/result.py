"""A comparison with everything that a third party needs to check it."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import numpy as np
import scipy

from slurm_topo import __version__
from slurm_topo.model import Floats
from slurm_topo.report.comparison import evidence
from slurm_topo.report.comparison.analysis import Analysis, alternatives, analyse
from slurm_topo.report.comparison.costs import Costs, costs_of
from slurm_topo.report.comparison.effect import Effect
from slurm_topo.report.comparison.method import Method
from slurm_topo.report.comparison.prices import Prices
from slurm_topo.report.runs import Program, Records, Runs
from slurm_topo.report.values import MEASURED, Value, known

FORMAT, VERSION = "slurm-topo-comparison", 1


@dataclass(frozen=True)
class ProgramRow:
    """One program and user in the comparison."""

    program: int
    name: str
    user: str
    before: int
    after: int
    saving: Value
    avoided: Value


@dataclass(frozen=True)
class Alternative:
    """The same comparison by another method."""

    name: str
    verdict: str
    saving: Value
    pairs: int


@dataclass(frozen=True)
class Comparison:
    """Everything that the documents say.

    Attributes
    ----------
    source : str
        Where the records come from.
    filters : tuple of (str, str)
        Which of them.
    first, last : float
        Start of the first and of the last run, seconds since the epoch.
    design : str
        How runs came to be before or after.
    method : Method
        What was fixed beforehand.
    runs, before, after : int
        All runs; those compared on each side. ``runs = before + after + sum(excluded)``.
    excluded : tuple of (str, int)
        Runs that are not compared, by reason.
    analysis : Analysis
        Model, pairs, effect, verdict.
    saving : Value
        The effect as a ratio with its interval.
    costs : Costs
        Hours, energy, carbon, money; the cost of the intervention.
    prices : Prices
        What they were computed with.
    programs : tuple of ProgramRow
        Programs and users, most node-hours avoided first.
    alternatives : tuple of Alternative
        Does the result hang on a choice?
    digests : tuple of (str, str)
        SHA-256 of raw records, assignment, method, prices, code, and of files that were read.
    versions : tuple of (str, str)
        slurm-topo, Python, numpy, scipy.
    command : str
        Makes the same files again.
    """

    source: str
    filters: tuple[tuple[str, str], ...]
    first: float
    last: float
    design: str
    method: Method
    runs: int
    before: int
    after: int
    excluded: tuple[tuple[str, int], ...]
    analysis: Analysis
    saving: Value
    costs: Costs
    prices: Prices
    programs: tuple[ProgramRow, ...]
    alternatives: tuple[Alternative, ...]
    digests: tuple[tuple[str, str], ...]
    versions: tuple[tuple[str, str], ...]
    command: str


@dataclass(frozen=True)
class Origin:
    """Where the runs of a comparison come from.

    Attributes
    ----------
    source : str
        Database or files.
    design : str
        How runs came to be before or after.
    command : str
        Makes the same files again.
    files : tuple of (str, str)
        Name and SHA-256 of files that were read.
    """

    source: str
    design: str
    command: str
    files: tuple[tuple[str, str], ...] = ()


BY_ARM = (
    "on/off by drawn arm: a hash at submission assigns each run with a known communication graph to observe "
    "(before) or enforce (after)"
)
BY_PLACEMENT = "calendar: placed runs are after, all others before"
BY_CALENDAR = "calendar: the runs of one file are before, those of the other after"


def compare(records: Records, method: Method, prices: Prices, origin: Origin) -> Comparison:
    """The comparison of all runs of the records.

    Parameters
    ----------
    records : Records
        Runs and names of their programs.
    method : Method
        What was fixed beforehand.
    prices : Prices
        What the site gave.
    origin : Origin
        Where the runs come from.
    """
    raw = records.runs
    runs = with_load(raw) if _load_is_open(records, method) else raw
    analysis = analyse(runs, method)
    used, after = analysis.selection.used, analysis.selection.after
    start = runs.start[np.isfinite(runs.start)]
    digests = [
        ("raw records", evidence.digest_of_raw(raw)),
        ("assignment", evidence.digest_of_assignment(runs, after)),
        ("method", method.digest),
        ("prices", evidence.digest_of_text(repr(prices))),
        ("code", evidence.digest_of_code()),
        *origin.files,
    ]
    return Comparison(
        source=origin.source,
        filters=records.filters,
        first=float(start.min()) if len(start) else 0.0,
        last=float(start.max()) if len(start) else 0.0,
        design=BY_PLACEMENT if (method.estimand, origin.design) == ("calendar", BY_ARM) else origin.design,
        method=method,
        runs=len(runs),
        before=int((used & ~after).sum()),
        after=int((used & after).sum()),
        excluded=tuple(analysis.selection.counts().items()),
        analysis=analysis,
        saving=saving_of(analysis.effect),
        costs=costs_of(runs, analysis, prices),
        prices=prices,
        programs=_programs(runs, analysis, records.programs),
        alternatives=tuple(
            Alternative(name, other.verdict, saving_of(other.effect), other.effect.pairs)
            for name, other in alternatives(runs, method)
        ),
        digests=tuple(digests),
        versions=(
            ("slurm-topo", __version__),
            ("Python", platform.python_version()),
            ("numpy", np.__version__),
            ("scipy", scipy.__version__),
        ),
        command=origin.command,
    )


def _load_is_open(records: Records, method: Method) -> bool:
    """Load is wanted and not given; it can be computed where all runs of the cluster are here."""
    named = {"program", "user", "account", "partition"} & {name for name, _ in records.filters}
    return "load" in method.adjust and not named and not np.isfinite(records.runs.load).any()


def saving_of(effect: Effect) -> Value:
    """The effect as a value."""
    return known(effect.saving, "ratio", MEASURED, effect.pairs, (effect.low, effect.high))


def with_load(runs: Runs) -> Runs:
    """Adds the load at the start of each run: nodes of all runs going on, over the most that ever were."""
    start, end = runs.start, runs.start + np.nan_to_num(runs.elapsed)
    nodes = np.nan_to_num(runs.nodes)
    good = np.isfinite(start)
    if not good.any():
        return runs
    begins, ends = np.sort(start[good]), np.sort(end[good])
    started = np.r_[0.0, np.cumsum(nodes[good][np.argsort(start[good], kind="stable")])]
    ended = np.r_[0.0, np.cumsum(nodes[good][np.argsort(end[good], kind="stable")])]
    # Without the run itself: those that began before it, less those that had ended.
    busy: Floats = (
        started[np.searchsorted(begins, start, "left")] - ended[np.searchsorted(ends, start, "right")]
    )
    busy = np.clip(busy, 0.0, None)
    return replace(runs, load=np.where(good, busy / (float(busy[good].max()) or 1.0), np.nan))


def _programs(
    runs: Runs, analysis: Analysis, known_programs: Mapping[int, Program]
) -> tuple[ProgramRow, ...]:
    """Median saving of the pairs and node-hours avoided, by program and user."""
    if analysis.pairs is None:
        return ()
    rows, pairs = analysis.rows, analysis.pairs
    cluster, after = analysis.selection.cluster[rows], analysis.selection.after[rows]
    count = int(cluster.max()) + 1
    first = np.unique(cluster, return_index=True)[1]
    sides = [np.bincount(cluster[after == side], minlength=count) for side in (False, True)]
    hours = np.bincount(cluster[after], analysis.avoided_hours, minlength=count)
    order = np.argsort(pairs.cluster, kind="stable")
    parts = np.split(pairs.difference[order], np.cumsum(np.bincount(pairs.cluster, minlength=count))[:-1])
    made = []
    for c in range(count):
        row = rows[first[c]]
        number = int(runs.program[row])
        user = runs.user.names[runs.user.codes[row]]
        name = known_programs[number].name if number in known_programs else str(number)
        saving = 1 - float(np.exp(np.median(parts[c]))) if len(parts[c]) else None
        value = known(saving, "ratio", MEASURED, len(parts[c]))
        avoided = known(float(hours[c]), "node-h", MEASURED, int(sides[1][c]))
        made.append(ProgramRow(number, name or "?", user, int(sides[0][c]), int(sides[1][c]), value, avoided))
    return tuple(sorted(made, key=lambda r: (-(r.avoided.value or 0.0), r.program, r.user)))


def moment(time: float) -> str:
    """A time in UTC.

    Examples
    --------
    >>> moment(0)
    '1970-01-01 00:00:00 UTC'
    """
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
