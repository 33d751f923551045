"""Which program a job is: from its fingerprint keys, exact to loose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, select, update

from slurm_topo.history.schema import program_keys, programs

# Names that say nothing about a program.
_NAMELESS = {"", "wrap", "sbatch", "interactive", "bash", "sh", "job", "run", "run.sh", "job.sh"}


@dataclass(frozen=True)
class JobIdentity:
    """What is known of a job: user, account, name, keys, shape, and when it was submitted."""

    user: str
    uid: int | None
    account: str
    name: str
    keys: tuple[str, ...]
    ranks: int | None
    cpus_per_task: int | None
    submitted: int


def find_or_add_program(connection: Connection, job: JobIdentity) -> int | None:
    """Number of the job's program, a new one where none of its keys is known; its keys are added to it.

    None for a job without keys.
    """
    if not job.keys:
        return None
    number = find_program(connection, job.user, job.keys)
    if number is None:
        number = _add(connection, job)
    else:
        _refresh(connection, number, job)
    for key in job.keys:
        _add_key(connection, number, key, job.submitted)
    return number


def find_program(connection: Connection, user: str, keys: Sequence[str]) -> int | None:
    """The newest program of the user with the exact key; else with the same name, unless both executables are
    known and differ; else with the same executable."""
    executables = {key for key in keys if key[0] == "x"}
    for key in keys:
        for number in _with_key(connection, user, key):
            if key[0] == "n" and executables:
                known = _executables(connection, number)
                if known and not known & executables:
                    continue
            return number
    return None


def _with_key(connection: Connection, user: str, key: str) -> list[int]:
    query = (
        select(programs.c.id)
        .join(program_keys, program_keys.c.program_id == programs.c.id)
        .where(program_keys.c.fingerprint == key, programs.c.user_name == user)
        .order_by(program_keys.c.last_seen.desc(), programs.c.id.desc())
    )
    return list(connection.execute(query).scalars())


def _executables(connection: Connection, number: int) -> set[str]:
    keys = program_keys.c
    query = select(keys.fingerprint).where(keys.program_id == number, keys.fingerprint.startswith("x"))
    return set(connection.execute(query).scalars())


def _add(connection: Connection, job: JobIdentity) -> int:
    result = connection.execute(
        programs.insert().values(
            user_name=job.user,
            uid=job.uid,
            account=job.account,
            name=job.name,
            ranks=job.ranks,
            cpus_per_task=job.cpus_per_task,
            first_seen=job.submitted,
            last_seen=job.submitted,
        )
    )
    assert result.inserted_primary_key is not None
    return int(result.inserted_primary_key[0])


def _refresh(connection: Connection, number: int, job: JobIdentity) -> None:
    row = connection.execute(select(programs).where(programs.c.id == number)).one()
    changes = {
        "first_seen": min(row.first_seen, job.submitted),
        "last_seen": max(row.last_seen, job.submitted),
        "uid": row.uid if row.uid is not None else job.uid,
        "ranks": row.ranks if row.ranks is not None else job.ranks,
        "cpus_per_task": row.cpus_per_task if row.cpus_per_task is not None else job.cpus_per_task,
        "account": row.account or job.account,
    }
    changes = {name: value for name, value in changes.items() if getattr(row, name) != value}
    if changes:
        connection.execute(update(programs).where(programs.c.id == number).values(**changes))


def _add_key(connection: Connection, number: int, key: str, seen: int) -> None:
    keys = program_keys.c
    mine = (keys.program_id == number) & (keys.fingerprint == key)
    row = connection.execute(select(keys.first_seen, keys.last_seen).where(mine)).first()
    if row is None:
        values = {"program_id": number, "fingerprint": key, "first_seen": seen, "last_seen": seen}
        connection.execute(program_keys.insert().values(**values))
    elif not row.first_seen <= seen <= row.last_seen:
        span = {"first_seen": min(row.first_seen, seen), "last_seen": max(row.last_seen, seen)}
        connection.execute(update(program_keys).where(mine).values(**span))


def better_name(name: str, executable: str) -> str:
    """The name of a program: of its jobs, unless that says nothing and the executable is known."""
    return executable.rsplit("/", 1)[-1] if name in _NAMELESS and executable else name
