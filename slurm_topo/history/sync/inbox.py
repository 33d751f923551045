"""The files that one job left in its user's spool folder."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from sqlalchemy import Connection, select

from slurm_topo.history.schema import files
from slurm_topo.history.sync.files import FileInfo, SpoolError
from slurm_topo.history.sync.spool import MAX_PLAN, MAX_RECORDS, MAX_TRACE, UserSpool

_TRACE = re.compile(r"^(\d{1,10})\.([A-Za-z0-9_+-]{1,32})\.([^/]{1,255})\.trace$")
_RECORD = re.compile(r"^(\d{1,10})\.([A-Za-z0-9_+-]{1,32})\.([^/]{1,255})\.rec$")
_PLAN = re.compile(r"^(\d{1,10})-\d+x\d+-\w{1,64}\.(?:plan|hosts|ranks)$")
_LIMITS = {"traces": MAX_TRACE, "records": MAX_RECORDS, "plans": MAX_PLAN}
KINDS = {"traces": "trace", "records": "record", "plans": "plan"}


@dataclass(frozen=True)
class SpoolFile:
    """A file of the spool, with what its name says.

    Attributes
    ----------
    folder : str
        ``traces``, ``records`` or ``plans``.
    step, node : str
        Empty where the name does not say it.
    """

    folder: str
    info: FileInfo
    job: int
    step: str = ""
    node: str = ""

    @property
    def name(self) -> str:
        return self.info.name


@dataclass
class JobFiles:
    """All files of one job."""

    job: int
    traces: list[SpoolFile] = field(default_factory=list)
    records: list[SpoolFile] = field(default_factory=list)
    plans: list[SpoolFile] = field(default_factory=list)

    def all(self) -> list[SpoolFile]:
        """Every file, traces first."""
        return [*self.traces, *self.records, *self.plans]

    @property
    def modified(self) -> int:
        """When the newest file changed last, seconds since the epoch."""
        return max((f.info.modified for f in self.all()), default=0)


@dataclass(frozen=True)
class ReadFile:
    """A file and its content."""

    file: SpoolFile
    content: bytes
    digest: str


def list_jobs(spool: UserSpool) -> list[JobFiles]:
    """The jobs that left files in a user's folder, by job id. Files of other names are nobody's business."""
    found: dict[int, JobFiles] = {}
    for folder, pattern in (("traces", _TRACE), ("records", _RECORD), ("plans", _PLAN)):
        for info in spool.list(folder):
            match = pattern.match(info.name)
            if match:
                job = int(match[1])
                rest = match.groups()[1:]
                file = SpoolFile(folder, info, job, *rest)
                getattr(found.setdefault(job, JobFiles(job)), folder).append(file)
    return [found[job] for job in sorted(found)]


def read_file(spool: UserSpool, file: SpoolFile) -> ReadFile:
    """Content of a file, with its SHA-256.

    Raises
    ------
    SpoolError
        It cannot be read or is larger than such a file may be.
    """
    content = spool.read(file.folder, file.name, _LIMITS[file.folder])
    return ReadFile(file, content, hashlib.sha256(content).hexdigest())


def path_of(uid: int, file: SpoolFile) -> str:
    """Path below the spool, as the table of files holds it."""
    return f"{uid}/{file.folder}/{file.name}"


def known_status(connection: Connection, uid: int, read: ReadFile) -> str | None:
    """``read`` or ``rejected`` for a file whose very content has been dealt with, None for a new one."""
    query = select(files.c.status).where(
        files.c.path == path_of(uid, read.file), files.c.content_digest == read.digest
    )
    status: str | None = connection.execute(query).scalar()
    return status


def remember(
    connection: Connection, uid: int, reads: Iterable[ReadFile], status: str, now: int, reason: str = ""
) -> None:
    """A line for each file; a file of the same name and content has one already."""
    for read in reads:
        if known_status(connection, uid, read) is None:
            connection.execute(
                files.insert().values(
                    path=path_of(uid, read.file)[:1024],
                    content_digest=read.digest,
                    uid=uid,
                    kind=KINDS[read.file.folder],
                    size=len(read.content),
                    job=read.file.job,
                    step=read.file.step or None,
                    node=read.file.node[:255],
                    status=status,
                    reason=reason[:1024],
                    seen=now,
                )
            )


__all__ = [
    "JobFiles",
    "ReadFile",
    "SpoolError",
    "SpoolFile",
    "known_status",
    "list_jobs",
    "read_file",
    "remember",
]
