"""A ring of arrays and a broadcast; with an argument the tracer is loaded by mpi4py.profile."""

import sys

if len(sys.argv) > 1:
    import mpi4py

    mpi4py.profile(sys.argv[1])

from mpi4py import MPI

world = MPI.COMM_WORLD
out, got = bytearray(800), bytearray(800)
world.Sendrecv(out, (world.rank + 1) % world.size, recvbuf=got, source=(world.rank - 1) % world.size)
world.send({"number": world.rank}, dest=(world.rank + 1) % world.size)
assert world.recv()["number"] == (world.rank - 1) % world.size
world.Barrier()
