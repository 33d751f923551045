"""The slow proofs: a real kernel with several NUMA nodes, cgroups that constrain, Slurm, and slurm_topo installed in it."""
