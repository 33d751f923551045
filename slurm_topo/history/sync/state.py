"""What sync remembers between passes (table ``sync_state``)."""

from __future__ import annotations

import json
from collections.abc import Iterable

from sqlalchemy import Connection, delete, select

from slurm_topo.history.schema import sync_state

# Programs that have new graphs, of which one is still to be chosen.
_TO_CHOOSE = "graphs_to_choose"


def set_state(connection: Connection, name: str, value: str) -> None:
    """Remember a value between passes."""
    connection.execute(delete(sync_state).where(sync_state.c.name == name))
    connection.execute(sync_state.insert().values(name=name, value=value))


def remember_choices(connection: Connection, programs: Iterable[int]) -> None:
    """Note programs whose graph is to be chosen, in the transaction that brings the new graphs."""
    wanted = set(programs)
    if wanted:
        set_state(connection, _TO_CHOOSE, json.dumps(sorted(wanted | _choices(connection))))


def take_choices(connection: Connection) -> set[int]:
    """The programs that were noted; they are noted no more."""
    found = _choices(connection)
    if found:
        connection.execute(delete(sync_state).where(sync_state.c.name == _TO_CHOOSE))
    return found


def _choices(connection: Connection) -> set[int]:
    text = connection.execute(select(sync_state.c.value).where(sync_state.c.name == _TO_CHOOSE)).scalar()
    return set(json.loads(text)) if text else set()
