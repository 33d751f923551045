"""Machines as SVG: a node and a cluster."""

from slurm_topo.machine.draw.cluster import draw_cluster
from slurm_topo.machine.draw.node import draw_node

__all__ = ["draw_cluster", "draw_node"]
