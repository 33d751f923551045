"""The allocation that this process runs in: nodes, tasks and CPUs, from SLURM_* and ``scontrol show job``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from slurm_topo.errors import InputError, SlurmError
from slurm_topo.slurm import values
from slurm_topo.slurm.command import Runner, run_command
from slurm_topo.slurm.scontrol import JobDetails, read_job
from slurm_topo.units import expand_hostlist


@dataclass(frozen=True)
class Allocation:
    """What Slurm gave to a job.

    Attributes
    ----------
    job : int
        Job id.
    nodes : tuple of str, length n
        Host names, in Slurm's order.
    ntasks : int
        Number of tasks that Slurm would start.
    tasks_per_node : tuple of int, length n
        How they are spread over the nodes; sums to ``ntasks``.
    cpus_per_task : int
        Slurm CPUs of each task.
    cpus_on_node : tuple of int, length n
        Number of Slurm CPUs that the job owns on each node (zeros where unknown).
    cpus_by_node : mapping of str to tuple of int
        Slurm's *abstract* CPU ids on each node (``CPU_IDs``), empty where slurmctld was not asked. They
        number cores block by block with their threads together: ``NodeClass.os_cpus`` translates.
    exclusive : bool
        The job shares its nodes with nobody.
    gpus_by_node : mapping of str to tuple of int
        Numbers of its GPUs on each node that has any, as Slurm counts them there.
    """

    job: int
    nodes: tuple[str, ...]
    ntasks: int
    tasks_per_node: tuple[int, ...]
    cpus_per_task: int
    cpus_on_node: tuple[int, ...] = ()
    cpus_by_node: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    exclusive: bool = False
    gpus_by_node: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


def expand_counts(text: str) -> tuple[int, ...]:
    """Numbers of a list such as SLURM_TASKS_PER_NODE.

    Raises
    ------
    InputError
        The text is no such list.

    Examples
    --------
    >>> expand_counts("2(x3),1")
    (2, 2, 2, 1)
    """
    found: list[int] = []
    for part in text.split(","):
        match = re.match(r"^\s*(\d+)(?:\(x(\d+)\))?\s*$", part, re.ASCII)
        if not match or int(match[2] or 1) > 1_000_000:
            raise InputError(f"count list {text!r}: {part!r} is no count; write for example 2(x3),1")
        found += [int(match[1])] * int(match[2] or 1)
    return tuple(found)


def read_allocation(environ: Mapping[str, str], run: Runner | None = run_command) -> Allocation:
    """The allocation of the job whose environment is given.

    Parameters
    ----------
    environ : mapping
        Environment of the job (``os.environ`` in it).
    run : callable or None
        Starts ``scontrol``, which knows the CPUs; None: only the environment counts.

    Raises
    ------
    SlurmError
        This is no job, its environment contradicts itself, or scontrol failed.
    """
    job = _number(environ, "SLURM_JOB_ID", "SLURM_JOBID")
    nodelist = environ.get("SLURM_JOB_NODELIST") or environ.get("SLURM_NODELIST")
    if job is None or not nodelist:
        raise SlurmError(
            "no Slurm allocation here (SLURM_JOB_ID is not set); run this inside salloc or sbatch"
        )
    try:
        nodes = tuple(expand_hostlist(nodelist))
        tasks = _tasks_per_node(environ, len(nodes))
        cpus = _counts(environ, "SLURM_JOB_CPUS_PER_NODE", len(nodes))
    except InputError as error:
        raise SlurmError(f"environment of job {job}: {error}") from error
    details = read_job(job, run) if run else JobDetails(job, (), {})
    wanted = set(nodes)
    return Allocation(
        job=job,
        nodes=nodes,
        ntasks=sum(tasks),
        tasks_per_node=tasks,
        cpus_per_task=_number(environ, "SLURM_CPUS_PER_TASK", "SRUN_CPUS_PER_TASK") or 1,
        cpus_on_node=cpus or (0,) * len(nodes),
        cpus_by_node={n.name: n.cpus for n in details.nodes if n.name in wanted and n.cpus},
        exclusive=details.exclusive,
        gpus_by_node={n.name: n.gpus for n in details.nodes if n.name in wanted and n.gpus},
    )


def _number(environ: Mapping[str, str], *names: str) -> int | None:
    return next((n for n in (values.count(environ.get(name)) for name in names) if n is not None), None)


def _counts(environ: Mapping[str, str], name: str, nodes: int) -> tuple[int, ...]:
    text = environ.get(name)
    if not text:
        return ()
    counts = expand_counts(text)
    if len(counts) != nodes:
        raise InputError(f"{name}={text} has {len(counts)} entries for {nodes} nodes; start a new allocation")
    return counts


def _tasks_per_node(environ: Mapping[str, str], nodes: int) -> tuple[int, ...]:
    """Slurm's own spread; where the job gives no tasks, one a node as Slurm starts them."""
    counts = _counts(environ, "SLURM_TASKS_PER_NODE", nodes)
    if counts:
        return counts
    tasks = _number(environ, "SLURM_NTASKS", "SLURM_NPROCS")
    if tasks is None:
        return (1,) * nodes
    return tuple(tasks // nodes + (i < tasks % nodes) for i in range(nodes))
