"""Fabrics from the text of other tools: Slurm's topology files and InfiniBand discovery."""

from slurm_topo.machine.fabrics.common import FabricText
from slurm_topo.machine.fabrics.infiniband import is_ibnetdiscover, parse_ibnetdiscover
from slurm_topo.machine.fabrics.slurmconf import is_topology_conf, parse_topology_conf
from slurm_topo.machine.fabrics.slurmyaml import is_topology_yaml, parse_topology_yaml

__all__ = [
    "FabricText",
    "is_ibnetdiscover",
    "is_topology_conf",
    "is_topology_yaml",
    "parse_ibnetdiscover",
    "parse_topology_conf",
    "parse_topology_yaml",
]
