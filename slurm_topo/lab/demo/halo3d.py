"""The mpi4py twin of halo3d.c: the same slab, the same decomposition, NumPy for the stencil.

usage: halo3d.py [STEPS [NX NY NZ [FIELDS]]]
"""

import sys

import numpy as np
from mpi4py import MPI


def main() -> None:
    """Run the solver and print the change of the field now and then."""
    numbers = [int(a) for a in sys.argv[1:]]
    steps = numbers[0] if numbers else 400
    shape = numbers[1:4] if len(numbers) >= 4 else [16, 128, 256]
    fields = numbers[4] if len(numbers) > 4 else 4
    size = MPI.COMM_WORLD.size
    procs = MPI.Compute_dims(size, 3)
    cart = MPI.COMM_WORLD.Create_cart(procs, periods=[False] * 3, reorder=False)
    if any(n % p for n, p in zip(shape, procs, strict=True)):
        raise SystemExit(f"halo3d.py: {shape} cells cannot be split evenly over {procs} ranks")
    local = [n // p for n, p in zip(shape, procs, strict=True)]
    first = [c * n for c, n in zip(cart.coords, local, strict=True)]
    i, j, k = (np.arange(1, n + 1, dtype=float) + f for n, f in zip(local, first, strict=True))
    now = np.zeros((fields, *(n + 2 for n in local)))
    for f in range(fields):
        wave = np.sin(0.1 * i * (f + 1))[:, None, None] + np.cos(0.05 * j)[None, :, None]
        now[f, 1:-1, 1:-1, 1:-1] = wave + np.sin(0.02 * k)[None, None, :]
    following = now.copy()

    cart.Barrier()
    start = MPI.Wtime()
    for step in range(1, steps + 1):
        exchange(cart, now)
        core = now[:, 1:-1, 1:-1, 1:-1]
        difference = now[:, :-2, 1:-1, 1:-1] + now[:, 2:, 1:-1, 1:-1]
        difference += now[:, 1:-1, :-2, 1:-1]
        difference += now[:, 1:-1, 2:, 1:-1]
        difference += now[:, 1:-1, 1:-1, :-2]
        difference += now[:, 1:-1, 1:-1, 2:]
        difference -= 6 * core
        difference *= 0.125
        np.add(core, difference, out=following[:, 1:-1, 1:-1, 1:-1])
        now, following = following, now
        if step % 50 == 0 or step == steps:
            total = cart.allreduce(float(np.vdot(difference, difference)))
            if cart.rank == 0:
                print(f"step {step:4d}  change {np.sqrt(total):.12e}")
    cart.Barrier()
    if cart.rank == 0:
        grid = " x ".join(map(str, procs))
        print(f"halo3d.py: {size} ranks as {grid}, {steps} steps, {MPI.Wtime() - start:.2f} s", flush=True)


def exchange(cart: MPI.Cartcomm, field: np.ndarray) -> None:
    """Fill the ghost layers of ``field`` (fields, x, y, z) from the neighbours in each dimension."""
    requests, arrivals = [], []
    for dim in range(3):
        low, high = cart.Shift(dim, 1)
        inner = [slice(None)] + [slice(1, -1)] * 3
        for source, target, sent, ghost, tag in (
            (low, high, -2, 0, 2 * dim),
            (high, low, 1, -1, 2 * dim + 1),
        ):
            outgoing, incoming = list(inner), list(inner)
            outgoing[dim + 1], incoming[dim + 1] = sent, ghost
            buffer = np.empty_like(field[tuple(incoming)])
            requests.append(cart.Irecv(buffer, source, tag))
            if source != MPI.PROC_NULL:
                arrivals.append((tuple(incoming), buffer))
            requests.append(cart.Isend(np.ascontiguousarray(field[tuple(outgoing)]), target, tag))
    MPI.Request.Waitall(requests)
    for place, buffer in arrivals:
        field[place] = buffer


main()
