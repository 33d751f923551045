"""``slurm-topo place --allocation slurm --plan FILE``: what the SPANK plugin starts in srun."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from slurm_topo.config import Settings

if TYPE_CHECKING:
    from slurm_topo.machine import Cluster
    from slurm_topo.model import Machine
    from slurm_topo.slurm.allocation import Allocation
    from slurm_topo.slurm.command import Runner
    from slurm_topo.slurm.layout import StepLayout
    from slurm_topo.slurm.plan import Plan


@dataclass(frozen=True)
class LaunchOptions:
    """What the plugin knows of the step (docs/spank.md)."""

    graph: str
    plan: str
    ntasks: int | None = None
    cpus_per_task: int | None = None
    nodes: int | None = None
    exact: bool = False
    one_thread: bool = False
    keep_nodes: bool = False
    seed: int = 0


def run_launch(settings: Settings, options: LaunchOptions) -> None:
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
    cpus_per_task = options.cpus_per_task or allocation.cpus_per_task
    layout = layout_of(allocation, options, cpus_per_task, os.environ)
    graph = read_graph(options.graph)
    cluster = description_of(settings)
    machine = machine_of(cluster, allocation, len(layout.tasks_per_node), options.one_thread)
    plan = plan_step(
        graph,
        graph_digest_of(Path(options.graph)),
        machine,
        layout,
        cpus_per_task,
        str(allocation.job),
        settings,
        options.seed,
        os.environ.get("SLURM_TOPO_JOB_VARIANT", ""),
        known_order(options.graph, graph.ranks),
    )
    if plan.places and allocation.gpus_by_node:
        from slurm_topo.slurm.gpus import owned_gpus, with_gpus

        plan = with_gpus(plan, graph, owned_gpus(cluster, allocation))
    write_plan(plan, options.plan)
    click.echo(summary(plan))


def known_order(graph_file: str, ranks: int) -> list[int] | None:
    """What was found ahead of time for this graph; a damaged file is named, and the launch does without."""
    from slurm_topo.errors import InputError
    from slurm_topo.slurm.start import read_start, start_file

    try:
        return read_start(start_file(graph_file), ranks)
    except InputError as error:
        click.echo(f"slurm-topo: {error}", err=True)
        return None


def description_of(settings: Settings, run: Runner | None = None) -> Cluster:
    """The cluster description; that of the spool only where the site wrote it.

    Anybody may make files in the spool: another user's description would steer where this job's ranks go.

    Raises
    ------
    MachineError
        It is missing or damaged, or it is no file of root, SlurmUser, the spool's owner or this user.
    """
    from slurm_topo.errors import MachineError
    from slurm_topo.machine import read_cluster

    path = settings.cluster_file
    if not settings.cluster and os.path.lexists(path) and not _is_the_sites(path, run):
        raise MachineError(
            f"{path}: is no file that only root, SlurmUser or the spool's owner can write; "
            "run `slurm-topo sync`"
        )
    return read_cluster(path)


def _is_the_sites(path: Path, run: Runner | None) -> bool:
    about = path.lstat()
    if not stat.S_ISREG(about.st_mode) or about.st_mode & 0o002:
        return False
    if about.st_uid in (0, path.parent.stat().st_uid, os.geteuid()):
        return True
    from slurm_topo.errors import SlurmError
    from slurm_topo.slurm.command import run_command
    from slurm_topo.slurm.scontrol import read_slurm_user

    # Asked last: it costs a call.
    try:
        return about.st_uid == read_slurm_user(run or run_command)
    except SlurmError:
        return False


def layout_of(
    allocation: Allocation, options: LaunchOptions, cpus_per_task: int, environ: Mapping[str, str]
) -> StepLayout:
    """Ranks of the step on its nodes."""
    from slurm_topo.slurm import values
    from slurm_topo.slurm.layout import StepLayout, nodes_of_ranks, step_layout

    most = values.count(environ.get("SLURM_NTASKS_PER_NODE"))
    tasks = step_layout(allocation, options.ntasks, cpus_per_task, options.nodes, most)
    if not options.keep_nodes:
        return StepLayout(tasks, None, options.exact)
    return StepLayout(tasks, nodes_of_ranks(tasks, environ.get("SLURM_DISTRIBUTION", "")), options.exact)


def machine_of(
    cluster: Cluster, allocation: Allocation, nodes: int | None = None, one_thread: bool = False
) -> Machine:
    """The machine of exactly the CPUs that the job owns, on its first so many nodes.

    With ``one_thread`` the first of its hardware threads stands for each core.
    """
    cpus = {
        node: cluster.shape(node).os_cpus(sorted(numbers))
        for node, numbers in allocation.cpus_by_node.items()
        if numbers
    }
    machine = cluster.machine(list(allocation.nodes[:nodes]), cpus or None)
    if one_thread:
        machine = replace(machine, pus=tuple(pus[:1] for pus in machine.pus))
    return machine


def summary(plan: Plan) -> str:
    """The decision as one line of JSON, for the log of whoever started it by hand."""
    return json.dumps(
        {
            "decision": plan.decision,
            "reason": plan.reason,
            "cost": plan.cost if plan.cost == plan.cost else None,
            "baselines": dict(plan.baselines),
            "solver": plan.solver,
            "search": plan.search,
        }
    )
