"""What a lab is asked to be: how many nodes, switches, CPUs, and how fast the links."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from slurm_topo.errors import LabError

# Node addresses are .1 to .200 of a /24; .253 is the login host, .254 this machine.
MAX_NODES = 200
MAX_GPUS = 64
_RATE = re.compile(r"^(\d+(?:\.\d+)?)(kbit|mbit|gbit)$", re.ASCII)
_RATE_UNITS = {"kbit": 1e3, "mbit": 1e6, "gbit": 1e9}


def parse_rate(text: str) -> float:
    """Bits per second of a rate as ``tc`` writes it.

    Raises
    ------
    LabError
        The text is no rate above zero.

    Examples
    --------
    >>> parse_rate("200mbit")
    200000000.0
    """
    match = _RATE.match(text)
    rate = float(match[1]) * _RATE_UNITS[match[2]] if match else 0.0
    if rate <= 0:
        raise LabError(f"speed {text!r}: not a rate above zero; write for example 200mbit or 1gbit")
    return rate


@dataclass(frozen=True)
class LabOptions:
    """Options of ``slurm-topo lab up``; two labs with equal options are the same lab.

    Attributes
    ----------
    nodes : int
        Compute nodes, 1..200, named n1, n2, ...
    switches : int
        Leaf switches, 1..nodes; with more than one, each has an uplink to a top switch.
    cpus : int
        CPUs of each node. All nodes share this machine's CPUs; more than it has: docs/lab.md.
    link_speed, uplink_speed : str
        Rates of node links and of uplinks in both directions, as ``tc`` writes them. Uplinks are slower.
    memory : int
        Memory of each node as Slurm sees it, MiB.
    gpus : int
        GPUs of each node as Slurm's GRES has them: devices like /dev/null.
    integrate : bool
        Whether Slurm is set up with slurm_topo's job_submit script and SPANK plugin.
    library_dir : str
        Where slurm_topo.so and the tracer libraries are; empty: searched.
    """

    nodes: int = 4
    switches: int = 2
    cpus: int = 2
    link_speed: str = "200mbit"
    uplink_speed: str = "100mbit"
    memory: int = 1024
    gpus: int = 0
    integrate: bool = True
    library_dir: str = ""

    def __post_init__(self) -> None:
        if not 1 <= self.nodes <= MAX_NODES:
            raise LabError(f"--nodes {self.nodes}: a lab has 1 to {MAX_NODES} nodes; give such a number")
        if not 1 <= self.switches <= self.nodes:
            raise LabError(
                f"--switches {self.switches}: {self.nodes} nodes hang on 1 to {self.nodes} switches; "
                "give such a number"
            )
        if not 1 <= self.cpus <= 256:
            raise LabError(f"--cpus {self.cpus}: a node has 1 to 256 CPUs; give such a number")
        if self.memory < 64:
            raise LabError(f"--memory {self.memory}: a node needs at least 64 MiB; give a larger number")
        if not 0 <= self.gpus <= MAX_GPUS:
            raise LabError(f"--gpus {self.gpus}: a node has 0 to {MAX_GPUS} GPUs; give such a number")
        if self.switches > 1 and parse_rate(self.uplink_speed) >= parse_rate(self.link_speed):
            raise LabError(
                f"--uplink-speed {self.uplink_speed} is not slower than --link-speed {self.link_speed}; "
                "give a slower uplink"
            )
        parse_rate(self.link_speed)

    def to_json(self) -> dict[str, Any]:
        """Values that JSON can hold."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> LabOptions:
        """The options of a state file; keys of other versions are dropped."""
        known = {f.name for f in fields(cls)}
        return cls(**{k: v for k, v in values.items() if k in known})

    def differences(self, other: LabOptions) -> list[str]:
        """Flags in which ``other`` differs, for messages."""
        mine, theirs = asdict(self), asdict(other)
        return [f"{k.replace('_', '-')} {theirs[k]} (runs: {mine[k]})" for k in mine if mine[k] != theirs[k]]


def default_cpus() -> int:
    """CPUs of a node unless asked otherwise: two, or what this machine lets us use."""
    return min(2, len(os.sched_getaffinity(0)))
