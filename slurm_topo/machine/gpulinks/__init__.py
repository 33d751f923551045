"""Links between GPUs and NICs from the text of vendors' tools."""

from slurm_topo.machine.gpulinks.matrix import LinkDevice, LinkMatrix
from slurm_topo.machine.gpulinks.nvidia import is_topo_matrix, parse_topo_matrix
from slurm_topo.machine.gpulinks.nvidia_more import (
    ListedGpu,
    NvLinks,
    PeerMatrix,
    is_gpu_list,
    is_nvlink_status,
    is_peer_matrix,
    parse_gpu_list,
    parse_nvlink_status,
    parse_peer_matrix,
)
from slurm_topo.machine.gpulinks.paths import Path, nvlink_gbs, paths_of
from slurm_topo.machine.gpulinks.rocm import is_rocm_topo, parse_rocm_topo

__all__ = [
    "LinkDevice",
    "LinkMatrix",
    "ListedGpu",
    "NvLinks",
    "Path",
    "PeerMatrix",
    "is_gpu_list",
    "is_nvlink_status",
    "is_peer_matrix",
    "is_rocm_topo",
    "is_topo_matrix",
    "nvlink_gbs",
    "parse_gpu_list",
    "parse_nvlink_status",
    "parse_peer_matrix",
    "parse_rocm_topo",
    "parse_topo_matrix",
    "paths_of",
]
