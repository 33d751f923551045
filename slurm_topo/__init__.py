"""slurm_topo: ranks of unchanged Slurm jobs, placed where their communication wants them to run."""

__version__ = "0.1.0"
