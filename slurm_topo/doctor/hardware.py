"""Nodes as hwloc sees them."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from pathlib import Path

from slurm_topo.errors import InputError
from slurm_topo.hwloc.topology import Topology
from slurm_topo.machine.gpus import gpus_of_topology
from slurm_topo.machine.local import node_class
from slurm_topo.machine.shape import NodeClass


@dataclass(frozen=True)
class Hardware:
    """What a node really has.

    Attributes
    ----------
    source : str
        Where that is known from.
    packages, cores, threads, pus : int
        Packages, cores, hardware threads of a core, PUs in all.
    memory_bytes : int
        Of all NUMA nodes.
    shape : NodeClass
        Cores in Slurm's abstract order with their PUs.
    gpus : tuple of tuples of int
        Abstract cores next to each GPU (empty: all, or unknown).
    """

    source: str
    packages: int
    cores: int
    threads: int
    pus: int
    memory_bytes: int
    shape: NodeClass
    gpus: tuple[tuple[int, ...], ...]

    def package_of(self, core: int) -> int:
        """Number of the package of an abstract core."""
        for name, groups in self.shape.groups:
            if name == "package":
                return groups[core]
        return 0


def hardware_of(topology: Topology, source: str) -> Hardware:
    """What hwloc says of a node."""
    shape = node_class(topology)
    found = gpus_of_topology(topology)
    near = []
    for pus in found.pus if found else ():
        near.append(tuple(core for core, own in enumerate(shape.pus) if set(own) & set(pus)) if pus else ())
    return Hardware(
        source=source,
        packages=max(1, len(topology.of_kind("Package"))),
        cores=shape.cores,
        threads=shape.threads,
        pus=sum(len(pus) for pus in shape.pus),
        memory_bytes=sum(o.size for o in topology.of_kind("NUMANode")),
        shape=shape,
        gpus=tuple(near),
    )


def known_hardware(names: list[str], folder: str | None, this_node: str | None = None) -> dict[str, Hardware]:
    """Hardware of the nodes of which hwloc has said something.

    Parameters
    ----------
    names : list of str
        Nodes of slurm.conf.
    folder : str or None
        Folder with ``NODE.xml`` of ``slurm-topo machine capture``.
    this_node : str, optional
        Name of this machine; its short host name by default.

    Raises
    ------
    InputError
        The folder cannot be read, or a file in it is no hwloc XML.
    """
    from slurm_topo.hwloc import reader

    found: dict[str, Hardware] = {}
    here = this_node or socket.gethostname().split(".")[0]
    if here in names:
        found[here] = hardware_of(reader.load_this_machine(), "this machine")
    if folder is None:
        return found
    if not Path(folder).is_dir():
        raise InputError(f"{folder}: is no folder; give one with NODE.xml of `slurm-topo machine capture`")
    for name in names:
        file = Path(folder) / f"{name}.xml"
        if file.exists():
            found[name] = hardware_of(reader.load_xml(file), str(file))
    return found
