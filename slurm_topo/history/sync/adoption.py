"""The program of a job whose ``admin_comment`` was lost.

Some sites write job statistics over it when a job ends. What stands in a trace is the user's word: it may
lead to her own programs, never to advice for others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import select

from slurm_topo.history.schema import programs
from slurm_topo.history.sync.comment import parse_keys
from slurm_topo.history.sync.ledger import Ledger
from slurm_topo.history.sync.programs import JobIdentity, ProgramIndex


def adopt_by_keys(ledger: Ledger, job: Mapping[str, Any], told: Iterable[str]) -> None:
    """Give a job the program of the keys that its traces hold.

    Keys that other users' programs have are left out, and those of an executable: they belong to the account.
    """
    found = next((keys for keys in map(parse_keys, told) if keys), ())
    if not found:
        return
    index = ProgramIndex(ledger.connection, found)
    keys = tuple(key for key in found if key[0] != "x" and not index.is_of_others(job["user_name"], key))
    if not keys:
        return
    identity = JobIdentity(
        user=job["user_name"],
        uid=job["uid"],
        account=job["account"],
        name=job["name"],
        keys=keys,
        ranks=job["tasks"],
        cpus_per_task=None,
        submitted=job["submitted"],
    )
    number = index.find_or_add(identity)
    index.flush()
    ledger.set_job(job["id"], program_id=number, fingerprints=":".join(keys))


def adopt_by_graph(ledger: Ledger, job: Mapping[str, Any]) -> None:
    """Give a job the newest program of its user that has the graph which its launch was to be placed with."""
    told = sorted({row["graph"] for row in ledger.decisions_of(job["id"]) if row["graph"]})
    if not told:
        return
    query = (
        select(programs.c.id)
        .where(programs.c.graph.in_(told[:500]), programs.c.user_name == job["user_name"])
        .order_by(programs.c.last_seen.desc(), programs.c.id.desc())
    )
    number = ledger.connection.execute(query).scalar()
    if number is not None:
        ledger.set_job(job["id"], program_id=number)
