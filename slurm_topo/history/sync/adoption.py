"""The program of a job whose ``admin_comment`` was lost.

Some sites write job statistics over it when a job ends. What stands in a trace is the user's word: it may
lead to her own programs, never to advice for others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import Connection, select, update

from slurm_topo.history.schema import decisions, jobs, programs
from slurm_topo.history.sync.comment import parse_keys
from slurm_topo.history.sync.programs import JobIdentity, ProgramIndex


def adopt_by_keys(connection: Connection, job: Mapping[str, Any], told: Iterable[str]) -> None:
    """Give a job the program of the keys that its traces hold.

    Keys that other users' programs have are left out, and those of an executable: they belong to the account.
    """
    found = next((keys for keys in map(parse_keys, told) if keys), ())
    if not found:
        return
    index = ProgramIndex(connection, found)
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
    values = {"program_id": number, "fingerprints": ":".join(keys)}
    connection.execute(update(jobs).where(jobs.c.id == job["id"]).values(**values))


def adopt_by_graph(connection: Connection, job: Mapping[str, Any]) -> None:
    """Give a job the newest program of its user that has the graph which its launch was to be placed with."""
    query = (
        select(programs.c.id)
        .join(decisions, decisions.c.graph == programs.c.graph)
        .where(decisions.c.job_id == job["id"], programs.c.user_name == job["user_name"])
        .order_by(programs.c.last_seen.desc(), programs.c.id.desc())
    )
    number = connection.execute(query).scalar()
    if number is not None:
        mine = (jobs.c.id == job["id"]) & jobs.c.program_id.is_(None)
        connection.execute(update(jobs).where(mine).values(program_id=number))
