"""The machine that a lab runs on: what it must have, and what the lab's configuration depends on."""

from __future__ import annotations

import glob
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from slurm_topo.errors import LabError
from slurm_topo.lab import shell

OPENMPI_PARAMS = Path("/etc/openmpi/openmpi-mca-params.conf")

# Command -> Debian package.
_COMMANDS = {
    "ip": "iproute2",
    "mariadb-install-db": "mariadb-server",
    "munged": "munge",
    "nsenter": "util-linux",
    "setpriv": "util-linux",
    "sinfo": "slurm-client",
    "slurmctld": "slurmctld",
    "slurmd": "slurmd",
    "slurmdbd": "slurmdbd",
    "tc": "iproute2",
    "unshare": "util-linux",
}
# Library below a library directory -> Debian package.
_LIBRARIES = {
    "slurm*/accounting_storage_mysql.so": "slurm-wlm-mysql-plugin",
    "slurm*/job_submit_lua.so": "slurm-wlm-basic-plugins",
    "slurm*/mpi_pmix.so": "slurm-wlm-basic-plugins",
    # Slurm's plugin loads it by this name, which only the -dev package has.
    "pmix*/lib/libpmix.so": "libpmix-dev",
}
_LIBRARY_DIRS = ("/usr/lib/*", "/usr/lib", "/usr/lib64", "/usr/local/lib")
_SBIN = "/usr/sbin:/sbin:/usr/local/sbin"


def missing_packages() -> list[str]:
    """Debian packages without which no lab can run."""
    path = f"{os.environ.get('PATH', '')}:{_SBIN}"
    missing = {package for command, package in _COMMANDS.items() if not shutil.which(command, path=path)}
    for library, package in _LIBRARIES.items():
        if not any(glob.glob(f"{folder}/{library}") for folder in _LIBRARY_DIRS):
            missing.add(package)
    return sorted(missing)


def check_root() -> None:
    """Raise LabError unless we are root."""
    if os.geteuid() != 0:
        raise LabError("lab: only root can make and enter namespaces; run it as root, or allow `sudo -n`")


def check_machine() -> None:
    """Raise LabError where a lab cannot run, with what to do about it."""
    check_root()
    missing = missing_packages()
    if missing:
        raise LabError(
            f"lab: packages are missing; run: apt-get install -y --no-install-recommends {' '.join(missing)}"
        )


@dataclass(frozen=True)
class HostFacts:
    """What the configuration of a lab depends on, besides its options.

    Attributes
    ----------
    cpus : int
        CPUs of this machine, whether we may use them or not.
    slurm : tuple of int
        Release of Slurm, for example (22, 5).
    hosts : str
        Text of /etc/hosts.
    openmpi_params : bool
        Whether this machine has Debian's parameter file of Open MPI, which the lab's own can cover.
    """

    cpus: int
    slurm: tuple[int, int]
    hosts: str
    openmpi_params: bool


def host_facts() -> HostFacts:
    """The facts of this machine."""
    try:
        hosts = Path("/etc/hosts").read_text()
    except OSError:
        hosts = ""
    return HostFacts(os.cpu_count() or 1, slurm_release(), hosts, OPENMPI_PARAMS.exists())


def slurm_release() -> tuple[int, int]:
    """Release of the Slurm that is installed.

    Raises
    ------
    LabError
        slurmctld does not say one.
    """
    text = shell.run(["slurmctld", "-V"], environ=shell.clean_environment(Path("/"))).stdout
    match = re.search(r"(\d+)\.(\d+)", text)
    if not match:
        raise LabError(f"slurmctld -V: {text.strip()!r} holds no version; install the package slurmctld")
    return int(match[1]), int(match[2])
