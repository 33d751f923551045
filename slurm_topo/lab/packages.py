"""What a lab needs from the machine, checked before anything is made."""

from __future__ import annotations

import os
import shutil

from slurm_topo.errors import LabError

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
# Plugin of Slurm -> Debian package.
_PLUGINS = {
    "accounting_storage_mysql.so": "slurm-wlm-mysql-plugin",
    "job_submit_lua.so": "slurm-wlm-basic-plugins",
    "mpi_pmix.so": "slurm-wlm-basic-plugins",
}
_PLUGIN_DIRS = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib")
_SBIN = "/usr/sbin:/sbin:/usr/local/sbin"


def missing_packages() -> list[str]:
    """Debian packages without which no lab can run."""
    path = f"{os.environ.get('PATH', '')}:{_SBIN}"
    missing = {package for command, package in _COMMANDS.items() if not shutil.which(command, path=path)}
    folders = [f"{d}/{name}" for d in _PLUGIN_DIRS for name in ("slurm-wlm", "slurm")]
    folders = [folder for folder in folders if os.path.isdir(folder)]
    for plugin, package in _PLUGINS.items():
        if not any(os.path.exists(f"{folder}/{plugin}") for folder in folders):
            missing.add(package)
    return sorted(missing)


def check_machine() -> None:
    """Raise LabError where a lab cannot run, with what to do about it."""
    if os.geteuid() != 0:
        raise LabError("lab: only root can make namespaces; run it as root, or allow `sudo -n`")
    missing = missing_packages()
    if missing:
        raise LabError(
            f"lab: packages are missing; run: apt-get install -y --no-install-recommends {' '.join(missing)}"
        )
