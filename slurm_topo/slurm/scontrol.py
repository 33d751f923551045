"""What ``scontrol show`` prints: jobs with their CPUs on each node, nodes, switches."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from slurm_topo.errors import MachineError, SlurmError
from slurm_topo.machine import NodeShape, Switch
from slurm_topo.slurm import values
from slurm_topo.slurm.command import Runner, run_command
from slurm_topo.slurm.gres import job_gpus, merge_cores, node_gpus, parse_gres_conf
from slurm_topo.units import expand_hostlist, expand_ints

# A name of scontrol: the next one ends a value, which may hold blanks and "=".
_NAME = re.compile(r"(?:^|\s)([A-Za-z][A-Za-z0-9_:/-]*)=")


@dataclass(frozen=True)
class JobNode:
    """What a job owns on one node.

    Attributes
    ----------
    name : str
        Host name.
    cpus : tuple of int
        Slurm's abstract CPU ids (``CPU_IDs``): blocks of cores with their threads, not OS indices.
    gres : str
        As Slurm prints it, for example ``gpu:a100:2(IDX:0-1)``.
    """

    name: str
    cpus: tuple[int, ...]
    gres: str

    @property
    def gpus(self) -> tuple[int, ...]:
        """Numbers of the job's GPUs, as Slurm counts them on the node."""
        return job_gpus(self.gres)


@dataclass(frozen=True)
class JobDetails:
    """A job as slurmctld knows it.

    Attributes
    ----------
    nodes : tuple of JobNode
        In Slurm's order; empty for a job that does not run.
    fields : dict of str to str
        Everything that ``scontrol show job`` prints once for the job.
    """

    job: int
    nodes: tuple[JobNode, ...]
    fields: dict[str, str]

    @property
    def exclusive(self) -> bool:
        """It shares its nodes with no other job (``OverSubscribe=NO`` or ``EXCLUSIVE``)."""
        return self.fields.get("OverSubscribe", self.fields.get("Shared", "")) in ("NO", "EXCLUSIVE", "0")


def fields_of_line(line: str) -> dict[str, str]:
    """Names and values of one line of ``scontrol --oneliner``; of names that occur twice the first.

    Examples
    --------
    >>> fields_of_line("JobId=5 JobName=a b=c NodeList=n[1-2]")
    {'JobId': '5', 'JobName': 'a', 'b': 'c', 'NodeList': 'n[1-2]'}
    """
    found: dict[str, str] = {}
    matches = list(_NAME.finditer(line))
    ends = [*(match.start() for match in matches[1:]), len(line)]
    for match, end in zip(matches, ends, strict=False):
        found.setdefault(match[1], line[match.end() : end].strip())
    return found


def read_job(job: int, run: Runner = run_command) -> JobDetails:
    """A running job with its CPUs on each node.

    Raises
    ------
    SlurmError
        scontrol failed or does not know the job.
    """
    jobs = list(parse_jobs(run(["scontrol", "--details", "--oneliner", "show", "job", str(job)])))
    if not jobs:
        raise SlurmError(f"scontrol: knows no job {job}; it may have ended: see `sacct -j {job}`")
    return next((j for j in jobs if j.job == job), jobs[0])


def parse_jobs(text: str) -> Iterator[JobDetails]:
    """Jobs of ``scontrol --details --oneliner show job``."""
    for line in text.splitlines():
        if not line.startswith("JobId="):
            continue
        fields = fields_of_line(line)
        yield JobDetails(int(fields["JobId"].split("(")[0]), tuple(_job_nodes(line)), fields)


def _job_nodes(line: str) -> Iterator[JobNode]:
    """Nodes of the ``Nodes=... CPU_IDs=... Mem=... GRES=...`` groups: each stands for equal nodes."""
    for match in re.finditer(r"\sNodes=(\S+) CPU_IDs=(\S*) Mem=\S*(?: GRES(?:_IDX)?=(\S*))?", line):
        cpus = tuple(expand_ints(match[2]))
        for name in expand_hostlist(match[1]):
            yield JobNode(name, cpus, "" if match[3] in (None, "(null)") else match[3])


def read_nodes(run: Runner = run_command) -> list[NodeShape]:
    """All nodes of the cluster in Slurm's order."""
    return parse_nodes(run(["scontrol", "--oneliner", "show", "node"]))


def parse_nodes(text: str) -> list[NodeShape]:
    """Nodes of ``scontrol --oneliner show node``; dynamic nodes without numbers are left out."""
    shapes = []
    for line in text.splitlines():
        if not line.startswith("NodeName="):
            continue
        fields = fields_of_line(line)
        sockets = values.count(fields.get("Sockets"))
        cores = values.count(fields.get("CoresPerSocket"))
        if sockets and cores:
            threads = values.count(fields.get("ThreadsPerCore")) or 1
            gpus = node_gpus(fields.get("Gres", ""), cores)
            shapes.append(NodeShape(fields["NodeName"], sockets, cores, threads, gpus=gpus))
    return shapes


def read_gres_conf(run: Runner = run_command) -> str:
    """Text of the gres.conf beside slurmctld's slurm.conf; empty where there is none to read here."""
    match = re.search(r"^SLURM_CONF\s*=\s*(\S+)", run(["scontrol", "show", "config"]), re.MULTILINE)
    try:
        return Path(match[1]).with_name("gres.conf").read_text(errors="replace") if match else ""
    except (OSError, ValueError):
        return ""


def with_gres_conf(nodes: Iterable[NodeShape], text: str) -> list[NodeShape]:
    """Nodes with the cores next to their GPUs as a gres.conf has them (``Cores=``).

    Raises
    ------
    InputError
        The text cannot be understood.
    """
    conf = parse_gres_conf(text)
    return [replace(n, gpus=merge_cores(n.gpus, conf, n.name)) if n.gpus else n for n in nodes]


def read_switches(run: Runner = run_command) -> list[Switch]:
    """The switches that slurmctld knows; empty without a topology plugin of trees."""
    try:
        return parse_switches(run(["scontrol", "show", "topology"]))
    except SlurmError as error:
        # topology/default (flat): scontrol says that there is nothing to show.
        if "topology" in str(error).lower() or "no " in str(error).lower():
            return []
        raise


def parse_switches(text: str) -> list[Switch]:
    """Switches of ``scontrol show topology`` or of a topology.conf; blocks are switches too.

    Empty where the text names neither: a flat network. ``Nodes`` of a switch above others are all nodes below
    it, so they are left out there; a node that several switches claim stays below the first.

    Raises
    ------
    SlurmError
        The text cannot be understood.
    """
    # Imported here: a launch asks for a job only.
    from slurm_topo.machine.fabrics import is_topology_conf, parse_topology_conf

    if not is_topology_conf(text):
        return []
    try:
        return list(parse_topology_conf(text).switches)
    except MachineError as error:
        raise SlurmError(f"scontrol show topology: {error}") from error


def read_cluster_name(run: Runner = run_command) -> str:
    """``ClusterName`` of slurm.conf, empty where it is not set."""
    match = re.search(r"^ClusterName\s*=\s*(\S+)", run(["scontrol", "show", "config"]), re.MULTILINE)
    return match[1] if match else ""


def read_slurm_user(run: Runner = run_command) -> int | None:
    """Numeric id of ``SlurmUser``, None where slurmctld does not tell it."""
    match = re.search(r"^SlurmUser\s*=\s*\S+\((\d+)\)", run(["scontrol", "show", "config"]), re.MULTILINE)
    return int(match[1]) if match else None
