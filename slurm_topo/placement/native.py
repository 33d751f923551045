"""The kernel's objects in Python. Nothing outside this file sees a C pointer."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from slurm_topo.errors import LaunchError, PlacementError
from slurm_topo.machine.links import link_bandwidths
from slurm_topo.model import CommGraph, Ints, Machine
from slurm_topo.placement.cost import inverse_bandwidths, latencies

try:
    import slurm_topo.placement._kernel as _kernel
except ImportError as missing:
    raise LaunchError(f"the placement kernel cannot be loaded ({missing}); build it with: make") from missing

# Numbers below this are not scaled to 1: the inverse of the smallest doubles is infinite.
_LEAST = 1e-100

ffi: Any = _kernel.ffi
lib: Any = _kernel.lib


class Control:
    """Ends the searches that run with it: by :meth:`stop`, or at a time of the monotonic clock."""

    def __init__(self, deadline: float = 0.0) -> None:
        self.pointer = ffi.new("st_control *", {"stop": 0, "deadline": deadline})

    def stop(self) -> None:
        """End soon, with what is there."""
        self.pointer.stop = 1

    def stopped(self) -> bool:
        """Whether :meth:`stop` was called."""
        return bool(self.pointer.stop)

    def expired(self) -> bool:
        """Whether the search is to end now."""
        return bool(lib.st_expired(self.pointer))


@dataclass(frozen=True)
class Style:
    """How a graph is cut along the tree: see ``st_section_style`` in kernel/st_kernel.h."""

    tries: int
    deep: int
    cycles: int
    join: bool
    taste: float
    growths: int = 6
    shuffle: bool = False


class _InKernel:
    """An object of the kernel; a context manager that frees it.

    Placements are int32 arrays of shape (vertices,): the core of each vertex. The vertices are the ranks and,
    behind them, one free vertex for each core that is left over.
    """

    _free: Any

    def __init__(self, pointer: Any, vertices: int) -> None:
        if not pointer:
            raise MemoryError("the placement kernel ran out of memory")
        self.pointer = pointer
        self.vertices = vertices

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        type(self)._free(self.pointer)
        self.pointer = ffi.NULL

    def _mask(self, fixed: NDArray[np.uint8] | None) -> Any:
        if fixed is None:
            return ffi.NULL
        if fixed.shape != (self.vertices,) or fixed.dtype != np.uint8:
            raise ValueError(
                f"mask of {fixed.size} {fixed.dtype}: give one uint8 for each of {self.vertices} vertices"
            )
        return ffi.from_buffer("uint8_t[]", fixed)

    def _checked(self, placement: Ints) -> Ints:
        """The kernel reads and writes one core of each vertex without looking back."""
        if placement.shape != (self.vertices,):
            raise ValueError(
                f"placement of shape {placement.shape}: there are {self.vertices} vertices; give each a core"
            )
        return placement

    def _placement(self, placement: Ints) -> Any:
        return _ints(self._checked(placement))


class Instance(_InKernel):
    """A graph on a machine inside the kernel."""

    _free = lib.st_instance_free

    def __init__(self, pointer: Any) -> None:
        super().__init__(pointer, lib.st_instance_vertices(pointer) if pointer else 0)
        self.levels: int = lib.st_instance_levels(pointer)
        self.degree: float = lib.st_instance_degree(pointer)

    @classmethod
    def build(cls, graph: CommGraph, machine: Machine, cores: NDArray[np.integer]) -> Instance:
        """The graph on some cores of the machine; core i of the instance is ``cores[i]``."""
        if graph.ranks > cores.size:
            raise PlacementError(
                f"{graph.ranks} ranks do not fit on {cores.size} cores; give a larger machine"
            )
        groups = np.ascontiguousarray(machine.groups[:, cores], dtype=np.int32)
        per_byte, per_message = inverse_bandwidths(machine), latencies(machine)
        return cls(
            lib.st_instance_new(
                cores.size,
                len(machine.levels),
                _ints(groups),
                _doubles(per_byte),
                _doubles(per_message),
                graph.ranks,
                *_traffic(graph),
            )
        )

    def groups(self, level: int, placement: Ints) -> Instance:
        """The instance whose vertices are the groups of `level` as this placement fills them."""
        return Instance(lib.st_instance_groups(self.pointer, level, self._placement(placement)))

    def expand(self, level: int, placement: Ints, groups: Ints) -> Ints:
        """The placement after its groups of `level` have moved to the places that `groups` gives them."""
        moved = np.empty_like(placement)
        lib.st_instance_expand(
            self.pointer, level, self._placement(placement), _ints(groups), self._placement(moved)
        )
        return moved

    def cost(self, placement: Ints) -> float:
        """Cost in the kernel's unit: comparable within one instance only."""
        return float(lib.st_instance_cost(self.pointer, self._placement(placement)))

    def multisect(self, style: Style, seed: int, control: Control) -> Ints:
        """Cut the graph along the tree."""
        given = ffi.new("st_section_style *", {**asdict(style), "seed": seed})
        placement = np.empty(self.vertices, dtype=np.int32)
        _check(lib.st_multisect(self.pointer, given, control.pointer, _ints(placement)))
        return placement

    def descend(self, placement: Ints, fixed: NDArray[np.uint8] | None, control: Control) -> int:
        """Swap in place while that lowers the cost; the number of swaps."""
        return _check(
            lib.st_descend(
                self.pointer,
                self._mask(fixed),
                100,
                control.pointer,
                self._placement(placement),
            )
        )

    def anneal(
        self,
        placement: Ints,
        fixed: NDArray[np.uint8] | None,
        moves: int,
        hot: float,
        fall: float,
        rise: float,
        seed: int,
        control: Control,
    ) -> int:
        """Anneal swaps in place (see ``st_schedule`` in kernel/st_kernel.h); the number of accepted swaps."""
        schedule = ffi.new(
            "st_schedule *", {"moves": moves, "hot": hot, "fall": fall, "rise": rise, "seed": seed}
        )
        return _check(
            lib.st_anneal(
                self.pointer,
                self._mask(fixed),
                schedule,
                control.pointer,
                self._placement(placement),
            )
        )


class LinkLoads(_InKernel):
    """A graph on the links of a machine inside the kernel.

    Of the cost, ``weights[0]`` times the part of the bytes and ``weights[1]`` times that of the messages
    count.
    """

    _free = lib.st_load_free

    def __init__(
        self,
        graph: CommGraph,
        machine: Machine,
        cores: NDArray[np.integer],
        weights: tuple[float, float] = (1.0, 1.0),
    ) -> None:
        groups = machine.groups[:, cores]
        order = np.lexsort(groups)
        self._core_of_slot = order.astype(np.int32)
        self._slot_of_core = np.argsort(order).astype(np.int32)
        inner = groups[:-1, order]
        starts = np.diff(inner, axis=1, prepend=inner[:, :1] - 1) != 0
        link_of = np.ascontiguousarray(starts.ravel().cumsum().reshape(inner.shape) - 1, dtype=np.int32)
        with np.errstate(divide="ignore"):
            seconds = (1.0 / link_bandwidths(machine)[:-1, cores[order]])[starts]
        per_byte, per_message = inverse_bandwidths(machine) * weights[0], latencies(machine) * weights[1]
        # Near 1, whatever the units: the kernel takes eighth powers. What is all but nothing stays so.
        slow = _unit_of(max(float(per_byte.max()), float(seconds.max(initial=0.0))))
        most = _unit_of(float(graph.nbytes.max(initial=0.0)))
        super().__init__(
            lib.st_load_new(
                cores.size,
                len(machine.levels),
                seconds.size,
                _ints(link_of.ravel()),
                _doubles(seconds / slow),
                _doubles(per_byte / slow),
                _doubles(per_message / slow),
                *_traffic(graph, most),
            ),
            int(cores.size),
        )
        self.levels = len(machine.levels)
        self._unit = slow * most
        self.degree: float = lib.st_load_degree(self.pointer)
        # How far sums that swaps changed were off from sums made anew, at most, in the last search.
        self.drift = 0.0

    def most(self, placement: Ints) -> tuple[float, float]:
        """Seconds of the most loaded direction of a link, and the cost."""
        cost = ffi.new("double *")
        most = lib.st_load_most(self.pointer, _ints(self._slots(placement)), cost)
        if most < 0:
            raise MemoryError("the placement kernel ran out of memory")
        return float(most) * self._unit, float(cost[0]) * self._unit

    def relieve(
        self,
        placement: Ints,
        fixed: NDArray[np.uint8] | None,
        moves: int,
        hot: float,
        fall: float,
        shares: tuple[float, float],
        seed: int,
        control: Control,
    ) -> int:
        """Swap in place so that ``shares[0] * cost + shares[1] * most`` falls; the number of swaps.

        See ``st_load_relieve`` in kernel/st_kernel.h.
        """
        schedule = ffi.new(
            "st_relief_schedule *",
            {
                "moves": moves,
                "hot": hot,
                "fall": fall,
                "share_of_sum": shares[0],
                "share_of_most": shares[1],
                "seed": seed,
            },
        )
        slots, drift = self._slots(placement), ffi.new("double *")
        mask = self._mask(fixed)
        swaps = _check(
            lib.st_load_relieve(self.pointer, mask, schedule, control.pointer, _ints(slots), drift)
        )
        placement[:] = self._core_of_slot[slots]
        self.drift = float(drift[0])
        return swaps

    def _slots(self, placement: Ints) -> Ints:
        return self._slot_of_core[self._checked(placement)]


class Assignment(_InKernel):
    """A graph on a machine with distances inside the kernel."""

    _free = lib.st_distance_free

    def __init__(self, graph: CommGraph, machine: Machine) -> None:
        if machine.distances is None:
            raise ValueError("the machine has no distances")
        matrix, row = machine.distances.seconds_per_byte, machine.distances.row
        most = _unit_of(float(graph.nbytes.max(initial=0.0)))
        groups = np.stack([np.unique(level, return_inverse=True)[1] for level in machine.groups])
        super().__init__(
            lib.st_distance_new(
                machine.cores,
                len(matrix),
                _ints(np.ascontiguousarray(row, dtype=np.int32)),
                _doubles(np.ascontiguousarray(matrix, dtype=np.float64).ravel()),
                len(machine.levels),
                _ints(np.ascontiguousarray(groups, dtype=np.int32).ravel()),
                _doubles(inverse_bandwidths(machine)),
                _doubles(latencies(machine)),
                *_traffic(graph, most),
            ),
            machine.cores,
        )
        self._unit = most
        self.degree: float = lib.st_distance_degree(self.pointer)

    def cost(self, placement: Ints) -> float:
        """The cost, as :func:`slurm_topo.placement.cost.cost` has it."""
        return float(lib.st_distance_cost(self.pointer, self._placement(placement))) * self._unit

    def anneal(
        self,
        placement: Ints,
        fixed: NDArray[np.uint8] | None,
        moves: int,
        hot: float,
        fall: float,
        seed: int,
        control: Control,
    ) -> int:
        """Anneal swaps in place, then descend; the number of swaps."""
        schedule = ffi.new(
            "st_schedule *", {"moves": moves, "hot": hot, "fall": fall, "rise": 0, "seed": seed}
        )
        mask = self._mask(fixed)
        return _check(
            lib.st_distance_anneal(self.pointer, mask, schedule, control.pointer, self._placement(placement))
        )


def _traffic(graph: CommGraph, unit: float = 1.0) -> tuple[Any, ...]:
    """Pairs, their ends, bytes and messages, as the kernel takes them; the last two in `unit`."""
    with np.errstate(over="ignore"):
        return (
            graph.source.size,
            _ints(np.ascontiguousarray(graph.source, dtype=np.int32)),
            _ints(np.ascontiguousarray(graph.target, dtype=np.int32)),
            _doubles(np.ascontiguousarray(graph.nbytes / unit, dtype=np.float64)),
            _doubles(np.ascontiguousarray(graph.messages / unit, dtype=np.float64)),
        )


def _unit_of(most: float) -> float:
    return most if most >= _LEAST else 1.0


def _check(code: int) -> int:
    if code < 0:
        raise MemoryError("the placement kernel ran out of memory")
    return code


def _ints(array: NDArray[np.int32]) -> Any:
    if array.dtype != np.int32:
        raise TypeError(f"array of {array.dtype}; the placement kernel takes int32")
    return ffi.from_buffer("int32_t[]", array)


def _doubles(array: NDArray[np.float64]) -> Any:
    return ffi.from_buffer("double[]", array)
