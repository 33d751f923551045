"""What the plugin costs real steps: with it and without it in turns, and placed steps. Prints ratios.

Run as root: ``python tests/benchmarks/spank/bench_lab.py [PAIRS]``. One allocation; before each step
plugstack.conf is the one or the other. Then 1,024 ranks on 16 nodes of 64 CPUs: what srun waits for in the
first step of a shape.

"""

from __future__ import annotations

import json
import os
import re
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

import numpy as np

from slurm_topo.lab.cluster import Lab
from slurm_topo.lab.integrate import command
from slurm_topo.lab.options import LabOptions
from slurm_topo.trace import build_graph, graph_digest, write_graph

RANKS, NODES = 1024, 16

TURNS = """#!/bin/bash
# CPU milliseconds of this shell's children, wall milliseconds: one line a step.
for i in $(seq {pairs}); do
  order="with without"; [ $((i % 2)) = 0 ] && order="without with"
  for which in $order; do
    cp {work}/$which {conf}
    a=$(date +%s%N); srun --mpi=none -n1 true; b=$(date +%s%N)
    echo "$which $(( (b - a) / 1000 ))"
  done
done
"""
PLACED = """#!/bin/bash
export SLURM_TOPO_JOB_ARM=enforce SLURM_TOPO_JOB_GRAPH={digest}
for i in $(seq {times}); do
  rm -rf {spool}/0/plans
  srun --mpi=none true
  srun --mpi=none true
done
"""
SEARCH = """#!/bin/bash
for i in $(seq {times}); do
  a=$(date +%s%N)
  {command} --config {config} place --allocation slurm --graph {graph} --ntasks {ranks} \\
    --plan {work}/plan >/dev/null
  b=$(date +%s%N); echo $(( (b - a) / 1000 ))
done
times
"""


def halves(ranks: int) -> object:
    """Each rank talks to the one half the ranks away and to its neighbours in a shuffled cube."""
    rng = np.random.default_rng(1)
    name = rng.permutation(ranks)
    side = round(ranks ** (1 / 3)) or 1
    source, target = [], []
    for rank in range(ranks):
        for step in (1, side, side * side):
            source += [name[rank], name[(rank + step) % ranks]]
            target += [name[(rank + step) % ranks], name[rank]]
    ones = np.ones(len(source))
    return build_graph(ranks, np.array(source), np.array(target), ones * 1e6, ones * 10, None, {})


def job(lab: Lab, work: Path, text: str, *options: str) -> str:
    script = work / "job"
    script.write_text(text)
    script.chmod(0o755)
    done = lab.run(["salloc", "-Q", "-t60", *options, str(script)], cwd=str(work), timeout=1800)
    if done.returncode:
        raise SystemExit(done.stderr[-2000:])
    return done.stdout


def records(lab: Lab, where: str) -> list[float]:
    """Milliseconds of each record."""
    lines = [
        x for p in (lab.layout.spool / "0" / "records").glob("*.rec") for x in p.read_text().splitlines()
    ]
    told = sorted((r for r in map(json.loads, lines) if r["where"] == where), key=lambda r: r["time"])
    return [r["seconds"] * 1e3 for r in told]


def publish(lab: Lab, ranks: int) -> str:
    graph = halves(ranks)
    digest = graph_digest(graph)  # type: ignore[arg-type]
    folder = lab.layout.spool / "0" / "graphs"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder.parent.chmod(0o700)
    write_graph(graph, folder / f"{digest}.npz")  # type: ignore[arg-type]
    config = str(lab.layout.etc("slurm-topo.toml"))
    lab.run([command(), "--config", config, "sync", "--quiet", "--wait", "0"], cwd="/", check=True)
    return digest


def turns(lab: Lab, work: Path, pairs: int) -> None:
    conf = lab.layout.etc("plugstack.conf")
    (work / "with").write_text(conf.read_text())
    (work / "without").write_text("# nothing\n")
    found: dict[str, list[float]] = {"with": [], "without": []}
    for line in job(lab, work, TURNS.format(pairs=pairs, work=work, conf=conf), "-N1", "-n1").splitlines():
        which, microseconds = line.split()
        found[which].append(int(microseconds) / 1e3)
    conf.write_text((work / "with").read_text())
    added = [a - b for a, b in zip(found["with"], found["without"], strict=True)]
    ratios = [a / b for a, b in zip(found["with"], found["without"], strict=True)]
    print(
        f"srun with nothing to do, {pairs} pairs: without {statistics.median(found['without']):.1f} ms, with "
        f"{statistics.median(found['with']):.1f} ms; median difference {statistics.median(added):+.2f} ms, "
        f"ratio {statistics.median(ratios):.3f}"
    )


def placed(lab: Lab, work: Path, ranks: int, times: int, *options: str) -> None:
    digest = publish(lab, ranks)
    shutil.rmtree(lab.layout.spool / "0" / "records", ignore_errors=True)
    job(lab, work, PLACED.format(digest=digest, spool=lab.layout.spool, times=times), *options)
    srun, tasks = records(lab, "srun"), records(lab, "task")
    first, later = statistics.median(srun[::2]), statistics.median(srun[1::2])
    print(f"{ranks} ranks, {times} times: first step {first:.0f} ms in srun, later steps {later:.2f} ms")
    if tasks:
        late = sorted(tasks)[int(len(tasks) * 0.99)]
        print(f"task_init of {len(tasks)} tasks: median {statistics.median(tasks):.3f} ms, p99 {late:.3f} ms")


def search(lab: Lab, work: Path) -> None:
    digest = publish(lab, RANKS)
    graph = lab.layout.spool / "0" / "graphs" / f"{digest}.npz"
    text = SEARCH.format(
        times=11,
        command=command(),
        config=lab.layout.etc("slurm-topo.toml"),
        graph=graph,
        ranks=RANKS,
        work=work,
    )
    lines = job(lab, work, text, f"-N{NODES}", f"-n{RANKS}").splitlines()
    times = sorted(int(line) / 1e3 for line in lines[:-2])
    # The last line of the shell's `times`: user and system of its children, as 0m1.234s.
    spent = sum(60 * float(m) + float(s) for m, s in re.findall(r"(\d+)m([\d.]+)s", lines[-1]))
    print(
        f"slurm-topo place of {RANKS} ranks: median {statistics.median(times):.0f} ms, {times[0]:.0f} to "
        f"{times[-1]:.0f}; CPU {spent / len(times) * 1e3:.0f} ms each"
    )


def main() -> int:
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    if os.geteuid() != 0:
        print("skipped: only root can bring up a lab", file=sys.stderr)
        return 0
    for part, options in ((0, LabOptions()), (1, LabOptions(nodes=NODES, switches=4, cpus=RANKS // NODES))):
        work = Path(tempfile.mkdtemp(prefix="stlab-bench-", dir="/tmp"))
        lab = Lab(work / "lab")
        try:
            lab.up(options)
            if part == 0:
                turns(lab, work, pairs)
                placed(lab, work, 8, 12, "-N4", "-n8")
            else:
                search(lab, work)
                placed(lab, work, RANKS, 2, f"-N{NODES}", f"-n{RANKS}")
        finally:
            lab.down(purge=True)
            shutil.rmtree(work, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
