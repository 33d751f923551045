#!/bin/bash
# The batch script of the cases: a ring whose neighbours are three ranks apart, which neither block nor cyclic keeps together;
# or OFFSET ranks, each touching MEGABYTES.
scontrol -d show job $SLURM_JOB_ID >/media/work/out/$SLURM_JOB_NAME.job
srun ranks ${OFFSET:-3} ${MEGABYTES:-4} 20 /media/work/out/ranks/$SLURM_JOB_NAME
