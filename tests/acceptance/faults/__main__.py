"""``python -m tests.acceptance.faults --submissions N --seed S``: as root, from the project's folder."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path

from tests.acceptance.faults.campaign import Campaign, Result
from tests.acceptance.faults.site import Site
from tests.acceptance.faults.verdict import report


def run(submissions: int, seed: int, folder: Path, minutes: float = 1e9) -> tuple[Result, str, list[str]]:
    """A site, a campaign, its report, and what speaks against us."""
    with Site(folder).running() as site:
        result = Campaign(site, submissions, seed, minutes).run()
        text, ours = report(result)
        return result, text, ours


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--submissions", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=1e9, help="start nothing more after this time")
    parser.add_argument("--folder", type=Path, default=Path(f"/tmp/stlab-faults-{os.getpid()}"))
    options = parser.parse_args()
    if os.geteuid() != 0:
        parser.error("only root can bring up a lab and be several users")
    # Whoever ends us ends the lab with us.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    _, text, ours = run(options.submissions, options.seed, options.folder, options.minutes)
    print(text)
    return 1 if ours else 0


if __name__ == "__main__":
    sys.exit(main())
