"""A lab comes up, is repaired and goes without a trace, also after a crash at any point."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from slurm_topo.errors import LabError
from slurm_topo.lab import daemons, report, shell
from slurm_topo.lab.cluster import Lab
from slurm_topo.lab.options import LabOptions
from slurm_topo.lab.processes import environment_of, find_keepers, kill, members

SMALL = LabOptions(nodes=2, switches=2, cpus=1)
SMALL_FLAGS = ["--nodes", "2", "--switches", "2", "--cpus", "1"]
NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "uts")
# What a Slurm, a munge or a MariaDB of the machine itself would write to.
OUTSIDE = (
    "/run",
    "/etc/slurm",
    "/etc/munge",
    "/var/spool",
    "/var/log",
    "/var/lib",
    "/var/lib/mysql",
    "/dev/shm",
)


def namespaces_of(pid: int) -> set[str]:
    found = set()
    for kind in NAMESPACES:
        with contextlib.suppress(OSError):
            found.add(os.readlink(f"/proc/{pid}/ns/{kind}"))
    return found


def start_of(pid: int) -> int:
    """When a process started, in ticks since the machine did; 0 when it has gone."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except OSError:
        return 0


def words_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return "gone"


def files_outside() -> set[str]:
    return {f"{folder}/{name}" for folder in OUTSIDE if os.path.isdir(folder) for name in os.listdir(folder)}


@dataclass
class Traces:
    """What a lab had while it ran, looked for after it is gone."""

    folder: Path
    namespaces: set[str]
    taken: int

    def left(self) -> list[str]:
        found = []
        for pid in [int(name) for name in os.listdir("/proc") if name.isdigit()]:
            if environment_of(pid).get("STLAB_FOLDER") == str(self.folder):
                found.append(f"process {pid} of the lab")
            # The kernel gives the numbers of namespaces to others as soon as they are free.
            elif start_of(pid) < self.taken and self.namespaces & namespaces_of(pid):
                found.append(f"process {pid} in {self.namespaces & namespaces_of(pid)}: {words_of(pid)}")
        for interface in Path("/sys/class/net").iterdir():
            if interface.is_dir() and (interface / "ifalias").read_text().strip() == str(self.folder):
                found.append(f"interface {interface.name}")
        mounts = Path("/proc/mounts").read_text().splitlines()
        found += [f"mount {line}" for line in mounts if str(self.folder) in line or "stlab" in line]
        if Path("/run/netns").is_dir():
            found += [f"netns {name}" for name in os.listdir("/run/netns") if "stlab" in name]
        return found


def traces_of(lab: Lab) -> Traces:
    keeper = find_keepers(lab.folder)
    ours = namespaces_of(os.getpid())
    pids = [process.pid for pid in keeper for process in members(pid)]
    now = int(float(Path("/proc/uptime").read_text().split()[0]) * os.sysconf("SC_CLK_TCK"))
    return Traces(lab.folder, set().union(*(namespaces_of(pid) for pid in pids)) - ours, now)


def command(lab: Lab, *words: str) -> list[str]:
    return [
        sys.executable,
        "-m",
        "slurm_topo.cli.main",
        "lab",
        words[0],
        "--dir",
        str(lab.folder),
        *words[1:],
    ]


def start_until(argv: list[str], text: str) -> subprocess.Popen[str]:
    """Start a command and return it as soon as it has said something."""
    process = subprocess.Popen(argv, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    assert process.stderr
    for line in process.stderr:
        if text in line:
            return process
    raise AssertionError(f"never said {text!r}")


def kill_at(argv: list[str], text: str) -> None:
    process = start_until(argv, text)
    process.kill()
    process.communicate()


@pytest.fixture
def small(lab_folder: Path) -> Iterator[Lab]:
    """A lab of two nodes that has not been brought up; whatever a test leaves of it is taken down."""
    lab = Lab(f"{lab_folder}-small")
    yield lab
    if lab.folder.exists():
        lab.down(purge=True)


def test_up_again_changes_nothing_and_other_options_are_refused(small: Lab) -> None:
    assert small.up(SMALL)
    before = {process.pid for process in members(next(iter(find_keepers(small.folder))))}
    assert not small.up(SMALL)
    with pytest.raises(LabError, match="cpus 2"):
        small.up(LabOptions(nodes=2, switches=2, cpus=2))
    assert {process.pid for process in members(next(iter(find_keepers(small.folder))))} == before


def test_down_leaves_nothing_but_the_folder(small: Lab) -> None:
    before = files_outside()
    small.up(SMALL)
    assert small.run(["srun", "-N2", "hostname"]).returncode == 0
    traces = traces_of(small)
    assert len(traces.namespaces) >= 4 * 3
    assert len(traces.left()) > 10
    assert small.down()
    assert traces.left() == []
    assert files_outside() - before == set()
    assert not (small.folder / "run").exists()
    assert (small.folder / "log").exists()
    assert not small.down(purge=True)
    assert not small.folder.exists()


def test_down_ends_running_jobs_and_whoever_waits_for_them(small: Lab) -> None:
    small.up(SMALL)
    small.run(["sbatch", "-N1", "-o", "/dev/null", "--wrap", "sleep 1000"], cwd="/tmp")
    waiting = subprocess.Popen(
        small.argv(["srun", "-N1", "sh", "-c", "echo runs; sleep 1000"]),
        env=small.env,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert waiting.stdout
    assert waiting.stdout.readline() == "runs\n"
    traces = traces_of(small)
    small.down()
    assert waiting.wait(timeout=30) != 0
    assert traces.left() == []


def test_up_works_after_the_machine_has_stopped(small: Lab) -> None:
    small.up(SMALL)
    small.run(["sbatch", "-N1", "-o", "/dev/null", "--wrap", "sleep 1000"], cwd="/tmp")
    keeper = next(iter(find_keepers(small.folder)))
    kill(keeper, signal.SIGKILL)
    shell.wait_until(lambda: not find_keepers(small.folder), 30, "keeper")
    assert report.status(small)["state"] == "down"
    assert small.up(SMALL)
    assert report.status(small)["state"] == "up"
    small.run(["scancel", "--user", "root"])
    assert sorted(small.run(["srun", "-N2", "hostname"]).stdout.split()) == ["n1", "n2"]


@pytest.mark.parametrize("moment", ["namespaces and links", "waiting for the nodes"])
def test_down_after_a_crash_of_up_leaves_nothing(small: Lab, moment: str) -> None:
    kill_at(command(small, "up", *SMALL_FLAGS), moment)
    traces = traces_of(small)
    small.down()
    assert traces.left() == []


@pytest.mark.parametrize("moment", ["making the accounting database", "starting slurmctld"])
def test_up_after_a_crash_of_up_works(small: Lab, moment: str) -> None:
    kill_at(command(small, "up", *SMALL_FLAGS), moment)
    small.up(SMALL)
    assert sorted(small.run(["srun", "-N2", "hostname"]).stdout.split()) == ["n1", "n2"]


@pytest.mark.parametrize("moment", ["stopping slurmdbd", "ending all processes"])
def test_down_after_a_crash_of_down_leaves_nothing(small: Lab, moment: str) -> None:
    small.up(SMALL)
    traces = traces_of(small)
    kill_at(command(small, "down"), moment)
    small.down()
    assert traces.left() == []


def test_dead_daemons_are_started_again(small: Lab) -> None:
    small.up(SMALL)
    lab = members(next(iter(find_keepers(small.folder))))
    for daemon in daemons.daemons(small.layout):
        if daemon.role in ("slurmctld", "slurmd@n2", "munged"):
            process = daemons.find(daemon, lab)
            assert process
            kill(process.pid, signal.SIGKILL)
    shell.wait_until(lambda: report.status(small)["state"] == "broken", 10, "status")
    assert small.up(SMALL)
    assert report.status(small)["state"] == "up"
    assert sorted(small.run(["srun", "-N2", "hostname"]).stdout.split()) == ["n1", "n2"]


def test_a_node_without_namespaces_is_built_again(small: Lab) -> None:
    small.up(SMALL)
    lab = members(next(iter(find_keepers(small.folder))))
    holder = daemons.holder(small.layout, "n1", lab)
    assert holder
    kill(holder.pid, signal.SIGKILL)
    shell.wait_until(
        lambda: daemons.holder(small.layout, "n1", members(next(iter(find_keepers(small.folder))))) is None,
        10,
        "n1",
    )
    assert small.up(SMALL)
    assert sorted(small.run(["srun", "-N2", "hostname"]).stdout.split()) == ["n1", "n2"]


def test_two_labs_run_beside_each_other(lab: Lab, small: Lab) -> None:
    small.up(SMALL)
    assert small.layout.network != lab.layout.network
    assert small.run(["srun", "-N2", "hostname"]).returncode == 0
    assert lab.run(["srun", "-N4", "hostname"]).returncode == 0
    small.down()
    assert lab.run(["srun", "-N4", "hostname"]).returncode == 0


def test_only_one_up_is_at_work_in_a_folder(small: Lab) -> None:
    first = start_until(command(small, "up", *SMALL_FLAGS), "starting munged")
    with pytest.raises(LabError, match="another"):
        small.up(SMALL)
    first.communicate()
    assert first.returncode == 0
    assert not small.up(SMALL)


def test_a_folder_with_other_files_is_left_alone(lab_folder: Path, tmp_path: Path) -> None:
    del lab_folder  # for its check of the machine
    (tmp_path / "thesis.txt").write_text("years of work")
    folder = Path(f"/tmp/stlab-link-{os.getpid()}")
    folder.symlink_to(tmp_path)
    try:
        with pytest.raises(LabError, match="not a lab's"):
            Lab(folder).up(SMALL)
        with pytest.raises(LabError, match="no lab there"):
            Lab(folder).down(purge=True)
    finally:
        folder.unlink()
    assert (tmp_path / "thesis.txt").read_text() == "years of work"


def test_more_cpus_than_the_machine_has_still_run_tasks(small: Lab) -> None:
    cpus = (os.cpu_count() or 1) + 2
    small.up(LabOptions(nodes=1, switches=1, cpus=cpus, integrate=False))
    result = small.run(["srun", f"-n{cpus}", "hostname"])
    assert result.stdout.split() == ["n1"] * cpus, result.stderr
