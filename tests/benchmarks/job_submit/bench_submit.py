"""Prints how long the submit hook takes for one job, by Lua and size of the script, among many advice files.

Run: ``python tests/benchmarks/job_submit/bench_submit.py [FILES]``. CPU time of the thread, which a busy
machine changes little; the time of the fake job is in it.
"""

from __future__ import annotations

import importlib.util
import statistics
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
RUNS = 400


def controller_class() -> type:
    """The controller of the Lua tests."""
    spec = importlib.util.spec_from_file_location("lua_conftest", ROOT / "tests" / "lua" / "conftest.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def fill(advice: Path, count: int) -> None:
    """As many advice files as a large site has."""
    for number in range(count):
        key = f"s{number * 2654435761 % (1 << 32):08x}{number:014x}"
        folder = advice / key[1:3]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / key).write_text(f"slurm-topo-advice 1\nkey {key}\narm enforce\nholdout 0\ntrace 1\nend\n")


def measure(version: str, size: int, advised: bool, advice: Path) -> list[float]:
    """Microseconds of each submission."""
    module = controller_class()
    controller = module.Controller(version, advice, module.SITE_SCRIPT)
    controller.write_site()
    filler = "# a line of a job script, as long as such lines are\n"
    script = "#!/bin/sh\n" + filler * (size // len(filler)) + "srun ./halo 40\n"
    if advised:
        controller.write_advice(controller.keys(script=script)[0])
    submit, tables = controller.lua.globals().slurm_job_submit, controller.lua.table()
    times = []
    for _ in range(RUNS):
        job = controller.job({"PATH": "/bin"}, script=script)
        start = time.thread_time()
        submit(job.proxy, tables, 1000.0)
        times.append((time.thread_time() - start) * 1e6)
    return times


def main() -> None:
    files = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    with tempfile.TemporaryDirectory() as folder:
        advice = Path(folder) / "advice"
        fill(advice, files)
        print(f"{files} advice files, {RUNS} submissions each")
        print("lua     script bytes  advice   median us   p99 us")
        for version in ("lua51", "lua54"):
            for size in (500, 2000, 4000, 16000, 65000):
                for advised in (False, True):
                    times = sorted(measure(version, size, advised, advice))
                    median, late = statistics.median(times), times[int(RUNS * 0.99)]
                    print(f"{version:7} {size:12} {advised!s:7} {median:11.0f} {late:8.0f}")


if __name__ == "__main__":
    sys.exit(main())
