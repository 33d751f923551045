#!/bin/bash
#SBATCH --ntasks=2
( eval "$FAULT"; exec /bin/true )
code=$?
echo "end $code"
exit $code
