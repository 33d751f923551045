#!/bin/bash
#SBATCH --nodes=2 --ntasks=4
# FAULT: what breaks in the job itself. The last line says that the job came to its end, and how.
echo "arm ${SLURM_TOPO_JOB_ARM:-none} graph ${SLURM_TOPO_JOB_GRAPH:-none} trace ${SLURM_TOPO_JOB_TRACE:-none}"
# What is on PATH is looked up before it is broken.
set -- $LAUNCH
launcher=$(command -v "$1")
shift
( eval "$FAULT"; exec "$launcher" "$@" $PROGRAM )
code=$?
echo "end $code"
exit $code
