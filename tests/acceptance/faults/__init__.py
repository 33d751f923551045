"""Every part is broken, alone and in pairs, while real jobs run on a real Slurm: no job may pay for it."""
