"""The slow proofs: a real kernel with NUMA nodes and cgroups, Slurm, and slurm_topo installed in it."""
