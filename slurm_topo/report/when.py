"""Times on the command line: dates, times and spans back from now. UTC."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from slurm_topo.errors import InputError

_SPANS = {"m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def parse_when(text: str, now: float) -> float:
    """Seconds since the epoch of a date, a time, ``today``, ``yesterday``, ``now`` or a span such as ``7d``.

    Parameters
    ----------
    text : str
        ``2026-11-30``, ``2026-11-30T12:00`` (UTC unless it names a zone), ``12h``, ``7d``, ``4w`` ago.
    now : float
        Seconds since the epoch.

    Raises
    ------
    InputError
        The text is no time.

    Examples
    --------
    >>> parse_when("1970-01-02", 0.0), parse_when("2h", 7200.0)
    (86400.0, 0.0)
    """
    word = text.strip().lower()
    midnight = now - now % 86400
    named = {"now": now, "today": midnight, "yesterday": midnight - 86400}
    if word in named:
        return named[word]
    span = re.fullmatch(r"([0-9]+)([mhdw])", word)
    if span:
        return now - int(span[1]) * _SPANS[span[2]]
    try:
        parsed = datetime.fromisoformat(text.strip())
    except ValueError:
        raise InputError(
            f"time {text!r}: not a date, a time or a span; "
            "write for example 2026-11-30, 2026-11-30T12:00 or 7d"
        ) from None
    return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()
