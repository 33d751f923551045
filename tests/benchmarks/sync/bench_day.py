"""Prints how long sync takes for a day of jobs: first pass, and a second one that finds nothing new.

Run: ``python tests/benchmarks/sync/bench_day.py [JOBS] [DATABASE]``.
"""

from __future__ import annotations

import importlib.util
import resource
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def load_site() -> type:
    """The site of the sync tests."""
    path = ROOT / "tests" / "unit" / "sync" / "conftest.py"
    spec = importlib.util.spec_from_file_location("sync_conftest", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["sync_conftest"] = module
    spec.loader.exec_module(module)
    return module.Site


def main() -> None:
    jobs = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    with tempfile.TemporaryDirectory() as folder:
        site = load_site()(Path(folder))
        if len(sys.argv) > 2:
            site.settings = replace(site.settings, database=sys.argv[2])
        for job in range(1, jobs + 1):
            site.add_job(job, script=f"srun ./p{job % 500}".encode(), name=f"p{job % 500}", executable=None)
        for label in ("first pass", "second pass"):
            start = time.perf_counter()
            result = site.sync()
            seconds = time.perf_counter() - start
            print(f"{label}: {result.jobs} jobs changed, {seconds:.1f} s, {jobs / seconds:.0f} jobs a second")
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")


if __name__ == "__main__":
    main()
