#!/bin/bash
#SBATCH --job-name=halo3d
#SBATCH --nodes=4 --ntasks=8
#SBATCH --output=halo3d-%j.out
srun ./halo3d 100
