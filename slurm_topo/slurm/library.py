"""Accounting through pyslurm, where a site has it and asks for it; else sacct is asked.

pyslurm is built for one release of Slurm: another one must not be used, its structures differ.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from slurm_topo.errors import SlurmError
from slurm_topo.slurm import values
from slurm_topo.slurm.command import Runner
from slurm_topo.slurm.sacct import AccountingRow, read_accounting

Reader = Callable[..., Iterator[AccountingRow]]


def accounting_reader(source: str, run: Runner, warn: Callable[[str], None]) -> Reader:
    """What reads accounting: called as :func:`slurm_topo.slurm.sacct.read_accounting`, without ``run``.

    Parameters
    ----------
    source : str
        ``sacct`` or ``pyslurm``; the latter is used where it is installed and fits, else sacct.
    run : callable
        Starts a command.
    warn : callable
        Told in one line why pyslurm is not used.
    """
    if source == "pyslurm":
        library, why = fitting_library(run)
        if library is not None:
            return partial(read_by_library, library)
        warn(f"pyslurm: {why}; sacct is asked instead")
    return partial(read_accounting, run=run)


def fitting_library(run: Runner) -> tuple[Any, str]:
    """pyslurm, or None and why it cannot be used."""
    try:
        library = importlib.import_module("pyslurm")
    except ImportError as error:
        return None, f"cannot be imported ({error})"
    version = str(getattr(library, "__version__", "")) or "unknown"
    try:
        slurm = run(["sacct", "--version"]).strip()
    except SlurmError as error:
        return None, f"Slurm's release is not known ({error})"
    if _release(version) is None or _release(version) != _release(slurm):
        return None, f"version {version} is not of {slurm}"
    if not hasattr(getattr(library, "db", None), "JobFilter"):
        return None, f"version {version} has no pyslurm.db.JobFilter"
    return library, ""


def _release(text: str) -> tuple[int, int] | None:
    found = re.search(r"(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else None


def read_by_library(
    library: Any, since: int | None = None, until: int | None = None, jobs: Iterable[int] = ()
) -> Iterator[AccountingRow]:
    """Jobs and steps from slurmdbd through pyslurm.

    Raises
    ------
    SlurmError
        slurmdbd did not answer, or the library is not what it is taken for.
    """
    wanted = list(jobs)
    # Without a start, slurmdbd looks at today only, even for ids.
    chosen: dict[str, Any] = {"start_time": since or 0} if wanted or since is not None else {}
    if until is not None:
        chosen["end_time"] = until
    if wanted:
        chosen["ids"] = wanted
    try:
        found = library.db.Jobs.load(library.db.JobFilter(**chosen))
        # A dictionary by cluster, a dictionary by id, or a list, as releases have it.
        rows = [row for job in _jobs_of(found) for row in _rows(job)]
    except Exception as error:
        text = " ".join(str(error).split())
        raise SlurmError(
            f'pyslurm: {type(error).__name__} ({text}); set accounting = "sacct" or try it by hand'
        ) from error
    yield from rows


def _jobs_of(found: Any) -> Iterator[Any]:
    for item in found.values() if isinstance(found, dict) else found:
        if isinstance(item, dict):
            yield from item.values()
        else:
            yield item


def _rows(job: Any) -> Iterator[AccountingRow]:
    gpus = [
        values.count(getattr(gpu, "count", gpu)) for gpu in dict(getattr(job, "gpus", None) or {}).values()
    ]
    common: dict[str, Any] = {
        "job": int(job.id),
        "user": job.user_name or "",
        "account": job.account or "",
        "partition": job.partition or "",
        "cluster": job.cluster or "",
        "submitted": values.moment(job.submit_time),
        "alloc_tres": "",
        "usage": "",
        "max_rss": None,
        "average_cpu_s": None,
    }
    array, het = values.count(job.array_id), values.count(job.heterogeneous_id)
    yield AccountingRow(
        **common,
        **_span(job),
        step="",
        uid=values.count(job.user_id),
        cpus=values.count(job.cpus) or None,
        tasks=None,
        gpus=sum(n for n in gpus if n is not None) if gpus else None,
        admin_comment=job.admin_comment or "",
        comment=job.comment or "",
        array_job=array or None,
        array_task=values.count(job.array_task_id) if array else None,
        het_job=het or None,
        het_offset=values.count(job.heterogeneous_offset) if het else None,
    )
    for name, step in dict(job.steps).items():
        yield AccountingRow(
            **common,
            **_span(step),
            step=str(name),
            uid=None,
            cpus=values.count(step.cpus) or None,
            tasks=values.count(step.ntasks) or None,
            gpus=None,
            admin_comment="",
            comment="",
        )


def _span(thing: Any) -> dict[str, Any]:
    """What jobs and steps have alike."""
    stats = getattr(thing, "stats", None)
    cpu = values.number(getattr(stats, "total_cpu_time", None))
    return {
        "name": thing.name or "",
        "started": values.moment(thing.start_time),
        "ended": values.moment(thing.end_time),
        "elapsed_s": values.number(thing.elapsed_time),
        "state": values.state(thing.state),
        "exit_code": f"{values.count(thing.exit_code) or 0}:{values.count(thing.exit_code_signal) or 0}",
        "nodes": values.count(thing.num_nodes) or None,
        "node_list": "" if thing.nodelist in (None, "None assigned") else str(thing.nodelist),
        "energy_j": values.energy(getattr(stats, "consumed_energy", None)),
        "cpu_s": cpu,
    }
