"""What the hook costs a submission in a real slurmctld, with and without it in turns. Prints ratios.

Run as root: ``python tests/benchmarks/job_submit/bench_lab.py [ADVICE_FILES [PAIRS]]``. The two scripts
take turns in blocks of held jobs; slurmctld loads the other one before each block. What slurmctld itself
says that a submission took (``usec`` in its log) is the sharper figure: the rate holds sbatch, too.

"""

from __future__ import annotations

import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from slurm_topo.lab import daemons
from slurm_topo.lab.cluster import Lab
from slurm_topo.lab.options import LabOptions
from slurm_topo.lab.processes import members

BLOCK = 40


def advice_files(folder: Path, count: int) -> None:
    """As many advice files as a large site has, none of them for the jobs here."""
    text = "slurm-topo-advice 1\nkey {}\nprogram 1\narm enforce\nholdout 0\ntrace 1\nend\n"
    for number in range(count):
        key = f"s{number * 2654435761 % (1 << 32):08x}{number:014x}"
        path = folder / key[1:3]
        if number < 65536:
            path.mkdir(exist_ok=True)
        (path / key).write_text(text.format(key))
    (folder / "site").write_text("slurm-topo-advice 1\narm enforce\nholdout 0\ntrace 1\nend\n")


class Bench:
    """A lab whose hook comes and goes."""

    def __init__(self, lab: Lab, work: Path) -> None:
        self.lab, self.work = lab, work
        self.hook = lab.layout.etc("job_submit.lua")
        self.texts = {"with": self.hook.read_text()}
        self.texts["without"] = re.sub(r"^local ok.*$", "", self.texts["with"], flags=re.MULTILINE)
        self.env = {**lab.env, "PATH": os.environ["PATH"], "HOME": "/tmp"}
        self.script = work / "job.sh"
        filler = "# a line of a job script, as long as such lines are\n" * 40
        self.script.write_text(f"#!/bin/sh\n#SBATCH -N2 -n4 -J bench\n{filler}srun ./halo 40\n")
        self.clock = time.time()

    def switch(self, which: str) -> None:
        """The other script, and a submission by which slurmctld loads it."""
        self.hook.write_text(self.texts[which])
        self.clock += 2
        os.utime(self.hook, (self.clock, self.clock))
        self.submit(2)

    def submit(self, count: int) -> float:
        """Seconds that so many submissions took."""
        loop = f"for i in $(seq {count}); do sbatch -Q --hold -o /dev/null {self.script} || exit 1; done"
        start = time.perf_counter()
        subprocess.run(["sh", "-c", loop], env=self.env, check=True, cwd="/tmp", stdout=subprocess.DEVNULL)
        return time.perf_counter() - start

    def cpu(self) -> float:
        """CPU seconds of slurmctld and of all our children until now: what a busy machine changes least."""
        daemon = next(d for d in daemons.daemons(self.lab.layout) if d.role == "slurmctld")
        process = daemons.find(daemon, members(self.lab.running()))
        assert process is not None
        words = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        own = os.times()
        ticks = (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
        return ticks + own.children_user + own.children_system

    def said(self) -> list[int]:
        """Microseconds of each submission since the last call, as slurmctld says."""
        text = self.lab.layout.log("slurmctld").read_text(errors="replace")
        found = re.findall(r"_slurm_rpc_submit_batch_job: JobId=\d+ InitPrio=\d+ usec=(\d+)", text)
        self.read = getattr(self, "read", 0)
        new, self.read = found[self.read :], len(found)
        return [int(word) for word in new]


def main() -> int:
    files = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    pairs = int(sys.argv[2]) if len(sys.argv) > 2 else 20
    if os.geteuid() != 0:
        print("skipped: only root can bring up a lab", file=sys.stderr)
        return 0
    work = Path(tempfile.mkdtemp(prefix="stlab-bench-", dir="/tmp"))
    lab = Lab(work / "lab")
    try:
        lab.up(LabOptions())
        conf = lab.layout.etc("slurm.conf")
        advice_files(lab.layout.advice, files)
        conf.write_text(conf.read_text().replace("MaxJobCount=10000", "MaxJobCount=100000"))
        bench = Bench(lab, work)
        spent: dict[str, float] = {"with": 0.0, "without": 0.0}
        rates: dict[str, list[float]] = {"with": [], "without": []}
        inside: dict[str, list[int]] = {"with": [], "without": []}
        for pair in range(pairs):
            for which in ("with", "without") if pair % 2 else ("without", "with"):
                bench.switch(which)
                bench.said()
                before = bench.cpu()
                rates[which].append(BLOCK / bench.submit(BLOCK))
                spent[which] += bench.cpu() - before
                inside[which] += bench.said()
            lab.run(["scancel", "-u", "root"], cwd="/tmp")
        ratios = [a / b for a, b in zip(rates["with"], rates["without"], strict=True)]
        medians = {which: statistics.median(times) for which, times in inside.items()}
        print(f"{files} advice files, {pairs} pairs of blocks of {BLOCK} submissions")
        for which in ("without", "with"):
            times = sorted(inside[which])
            print(
                f"{which:8} the hook: {statistics.median(rates[which]):6.1f} submissions/s; slurmctld: "
                f"median {medians[which]:.0f} us, p99 {times[int(len(times) * 0.99)]} us of {len(times)}"
            )
        print(f"median ratio of the rates, with to without: {statistics.median(ratios):.3f}")
        each = {which: seconds / (pairs * BLOCK) * 1e3 for which, seconds in spent.items()}
        print(
            f"CPU of sbatch and slurmctld: {each['without']:.2f} ms a submission without the hook, "
            f"{each['with']:.2f} ms with it, ratio {each['with'] / each['without']:.3f}"
        )
        print(f"the hook adds {(medians['with'] - medians['without']) / 1e3:.3f} ms to the median submission")
    finally:
        lab.down(purge=True)
        shutil.rmtree(work, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
