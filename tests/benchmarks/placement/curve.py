"""Cost against CPU time: this project's solver beside every peer, on every case.

    python tests/benchmarks/placement/curve.py [--max-ranks N] [--only TEXT] [--seeds K] [--permute] [--live]
                                               [-o FILE]

The cases with costs and CPU seconds of 24 public solvers are those of ``placement-bench`` in the folder that
SLURM_TOPO_SHARED names. This solver runs with growing budgets; each run is a point (CPU seconds beyond the
start of Python, cost), medians over the seeds. A peer is matched where a point of ours that took no more CPU
time than the peer costs no more. With --live the peers that install from packages run here as well
(compare.py): their times are then of the same machine, at the same load. With --permute the ranks are
renumbered at random.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from compare import SOLVERS, seat

from slurm_topo.machine.tree import parse_tree
from slurm_topo.model import CommGraph, Machine
from slurm_topo.placement.cost import cost
from slurm_topo.placement.solve import place
from slurm_topo.trace import build_graph, read_graph

SHARED = os.environ.get("SLURM_TOPO_SHARED", Path(__file__).resolve().parents[4] / "shared")
CASES = Path(SHARED) / "placement-bench" / "cases.json"
BUDGETS = (0.003, 0.006, 0.01, 0.02, 0.05, 0.1, 0.3)
EXACT = 1 + 1e-9


@dataclass(frozen=True)
class Point:
    """A run: what it was, CPU seconds and cost."""

    name: str
    seconds: float
    cost: float


def runs(graph: CommGraph, machine: Machine, seeds: int, most_s: float) -> Iterator[Point]:
    """Our points, quickest first; the search ahead of time only where a peer takes as long."""
    # What is loaded and allocated once is no part of a search.
    place(graph, machine, budget_s=1e-9)
    plans: list[tuple[str, str, float | None]] = [(f"{b:g} s", "launch", b) for b in BUDGETS]
    plans.append(("launch", "launch", None))
    plans += [(f"best {b:g} s", "best", b) for b in (1.0, 3.0, 10.0)]
    plans.append(("best", "best", None))
    last = 0.0
    for name, effort, budget in plans:
        if effort == "best" and last > most_s:
            return
        found = []
        for seed in range(seeds):
            began = time.process_time()
            result = place(graph, machine, effort=effort, budget_s=budget, seed=seed)  # type: ignore[arg-type]
            found.append((time.process_time() - began, result.cost))
        seconds, costs = zip(*found, strict=True)
        last = float(np.median(seconds))
        yield Point(name, last, float(np.median(costs)))


def live(graph: CommGraph, machine: Machine, text: str) -> Iterator[Point]:
    """Peers that are installed here."""
    for name, solve in SOLVERS.items():
        if name.startswith("slurm-topo"):
            continue
        try:
            core, seconds = solve(graph, text, 0)
        except (ImportError, FileNotFoundError):
            continue
        yield Point(f"{name} (live)", seconds, cost(graph, machine, seat(core, machine)))


def matched(peer: Point, ours: list[Point]) -> float | None:
    """Our least cost in the peer's time over the peer's cost; None where no point of ours is as quick."""
    costs = [point.cost for point in ours if point.seconds <= peer.seconds]
    return min(costs) / peer.cost if costs else None


def report(case: dict[str, Any], ours: list[Point], peers: list[Point]) -> tuple[list[str], int]:
    """Lines of a table, and how many peers are not matched."""
    known = case["best_known"]
    held, quick, dear = [], [], []
    for peer in sorted(peers, key=lambda p: p.seconds):
        ratio = matched(peer, ours)
        if ratio is None:
            quick.append(f"{peer.name} {peer.seconds:.3f} s ({peer.cost / known:.4f})")
        elif ratio > EXACT:
            dear.append(f"{peer.name} {peer.seconds:.3f} s ({ratio:.4f} of it)")
        else:
            held.append(peer.name)
    curve = ", ".join(f"{p.seconds:.3f} s {p.cost / known:.4f}" for p in ours)
    tree = case["machine"].removeprefix("tree:")
    lines = [f"| {case['graph']} | `{tree}` | {len(held)}/{len(peers)} | {curve} |"]
    lines += [f"  quicker than our first point: {', '.join(quick)}"] if quick else []
    lines += [f"  as quick and cheaper: {', '.join(dear)}"] if dear else []
    return lines, len(quick) + len(dear)


def main() -> int:
    """Print a table; 0 where every peer is matched everywhere."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--max-ranks", type=int, default=512, help="largest case (default %(default)s)")
    parser.add_argument("--only", default="", help="cases with this in their name")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--permute", action="store_true", help="renumber the ranks at random")
    parser.add_argument("--live", action="store_true", help="run the peers that are installed")
    parser.add_argument("-o", "--output", help="write the table to this file as well")
    options = parser.parse_args()
    if not CASES.exists():
        print(f"{CASES} is not here: nothing to compare with (set SLURM_TOPO_SHARED)")
        return 0
    lines = [
        "| graph | machine | peers matched | CPU seconds and cost over the best known |",
        "|---|---|---|---|",
    ]
    print("\n".join(lines))
    missed = 0
    for case in json.loads(CASES.read_text()):
        if case["n"] > options.max_ranks or options.only not in case["graph"]:
            continue
        graph = read_graph(str(CASES.parent / "graphs" / f"{case['graph']}.npz"))
        if options.permute:
            order = np.random.default_rng(5).permutation(graph.ranks)
            graph = build_graph(graph.ranks, order[graph.source], order[graph.target], graph.nbytes)
        machine = parse_tree(case["machine"])
        peers = [Point(name, run["cpu_s"], run["cost"]) for name, run in case["peers"].items()]
        if options.live:
            peers += live(graph, machine, case["machine"])
        ours = list(runs(graph, machine, options.seeds, max(peer.seconds for peer in peers)))
        found, count = report(case, ours, peers)
        missed += count
        lines += found
        print("\n".join(found), flush=True)
    lines.append(f"{missed} times a peer was not matched")
    print(lines[-1])
    if options.output:
        Path(options.output).write_text("\n".join(lines) + "\n")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
