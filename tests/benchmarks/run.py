"""Runs the benchmarks one by one: ``make benchmarks``, or ``python tests/benchmarks/run.py [PART ...]``.

A benchmark is a script in a folder of a part; it prints ratios and is never part of ``make test``.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def main(parts: list[str]) -> int:
    """Run the benchmarks of the parts (all by default); the number that failed."""
    scripts = [s for s in sorted(HERE.glob("*/*.py")) if not parts or s.parent.name in parts]
    unknown = set(parts) - {s.parent.name for s in scripts}
    if unknown:
        known = sorted({s.parent.name for s in HERE.glob("*/*.py")})
        print(f"no benchmarks of {', '.join(sorted(unknown))}; there are {', '.join(known)}", file=sys.stderr)
        return 1
    failed = 0
    for script in scripts:
        print(f"\n== {script.relative_to(HERE.parent.parent)}", flush=True)
        failed += subprocess.run([sys.executable, str(script)]).returncode != 0
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
