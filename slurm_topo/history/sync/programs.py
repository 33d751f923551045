"""Which program a job is: from its fingerprint keys, exact to loose."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from sqlalchemy import Connection, bindparam, select, update

from slurm_topo.history.schema import program_keys, programs

# Names that say nothing about a program.
_NAMELESS = {"", "wrap", "sbatch", "interactive", "bash", "sh", "job", "run", "run.sh", "job.sh"}
_IN = 500
_Item = TypeVar("_Item")


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


@dataclass
class _Program:
    """A program in memory; ``keys`` holds first and last time of each of its keys that matter here."""

    number: int
    user: str
    values: dict[str, Any]
    keys: dict[str, tuple[int, int]] = field(default_factory=dict)


def in_parts(items: Iterable[_Item], size: int = _IN) -> Iterator[list[_Item]]:
    """Parts of a collection that a database takes in one ``IN (...)``."""
    listed = list(items)
    for start in range(0, len(listed), size):
        yield listed[start : start + size]


class ProgramIndex:
    """The programs behind the keys of some jobs, for one transaction; :meth:`flush` writes what changed."""

    def __init__(self, connection: Connection, keys: Iterable[str]) -> None:
        self._connection = connection
        self._programs: dict[int, _Program] = {}
        self._by_key: dict[str, list[_Program]] = defaultdict(list)
        self._changed: set[int] = set()
        self._changed_keys: set[tuple[int, str]] = set()
        self._new_keys: set[tuple[int, str]] = set()
        self._load(set(keys))

    def _load(self, keys: set[str]) -> None:
        numbers: set[int] = set()
        for part in in_parts(sorted(keys)):
            query = select(program_keys).where(program_keys.c.fingerprint.in_(part))
            numbers.update(row.program_id for row in self._connection.execute(query))
        for some in in_parts(sorted(numbers)):
            found = self._connection.execute(select(programs).where(programs.c.id.in_(some)))
            for about in found.mappings():
                values = {k: about[k] for k in _KEPT}
                self._programs[about["id"]] = _Program(about["id"], about["user_name"], values)
            query = select(program_keys).where(program_keys.c.program_id.in_(some))
            for row in self._connection.execute(query):
                self._index(row.program_id, row.fingerprint, row.first_seen, row.last_seen)

    def _index(self, number: int, key: str, first: int, last: int) -> None:
        program = self._programs[number]
        if key not in program.keys:
            self._by_key[key].append(program)
        program.keys[key] = (first, last)

    def find(self, user: str, keys: Sequence[str]) -> int | None:
        """The newest program of the user that has one of the keys, the most exact one that any has."""
        for key in keys:
            mine = [p for p in self._by_key.get(key, ()) if p.user == user]
            if mine:
                return max(mine, key=lambda p: (p.keys[key][1], p.number)).number
        return None

    def is_of_others(self, user: str, key: str) -> bool:
        """Whether a program of another user has the key."""
        return any(program.user != user for program in self._by_key.get(key, ()))

    def find_or_add(self, job: JobIdentity) -> int | None:
        """Number of the job's program, a new one where none of its keys is known; its keys are added to it.

        None for a job without keys.
        """
        if not job.keys:
            return None
        number = self.find(job.user, job.keys)
        if number is None:
            number = self._add(job)
        else:
            self._refresh(number, job)
        for key in job.keys:
            self._see(number, key, job.submitted)
        return number

    def _add(self, job: JobIdentity) -> int:
        values = {
            "uid": job.uid,
            "account": job.account,
            "ranks": job.ranks,
            "cpus_per_task": job.cpus_per_task,
            "first_seen": job.submitted,
            "last_seen": job.submitted,
        }
        statement = programs.insert().values(user_name=job.user, name=better_name(job.name, ""), **values)
        result = self._connection.execute(statement)
        assert result.inserted_primary_key is not None
        number = int(result.inserted_primary_key[0])
        self._programs[number] = _Program(number, job.user, values)
        return number

    def _refresh(self, number: int, job: JobIdentity) -> None:
        values = self._programs[number].values
        changed = {
            "first_seen": min(values["first_seen"], job.submitted),
            "last_seen": max(values["last_seen"], job.submitted),
            "uid": values["uid"] if values["uid"] is not None else job.uid,
            "ranks": values["ranks"] if values["ranks"] is not None else job.ranks,
            "cpus_per_task": values["cpus_per_task"] or job.cpus_per_task,
            "account": values["account"] or job.account,
        }
        if changed != values:
            values.update(changed)
            self._changed.add(number)

    def _see(self, number: int, key: str, when: int) -> None:
        known = self._programs[number].keys.get(key)
        if known is None:
            self._index(number, key, when, when)
            self._new_keys.add((number, key))
        elif not known[0] <= when <= known[1]:
            self._index(number, key, min(known[0], when), max(known[1], when))
            self._changed_keys.add((number, key))

    def flush(self) -> None:
        """Write programs and keys that changed."""
        if self._changed:
            rows = [{"_id": number, **self._programs[number].values} for number in sorted(self._changed)]
            self._connection.execute(update(programs).where(programs.c.id == bindparam("_id")), rows)
        if self._new_keys:
            rows = [
                {"program_id": number, "fingerprint": key, **self._span(number, key)}
                for number, key in sorted(self._new_keys)
            ]
            self._connection.execute(program_keys.insert(), rows)
        changed = self._changed_keys - self._new_keys
        if changed:
            mine = (program_keys.c.program_id == bindparam("_id")) & (
                program_keys.c.fingerprint == bindparam("_key")
            )
            rows = [{"_id": n, "_key": k, **self._span(n, k)} for n, k in sorted(changed)]
            self._connection.execute(update(program_keys).where(mine), rows)
        self._changed, self._new_keys, self._changed_keys = set(), set(), set()

    def _span(self, number: int, key: str) -> dict[str, int]:
        first, last = self._programs[number].keys[key]
        return {"first_seen": first, "last_seen": last}


# Columns of a program that later jobs of it may fill or move.
_KEPT = ("uid", "account", "ranks", "cpus_per_task", "first_seen", "last_seen")


def better_name(name: str, executable: str) -> str:
    """The name of a program: of its jobs, unless that says nothing and the executable is known."""
    chosen = executable.rsplit("/", 1)[-1] if name in _NAMELESS and executable else name
    # Names come from users: what a terminal would obey has no place in them.
    return "".join(c if c.isprintable() else "?" for c in chosen)[:1024]
