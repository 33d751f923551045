"""A matrix product on a grid of ranks: broadcasts in rows, shifts in columns, sums over both."""

from mpi4py import MPI

world = MPI.COMM_WORLD
dims = MPI.Compute_dims(world.size, 2)
grid = world.Create_cart(dims, periods=[True, True])
rows, columns = grid.Sub([False, True]), grid.Sub([True, False])
block = bytearray(bytes(range(200)) * 100)
moved = bytearray(len(block))
for step in range(6):
    rows.Bcast([block, MPI.BYTE], root=step % rows.size)
    up, down = columns.Shift(0, 1)
    columns.Sendrecv_replace([moved, MPI.BYTE], dest=down, source=up)
    total = world.allreduce(step + world.rank)
    parts = rows.allgather({"step": step})
gathered = columns.gather(len(parts), root=0)
if world.rank == 0:
    print(total, gathered)
