"""The only place that starts a Slurm command."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence

from slurm_topo.errors import SlurmError

# Times in UTC and words in English, whatever the caller's environment says.
_FIXED = {"TZ": "UTC", "LC_ALL": "C", "SLURM_TIME_FORMAT": "standard"}
# Variables that change what a command prints.
_CHANGES_OUTPUT = (
    "SACCT_FORMAT",
    "SACCT_FEDERATION",
    "SACCT_LOCAL",
    "SINFO_FORMAT",
    "SQUEUE_FORMAT",
    "SCONTROL_ALL",
)

Runner = Callable[[Sequence[str]], str]


def run_command(
    argv: Sequence[str], timeout_s: float = 60.0, environ: Mapping[str, str] | None = None
) -> str:
    """Standard output of a Slurm command.

    Parameters
    ----------
    argv : sequence of str
        Command and arguments; no shell.
    timeout_s : float
        Seconds after which the command is ended.
    environ : mapping, optional
        Environment, the caller's by default (``SLURM_CONF`` in it is respected).

    Raises
    ------
    SlurmError
        It is missing, failed, took too long or printed what is no text.
    """
    name = argv[0]
    kept = {k: v for k, v in (os.environ if environ is None else environ).items() if k not in _CHANGES_OUTPUT}
    try:
        done = subprocess.run(
            list(argv),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout_s,
            env={**kept, **_FIXED},
            check=False,
        )
    except FileNotFoundError as error:
        raise SlurmError(
            f"{name}: is not installed here; run this on a host with Slurm's commands"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise SlurmError(
            f"{name}: no answer within {timeout_s:g} s; check slurmctld and slurmdbd (`scontrol ping`)"
        ) from error
    except OSError as error:
        raise SlurmError(f"{name}: cannot be started ({error.strerror}); check its rights") from error
    if done.returncode != 0:
        raise SlurmError(f"{name}: failed ({_reason(done)}); try it by hand: {' '.join(argv[:4])} ...")
    return done.stdout.decode("utf-8", "replace")


def _reason(done: subprocess.CompletedProcess[bytes]) -> str:
    lines = [line.strip() for line in done.stderr.decode("utf-8", "replace").splitlines() if line.strip()]
    if not lines:
        return f"exit code {done.returncode}"
    return lines[-1].removeprefix(f"{done.args[0]}: ").removeprefix("error: ").removeprefix("fatal: ")[:300]
