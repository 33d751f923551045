"""What the ranks of a job saw of themselves, what the plan wanted, and what Slurm had given."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slurm_topo.slurm.plan import Plan, read_plan
from slurm_topo.units import expand_ints
from tests.acceptance.image import USERS

# Of get_mempolicy(2).
DEFAULT, PREFERRED, BIND, INTERLEAVE, LOCAL, PREFERRED_MANY = range(6)


@dataclass(frozen=True)
class Rank:
    """One rank, from its own /proc/self and from the kernel's answers to its calls.

    Attributes
    ----------
    cpus : frozenset of int
        ``Cpus_allowed_list`` of /proc/self/status.
    policy, policy_nodes
        As get_mempolicy tells.
    pages : mapping of int to int
        NUMA node -> pages of the memory that the rank touched, as move_pages tells.
    devices : mapping of int to str
        Number of a GPU's device -> ``usable`` or ``denied``.
    numa_maps : str
        Line of /proc/self/numa_maps of that memory.
    """

    job: int
    rank: int
    node: str
    cpus: frozenset[int]
    policy: int
    policy_nodes: frozenset[int]
    pages: dict[int, int]
    numa_maps: str
    devices: dict[int, str]
    environment: dict[str, str]

    @property
    def mapped(self) -> dict[int, int]:
        """Pages by NUMA node as numa_maps counts them."""
        return {int(node): int(count) for node, count in re.findall(r"\bN(\d+)=(\d+)", self.numa_maps)}


def read_ranks(out: Path, name: str) -> list[Rank]:
    """The ranks of a job by its name, in order."""
    ranks = [_rank(json.loads(file.read_text())) for file in (out / "ranks").glob(f"{name}.*.json")]
    return sorted(ranks, key=lambda rank: rank.rank)


def _rank(values: dict[str, Any]) -> Rank:
    return Rank(
        job=int(values["job"]),
        rank=values["rank"],
        node=values["node"],
        cpus=frozenset(expand_ints(values["cpus"])),
        policy=values["policy"],
        policy_nodes=frozenset(n for n in range(64) if values["policy_mask"] >> n & 1),
        pages={int(node): count for node, count in values["pages"].items()},
        numa_maps=values["numa_maps"],
        devices={int(number): word for number, word in values["devices"].items()},
        environment=values["environment"],
    )


def decision_of(out: Path, job: int, spool: str = "spool") -> dict[str, Any]:
    """What srun recorded for the only step of a job of alice's."""
    folder = out / spool / str(USERS["alice"]) / "records"
    lines = [line for file in folder.glob(f"{job}.*.rec") for line in file.read_text().splitlines()]
    found = [record for record in map(json.loads, lines) if record["where"] == "srun"]
    assert len(found) == 1, f"job {job} has {len(found)} records of srun"
    return dict(found[0])


def plan_of(out: Path, job: int) -> Plan:
    """The plan of the only step of a job of alice's."""
    found = list((out / "spool" / str(USERS["alice"]) / "plans").glob(f"{job}-*.plan"))
    assert len(found) == 1, f"job {job} has {len(found)} plans"
    return read_plan(found[0])


def owned_cpus(out: Path, name: str) -> dict[str, frozenset[int]]:
    """CPUs that Slurm gave to a job, by node. In these machines its numbers are those of the kernel."""
    text = (out / f"{name}.job").read_text()
    found: dict[str, frozenset[int]] = {}
    for nodes, cpus in re.findall(r"Nodes=(\S+) CPU_IDs=(\S+)", text):
        for node in re.findall(r"n\d+", nodes.replace("n[1-2]", "n1,n2")):
            found[node] = frozenset(expand_ints(cpus))
    return found


def ring_within(groups: list[object], offset: int = 3) -> int:
    """How many ranks have their neighbour, ``offset`` ranks on, in their own group."""
    size = len(groups)
    return sum(groups[r] == groups[(r + offset) % size] for r in range(size))
