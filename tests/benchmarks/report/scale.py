"""How report and compare grow with the history: ``python tests/benchmarks/report/scale.py [RUNS ...]``.

Makes a synthetic history of each size in a temporary folder, runs the real commands on it in processes of
their own, and prints runs per CPU second and the most memory each took.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from slurm_topo.history.database import open_engine
from slurm_topo.report.synthetic import Design, synthetic_runs, write_history

COMMANDS = {
    "report": ["report"],
    "report html": ["report", "--format", "html", "-o", "{folder}/report.html"],
    "compare": ["compare", "-o", "{folder}/comparison"],
}


def make(path: Path, runs: int) -> None:
    """A history with a hundred runs a program."""
    design = Design(runs=runs, programs=max(20, runs // 100), users=max(10, runs // 2000), effect_spread=0.05)
    engine = open_engine(str(path))
    write_history(engine, synthetic_runs(design, np.random.default_rng(1)))
    engine.dispose()


def measure(argv: list[str]) -> tuple[float, float, float]:
    """Wall seconds, CPU seconds, and MiB of the largest process."""
    code = (
        "import resource, sys; from slurm_topo.cli.main import cli; "
        "cli.main(args=sys.argv[1:], standalone_mode=False); "
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)"
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.monotonic()
    done = subprocess.run([sys.executable, "-c", code, *argv], capture_output=True, text=True, check=True)
    wall = time.monotonic() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall, cpu, int(done.stderr.split()[-1]) / 1024


def main(sizes: list[int]) -> None:
    """Print one line a size and command."""
    print(f"{'runs':>9s}  {'command':12s}  {'wall s':>7s}  {'CPU s':>7s}  {'runs/CPU s':>10s}  {'MiB':>6s}")
    for runs in sizes:
        with tempfile.TemporaryDirectory() as folder:
            database = Path(folder) / "history.sqlite"
            make(database, runs)
            for name, argv in COMMANDS.items():
                filled = [part.format(folder=folder) for part in argv]
                wall, cpu, memory = measure([*filled, "--database", str(database)])
                line = f"{runs:9d}  {name:12s}  {wall:7.1f}  {cpu:7.1f}  {runs / cpu:10.0f}  {memory:6.0f}"
                print(line, flush=True)


if __name__ == "__main__":
    main([int(size) for size in sys.argv[1:]] or [10_000, 100_000, 1_000_000])
