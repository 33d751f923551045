"""Predicted graphs against real ones: ``python tests/benchmarks/tracing/scaling.py`` prints a table.

Programs of tests/mpi/programs are really traced at each number of ranks; the conjugate gradients are recorded
graphs of the shared data, where it is there. ``agreement`` is the share of the traffic between the same pairs
(:func:`slurm_topo.trace.growth.agreement`).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT))

from slurm_topo.model import CommGraph  # noqa: E402
from slurm_topo.trace import build_graph, find_library, read_graph, traced_environment  # noqa: E402
from slurm_topo.trace.growth import agreement, fit_growth  # noqa: E402
from slurm_topo.trace.library import COLLECT  # noqa: E402
from slurm_topo.trace.structure import recognise, scale  # noqa: E402

PROGRAMS = ROOT / "tests" / "mpi" / "programs"
# Program, its arguments, numbers of ranks that are known, number that is predicted.
CASES = [
    ("stencil.c", ["6", "4"], (8, 12), 18),
    ("stencil.c", ["6", "4"], (18,), 27),
    ("transpose.c", [], (16,), 25),
    ("transpose.c", [], (16,), 20),
    ("sparse.c", [], (12,), 18),
]
ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def trace(program: str, arguments: list[str], ranks: int, folder: Path) -> CommGraph:
    """The graph of a real run."""
    binary, out = folder / Path(program).stem, folder / "out.trace"
    if not binary.exists():
        compiler = {".c": "mpicc", ".cc": "mpicxx"}[Path(program).suffix]
        subprocess.run([compiler, "-O1", str(PROGRAMS / program), "-o", str(binary), "-lm"], check=True)
    counters = tempfile.mkdtemp(prefix="slurm-topo-bench-", dir="/dev/shm")
    try:
        environment = traced_environment({**os.environ, **ENVIRONMENT}, find_library(), counters)
        launch = ["mpirun", "--oversubscribe", "-n", str(ranks), str(binary), *arguments]
        subprocess.run(launch, env=environment, capture_output=True, check=True)
        collect = [str(find_library(name=COLLECT)), counters, str(out)]
        subprocess.run(collect, capture_output=True, check=True)
    finally:
        shutil.rmtree(counters, ignore_errors=True)
    return read_graph(out)


def compared(graph: CommGraph, whole: bool) -> CommGraph:
    """All traffic, or what was sent outside of collectives."""
    sent = graph.nbytes - (0 if whole else graph.modelled)
    kept = sent > 0
    return build_graph(graph.ranks, graph.source[kept], graph.target[kept], sent[kept])


def row(name: str, known: list[CommGraph], real: CommGraph) -> str:
    """One line of the table."""
    head = f"| {name} | {', '.join(str(g.ranks) for g in known)} | {real.ranks} |"
    found = [(g.ranks, recognise(g)) for g in known]
    regular = [(n, s) for n, s in found if s is not None]
    growth = fit_growth(regular) if len(regular) == len(found) else None
    if growth is None:
        return f"{head} none: traced again | | |"
    base = regular[-1][1]
    predicted, confidence = scale(base, real.ranks, growth)
    whole = known[-1].modelled.sum() > 0.95 * known[-1].nbytes.sum()
    share = agreement(predicted, compared(real, whole))
    return f"{head} {base.describe().rpartition(' (')[0]} | {confidence:.2f} | {share:.3f} |"


def main() -> None:
    """Print the table."""
    print("| program | traced at | predicted for | structure | confidence | agreement |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for program, arguments, counts, ranks in CASES:
            known = [trace(program, arguments, n, Path(folder)) for n in counts]
            print(row(program, known, trace(program, arguments, ranks, Path(folder))), flush=True)
    shared = Path(os.environ.get("SLURM_TOPO_SHARED", ROOT.parent / "shared")) / "placement-bench" / "graphs"
    if shared.is_dir():
        known, real = (read_graph(shared / f"real-npb-cg-S-{n}.npz") for n in (32, 128))
        print(row("NPB CG, class S", [known], real))


if __name__ == "__main__":
    main()
