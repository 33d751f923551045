#!/bin/bash
# The batch script of the cases: a ring whose neighbours are three ranks apart, which neither block nor cyclic keeps together.
srun ranks 3 4 20 /media/work/out/ranks/$SLURM_JOB_NAME
