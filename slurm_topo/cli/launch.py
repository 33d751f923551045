"""``slurm-topo place --allocation slurm --plan FILE``: what the SPANK plugin starts in srun."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import click

from slurm_topo.config import Settings
from slurm_topo.errors import InputError

if TYPE_CHECKING:
    from slurm_topo.machine import Cluster
    from slurm_topo.model import Machine
    from slurm_topo.slurm.allocation import Allocation
    from slurm_topo.slurm.plan import Plan


def run_launch(
    settings: Settings,
    graph_file: str,
    plan_file: str,
    ntasks: int | None,
    cpus_per_task: int | None,
    seed: int,
) -> None:
    """Place on the allocation in the environment and write the plan.

    Raises
    ------
    SlurmTopoError
        Graph, cluster description or allocation cannot be read, or the plan cannot be written.
    """
    from slurm_topo.slurm.allocation import read_allocation
    from slurm_topo.slurm.launch import graph_digest_of, plan_step
    from slurm_topo.slurm.plan import write_plan
    from slurm_topo.trace import read_graph

    allocation = read_allocation(os.environ)
    tasks = tasks_of(allocation, ntasks)
    graph = read_graph(graph_file)
    cluster = description_of(settings)
    machine = machine_of(cluster, allocation)
    plan = plan_step(
        graph,
        graph_digest_of(Path(graph_file)),
        machine,
        tasks,
        cpus_per_task or allocation.cpus_per_task,
        str(allocation.job),
        settings,
        seed,
        os.environ.get("SLURM_TOPO_JOB_VARIANT", ""),
    )
    if plan.places and allocation.gpus_by_node:
        from slurm_topo.slurm.gpus import owned_gpus, with_gpus

        plan = with_gpus(plan, graph, owned_gpus(cluster, allocation))
    write_plan(plan, plan_file)
    click.echo(summary(plan))


def description_of(settings: Settings) -> Cluster:
    """The cluster description; that of the spool only where the site wrote it.

    Anybody may make files in the spool: another user's description would steer where this job's ranks go.

    Raises
    ------
    MachineError
        It is missing or damaged, or it is no file of root, of the spool's owner or of this user.
    """
    from slurm_topo.errors import MachineError
    from slurm_topo.machine import read_cluster

    path = settings.cluster_file
    if not settings.cluster and os.path.lexists(path):
        about = path.lstat()
        owners = (0, path.parent.stat().st_uid, os.geteuid())
        if not stat.S_ISREG(about.st_mode) or about.st_uid not in owners or about.st_mode & 0o002:
            raise MachineError(
                f"{path}: is no file that only root or the spool's owner can write; run `slurm-topo sync`"
            )
    return read_cluster(path)


def tasks_of(allocation: Allocation, ntasks: int | None) -> list[int]:
    """Slurm's number of tasks on each node, which has to add up to the step's."""
    tasks = list(allocation.tasks_per_node)
    if ntasks is not None and sum(tasks) != ntasks:
        raise InputError(
            f"--ntasks {ntasks}: the allocation of job {allocation.job} has {sum(tasks)} tasks; "
            "only steps of the whole job are placed"
        )
    return tasks


def machine_of(cluster: Cluster, allocation: Allocation) -> Machine:
    """The machine of exactly the CPUs that the job owns."""
    cpus = {
        node: cluster.shape(node).os_cpus(sorted(numbers))
        for node, numbers in allocation.cpus_by_node.items()
        if numbers
    }
    return cluster.machine(list(allocation.nodes), cpus or None)


def summary(plan: Plan) -> str:
    """The decision as one line of JSON, for the log of whoever started it by hand."""
    return json.dumps(
        {
            "decision": plan.decision,
            "reason": plan.reason,
            "cost": plan.cost if plan.cost == plan.cost else None,
            "baselines": dict(plan.baselines),
            "solver": plan.solver,
        }
    )
