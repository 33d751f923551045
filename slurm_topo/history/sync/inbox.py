"""The files that one job left in its user's spool folder."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from sqlalchemy import Connection, select

from slurm_topo.history.schema import files
from slurm_topo.history.sync.files import FileInfo, SpoolError
from slurm_topo.history.sync.programs import in_parts
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


@dataclass(frozen=True, eq=False)
class ReadFile:
    """A file and its content; each is itself only."""

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


def known_files(connection: Connection, uid: int, reads: Iterable[ReadFile]) -> dict[tuple[str, str], str]:
    """Status (``read`` or ``rejected``) of what was dealt with before, by path and digest of the content."""
    paths = [path_of(uid, read.file)[:1024] for read in reads]
    found: dict[tuple[str, str], str] = {}
    for part in in_parts(paths):
        query = select(files.c.path, files.c.content_digest, files.c.status).where(files.c.path.in_(part))
        found |= {(path, digest): status for path, digest, status in connection.execute(query)}
    return found


def remember(
    connection: Connection,
    uid: int,
    reads: Mapping[ReadFile, str],
    known: Collection[tuple[str, str]],
    now: int,
) -> None:
    """A line for each file that is not known, with the reason why it is refused (empty: it is read)."""
    rows = {
        (path_of(uid, read.file)[:1024], read.digest): {
            "path": path_of(uid, read.file)[:1024],
            "content_digest": read.digest,
            "uid": uid,
            "kind": KINDS[read.file.folder],
            "size": len(read.content),
            "job": read.file.job,
            "step": read.file.step or None,
            "node": read.file.node[:255],
            "status": "rejected" if reason else "read",
            "reason": reason[:1024],
            "seen": now,
        }
        for read, reason in reads.items()
    }
    new = [row for name, row in rows.items() if name not in known]
    if new:
        connection.execute(files.insert(), new)


__all__ = [
    "JobFiles",
    "ReadFile",
    "SpoolError",
    "SpoolFile",
    "known_files",
    "list_jobs",
    "read_file",
    "remember",
]
