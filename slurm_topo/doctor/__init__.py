"""An administrator's check: Slurm's files against the hardware and against what slurm_topo needs."""
