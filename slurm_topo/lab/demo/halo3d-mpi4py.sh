#!/bin/bash
#SBATCH --job-name=halo3d-mpi4py
#SBATCH --nodes=4 --ntasks=8
#SBATCH --output=halo3d-mpi4py-%j.out
srun python3 halo3d.py 100
