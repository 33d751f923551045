"""A placement as it was asked for: which cores may be used, how many a rank needs, which ranks are fixed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from slurm_topo.errors import PlacementError
from slurm_topo.machine.gpuslots import GpuPlace
from slurm_topo.model import CommGraph, Ints, Machine
from slurm_topo.placement.slots import Slots, all_slots


@dataclass(frozen=True, eq=False)
class Problem:
    """Input of :func:`slurm_topo.placement.solve.place`, in slots of one rank each.

    Attributes
    ----------
    graph : CommGraph
        n ranks.
    whole : Machine
        The machine as it was named: cores in input and output are its.
    machine : Machine
        One core a slot.
    slots : tuple of tuples of int
        Cores of `whole` that make up each core of `machine`.
    start : int32 array, shape (n,), or None
        Slot of each rank to start from.
    fixed : mapping of int to int
        Rank to slot.
    gpus : tuple of GpuPlace, length c
        Where the slots are GPUs: which.
    """

    graph: CommGraph
    whole: Machine
    machine: Machine
    slots: tuple[tuple[int, ...], ...]
    start: Ints | None
    fixed: Mapping[int, int]
    gpus: tuple[GpuPlace, ...] = ()

    def cores_of(self, slot_of_rank: Ints) -> list[tuple[int, ...]]:
        """Cores of `whole` of each rank."""
        return [self.slots[slot] for slot in slot_of_rank.tolist()]


def make_problem(
    graph: CommGraph,
    whole: Machine,
    *,
    cores: Sequence[int] | None = None,
    cores_per_rank: int = 1,
    start: Sequence[int] | None = None,
    fixed: Mapping[int, int] | None = None,
) -> Problem:
    """Cut a machine into places for ranks.

    Parameters
    ----------
    graph : CommGraph
        n ranks.
    whole : Machine
        The machine.
    cores : sequence of int, optional
        Its cores that may be used.
    cores_per_rank : int
        Cores of each rank.
    start : sequence of int, length n, optional
        A core of each rank to start from.
    fixed : mapping of int to int, optional
        Rank to a core of the place where it is to stay.

    Raises
    ------
    PlacementError
        These do not fit together: the message says which.
    """
    _check_cores(whole, cores or ())
    slots = (
        all_slots(whole, cores, cores_per_rank) if cores is not None or cores_per_rank > 1 else _as_is(whole)
    )
    if graph.ranks > len(slots.cores):
        room = f"{len(slots.cores)} places of {cores_per_rank} cores" if cores_per_rank > 1 else "cores"
        given = f"on the {len(cores)} cores given" if cores is not None else f"on {whole.cores} cores"
        raise PlacementError(
            f"{graph.ranks} ranks do not fit {given}"
            + (f": {room}" if cores_per_rank > 1 else "")
            + "; give a larger machine or fewer ranks"
        )
    slot_of = {core: slot for slot, own in enumerate(slots.cores) for core in own}
    return Problem(
        graph=graph,
        whole=whole,
        machine=slots.machine,
        slots=slots.cores,
        start=None if start is None else _slots_of_start(graph, slot_of, start),
        fixed=_slots_of_fixed(slot_of, fixed or {}),
    )


def _as_is(whole: Machine) -> Slots:
    return Slots(whole, tuple((core,) for core in range(whole.cores)))


def _check_cores(whole: Machine, cores: Sequence[int]) -> None:
    strange = next((core for core in cores if not 0 <= core < whole.cores), None)
    if strange is not None:
        raise PlacementError(f"core {strange}: the machine has 0..{whole.cores - 1}; name cores of it")


def _slots_of_start(graph: CommGraph, slot_of: Mapping[int, int], start: Sequence[int]) -> Ints:
    if len(start) != graph.ranks:
        raise PlacementError(
            f"start placement of {len(start)} ranks: the graph has {graph.ranks}; give one core a rank"
        )
    taken: dict[int, int] = {}
    for rank, core in enumerate(start):
        slot = _slot(slot_of, core, f"start placement: rank {rank}")
        if slot in taken:
            raise PlacementError(
                f"start placement: ranks {taken[slot]} and {rank} have the same place (core {core}); "
                "give each its own"
            )
        taken[slot] = rank
    return np.array(list(taken), dtype=np.int32)


def _slots_of_fixed(slot_of: Mapping[int, int], fixed: Mapping[int, int]) -> dict[int, int]:
    return {rank: _slot(slot_of, core, f"fixed rank {rank}") for rank, core in fixed.items()}


def _slot(slot_of: Mapping[int, int], core: int, what: str) -> int:
    if core not in slot_of:
        raise PlacementError(
            f"{what} on core {core}: not one of the cores that may be used; name one of them"
        )
    return slot_of[core]
