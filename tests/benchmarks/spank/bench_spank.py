"""What the plugin costs: inside srun and the task, and in the shortest srun that there is. Prints ratios.

Run as ``python tests/benchmarks/spank/bench_spank.py``.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
HERE = Path(__file__).resolve().parent
FAKE = ROOT / "tests" / "native" / "spank"
GRAPH = "9f86d081884c7d65"
RUNS = 200
CONF = "ClusterName=none\nSlurmctldHost=localhost\nNodeName=localhost\nPartitionName=none Nodes=localhost\n"


def plan_text(ranks: int, nodes: int) -> str:
    """A plan with every rank on a CPU of its own."""
    lines = [
        "slurm-topo-plan 1",
        "job 77",
        f"ranks {ranks}",
        "cpus_per_task 1",
        "decision place",
        "reason cost",
    ]
    lines += [f"graph {GRAPH}", f"nodes {nodes}", *(f"node {i} n{i + 1}" for i in range(nodes))]
    lines += [f"rank {r} {r % nodes} cpus={r // nodes % 2 if r < 2 * nodes else r // nodes} mem=0 gpus=-"
              for r in range(ranks)]  # fmt: skip
    return "\n".join([*lines, f"end {ranks}", ""])


def inside(folder: Path, ranks: int, nodes: int) -> dict[str, float]:
    """Microseconds of the parts, with a plan of that size."""
    program, spool = folder / "bench", folder / f"spool{ranks}"
    user = spool / str(os.geteuid())
    (user / "graphs").mkdir(parents=True, mode=0o700)
    user.chmod(0o700)
    (user / "graphs" / f"{GRAPH}.npz").touch()
    answer = folder / f"answer{ranks}"
    answer.write_text(plan_text(ranks, nodes))
    place = folder / f"place{ranks}"
    place.write_text(f'#!/bin/sh\nfor plan; do :; done\ncp {answer} "$plan"\n')
    place.chmod(0o755)
    env = {
        "FAKE_ARGS": f"spool={spool} place={place} kill_switch={folder}/none deadline_ms=60000",
        "FAKE_TOTAL": str(ranks),
        "PATH": os.environ["PATH"],
        "SLURMD_NODENAME": "n1",
        "SLURM_JOB_CPUS_PER_NODE": f"{max(2, -(-ranks // nodes))}(x{nodes})",
        "SLURM_JOB_ID": "77",
        "SLURM_JOB_NODELIST": f"n[1-{nodes}]",
        "SLURM_JOB_NUM_NODES": str(nodes),
        "SLURM_NTASKS": str(ranks),
        "SLURM_TOPO_JOB_GRAPH": GRAPH,
    }
    shown = subprocess.run(
        [str(program), str(RUNS)], env=env, check=True, capture_output=True, text=True
    ).stdout
    return {name: float(value) for name, value in (line.rsplit(": ", 1) for line in shown.splitlines())}


def build(folder: Path) -> None:
    sources = [p for p in sorted((ROOT / "spank").glob("*.c")) if p.name != "mpirun.c"]
    command = ["gcc", "-O2", "-std=c11", "-D_GNU_SOURCE", f"-I{ROOT}/spank", f"-I{FAKE}"]
    command += [f"-I{ROOT}/slurm_topo/trace/native", "-o", str(folder / "bench")]
    subprocess.run(
        [*command, *map(str, sources), str(FAKE / "fake_spank.c"), str(HERE / "bench.c")], check=True
    )


def shortest_srun(folder: Path, plugstack: str) -> float:
    """CPU milliseconds of ``srun --usage``, which loads the plugins and ends."""
    conf = folder / f"slurm{len(plugstack)}.conf"
    stack = folder / f"plugstack{len(plugstack)}.conf"
    stack.write_text(plugstack)
    conf.write_text(f"{CONF}PlugStackConfig={stack}\n")
    before = os.times()
    for _ in range(RUNS):
        subprocess.run(["srun", "--usage"], env={**os.environ, "SLURM_CONF": str(conf)}, capture_output=True)
    after = os.times()
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    return spent / RUNS * 1e3


def main() -> int:
    library = ROOT / "build" / "lib" / "slurm_topo.so"
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        build(folder)
        for ranks, nodes in ((16, 4), (1024, 64), (16384, 1024)):
            found = inside(folder, ranks, nodes)
            for part, microseconds in found.items():
                print(f"{ranks:6d} ranks  {part:22s} {microseconds:10.1f} us")
        if library.exists():
            without = shortest_srun(folder, "")
            with_plugin = shortest_srun(folder, f"optional {library} spool={folder}\n")
            print(
                f"shortest srun without the plugin {without:.2f} ms, with it {with_plugin:.2f} ms,", end=" "
            )
            print(f"ratio {with_plugin / without:.3f}")
    print(f"{time.monotonic() - start:.0f} s", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
