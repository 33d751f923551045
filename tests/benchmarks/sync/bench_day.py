"""Prints how long sync takes for a day of jobs: first pass, and a second one that finds nothing new.

Run: ``python tests/benchmarks/sync/bench_day.py [JOBS] [--bare] [--database URL] [--uid N] [--profile]``.
Each job was placed; its spool holds what four nodes left: traces, the plan, records of srun and of the tasks;
``--bare``: accounting alone.
"""

from __future__ import annotations

import argparse
import cProfile
import importlib.util
import json
import os
import pstats
import resource
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
PROGRAMS = 500


def load_tests() -> Any:
    """The module with the site of the sync tests."""
    path = ROOT / "tests" / "unit" / "sync" / "conftest.py"
    spec = importlib.util.spec_from_file_location("sync_conftest", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["sync_conftest"] = module
    spec.loader.exec_module(module)
    return module


def leave_files(tests: Any, site: Any, job: int, keys: str) -> None:
    """What the launch, the step daemons and the tracer leave of a placed job."""
    site.trace(job, keys, places=tests.PARTNERS, nbytes=1000 + job % PROGRAMS)
    plan = site.plan(job, f"{job % PROGRAMS:016x}")
    site.record(job, "place", "cost", plan=plan, graph=f"{job % PROGRAMS:016x}", cost=0.5, baseline=2.0)
    for node in sorted({host for host, _ in tests.PARTNERS}):
        ranks = [(r, cpu) for r, (host, cpu) in enumerate(tests.PARTNERS) if host == node]
        told = {"format": "slurm-topo-record", "version": 1, "time": tests.NOW - 150, "where": "task"}
        told |= {
            "job": job,
            "step": "0",
            "node": node,
            "mem": "0",
            "gpus": "-",
            "decision": "place",
            "reason": "",
        }
        lines = [json.dumps(told | {"rank": r, "cpus": str(cpu), "seconds": 0.001}) for r, cpu in ranks]
        site.write("records", f"{job}.0.{node}.rec", "\n".join(lines) + "\n")


def main() -> None:
    """Build the site and print one line a pass."""
    parser = argparse.ArgumentParser()
    parser.add_argument("jobs", nargs="?", type=int, default=20_000)
    parser.add_argument("--bare", action="store_true")
    parser.add_argument("--database")
    parser.add_argument("--uid", type=int, default=os.getuid(), help="whose spool it is")
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    jobs = options.jobs
    # The spool is a shared file system on a site: its speed is not what is measured here.
    where = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=where) as folder:
        tests = load_tests()
        Path(folder).chmod(0o755)
        site = tests.Site(Path(folder), uid=options.uid)
        if options.database:
            site.settings = replace(site.settings, database=options.database)
        for job in range(1, jobs + 1):
            program = f"p{job % PROGRAMS}"
            keys = site.add_job(job, script=f"srun ./{program}".encode(), name=program, executable=None)
            if not options.bare:
                leave_files(tests, site, job, keys)
        for label in ("first pass", "second pass"):
            profile = cProfile.Profile()
            start, cpu = time.perf_counter(), time.process_time()
            result = profile.runcall(site.sync) if options.profile else site.sync()
            seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
            outcome = result.outcome
            print(
                f"{label}: {result.jobs} jobs changed, {outcome.traces} traces, {outcome.records} records, "
                f"{seconds:.1f} s ({cpu:.1f} s CPU), {jobs / seconds:.0f} jobs a second",
                flush=True,
            )
            if options.profile:
                pstats.Stats(profile).sort_stats("cumulative").print_stats(70)
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")


if __name__ == "__main__":
    main()
