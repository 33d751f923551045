#!/bin/bash
# Twice as many ranks as the job has cores.
export OMPI_MCA_mpi_yield_when_idle=1
srun --overcommit -n 16 ranks 3 4 4 /media/work/out/ranks/$SLURM_JOB_NAME
