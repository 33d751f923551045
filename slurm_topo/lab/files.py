"""Writes what a lab reads: directories, configuration, the munge key, an empty database."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

from slurm_topo.errors import LabError
from slurm_topo.lab import integrate, jobsubmit, nodeconf, shell, slurmconf
from slurm_topo.lab.host import HostFacts, host_facts
from slurm_topo.lab.layout import Layout
from slurm_topo.lab.state import write_file


def write_files(layout: Layout) -> None:
    """Make the directories and write the configuration, new at every start."""
    for path, mode in layout.directories().items():
        path.mkdir(exist_ok=True)
        path.chmod(mode)
    for name, text in configuration(layout, host_facts()).items():
        # slurmdbd refuses a file that others can read.
        write_file(layout.etc(name), text, 0o600 if name == "slurmdbd.conf" else 0o644)
    for device in layout.gpus:
        _make_device(device)
    write_file(layout.etc("munge.key"), os.urandom(128), 0o400)
    _give_to_caller(layout)


def _make_device(path: Path) -> None:
    """A device that holds nothing, as /dev/null: slurmd wants a device for each GPU.

    Raises
    ------
    LabError
        The kernel does not allow it.
    """
    path.unlink(missing_ok=True)
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.stat(os.devnull).st_rdev)
        path.chmod(0o666)
    except OSError as error:
        raise LabError(
            f"{path}: cannot be made ({error.strerror}); leave out --gpus, or run where root may make devices"
        ) from None


def write_integration(layout: Layout) -> None:
    """Write what slurm_topo brings once more: the plugin may have been built since the lab came up."""
    for name, text in _integration(layout).items():
        write_file(layout.etc(name), text)


def _integration(layout: Layout) -> dict[str, str]:
    texts = {"plugstack.conf": integrate.plugstack_conf(layout)}
    if layout.options.integrate:
        texts["job_submit.lua"] = jobsubmit.job_submit_lua(layout)
        texts["slurm-topo.toml"] = integrate.settings_toml(layout)
    return texts


def configuration(layout: Layout, host: HostFacts) -> dict[str, str]:
    """Name in ``etc`` -> text of every configuration file."""
    texts = {
        "slurm.conf": slurmconf.slurm_conf(layout, host),
        "topology.conf": slurmconf.topology_conf(layout),
        "gres.conf": slurmconf.gres_conf(layout),
        "slurmdbd.conf": slurmconf.slurmdbd_conf(layout),
        "cgroup.conf": slurmconf.cgroup_conf(host),
        "mpi.conf": slurmconf.mpi_conf(),
        "mariadb.cnf": slurmconf.mariadb_conf(layout),
        "hosts": nodeconf.hosts_file(layout, host.hosts),
    }
    if host.openmpi_params:
        texts["openmpi-mca-params.conf"] = nodeconf.openmpi_params()
    return {**texts, **_integration(layout)}


def _give_to_caller(layout: Layout) -> None:
    # Under sudo, the one who called keeps the history and publishes the advice.
    uid, gid = int(os.environ.get("SUDO_UID", "0")), int(os.environ.get("SUDO_GID", "0"))
    for path in (layout.history.parent, layout.advice):
        os.chown(path, uid, gid)


def make_database(layout: Layout, keeper: int, say: Callable[[str], None]) -> None:
    """Make an empty MariaDB where there is none; one that a crash left half made is made again."""
    done = layout.folder / "db" / ".complete"
    if done.exists():
        return
    say("making the accounting database")
    folder = layout.folder / "db"
    shell.run(["rm", "-rf", str(folder)])
    folder.mkdir(mode=0o700)
    command = (
        *("mariadb-install-db", "--no-defaults", "--user=root", f"--datadir={folder}"),
        *("--auth-root-authentication-method=socket", "--skip-test-db"),
    )
    shell.run(shell.enter(keeper, command), environ=shell.clean_environment(layout.folder), timeout=120)
    done.touch()
