"""What Slurm alone would do with the same job: its distributions of ranks over nodes, sockets and cores."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slurm_topo.errors import PlacementError
from slurm_topo.model import CommGraph, Ints, Machine
from slurm_topo.placement.cost import cost

# In a tree without names the network begins where a byte costs ten times what it costs one level below.
NETWORK_STEP = 10.0


def baselines(machine: Machine, ranks: int) -> dict[str, Ints]:
    """Placements by ``block:block``, ``block:cyclic`` and ``cyclic``; int32 arrays, shape (ranks,).

    Parameters
    ----------
    machine : Machine
        Nodes are ``machine.node``, sockets the groups of its level ``package`` (a node without that level is
        one socket). A ``tree:`` machine is read with :func:`node_and_socket`.
    ranks : int
        Number of ranks, at most the number of cores.

    Raises
    ------
    PlacementError
        There are more ranks than cores.

    Notes
    -----
    ``block`` fills node after node up to its cores. ``block:cyclic`` deals the ranks of a node out to its
    sockets in turn; ``cyclic`` deals them out to the nodes in turn, full nodes left out, and fills the cores
    of each node in order.
    """
    if ranks > machine.cores:
        raise PlacementError(
            f"{ranks} ranks do not fit on {machine.cores} cores; give a larger machine or fewer ranks"
        )
    node, socket = node_and_socket(machine)
    block = np.lexsort((socket, node))
    # Positions among the cores before it in the same socket (node), in the order of `block`.
    in_socket, in_node = _position(socket[block]), _position(node[block])
    dealt = block[np.lexsort((socket[block], in_socket, node[block]))]
    turns = block[np.lexsort((node[block], in_node))]
    return {
        "block:block": block[:ranks].astype(np.int32),
        "block:cyclic": dealt[:ranks].astype(np.int32),
        "cyclic": turns[:ranks].astype(np.int32),
    }


def baseline_costs(graph: CommGraph, machine: Machine) -> dict[str, float]:
    """:func:`slurm_topo.placement.cost.cost` of each of the :func:`baselines`."""
    placements = baselines(machine, graph.ranks)
    return {name: cost(graph, machine, placement) for name, placement in placements.items()}


def node_and_socket(machine: Machine) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Node and socket of each core, numbered in Slurm's order; two int64 arrays, shape (c,).

    Notes
    -----
    In a machine without node names (``tree:``) the network begins at the last level where a byte costs at
    least ten times what it costs one level further in. The groups below that level are the nodes, the groups
    one level below those the sockets. Without such a level all cores are one node.
    """
    names = [level.name for level in machine.levels]
    if _is_tree(machine):
        level = node_level(machine)
        node = _numbered(machine.groups[level])
        return node, _numbered(machine.groups[level - 1]) if level else node
    node = machine.node.astype(np.int64)
    socket = _numbered(machine.groups[names.index("package")]) if "package" in names else node
    return node, socket


def node_level(machine: Machine) -> int:
    """Index of the level whose groups are the nodes (see :func:`node_and_socket`)."""
    names = [level.name for level in machine.levels]
    if "node" in names:
        return names.index("node")
    if not _is_tree(machine):
        nodes = len(np.unique(machine.node))
        return next(
            (i for i, row in enumerate(machine.groups) if len(np.unique(row)) <= nodes), len(names) - 1
        )
    costs = [level.seconds_per_byte for level in machine.levels]
    steps = [i for i in range(1, len(costs)) if costs[i] >= NETWORK_STEP * costs[i - 1] > 0]
    return steps[-1] - 1 if steps else len(costs) - 1


def _is_tree(machine: Machine) -> bool:
    return machine.node_names == ("",) and "node" not in (level.name for level in machine.levels)


def _numbered(groups: NDArray[np.integer]) -> NDArray[np.int64]:
    """Group numbers in the order of the first core of each group."""
    _, first, inverse = np.unique(groups, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse].astype(np.int64)


def _position(groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many earlier entries are in the same group."""
    order = np.argsort(groups, kind="stable")
    ordered = groups[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    counts = np.diff(np.r_[starts, ordered.size])
    position = np.empty(groups.size, dtype=np.int64)
    position[order] = np.arange(groups.size) - np.repeat(starts, counts)
    return position
