"""How Slurm lays a step out: how many ranks each node gets, and which."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slurm_topo.errors import InputError
from slurm_topo.model import Ints
from slurm_topo.slurm.allocation import Allocation


@dataclass(frozen=True, eq=False)
class StepLayout:
    """Ranks of a step on the first nodes of its job.

    Attributes
    ----------
    tasks_per_node : list of int, length k
        Ranks on each of the k nodes of the step, in Slurm's order.
    node_of_rank : int32 array, shape (n,), or None
        Where the step exists already: the node of each rank, which can no longer change.
    exact : bool
        Ranks get no more CPUs than they asked for.
    """

    tasks_per_node: list[int]
    node_of_rank: Ints | None = None
    exact: bool = False


def step_layout(
    allocation: Allocation,
    ntasks: int | None = None,
    cpus_per_task: int = 1,
    nodes: int | None = None,
    most_per_node: int | None = None,
) -> list[int]:
    """Ranks on each node of a step.

    Parameters
    ----------
    allocation
        What the job has.
    ntasks
        Ranks of the step; None, or as many as the job's: the job's own spread.
    cpus_per_task
        CPUs of a rank.
    nodes
        The step uses the first so many nodes; None: all.
    most_per_node
        As ``--ntasks-per-node`` limits them.

    Raises
    ------
    InputError
        They do not fit.

    Notes
    -----
    As srun 22.05 does it: nodes in turn get a rank each while they have CPUs for one more.

    Examples
    --------
    >>> step_layout(Allocation(1, ("a", "b"), 4, (2, 2), 1, (2, 2)), 3)
    [2, 1]
    """
    count = len(allocation.nodes) if nodes is None else nodes
    if not 1 <= count <= len(allocation.nodes):
        raise InputError(
            f"--nodes {count}: job {allocation.job} has {len(allocation.nodes)} nodes; give fewer"
        )
    whole = count == len(allocation.nodes) and ntasks in (None, sum(allocation.tasks_per_node))
    if whole:
        return list(allocation.tasks_per_node)
    if ntasks is None:
        ntasks = sum(allocation.tasks_per_node[:count])
    owned = allocation.cpus_on_node[:count]
    room = [n // max(cpus_per_task, 1) if n else ntasks for n in owned]
    if most_per_node:
        room = [min(n, most_per_node) for n in room]
    if ntasks > sum(room):
        raise InputError(
            f"--ntasks {ntasks}: {count} nodes of job {allocation.job} have room for {sum(room)}; give fewer"
        )
    return _in_turn(room, ntasks)


def _in_turn(room: Sequence[int], ntasks: int) -> list[int]:
    """The most even filling; earlier nodes first."""
    tasks = [0] * len(room)
    left = ntasks
    while left:
        for node, most in enumerate(room):
            if left and tasks[node] < most:
                tasks[node] += 1
                left -= 1
    return tasks


def nodes_of_ranks(tasks_per_node: Sequence[int], distribution: str) -> Ints:
    """Node of each rank; int32 array, shape (n,).

    Parameters
    ----------
    tasks_per_node
        Ranks on each node.
    distribution : str
        ``SLURM_DISTRIBUTION`` of the step; empty: what Slurm takes by itself, ``cyclic`` for at most one rank
        a node, else ``block``.

    Raises
    ------
    InputError
        It is neither ``block`` nor ``cyclic``.

    Examples
    --------
    >>> nodes_of_ranks([2, 1], "block").tolist(), nodes_of_ranks([2, 1], "cyclic").tolist()
    ([0, 0, 1], [0, 1, 0])
    """
    way = distribution.split(":")[0].split(",")[0] or ("cyclic" if max(tasks_per_node) < 2 else "block")
    tasks = np.asarray(tasks_per_node)
    block = np.repeat(np.arange(tasks.size), tasks)
    if way == "block":
        return block.astype(np.int32)
    if way != "cyclic":
        raise InputError(f"distribution {distribution}: only block and cyclic are known here")
    turn = np.concatenate([np.arange(n) for n in tasks]) if tasks.size else block
    return block[np.lexsort((block, turn))].astype(np.int32)
