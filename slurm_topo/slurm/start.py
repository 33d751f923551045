"""Starts: the order of a program's ranks along a machine, found ahead of time, that a launch begins with.

A good placement puts ranks that exchange most into one group, at every level. So its ranks, read off in the
order of the groups, are a good start on an allocation of another shape as well.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from slurm_topo.errors import InputError
from slurm_topo.model import CommGraph, Ints, Machine

HEADER = "slurm-topo-start 1"
SUFFIX = ".start"
MAX_BYTES = 16 << 20


def start_file(graph_file: str | os.PathLike[str]) -> Path:
    """The start of a graph stands beside it: ``<digest>.npz`` and ``<digest>.start``."""
    path = Path(graph_file)
    return path.with_name(path.name.removesuffix(".npz") + SUFFIX)


def tree_order(machine: Machine) -> NDArray[np.intp]:
    """Cores in the order of the machine's groups, outermost first; int array, shape (cores,)."""
    return np.lexsort(machine.groups)


def rank_order(machine: Machine, core_of_rank: NDArray[np.integer]) -> list[int]:
    """Ranks in the order of the cores that they are on."""
    position = np.empty(machine.cores, dtype=np.intp)
    position[tree_order(machine)] = np.arange(machine.cores)
    return [int(rank) for rank in np.argsort(position[core_of_rank])]


def find_order(graph: CommGraph, machine: Machine, objective: str, seconds: float) -> list[int]:
    """Order of the ranks in the best placement that a search at the lowest priority finds in this time.

    Parameters
    ----------
    machine
        One core a rank: slots of an allocation.
    seconds
        Of elapsed time, at most.

    Raises
    ------
    PlacementError
        There are more ranks than cores.
    """
    from slurm_topo.placement.solve import place

    found: list[list[int]] = []
    failures: list[BaseException] = []

    def work() -> None:
        try:
            # On Linux the priority is that of a thread, and of those that it starts.
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 19)
            placement = place(graph, machine, effort="best", budget_s=seconds, objective=objective)
            found.append(rank_order(machine, placement.core_of_rank))
        except BaseException as error:  # carried over to the caller's thread
            failures.append(error)

    thread = threading.Thread(target=work, name="ahead", daemon=True)
    thread.start()
    thread.join()
    if failures:
        raise failures[0]
    return found[0]


def seat(order: Sequence[int], machine: Machine) -> Ints:
    """The ranks in this order on the cores in theirs; int32 array, shape (ranks,), the core of each rank.

    The machine has at least as many cores as there are ranks; the first ones are taken.
    """
    core_of_rank = np.empty(len(order), dtype=np.int32)
    core_of_rank[list(order)] = tree_order(machine)[: len(order)]
    return core_of_rank


def shape_digest(machine: Machine) -> str:
    """The same for allocations that differ in the names of their nodes only."""
    order = tree_order(machine)
    digest = hashlib.sha256()
    for level, groups in zip(machine.levels, machine.groups[:, order], strict=True):
        digest.update(f"{level.name} {level.latency_s!r} {level.seconds_per_byte!r} ".encode())
        digest.update(np.flatnonzero(np.diff(groups)).astype("<i8").tobytes())
    return digest.hexdigest()[:16]


def format_start(graph: str, order: Sequence[int]) -> bytes:
    """Content of a start file (docs/formats.md)."""
    ranks = " ".join(map(str, order))
    return f"{HEADER}\ngraph {graph}\norder {ranks}\nend {len(order)}\n".encode("ascii")


def read_start(path: str | os.PathLike[str], ranks: int) -> list[int] | None:
    """The order in a start file; None where there is no such file.

    Raises
    ------
    InputError
        It cannot be read, or it is no order of so many ranks.
    """
    try:
        with open(path, "rb") as stream:
            data = stream.read(MAX_BYTES)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); delete it") from error
    try:
        header, _, order, end = data.decode("ascii").splitlines()
        found = [int(word) for word in order.removeprefix("order ").split()]
        if header != HEADER or end != f"end {ranks}" or sorted(found) != list(range(ranks)):
            raise ValueError
    except ValueError:
        raise InputError(
            f"{path}: is no start of {ranks} ranks; delete it, `slurm-topo sync` writes it anew"
        ) from None
    return found
