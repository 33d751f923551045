"""What an emulated machine looks like: to qemu, to Slurm, and to the tests."""

from __future__ import annotations

from dataclasses import dataclass

from slurm_topo.units import expand_ints

SAME_SOCKET, OTHER_SOCKET = 12, 32
NUMA_MIB = 512
# High-bandwidth memory: nodes without CPUs, farther than the own ones in distance and faster in bandwidth.
HBM_MIB, HBM_DISTANCE, HBM_OTHER_SOCKET = 160, 14, 34
GPUS = 4


@dataclass(frozen=True)
class Node:
    """A Slurm node of the machine: all of its CPUs, except those that ``extra`` keeps from jobs.

    Attributes
    ----------
    gpus : str
        Maker of its four GPUs by the word of gres.conf (``nvidia``, ``amd``, ``intel``); empty: it has none.
    """

    name: str
    address: str
    extra: str = ""
    gpus: str = ""


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
    hbm : bool
        Each socket has high-bandwidth memory as a NUMA node of its own, numbered after the others.
    nodes : tuple of Node
        The Slurm nodes that share the machine, each with a slurmd of its own.
    """

    name: str
    numa_nodes: int = 4
    cores: int = 4
    threads: int = 1
    hbm: bool = False
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

    def socket_of(self, numa: int) -> int:
        """Socket of a NUMA node, with or without CPUs."""
        return numa // (self.numa_nodes // 2) if numa < self.numa_nodes else numa - self.numa_nodes

    def hbm_of(self, numa: int) -> int:
        """The high-bandwidth memory in the socket of a NUMA node."""
        return self.numa_nodes + self.socket_of(numa)

    def qemu_arguments(self) -> list[str]:
        """Processors, memory and distances."""
        per_socket = self.numa_nodes // 2
        sockets = f"sockets=2,dies=1,cores={self.cores * per_socket},threads={self.threads}"
        memory = NUMA_MIB * self.numa_nodes + (2 * HBM_MIB if self.hbm else 0)
        arguments = ["-smp", f"{self.cpus},{sockets}", "-m", f"{memory}M"]
        width = self.cores * self.threads
        for numa in range(self.numa_nodes):
            arguments += ["-object", f"memory-backend-ram,id=m{numa},size={NUMA_MIB}M"]
            cpus = f"{numa * width}-{numa * width + width - 1}"
            arguments += ["-numa", f"node,nodeid={numa},cpus={cpus},memdev=m{numa}"]
        every = self.numa_nodes + (2 if self.hbm else 0)
        for socket in range(every - self.numa_nodes):
            numa = self.numa_nodes + socket
            arguments += ["-object", f"memory-backend-ram,id=m{numa},size={HBM_MIB}M"]
            initiator = socket * per_socket
            arguments += ["-numa", f"node,nodeid={numa},memdev=m{numa},initiator={initiator}"]
        for a in range(every):
            for b in range(every):
                if a != b:
                    arguments += ["-numa", f"dist,src={a},dst={b},val={self._distance(a, b)}"]
        return [*arguments, *(self._hmat(every) if self.hbm else [])]

    def _distance(self, a: int, b: int) -> int:
        same = self.socket_of(a) == self.socket_of(b)
        if max(a, b) < self.numa_nodes:
            return SAME_SOCKET if same else OTHER_SOCKET
        return HBM_DISTANCE if same else HBM_OTHER_SOCKET

    def _hmat(self, every: int) -> list[str]:
        """What the firmware tells of latency (ns) and bandwidth: HBM is four times as fast as DRAM."""
        arguments = ["-machine", "hmat=on"]
        for a in range(self.numa_nodes):
            for b in range(every):
                same, fast = self.socket_of(a) == self.socket_of(b), b >= self.numa_nodes
                latency = (10 if a == b else 12 if same else 30) + 2 * fast
                bandwidth = (200 if fast else 50) // (1 if same else 2)
                head = f"hmat-lb,initiator={a},target={b},hierarchy=memory"
                arguments += ["-numa", f"{head},data-type=access-latency,latency={latency}"]
                arguments += ["-numa", f"{head},data-type=access-bandwidth,bandwidth={bandwidth}G"]
        return arguments

    def node_lines(self) -> str:
        """The nodes in the words of slurm.conf; each NUMA node is a socket to Slurm."""
        return "\n".join(
            f"NodeName={node.name} NodeAddr={node.address} CPUs={self.cpus} Boards=1 "
            f"SocketsPerBoard={self.numa_nodes} CoresPerSocket={self.cores} ThreadsPerCore={self.threads} "
            f"RealMemory={NUMA_MIB * self.numa_nodes * 3 // 4} State=UNKNOWN "
            f"{f'Gres=gpu:{GPUS} ' if node.gpus else ''}{node.extra}".rstrip()
            for node in self.nodes
        )

    def gres_lines(self) -> str:
        """The GPUs in the words of gres.conf; devices that start.sh has made. Empty: there are none."""
        return "".join(
            f"NodeName={node.name} Name=gpu File=/dev/stgpu[0-{GPUS - 1}] Flags={node.gpus}_gpu_env\n"
            for node in self.nodes
            if node.gpus
        )

    def gpu_cpus(self) -> list[str]:
        """CPUs next to each GPU: the first GPU is next to the last NUMA node, as on many servers."""
        width = self.cores * self.threads
        return [f"{n * width}-{n * width + width - 1}" for n in reversed(range(self.numa_nodes))]
