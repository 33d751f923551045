"""Where everything of a lab is: paths below its folder, names and addresses."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from slurm_topo.errors import LabError
from slurm_topo.lab.options import LabOptions

LOGIN = "login"
TOP_SWITCH = "top"
# Numbers of labs: each has its own /24 of 198.18.0.0/15, which RFC 2544 sets aside for benchmarks.
MAX_LABS = 512
# Sockets of slurmstepd lie in the node's spool and may have names like this one.
_LONGEST_SOCKET = "nodes/n200/stepd.slurm.pmix.12345678.4294967295"
_SOCKET_LIMIT = 107


@dataclass(frozen=True)
class Node:
    """One compute node: its name, its address and the leaf switch that it hangs on."""

    name: str
    address: str
    switch: str


@dataclass(frozen=True)
class Layout:
    """Paths, names and addresses of one lab.

    Attributes
    ----------
    folder : Path
        Absolute path of the lab's folder.
    number : int
        Number of this lab among the labs that run on this machine.
    options : LabOptions
        What was asked for.
    """

    folder: Path
    number: int
    options: LabOptions

    def address(self, host: int) -> str:
        """Address of a host number in this lab's network."""
        return f"198.{18 + self.number // 256}.{self.number % 256}.{host}"

    @property
    def network(self) -> str:
        """This lab's network in CIDR notation."""
        return f"{self.address(0)}/24"

    @property
    def login_address(self) -> str:
        """Address of the login host, where the controller and the accounting run."""
        return self.address(253)

    @property
    def host_address(self) -> str:
        """Address of this machine in the lab's network."""
        return self.address(254)

    @property
    def host_interface(self) -> str:
        """The one interface that the lab has in this machine's own network namespace."""
        return f"stlab{self.number}"

    @property
    def switches(self) -> list[str]:
        """Leaf switches: s1, s2, ..."""
        return [f"s{i + 1}" for i in range(self.options.switches)]

    @property
    def nodes(self) -> list[Node]:
        """Compute nodes, dealt to the switches in blocks of (nearly) equal size."""
        count, switches = self.options.nodes, self.options.switches
        return [Node(f"n{i + 1}", self.address(i + 1), f"s{i * switches // count + 1}") for i in range(count)]

    def etc(self, name: str) -> Path:
        """A configuration file."""
        return self.folder / "etc" / name

    def run(self, name: str) -> Path:
        """A file that lives as long as the daemons: pid files, sockets."""
        return self.folder / "run" / name

    def log(self, name: str) -> Path:
        """A log file."""
        return self.folder / "log" / f"{name}.log"

    @property
    def munge_socket(self) -> Path:
        """Socket of the lab's own munged."""
        return self.run("munge.sock")

    @property
    def database_socket(self) -> Path:
        """Socket of the lab's own MariaDB."""
        return self.run("db.sock")

    @property
    def spool(self) -> Path:
        """slurm_topo's spool."""
        return self.folder / "spool"

    @property
    def advice(self) -> Path:
        """slurm_topo's advice directory."""
        return self.folder / "advice"

    @property
    def history(self) -> Path:
        """slurm_topo's database."""
        return self.folder / "history" / "history.sqlite"

    @property
    def gpus(self) -> list[Path]:
        """Devices that stand for the GPUs of a node; Slurm takes their numbers from the names."""
        return [self.folder / "dev" / f"gpu{i}" for i in range(self.options.gpus)]

    def directories(self) -> dict[Path, int]:
        """Every directory of the lab with its mode."""
        modes = {
            **dict.fromkeys(("", "etc", "run", "log", "nodes", "history", "advice", "dev"), 0o755),
            **dict.fromkeys(("db", "ctld"), 0o700),
            "spool": 0o1777,
        }
        found = {self.folder / name: mode for name, mode in modes.items()}
        for node in self.nodes:
            found[self.folder / "nodes" / node.name] = 0o755
            found[self.folder / "nodes" / node.name / "tmp"] = 0o1777
        return found


def check_folder(folder: Path) -> Path:
    """The absolute path of a lab's folder, once it is clear that it can be one.

    Raises
    ------
    LabError
        The path is too long for the sockets in it, or holds characters that Slurm's files cannot.
    """
    path = folder.absolute()
    text = str(path)
    spare = _SOCKET_LIMIT - len(_LONGEST_SOCKET) - 1
    if len(text.encode()) > spare:
        raise LabError(
            f"{text}: longer than {spare} bytes, too long for the sockets below it; give a shorter --dir"
        )
    if not all(c.isalnum() or c in "/._-+" for c in text) or not text.isascii():
        raise LabError(f"{text}: only letters, digits and /._-+ can stand in it; give another --dir")
    return path
