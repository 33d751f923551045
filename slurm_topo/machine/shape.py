"""The cores of one node and the groups they form: what a machine model needs to know of a node, and no more.

A shape is small, comparable and hashable, so that ten thousand equal nodes share one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass

from slurm_topo.errors import MachineError

# Levels inside a node, innermost first.
INSIDE = ("core", "l2", "l3", "die", "numa", "package")
MOST_CORES = 65_536


@dataclass(frozen=True)
class NodeClass:
    """Cores of a node in hwloc's logical order, which is also the order of Slurm's abstract numbers.

    Attributes
    ----------
    pus : tuple of tuples of int
        OS indices of the PUs of each core; empty where unknown.
    numa : tuple of int
        OS index of the NUMA node local to each core, -1 where unknown.
    groups : tuple of (str, tuple of int)
        Level name (``l2``, ``l3``, ``die``, ``numa``, ``package``) and the group of each core there,
        innermost level first, each level nested in the next.
    threads : int
        Hardware threads of a core that Slurm knows of.
    hbm : tuple of tuples of int
        OS indices of the NUMA nodes of high-bandwidth memory next to each core; empty where there are none.
    """

    pus: tuple[tuple[int, ...], ...]
    numa: tuple[int, ...]
    groups: tuple[tuple[str, tuple[int, ...]], ...]
    threads: int = 1
    hbm: tuple[tuple[int, ...], ...] = ()

    @property
    def cores(self) -> int:
        """Number of cores."""
        return len(self.numa)

    @property
    def digest(self) -> str:
        """16 hexadecimal digits that equal hardware shares."""
        parts = [self.pus, self.numa, self.groups, self.threads, *([self.hbm] if self.hbm else [])]
        text = json.dumps(parts, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def os_cpus(self, abstract_cpus: Sequence[int]) -> list[int]:
        """OS indices of Slurm's abstract CPU numbers (``CPU_IDs`` of ``scontrol show job -d``).

        Slurm counts socket by socket, core by core, thread by thread of the hardware, also where its
        ThreadsPerCore is less than that; hwloc's logical order of PUs is the same.

        Raises
        ------
        MachineError
            A number is outside the node.
        """
        flat = [pu for pus in self.pus for pu in pus]
        for number in abstract_cpus:
            if not 0 <= number < len(flat):
                raise MachineError(
                    f"CPU {number}: the node has {len(flat)}; capture it again with `slurm-topo "
                    "machine capture`"
                )
        return sorted(flat[number] for number in abstract_cpus)

    def os_cpus_of_cores(self, abstract_cores: Sequence[int]) -> list[int]:
        """OS indices of all threads of Slurm's abstract cores (``S_JOB_ALLOC_CORES`` of SPANK).

        Raises
        ------
        MachineError
            A number is outside the node.
        """
        for core in abstract_cores:
            self._inside(core, f"core {core}")
        return sorted(pu for core in abstract_cores for pu in self.pus[core])

    def only(self, os_cpus: Collection[int]) -> NodeClass:
        """The shape that is left when a job owns only these PUs (cores without any are dropped).

        Raises
        ------
        MachineError
            A PU does not exist in the node.
        """
        allowed = set(os_cpus)
        unknown = allowed.difference(pu for pus in self.pus for pu in pus)
        if unknown:
            raise MachineError(
                f"CPU {min(unknown)}: not in the description of the node; "
                "capture it again with `slurm-topo machine capture`"
            )
        kept = [core for core, pus in enumerate(self.pus) if allowed.intersection(pus)]
        return NodeClass(
            pus=tuple(tuple(pu for pu in self.pus[core] if pu in allowed) for core in kept),
            numa=tuple(self.numa[core] for core in kept),
            groups=tuple((name, renumber([g[core] for core in kept])) for name, g in self.groups),
            threads=self.threads,
            hbm=tuple(self.hbm[core] for core in kept) if self.hbm else (),
        )

    def _inside(self, core: int, what: str) -> None:
        if not 0 <= core < self.cores:
            raise MachineError(
                f"{what}: the node has {self.cores} cores with {self.threads} threads each; "
                "capture the node again with `slurm-topo machine capture`"
            )


def from_counts(sockets: int, cores_per_socket: int, threads_per_core: int) -> NodeClass:
    """A node of which only Slurm's three numbers are known.

    OS indices follow the numbering that Linux uses on most servers: first threads of all cores, socket by
    socket, then the second threads.

    Raises
    ------
    MachineError
        A number is below 1, or the node would have more than 65,536 cores.
    """
    for name, value in (
        ("sockets", sockets),
        ("cores_per_socket", cores_per_socket),
        ("threads_per_core", threads_per_core),
    ):
        if value < 1:
            raise MachineError(f"{name} = {value}: a node has at least one; correct the description")
    cores = sockets * cores_per_socket
    if cores * threads_per_core > MOST_CORES:
        raise MachineError(f"{cores * threads_per_core} CPUs in one node: more than {MOST_CORES}; correct it")
    package = tuple(core // cores_per_socket for core in range(cores))
    return NodeClass(
        pus=tuple(tuple(core + t * cores for t in range(threads_per_core)) for core in range(cores)),
        numa=(-1,) * cores,
        groups=(("package", package),),
        threads=threads_per_core,
    )


def renumber(values: Sequence[Hashable]) -> tuple[int, ...]:
    """Dense group numbers, in order of appearance.

    Examples
    --------
    >>> renumber([7, 7, 3])
    (0, 0, 1)
    """
    seen: dict[Hashable, int] = {}
    return tuple(seen.setdefault(value, len(seen)) for value in values)
