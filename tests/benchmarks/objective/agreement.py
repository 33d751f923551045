"""How well each objective orders placements by simulated time.

``python tests/benchmarks/objective/agreement.py`` (after ``make judge``). 64 ranks on 8 nodes below three
leaf switches with the assumed costs; everything is sent at once. For each pattern Kendall's rank correlation
with the seconds of SimGrid over 19 placements (baselines, results of the search, slight changes, random
ones), and the seconds of the placement that the objective likes best over the fewest.
"""

from __future__ import annotations

import sys

import numpy as np
from scipy.stats import kendalltau

from slurm_topo.errors import LaunchError
from slurm_topo.judge.run import judge
from slurm_topo.machine import NodeShape, Switch, build_cluster
from slurm_topo.model import CommGraph, Ints, Machine
from slurm_topo.placement.baselines import baselines
from slurm_topo.placement.load import objective_value
from slurm_topo.placement.solve import place
from slurm_topo.trace import build_graph

RANKS, SIZE = 64, 2e5
OBJECTIVES = ("sum", "load", "auto")
Pairs = list[tuple[int, int, float]]


def patterns(rng: np.random.Generator) -> dict[str, Pairs]:
    """(source, target, bytes) of each pattern."""
    n, all_ = range(RANKS), range(8)
    rows = [(a * 8 + b, a * 8 + c, SIZE) for a in all_ for b in all_ for c in all_ if b != c]
    columns = [(b * 8 + a, c * 8 + a, SIZE) for a in all_ for b in all_ for c in all_ if b != c]
    crowd = [(u, v, SIZE / 4) for u in range(32) for v in range(32) if u != v]
    rings = [
        (32 + u, 32 + (u + step) % 32, SIZE * size) for u in range(32) for step, size in ((1, 1), (8, 2))
    ]
    targets = rng.integers(0, RANKS, 400) ** 2 // RANKS
    return {
        "uneven all-to-all": [(u, v, SIZE / 16 * (4 if u % 4 == 0 else 1)) for u in n for v in n if u != v],
        "two programs": crowd + rings,
        "few receivers": [
            (int(u), int(v), SIZE * float(rng.pareto(1.2)))
            for u, v in zip(rng.integers(0, RANKS, 400), targets, strict=True)
        ],
        "four roots": [(u, u % 4 * 16, SIZE) for u in n],
        "pairs far apart": [(u, (u + 32) % 64, SIZE * (1 + u % 5)) for u in n],
        "pencils": rows + columns,
        "one root": [(u, 7, SIZE) for u in n] + [(u, (u + 1) % 64, SIZE / 4) for u in n],
    }


def machine() -> Machine:
    """Three, four and one nodes of eight cores."""
    switches = [Switch("a", ("n1", "n2", "n3"), ()), Switch("b", ("n4", "n5", "n6", "n7"), ())]
    switches += [Switch("c", ("n8",), ()), Switch("top", (), ("a", "b", "c"))]
    return build_cluster([NodeShape(f"n{i}", 2, 4) for i in range(1, 9)], switches).machine()


def graph_of(pairs: Pairs, rng: np.random.Generator) -> CommGraph:
    """Ranks in random order, one message a pair."""
    source, target, nbytes = (np.array(column) for column in zip(*pairs, strict=True))
    order = rng.permutation(RANKS)
    return build_graph(RANKS, order[source], order[target], nbytes.astype(float), np.ones(len(pairs)))


def placements(graph: CommGraph, where: Machine, rng: np.random.Generator) -> dict[str, Ints]:
    """Baselines, results of the search, slight changes of these, and random ones."""
    found = dict(baselines(where, RANKS))
    for objective in OBJECTIVES:
        found[objective] = place(graph, where, objective=objective).core_of_rank
    for number in range(10):
        changed = found[OBJECTIVES[number % 2]].copy()
        for a, b in rng.integers(0, RANKS, (2 << number // 2, 2)):
            changed[[a, b]] = changed[[b, a]]
        found[f"near {number}"] = changed
    for number in range(3):
        found[f"random {number}"] = rng.permutation(where.cores)[:RANKS].astype(np.int32)
    return found


def main() -> int:
    """Print the table."""
    rng = np.random.default_rng(1)
    where = machine()
    print(f"{'pattern':20}" + "".join(f"{name:>8}" for name in OBJECTIVES) + "   best by" + " " * 6)
    for name, pairs in patterns(rng).items():
        graph = graph_of(pairs, rng)
        choices = placements(graph, where, rng)
        try:
            seconds = judge(graph, where, choices, window=RANKS).seconds
        except LaunchError as error:
            print(f"no simulator: {error}", file=sys.stderr)
            return 0
        times = np.array([seconds[key] for key in choices])
        cells, best = [], []
        for objective in OBJECTIVES:
            values = np.array([objective_value(objective, graph, where, cores) for cores in choices.values()])
            cells.append(f"{kendalltau(times, values)[0]:8.2f}")
            best.append(f"{times[values.argmin()] / times.min():7.3f}")
        print(f"{name:20}" + "".join(cells) + "  " + "".join(best), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
