"""Slurm's accounting: asks ``sacct`` and reads its text and its JSON, 20.11 to 26.05."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from slurm_topo.errors import SlurmError
from slurm_topo.slurm import values
from slurm_topo.slurm.command import Runner, run_command

# All exist from 20.11 to 26.05. The last one never holds a line break: so a record ends where it should.
FIELDS = (
    "JobIDRaw",
    "JobID",
    "JobName",
    "User",
    "UID",
    "Account",
    "Partition",
    "Cluster",
    "Submit",
    "Start",
    "End",
    "State",
    "ExitCode",
    "NNodes",
    "NCPUS",
    "NTasks",
    "NodeList",
    "AllocTRES",
    "TRESUsageInTot",
    "TRESUsageOutTot",
    "ConsumedEnergyRaw",
    "MaxRSS",
    "AveCPU",
    "TotalCPU",
    "AdminComment",
    "Comment",
    "ElapsedRaw",
)
_IDS_AT_ONCE = 400
_TIMEOUT_S = 600.0


@dataclass(frozen=True)
class AccountingRow:
    """One line of the accounting: a job (``step`` empty) or one of its steps.

    Attributes
    ----------
    job : int
        Raw job id.
    step : str
        Empty, ``batch``, ``extern``, ``interactive`` or a number.
    array_job, array_task, het_job, het_offset : int or None
        Where it belongs to an array or a heterogeneous job.
    submitted, started, ended : int or None
        Seconds since the epoch, UTC.
    elapsed_s, cpu_s, average_cpu_s : float or None
        Wall time, CPU time of all tasks, mean CPU time of a task, seconds.
    max_rss, energy_j : float or None
        Bytes; joules (None where Slurm does not measure).
    state : str
        In capitals, without "by ...".
    """

    job: int
    step: str
    name: str
    user: str
    uid: int | None
    account: str
    partition: str
    cluster: str
    submitted: int | None
    started: int | None
    ended: int | None
    elapsed_s: float | None
    state: str
    exit_code: str
    nodes: int | None
    cpus: int | None
    tasks: int | None
    gpus: int | None
    node_list: str
    alloc_tres: str
    usage: str
    energy_j: float | None
    max_rss: float | None
    average_cpu_s: float | None
    cpu_s: float | None
    admin_comment: str
    comment: str
    array_job: int | None = None
    array_task: int | None = None
    het_job: int | None = None
    het_offset: int | None = None

    @property
    def final(self) -> bool:
        """It will not change any more."""
        return self.state not in values.OPEN_STATES and self.ended is not None


def read_accounting(
    since: int | None = None,
    until: int | None = None,
    jobs: Iterable[int] = (),
    run: Runner = run_command,
) -> Iterator[AccountingRow]:
    """Jobs and steps from ``sacct``, of all users that the caller may see.

    Parameters
    ----------
    since, until : int, optional
        Jobs that existed in this time (seconds since the epoch, UTC).
    jobs : iterable of int
        Instead: these job ids, whenever they ran.
    run : callable
        Starts a command.

    Raises
    ------
    SlurmError
        sacct is missing, failed or printed what cannot be understood.
    """
    wanted = list(jobs)
    if run is run_command:
        # A day of a large site may take slurmdbd minutes.
        run = partial(run_command, timeout_s=_TIMEOUT_S)
    if not wanted:
        yield from _ask(_window(since, until), run)
    for start in range(0, len(wanted), _IDS_AT_ONCE):
        # Without a start, sacct looks at today only, even for ids.
        ids = ",".join(str(job) for job in wanted[start : start + _IDS_AT_ONCE])
        yield from _ask(["--jobs", ids, *_window(since or 0, until)], run)


def _window(since: int | None, until: int | None) -> list[str]:
    words = []
    for option, when in (("--starttime", since), ("--endtime", until)):
        if when is not None:
            words += [option, datetime.fromtimestamp(when, UTC).strftime("%Y-%m-%dT%H:%M:%S")]
    return words


def _ask(arguments: Sequence[str], run: Runner) -> Iterator[AccountingRow]:
    # A job name may hold any character, so the delimiter is one that nobody can guess.
    delimiter = f"\x1f{secrets.token_hex(8)}\x1f"
    fields = list(FIELDS)
    while True:
        argv = ["sacct", "--allusers", "--parsable2", "--noheader", f"--delimiter={delimiter}"]
        try:
            text = run([*argv, f"--format={','.join(fields)}", *arguments])
            break
        except SlurmError as error:
            unknown = re.search(r"Invalid field requested: \"?(\w+)", str(error))
            if not unknown or unknown[1] not in fields or unknown[1] in ("JobIDRaw", "ElapsedRaw"):
                raise
            fields.remove(unknown[1])
    return parse_sacct(text, fields, delimiter)


def parse_sacct(text: str, fields: Sequence[str] = FIELDS, delimiter: str = "|") -> Iterator[AccountingRow]:
    """Rows of the output of ``sacct --parsable2 --noheader``.

    Parameters
    ----------
    text : str
        The output. A field may hold line breaks.
    fields : sequence of str
        Names of the columns.
    delimiter : str
        What stands between them.

    Raises
    ------
    SlurmError
        A record has another number of fields.
    """
    waiting = ""
    for line in text.split("\n"):
        waiting = f"{waiting}\n{line}" if waiting else line
        found = waiting.count(delimiter) + 1
        if not waiting or found < len(fields):
            continue
        parts = waiting.split(delimiter)
        if found > len(fields):
            parts = _rejoin_name(parts, fields, delimiter)
        row = _row(dict(zip(fields, parts, strict=True)))
        waiting = ""
        if row:
            yield row
    if waiting.strip():
        raise SlurmError(
            f"sacct: a record of {waiting.count(delimiter) + 1} fields where {len(fields)} were asked for "
            f"({waiting[:60]!r}); check that sacct and slurmdbd are of one release"
        )


def _rejoin_name(parts: list[str], fields: Sequence[str], delimiter: str) -> list[str]:
    """A job name that holds the delimiter: all parts too many belong to it (recorded files with ``|``)."""
    if "JobName" not in fields:
        raise SlurmError(
            f"sacct: a record of {len(parts)} fields where {len(fields)} were asked for ({parts[0]!r}); "
            "give another delimiter"
        )
    at, extra = list(fields).index("JobName"), len(parts) - len(fields)
    return [*parts[:at], delimiter.join(parts[at : at + extra + 1]), *parts[at + extra + 1 :]]


def _row(fields: Mapping[str, str]) -> AccountingRow | None:
    raw = re.match(r"^(\d+)(?:\+(\d+))?(?:\.(.+))?$", fields["JobIDRaw"].strip())
    if not raw:
        # For example a pending array without ids of its own.
        return None
    get = fields.get
    shown = get("JobID", "")
    allocated = values.tres(get("AllocTRES", ""))
    # Tasks that wait are one line, such as 100_[1-3].
    array = re.match(r"^(\d+)_(\d+)?", shown)
    het = re.match(r"^(\d+)\+(\d+)", shown)
    return AccountingRow(
        job=int(raw[1]),
        step=raw[3] or "",
        name=get("JobName", ""),
        user=get("User", ""),
        uid=values.count(get("UID")),
        account=get("Account", ""),
        partition=get("Partition", ""),
        cluster=get("Cluster", ""),
        submitted=values.moment(get("Submit")),
        started=values.moment(get("Start")),
        ended=values.moment(get("End")),
        elapsed_s=values.number(get("ElapsedRaw")),
        state=values.state(get("State")),
        exit_code=get("ExitCode", ""),
        # Saved with other columns, the allocation says it too.
        nodes=values.count(get("NNodes") or allocated.get("node")),
        cpus=values.count(get("NCPUS") or allocated.get("cpu")),
        tasks=values.count(get("NTasks")),
        gpus=values.gpus(get("AllocTRES", "")),
        node_list="" if get("NodeList", "") in ("None assigned", "Unknown") else get("NodeList", ""),
        alloc_tres=get("AllocTRES", ""),
        usage=" ".join(u for u in (get("TRESUsageInTot", ""), get("TRESUsageOutTot", "")) if u),
        energy_j=values.energy(get("ConsumedEnergyRaw")),
        max_rss=values.size(get("MaxRSS")),
        average_cpu_s=values.seconds(get("AveCPU")),
        cpu_s=values.seconds(get("TotalCPU")),
        admin_comment=get("AdminComment", ""),
        comment=get("Comment", ""),
        array_job=int(array[1]) if array else None,
        array_task=int(array[2]) if array and array[2] else None,
        het_job=int(het[1]) if het else None,
        het_offset=int(het[2]) if het else None,
    )


def parse_sacct_json(text: str) -> Iterator[AccountingRow]:
    """Rows of ``sacct --json`` (and of slurmrestd's ``/slurmdb/.../jobs``), data parser 0.0.37 and later.

    Raises
    ------
    SlurmError
        The text is no such JSON.
    """
    try:
        jobs = json.loads(text)["jobs"]
        rows = [row for job in jobs for row in _rows_of_json(job)]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SlurmError(
            f"sacct: its JSON cannot be understood ({type(error).__name__}: {error}); use the text output"
        ) from error
    yield from rows


def _rows_of_json(job: Mapping[str, Any]) -> Iterator[AccountingRow]:
    when, comment = job["time"], job.get("comment") or {}
    allocated = _tres_of_json(job.get("tres", {}).get("allocated") or [])
    counts = values.tres(allocated)
    array, het = job.get("array") or {}, job.get("het") or {}
    common = {"user": job.get("user") or job.get("association", {}).get("user", ""), "uid": None}
    common |= {k: job.get(k) or "" for k in ("account", "partition", "cluster")}
    submitted = values.moment(when.get("submission"))
    yield AccountingRow(
        job=int(job["job_id"]),
        step="",
        name=job.get("name") or "",
        **common,
        submitted=submitted,
        started=values.moment(when.get("start")),
        ended=values.moment(when.get("end")),
        elapsed_s=values.number(when.get("elapsed")),
        state=values.state((job.get("state") or {}).get("current")),
        exit_code=_exit_code(job.get("exit_code") or {}),
        # 0: it never had any.
        nodes=values.count(job.get("allocation_nodes")) or None,
        cpus=values.count(counts.get("cpu")),
        tasks=None,
        gpus=values.gpus(allocated),
        node_list="" if job.get("nodes") in (None, "None assigned") else job["nodes"],
        alloc_tres=allocated,
        usage="",
        energy_j=values.energy(counts.get("energy")),
        max_rss=None,
        average_cpu_s=None,
        cpu_s=_clock(when.get("total")),
        admin_comment=comment.get("administrator") or "",
        comment=comment.get("job") or "",
        array_job=values.count(array.get("job_id")) or None,
        array_task=values.count(array.get("task_id")) if array.get("job_id") else None,
        het_job=values.count(het.get("job_id")) or None,
        het_offset=values.count(het.get("job_offset")) if het.get("job_id") else None,
    )
    for step in job.get("steps") or []:
        yield _step_of_json(int(job["job_id"]), submitted, step, common)


def _step_of_json(
    job: int, submitted: int | None, step: Mapping[str, Any], common: Mapping[str, Any]
) -> AccountingRow:
    when, nodes, tres = step["time"], step.get("nodes") or {}, step.get("tres") or {}
    allocated = _tres_of_json(tres.get("allocated") or [])
    identity = step.get("step", {}).get("id", "")
    if isinstance(identity, dict):
        # 21.08: {"job_id": 5, "step_id": "batch"}.
        identity = identity.get("step_id", "")
    # 22.05 names the step alone, later releases "5.batch".
    name = str(identity)
    statistics = step.get("statistics") or {}
    return AccountingRow(
        job=job,
        step=name.partition(".")[2] if "." in name else name,
        name=step.get("step", {}).get("name", ""),
        **common,
        submitted=submitted,
        started=values.moment(when.get("start")),
        ended=values.moment(when.get("end")),
        elapsed_s=values.number(when.get("elapsed")),
        state=values.state(step.get("state")),
        exit_code=_exit_code(step.get("exit_code") or {}),
        nodes=values.count(nodes.get("count")),
        cpus=values.count(values.tres(allocated).get("cpu")),
        tasks=values.count((step.get("tasks") or {}).get("count")),
        gpus=values.gpus(allocated),
        node_list=nodes.get("range") or "",
        alloc_tres=allocated,
        usage=_tres_of_json((tres.get("consumed") or tres.get("requested") or {}).get("total") or []),
        energy_j=values.energy((statistics.get("energy") or {}).get("consumed")),
        max_rss=None,
        average_cpu_s=None,
        cpu_s=_clock(when.get("total")),
        admin_comment="",
        comment="",
    )


def _clock(total: Any) -> float | None:
    if not isinstance(total, dict):
        return values.number(total)
    return (values.number(total.get("seconds")) or 0) + (values.number(total.get("microseconds")) or 0) * 1e-6


def _exit_code(code: Mapping[str, Any]) -> str:
    signal = code.get("signal") or {}
    number = values.count(signal.get("id", signal.get("signal_id")))
    return f"{values.count(code.get('return_code')) or 0}:{number or 0}"


def _tres_of_json(entries: Iterable[Mapping[str, Any]]) -> str:
    parts = []
    for entry in entries:
        name = f"{entry.get('type')}/{entry['name']}" if entry.get("name") else str(entry.get("type"))
        if values.number(entry.get("count")) is not None:
            parts.append(f"{name}={entry['count']}")
    return ",".join(parts)
