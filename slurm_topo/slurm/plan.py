"""The plan file: written by ``slurm-topo place --plan``, read by the SPANK plugin (docs/formats.md)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from slurm_topo.config import VARIANTS
from slurm_topo.errors import InputError
from slurm_topo.output import write_output
from slurm_topo.units import expand_ints, fold_ints

HEADER = "slurm-topo-plan 1"
MAX_BYTES = 16 << 20
DECISIONS = ("place", "stand-down")
# Memory policies by the kernel's names; empty: the node's own plugin decides.
MEMORY = ("preferred", "bind", "interleave", "none", "")


@dataclass(frozen=True)
class RankPlace:
    """Where one rank runs.

    Attributes
    ----------
    node : int
        Index into ``Plan.nodes``.
    cpus, mem, gpus : tuple of int
        OS indices of CPUs, NUMA nodes and GPUs; empty means not known: leave as Slurm set it.
    """

    node: int
    cpus: tuple[int, ...] = ()
    mem: tuple[int, ...] = ()
    gpus: tuple[int, ...] = ()


@dataclass(frozen=True)
class Plan:
    """One step's placement, or the decision to stand down, with the costs that led to it.

    Attributes
    ----------
    job, graph, machine, solver, reason : str
        Identities; ``reason`` is one word.
    decision : str
        ``place`` or ``stand-down``.
    ranks, cpus_per_task : int
        Shape of the step.
    variant : str
        ``spread`` or ``packed``; empty: the ranks could not lie in another way.
    memory : str
        Policy for the NUMA nodes of ``RankPlace.mem``, one of :data:`MEMORY`.
    cost : float
        The objective of the placement (setting ``objective``), seconds; NaN where none was computed.
    baselines : mapping of str to float
        The same of what Slurm alone would do.
    nodes : tuple of str
        Host names; empty for a stand-down.
    search : str
        How the search ended (``Placement.ended``); empty where there was none.
    places : tuple of RankPlace, length ranks (0 for a stand-down)
    """

    job: str
    ranks: int
    cpus_per_task: int
    decision: str
    reason: str
    graph: str = "-"
    machine: str = "-"
    solver: str = "-"
    variant: str = ""
    memory: str = ""
    cost: float = float("nan")
    baselines: Mapping[str, float] = field(default_factory=dict)
    nodes: tuple[str, ...] = ()
    places: tuple[RankPlace, ...] = ()
    search: str = ""


def format_plan(plan: Plan) -> str:
    """Text of a plan file."""
    lines = [
        HEADER,
        f"job {plan.job}",
        f"ranks {plan.ranks}",
        f"cpus_per_task {plan.cpus_per_task}",
        f"decision {plan.decision}",
        f"reason {plan.reason}",
        f"graph {plan.graph}",
        f"machine {plan.machine}",
        f"solver {plan.solver}",
        *(f"{name} {word}" for name, word in _optional(plan) if word),
        f"cost {plan.cost!r}",
        *(f"baseline {name} {value!r}" for name, value in plan.baselines.items()),
        f"nodes {len(plan.nodes)}",
        *(f"node {i} {name}" for i, name in enumerate(plan.nodes)),
        *(
            f"rank {r} {p.node} cpus={_list(p.cpus)} mem={_list(p.mem)} gpus={_list(p.gpus)}"
            for r, p in enumerate(plan.places)
        ),
        f"end {len(plan.places)}",
    ]
    return "\n".join(lines) + "\n"


def _optional(plan: Plan) -> tuple[tuple[str, str], ...]:
    return ("variant", plan.variant), ("memory", plan.memory), ("search", plan.search)


def _list(numbers: tuple[int, ...]) -> str:
    return fold_ints(numbers) or "-"


def write_plan(plan: Plan, path: str | os.PathLike[str]) -> None:
    """Write a plan atomically, mode 0600.

    Raises
    ------
    InputError
        The folder is missing, not writable or full; nothing is left behind.
    """
    write_output(path, format_plan(plan).encode("ascii"), mode=0o600, sync=True, plain=True)


def read_plan(path: str | os.PathLike[str]) -> Plan:
    """Read and check a plan file.

    Raises
    ------
    InputError
        The file is missing, too large, truncated or malformed.
    """
    try:
        with open(path, "rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); give a plan file") from error
    if len(data) > MAX_BYTES:
        raise InputError(f"{path}: is larger than a plan may be (16 MiB); it is not a plan")
    try:
        return parse_plan(data.decode("ascii"))
    except (ValueError, IndexError, KeyError) as error:
        raise InputError(
            f"{path}: is no valid plan ({error}); delete it, the next step makes a new one"
        ) from error


def parse_plan(text: str) -> Plan:
    """Plan of the text of a plan file.

    Raises
    ------
    ValueError, KeyError, IndexError
        The text is no plan; the message says why.
    """
    lines = text.splitlines()
    if not lines or lines[0] != HEADER:
        raise ValueError(f"the first line is not {HEADER!r}")
    single: dict[str, str] = {}
    baselines: dict[str, float] = {}
    nodes: list[str] = []
    places: list[RankPlace] = []
    for line in lines[1:-1]:
        name, _, rest = line.partition(" ")
        if name == "baseline":
            label, value = rest.rsplit(" ", 1)
            baselines[label] = float(value)
        elif name == "node":
            nodes.append(_numbered(rest.split(" "), len(nodes))[0])
        elif name == "rank":
            places.append(_parse_place(_numbered(rest.split(" "), len(places))))
        elif name in single:
            raise ValueError(f"{name} stands twice")
        else:
            single[name] = rest
    plan = Plan(
        job=single["job"],
        ranks=int(single["ranks"]),
        cpus_per_task=int(single["cpus_per_task"]),
        decision=single["decision"],
        reason=single["reason"],
        graph=single.get("graph", "-"),
        machine=single.get("machine", "-"),
        solver=single.get("solver", "-"),
        variant=single.get("variant", ""),
        memory=single.get("memory", ""),
        cost=float(single.get("cost", "nan")),
        baselines=baselines,
        nodes=tuple(nodes),
        places=tuple(places),
        search=single.get("search", ""),
    )
    _check(plan, lines[-1])
    return plan


def _numbered(fields: list[str], expected: int) -> list[str]:
    if int(fields[0]) != expected:
        raise ValueError(f"entry {fields[0]} stands where {expected} is expected")
    return fields[1:]


def _parse_place(fields: list[str]) -> RankPlace:
    values = dict(f.split("=", 1) for f in fields[1:])
    try:
        lists = {k: () if v == "-" else tuple(expand_ints(v)) for k, v in values.items()}
    except InputError as error:
        raise ValueError(str(error)) from error
    return RankPlace(int(fields[0]), lists["cpus"], lists["mem"], lists["gpus"])


def _check(plan: Plan, last: str) -> None:
    if last != f"end {len(plan.places)}":
        raise ValueError("the last line does not close it: it is truncated")
    if plan.decision not in DECISIONS:
        raise ValueError(f"decision {plan.decision!r} is unknown")
    if plan.variant not in ("", *VARIANTS):
        raise ValueError(f"variant {plan.variant!r} is unknown")
    if plan.memory not in MEMORY:
        raise ValueError(f"memory {plan.memory!r} is unknown")
    if plan.decision == "place" and len(plan.places) != plan.ranks:
        raise ValueError(f"it places {len(plan.places)} of {plan.ranks} ranks")
    if any(not 0 <= p.node < len(plan.nodes) for p in plan.places):
        raise ValueError("a rank is on a node that is not listed")
