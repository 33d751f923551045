"""Placement against solvers that install from packages: cost ratios and CPU seconds.

    python tests/benchmarks/placement/compare.py [--ranks N] [--seeds K] [--effort launch|best|both]

Peers are used where they are installed: ``scotch_gmap`` (Debian package scotch), ``pymetis`` and
``chszlablib`` (PyPI). Every graph is shuffled: its rank numbers mean nothing. CPU seconds are those of the
call alone, without the start of Python and without reading files; a peer's result is seated on free cores
where it put two ranks on one. Costs are given over the least one found for the graph.
"""

from __future__ import annotations

import argparse
import itertools
import math
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from slurm_topo.machine.tree import parse_tree
from slurm_topo.model import CommGraph, Machine
from slurm_topo.placement.cost import cost
from slurm_topo.placement.solve import place
from slurm_topo.trace import build_graph

Solver = Callable[[CommGraph, str, int], tuple[NDArray[np.int64], float]]


def stencil(sizes: tuple[int, ...], weights: tuple[float, ...], periodic: bool = False) -> CommGraph:
    """Neighbours within one step in every direction; weights by the number of directions (0: none)."""
    ranks = math.prod(sizes)
    at = np.stack(np.unravel_index(np.arange(ranks), sizes), axis=1)
    parts = []
    for step in itertools.product((-1, 0, 1), repeat=len(sizes)):
        directions = sum(map(abs, step))
        if not directions or directions > len(weights):
            continue
        to = at + np.array(step)
        inside = np.full(ranks, True) if periodic else ((to >= 0) & (to < np.array(sizes))).all(axis=1)
        target = np.ravel_multi_index((to[inside] % np.array(sizes)).T, sizes)
        parts.append((np.flatnonzero(inside), target, np.full(target.size, weights[directions - 1])))
    source, target, nbytes = (np.concatenate(column) for column in zip(*parts, strict=True))
    return build_graph(ranks, source, target, nbytes)


def geometric(ranks: int, dimensions: int, neighbours: int) -> CommGraph:
    """Random points, each with its nearest others: an unstructured mesh."""
    random = np.random.default_rng(11)
    points = random.random((ranks, dimensions))
    distance = ((points[:, None] - points[None]) ** 2).sum(axis=2)
    near = np.argsort(distance, axis=1)[:, 1 : neighbours + 1]
    source, target = np.repeat(np.arange(ranks), neighbours), near.ravel()
    nbytes = random.integers(100, 900, source.size).astype(float)
    return build_graph(ranks, np.r_[source, target], np.r_[target, source], np.r_[nbytes, nbytes])


def training(*parts: tuple[int, str, float]) -> CommGraph:
    """Nested groups (size, ``ring`` or ``all``, weight), innermost first."""
    ranks = math.prod(size for size, _, _ in parts)
    rank, stride, pairs = np.arange(ranks), 1, []
    for size, kind, weight in parts:
        place_in = rank // stride % size
        steps = range(1, size) if kind == "all" else {1, size - 1}
        for step in steps:
            pairs.append(
                (rank, rank + ((place_in + step) % size - place_in) * stride, np.full(ranks, weight))
            )
        stride *= size
    source, target, nbytes = (np.concatenate(column) for column in zip(*pairs, strict=True))
    return build_graph(ranks, source, target, nbytes)


def cases(most: int) -> Iterator[tuple[str, CommGraph, str]]:
    """Name, shuffled graph and machine."""
    made = [
        ("halo27 4x4x8", stencil((4, 4, 8), (300.0, 30.0, 3.0)), "tree:4:2:2:8/1:5:10:100"),
        ("mesh3d 128", geometric(128, 3, 10), "tree:4:2:4:4/1:5:10:100"),
        ("pencils 16x32", training((16, "all", 600.0), (32, "all", 300.0)), "tree:8:4:2:8/1:5:10:100"),
        ("training 8x8x8", training((8, "ring", 70.0), (8, "ring", 20.0), (8, "ring", 6.0)),
         "tree:8:4:2:8/1:5:10:100"),
        ("mesh3d 512", geometric(512, 3, 12), "tree:4:2:4:4:4/1:2:10:100:200"),
        ("halo5 32x32", stencil((32, 32), (1.0,)), "tree:4:2:2:16:4/1:2:10:100:200"),
        ("mesh3d 2048", geometric(2048, 3, 12), "tree:4:2:4:16:4/1:2:10:100:200"),
        ("halo27 16x16x8", stencil((16, 16, 8), (300.0, 30.0, 3.0)), "tree:8:2:4:8:4/1:3:10:100:200"),
    ]  # fmt: skip
    for name, graph, machine in made:
        if graph.ranks <= most:
            order = np.random.default_rng(5).permutation(graph.ranks)
            shuffled = build_graph(graph.ranks, order[graph.source], order[graph.target], graph.nbytes)
            yield name, shuffled, machine


def rows(graph: CommGraph) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    """Compressed rows with whole weights, as the peers want them."""
    start = np.searchsorted(graph.source, np.arange(graph.ranks + 1)).astype(np.int32)
    weight = np.maximum(1, np.rint(graph.nbytes * 1000 / graph.nbytes.max())).astype(np.int32)
    return start, graph.target.astype(np.int32), weight


def arities(machine: str) -> tuple[list[int], list[int]]:
    """Arities and costs of a tree machine, innermost first."""
    sizes, costs = machine.removeprefix("tree:").split("/")
    return [int(a) for a in sizes.split(":")], [int(float(d)) for d in costs.split(":")]


def ours(effort: str) -> Solver:
    """This project's solver."""

    def solve(graph: CommGraph, machine: str, seed: int) -> tuple[NDArray[np.int64], float]:
        model = parse_tree(machine)
        began = time.process_time()
        result = place(graph, model, effort=effort, seed=seed)  # type: ignore[arg-type]
        return result.core_of_rank.astype(np.int64), time.process_time() - began

    return solve


def pymetis_bisection(graph: CommGraph, machine: str, seed: int) -> tuple[NDArray[np.int64], float]:
    """METIS, recursive bisection down to single cores: its part numbers follow the tree."""
    import pymetis

    start, to, weight = rows(graph)
    began = time.process_time()
    options = pymetis.Options(seed=seed)
    _, part = pymetis.part_graph(
        math.prod(arities(machine)[0]),
        xadj=start,
        adjncy=to,
        eweights=weight,
        recursive=True,
        options=options,
    )
    return np.array(part), time.process_time() - began


def sharedmap(mode: str) -> Solver:
    """SharedMap as chszlablib brings it."""

    def solve(graph: CommGraph, machine: str, seed: int) -> tuple[NDArray[np.int64], float]:
        import chszlablib

        start, to, weight = rows(graph)
        sizes, costs = arities(machine)
        began = time.process_time()
        mapped = chszlablib.Decomposition.process_map(
            chszlablib.Graph.from_csr(start.astype(np.int64), to, edge_weights=weight.astype(np.int64)),
            sizes, costs, mode=mode, imbalance=0.0, threads=1, seed=seed,
        )  # fmt: skip
        return np.asarray(mapped.assignment, dtype=np.int64), time.process_time() - began

    return solve


def scotch(graph: CommGraph, machine: str, seed: int) -> tuple[NDArray[np.int64], float]:
    """Scotch's gmap on a tree leaf architecture."""
    start, to, weight = rows(graph)
    sizes, costs = arities(machine)
    levels = " ".join(f"{a} {d}" for a, d in zip(sizes[::-1], costs[::-1], strict=True))
    with tempfile.TemporaryDirectory() as folder:
        lines = [f"0\n{graph.ranks} {to.size}\n0 010\n"]
        for rank in range(graph.ranks):
            part = range(start[rank], start[rank + 1])
            lines.append(f"{len(part)} " + " ".join(f"{weight[i]} {to[i]}" for i in part) + "\n")
        files = [Path(folder) / name for name in ("graph", "machine", "map")]
        files[0].write_text("".join(lines))
        files[1].write_text(f"tleaf\n{len(sizes)} {levels}\n")
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(["scotch_gmap", "-b0", *map(str, files)], check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        table = np.loadtxt(files[2], skiprows=1, dtype=np.int64, ndmin=2)
    core = np.empty(graph.ranks, dtype=np.int64)
    core[table[:, 0]] = table[:, 1]
    return core, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def seat(core: NDArray[np.int64], machine: Machine) -> NDArray[np.int64]:
    """Give every rank a core of its own: of several on one, all but the first move to the nearest free."""
    seated, free = core.copy(), set(range(machine.cores)) - set(core.tolist())
    taken: set[int] = set()
    for rank, at in enumerate(core.tolist()):
        if at not in taken:
            taken.add(at)
            continue
        near = min(free, key=lambda c: (int((machine.groups[:, c] != machine.groups[:, at]).sum()), c))
        free.discard(near)
        seated[rank] = near
        taken.add(near)
    return seated


SOLVERS: dict[str, Solver] = {
    "slurm-topo launch": ours("launch"),
    "slurm-topo best": ours("best"),
    "scotch gmap": scotch,
    "pymetis rb": pymetis_bisection,
    "sharedmap fast": sharedmap("fast"),
    "sharedmap eco": sharedmap("eco"),
    "sharedmap strong": sharedmap("strong"),
}


def main() -> int:
    """Print one table a graph."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=int, default=512, help="largest graph (default %(default)s)")
    parser.add_argument("--seeds", type=int, default=2, help="seeds of each solver (default %(default)s)")
    parser.add_argument("--effort", choices=["launch", "best", "both"], default="both")
    options = parser.parse_args()
    missing: set[str] = set()
    for name, graph, machine in cases(options.ranks):
        model, found = parse_tree(machine), {}
        for solver, solve in SOLVERS.items():
            wanted = options.effort == "both" or solver.split()[-1] == options.effort
            if solver in missing or (solver.startswith("slurm-topo") and not wanted):
                continue
            try:
                runs = [solve(graph, machine, seed) for seed in range(options.seeds)]
            except (ImportError, FileNotFoundError):
                missing.add(solver)
                continue
            costs = [cost(graph, model, seat(core, model)) for core, _ in runs]
            found[solver] = (sorted(costs), float(np.median([seconds for _, seconds in runs])))
        least = min(costs[0] for costs, _ in found.values())
        print(f"\n{name}, {graph.ranks} ranks, {machine}")
        print(f"  {'':20} {'median':>8} {'worst':>8} {'CPU s':>8}")
        for solver, (costs, seconds) in found.items():
            median = float(np.median(costs))
            print(f"  {solver:20} {median / least:8.4f} {costs[-1] / least:8.4f} {seconds:8.2f}", flush=True)
    if missing:
        print(f"\nnot installed here: {', '.join(sorted(missing))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
