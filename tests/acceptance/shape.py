"""What an emulated machine looks like: to qemu, to Slurm, and to the tests."""

from __future__ import annotations

from dataclasses import dataclass

from slurm_topo.units import expand_ints

SAME_SOCKET, OTHER_SOCKET = 12, 32
NUMA_MIB = 512


@dataclass(frozen=True)
class Node:
    """A Slurm node of the machine: all of its CPUs, except those that ``extra`` keeps from jobs."""

    name: str
    address: str
    extra: str = ""


@dataclass(frozen=True)
class Shape:
    """An emulated machine of two sockets with equal NUMA nodes, CPUs numbered thread by thread.

    Attributes
    ----------
    numa_nodes : int
        In the whole machine, even.
    cores : int
        In each NUMA node.
    threads : int
        Of each core.
    nodes : tuple of Node
        The Slurm nodes that share the machine, each with a slurmd of its own.
    """

    name: str
    numa_nodes: int = 4
    cores: int = 4
    threads: int = 1
    nodes: tuple[Node, ...] = (Node("n1", "192.0.2.11"), Node("n2", "192.0.2.12"))

    @property
    def cpus(self) -> int:
        """CPUs of the machine."""
        return self.numa_nodes * self.cores * self.threads

    def numa_of(self, cpu: int) -> int:
        """NUMA node of a CPU."""
        return cpu // (self.cores * self.threads)

    def numas_of(self, cpus: str) -> set[int]:
        """NUMA nodes of a list of CPUs."""
        return {self.numa_of(cpu) for cpu in expand_ints(cpus)}

    def qemu_arguments(self) -> list[str]:
        """Processors, memory and distances."""
        per_socket = self.numa_nodes // 2
        sockets = f"sockets=2,dies=1,cores={self.cores * per_socket},threads={self.threads}"
        arguments = ["-smp", f"{self.cpus},{sockets}", "-m", f"{NUMA_MIB * self.numa_nodes}M"]
        width = self.cores * self.threads
        for numa in range(self.numa_nodes):
            arguments += ["-object", f"memory-backend-ram,id=m{numa},size={NUMA_MIB}M"]
            cpus = f"{numa * width}-{numa * width + width - 1}"
            arguments += ["-numa", f"node,nodeid={numa},cpus={cpus},memdev=m{numa}"]
        for a in range(self.numa_nodes):
            for b in range(self.numa_nodes):
                if a != b:
                    value = SAME_SOCKET if a // per_socket == b // per_socket else OTHER_SOCKET
                    arguments += ["-numa", f"dist,src={a},dst={b},val={value}"]
        return arguments

    def node_lines(self) -> str:
        """The nodes in the words of slurm.conf; each NUMA node is a socket to Slurm."""
        return "\n".join(
            f"NodeName={node.name} NodeAddr={node.address} CPUs={self.cpus} Boards=1 "
            f"SocketsPerBoard={self.numa_nodes} CoresPerSocket={self.cores} ThreadsPerCore={self.threads} "
            f"RealMemory={NUMA_MIB * self.numa_nodes * 3 // 4} State=UNKNOWN {node.extra}".rstrip()
            for node in self.nodes
        )
