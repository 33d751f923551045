"""Machines given as a tree: ``tree:a1:a2:...:ak/d1:d2:...:dk``."""

from __future__ import annotations

import math
import re

import numpy as np

from slurm_topo.errors import MachineError
from slurm_topo.model import Level, Machine

PREFIX = "tree:"
MOST_CORES = 1 << 24
_LONGEST = 20
_EXAMPLE = "write for example tree:4:2:8/1:10:100"
# int() and float() take more than a machine is written with: 1_0, digits of other scripts, blanks, nan.
_ARITY = re.compile(r"[0-9]+")
_COST = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def parse_tree(text: str) -> Machine:
    """A regular machine from its arities and costs.

    Parameters
    ----------
    text : str
        ``tree:a1:...:ak/d1:...:dk``: a1 children innermost; dl is the cost per byte between two cores
        whose lowest common ancestor is at level l. Core indices run with the innermost level fastest.

    Returns
    -------
    Machine
        Levels ``level1`` ... ``levelk``, no latency, ``seconds_per_byte`` exactly as given; no nodes.

    Raises
    ------
    MachineError
        The text is no such tree, a number is out of range, or the tree has too many cores.

    Examples
    --------
    >>> machine = parse_tree("tree:2:3/1:10")
    >>> machine.cores
    6
    >>> machine.groups.tolist()
    [[0, 0, 1, 1, 2, 2], [0, 0, 0, 0, 0, 0]]
    """
    if not text.startswith(PREFIX):
        raise MachineError(f"machine {text!r}: does not begin with {PREFIX!r}; {_EXAMPLE}")
    arities, costs = _numbers(text)
    cores = math.prod(arities)
    if cores > MOST_CORES:
        raise MachineError(f"machine {text!r}: {cores} cores, more than {MOST_CORES}; give a smaller tree")
    index = np.arange(cores, dtype=np.int32)
    sizes = np.cumprod(arities)
    return Machine(
        levels=tuple(Level(f"level{i + 1}", 0.0, cost) for i, cost in enumerate(costs)),
        groups=np.stack([index // np.int32(size) for size in sizes]),
        node=np.zeros(cores, dtype=np.int32),
        node_names=("",),
        pus=((),) * cores,
        numa=np.full(cores, -1, dtype=np.int32),
        meta={"tree": text},
    )


def _numbers(text: str) -> tuple[list[int], list[float]]:
    """Arities and costs, checked."""
    parts = text.removeprefix(PREFIX).split("/")
    if len(parts) != 2:
        raise MachineError(
            f"machine {text!r}: {len(parts) - 1} slashes between arities and costs; {_EXAMPLE}"
        )
    words = parts[0].split(":")
    if not all(_ARITY.fullmatch(word) and len(word) <= _LONGEST for word in words):
        raise MachineError(f"machine {text!r}: an arity is not a whole number; {_EXAMPLE}")
    arities = [int(word) for word in words]
    words = parts[1].split(":")
    if not all(_COST.fullmatch(word) for word in words):
        raise MachineError(f"machine {text!r}: a cost is not a number; {_EXAMPLE}")
    costs = [float(word) for word in words]
    if len(arities) != len(costs):
        raise MachineError(
            f"machine {text!r}: {len(arities)} arities and {len(costs)} costs; give one cost a level"
        )
    if min(arities) < 1:
        raise MachineError(f"machine {text!r}: arity {min(arities)}; each is at least 1")
    if not all(math.isfinite(cost) and cost >= 0 for cost in costs):
        raise MachineError(f"machine {text!r}: a cost is negative or not finite; costs are numbers from 0")
    return arities, costs
