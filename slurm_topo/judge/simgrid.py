"""SimGrid's SMPI replays a workload on a platform."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from slurm_topo.errors import LaunchError, PlacementError
from slurm_topo.judge.platform import Platform
from slurm_topo.judge.workload import Workload, write_actions
from slurm_topo.trace.library import find_library

LIBRARY = "libslurm_topo_platform.so"
SMPIRUN = "smpirun"
# Plain fluid sharing: a link's bandwidth is shared by the messages on it, latencies add up. The factors that
# SimGrid fits to one real cluster are off: the machine's own figures are those of MPI messages already.
MODEL = (
    "network/model:CM02",
    "network/TCP-gamma:0",
    "network/weight-S:0",
    "network/crosstraffic:0",
    "network/latency-factor:1",
    "network/bandwidth-factor:1",
    "smpi/simulate-computation:no",
    "smpi/display-timing:yes",
    "smpi/host-speed:1e9f",
    # The replaying program has no data of its own: no copy of it a rank. Plain updates are quicker here.
    "smpi/privatization:no",
    "network/optim:Full",
)
# The solver of shares may stop over a rounding error; another tolerance gets past it and changes no figure.
TOLERANCES = ("maxmin/precision:1e-5", "maxmin/precision:1e-9", "maxmin/precision:1e-3")
_ROUNDING = "maxmin"
_TIME = re.compile(r"Simulated time: ([0-9.eE+-]+) seconds")


@dataclass(frozen=True)
class Simulator:
    """SimGrid on this machine."""

    smpirun: str
    library: Path

    @classmethod
    def find(cls) -> Simulator:
        """SimGrid and the platform library.

        Raises
        ------
        LaunchError
            One of them is not here.
        """
        smpirun = shutil.which(SMPIRUN)
        if not smpirun:
            raise LaunchError(
                f"{SMPIRUN}: is not in PATH; install SimGrid (Debian: apt install libsimgrid-dev)"
            )
        return cls(smpirun, find_library(name=LIBRARY, target="make judge"))

    def seconds(
        self,
        platform: Platform,
        workload: Workload,
        core_of_rank: NDArray[np.integer],
        timeout_s: float = 3600.0,
    ) -> float:
        """Time of the whole run that the workload stands for, in seconds of the machine model.

        Parameters
        ----------
        platform : Platform
            c cores.
        workload : Workload
            n ranks.
        core_of_rank : int array, shape (n,)
            Core of each rank.

        Raises
        ------
        PlacementError
            The placement names cores that the platform does not have.
        LaunchError
            SimGrid failed or took too long.
        """
        cores = np.asarray(core_of_rank)
        count = platform.parent.size - platform.zones
        if cores.size != len(workload.rank_text) or cores.min() < 0 or cores.max() >= count:
            raise PlacementError(
                f"placement of {cores.size} ranks on cores {int(cores.min())}..{int(cores.max())}: the "
                f"workload has {len(workload.rank_text)} ranks, the machine {count} cores; give each a core"
            )
        with tempfile.TemporaryDirectory(prefix="slurm-topo-judge-") as name:
            folder = Path(name)
            (folder / "platform").write_text(platform.text(), encoding="ascii")
            (folder / "hosts").write_text("".join(f"c{core}\n" for core in cores.tolist()), encoding="ascii")
            listing = write_actions(workload, folder)
            output = self._run_patiently(folder, listing, cores.size, timeout_s)
        found = _TIME.search(output)
        if not found:
            raise LaunchError(f"{SMPIRUN}: {_last_line(output)}; run the same command with another SimGrid")
        return float(found[1]) * platform.unit * workload.repeats

    def _run_patiently(self, folder: Path, listing: Path, ranks: int, timeout_s: float) -> str:
        for tolerance in TOLERANCES[:-1]:
            try:
                return self._run(folder, listing, ranks, timeout_s, tolerance)
            except LaunchError as error:
                if _ROUNDING not in str(error):
                    raise
        return self._run(folder, listing, ranks, timeout_s, TOLERANCES[-1])

    def _run(self, folder: Path, listing: Path, ranks: int, timeout_s: float, tolerance: str) -> str:
        command = [self.smpirun, "-replay", str(listing), "-np", str(ranks)]
        command += ["-platform", str(self.library), "-hostfile", str(folder / "hosts")]
        command += [f"--cfg={setting}" for setting in (*MODEL, tolerance)]
        environment = {**os.environ, "SLURM_TOPO_PLATFORM": str(folder / "platform"), "LC_ALL": "C"}
        try:
            done = subprocess.run(
                command,
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=timeout_s,
                check=False,
                text=True,
                errors="replace",
            )
        except subprocess.TimeoutExpired:
            raise LaunchError(
                f"{SMPIRUN}: {ranks} ranks took more than {timeout_s:g} s; give fewer ranks or --rounds 1"
            ) from None
        except OSError as error:
            raise LaunchError(
                f"{self.smpirun}: cannot be run ({error.strerror}); install SimGrid again"
            ) from error
        if done.returncode:
            raise LaunchError(f"{SMPIRUN}: ended with {done.returncode}: {_last_line(done.stdout)}")
        return done.stdout


def _last_line(text: str) -> str:
    """Why it ended, where it says so; else the last thing it said."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    critical = [line for line in lines if "CRITICAL" in line]
    return (critical or lines[-1:] or ["printed nothing"])[0][:300]
