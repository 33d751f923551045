"""What tracing costs: ``python tests/benchmarks/tracing/run.py [ROUNDS]`` prints ratios.

Each round runs every program with and without the tracer, in turn, so that other load hits both; the least
time of all rounds is compared.
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

from slurm_topo.trace import find_library, traced_environment  # noqa: E402

PROGRAMS = {
    "ping-pong of 1 byte [ns]": (ROOT / "tests/benchmarks/tracing/pingpong.c", 2, ["2000"]),
    "stencil of 96^3 a rank, 60 steps [s]": (ROOT / "tests/mpi/programs/stencil.c", 2, ["96", "60", "time"]),
}
QUIET = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


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
    print(f"{'program':40} {'plain':>10} {'traced':>10} {'ratio':>8} {'difference':>11}")
    with tempfile.TemporaryDirectory() as folder:
        for name, (source, ranks, arguments) in PROGRAMS.items():
            binary = build(source, Path(folder))
            times: dict[bool, list[float]] = {False: [], True: []}
            for _ in range(rounds):
                for traced in times:
                    times[traced].append(measure(binary, ranks, arguments, traced))
            plain, traced_ = min(times[False]), min(times[True])
            print(f"{name:40} {plain:10.4g} {traced_:10.4g} {traced_ / plain:8.4f} {traced_ - plain:11.4g}")


if __name__ == "__main__":
    main()
