"""What tracing costs: ``python tests/benchmarks/tracing/run.py [ROUNDS]`` prints ratios.

Each round runs every program with and without the tracer, in turn, so that other load hits both. Compared are
the least times of all rounds, and the median over the rounds of traced over plain.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT))

from slurm_topo.trace import find_library, traced_environment  # noqa: E402

PROGRAMS = {
    "ping-pong of 1 byte [ns]": (ROOT / "tests/benchmarks/tracing/pingpong.c", 2, ["200"]),
    "stencil of 64^3 a rank, 60 steps [s]": (ROOT / "tests/mpi/programs/stencil.c", 2, ["64", "60", "time"]),
}
# A rank that waits keeps its CPU: else the scheduler is measured on a machine that has other work.
QUIET = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_mpi_yield_when_idle": "0",
}


def build(source: Path, folder: Path) -> Path:
    """Compile a program."""
    target = folder / source.stem
    subprocess.run(["mpicc", "-O2", str(source), "-o", str(target), "-lm"], check=True)
    return target


def measure(binary: Path, ranks: int, arguments: list[str], traced: bool) -> float:
    """The number that the program prints."""
    counters = tempfile.mkdtemp(prefix="slurm-topo-bench-", dir="/dev/shm")
    try:
        environment = {**os.environ, **QUIET}
        if traced:
            environment = traced_environment(environment, find_library(), counters)
        command = [
            "mpirun",
            "--oversubscribe",
            "--bind-to",
            "none",
            "-n",
            str(ranks),
            str(binary),
            *arguments,
        ]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return float(done.stdout.split()[0])
    finally:
        shutil.rmtree(counters)


def main() -> None:
    """Print one line a program."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    print(f"{'program':40} {'plain':>10} {'traced':>10} {'ratio':>8} {'difference':>11} {'median':>8}")
    with tempfile.TemporaryDirectory() as folder:
        for name, (source, ranks, arguments) in PROGRAMS.items():
            binary = build(source, Path(folder))
            times: dict[bool, list[float]] = {False: [], True: []}
            for _ in range(rounds):
                for traced in times:
                    times[traced].append(measure(binary, ranks, arguments, traced))
            plain, traced_ = min(times[False]), min(times[True])
            ratio = statistics.median(t / p for p, t in zip(times[False], times[True], strict=True))
            figures = f"{traced_ / plain:8.4f} {traced_ - plain:11.4g} {ratio:8.4f}"
            print(f"{name:40} {plain:10.4g} {traced_:10.4g} {figures}")
    print(f"{rounds} rounds on {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
