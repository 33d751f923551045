"""Weeks, days and hours of the calendar, in UTC."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np

from slurm_topo.model import Floats
from slurm_topo.report.runs import Labels

# Length and first start, seconds; 1970-01-01 was a Thursday, weeks begin on Monday.
_PERIODS = {"week": (7 * 86400, 4 * 86400), "day": (86400, 0), "hour": (3600, 0)}
_FORMATS = {"day": "%Y-%m-%d", "hour": "%Y-%m-%d %H:%M"}


def period_name(time: float, unit: str) -> str:
    """Name of the week, day or hour that a time is in.

    Examples
    --------
    >>> period_name(0, "week"), period_name(0, "day"), period_name(3700, "hour")
    ('1970-W01', '1970-01-01', '1970-01-01 01:00')
    """
    length, first = _PERIODS[unit]
    moment = datetime.fromtimestamp(time - (time - first) % length, UTC)
    if unit == "week":
        year, week, _ = moment.isocalendar()
        return f"{year}-W{week:02d}"
    return moment.strftime(_FORMATS[unit])


def period_of(span: float) -> str:
    """The unit that gives some ten to fifty periods.

    Examples
    --------
    >>> period_of(3600), period_of(10 * 86400), period_of(90 * 86400)
    ('hour', 'day', 'week')
    """
    return "hour" if span < 2 * 86400 else "day" if span < 42 * 86400 else "week"


def period_names(first: float, last: float, unit: str) -> list[str]:
    """Names of all periods from one time to another, without a gap."""
    length, begin = _PERIODS[unit]
    start = first - (first - begin) % length
    return [period_name(start + i * length, unit) for i in range(int((last - start) // length) + 1)]


def period_labels(start: Floats, unit: str) -> Labels:
    """The period of each start, shape (n,); empty text where it is unknown."""
    length, first = _PERIODS[unit]
    number = np.floor((np.nan_to_num(start, nan=-1.0) - first) / length).astype(np.int64)
    distinct, codes = np.unique(number, return_inverse=True)
    names = [period_name(float(n) * length + first, unit) for n in distinct]
    labels = Labels(codes.astype(np.int32), tuple(names))
    unknown = ~np.isfinite(start)
    if not unknown.any():
        return labels
    return Labels(np.where(unknown, len(names), labels.codes).astype(np.int32), (*names, ""))
