"""Machine models: of one node through hwloc, of a cluster and its allocations through a description file."""

from slurm_topo.machine.build import build_machine, machine_digest
from slurm_topo.machine.cluster import Cluster, NodeShape, build_cluster
from slurm_topo.machine.clusterfile import read_cluster, write_cluster
from slurm_topo.machine.fabric import Fabric, Switch
from slurm_topo.machine.levels import default_level
from slurm_topo.machine.read import read_machine
from slurm_topo.machine.shape import NodeClass

__all__ = [
    "Cluster",
    "Fabric",
    "NodeClass",
    "NodeShape",
    "Switch",
    "build_cluster",
    "build_machine",
    "default_level",
    "machine_digest",
    "read_cluster",
    "read_machine",
    "write_cluster",
]
