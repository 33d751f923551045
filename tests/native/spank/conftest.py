"""The plugin's C, compiled with sanitizers and a fake of Slurm's functions into one program."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
FLAGS = ["-std=c11", "-D_GNU_SOURCE", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-fno-omit-frame-pointer"]
SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]

Drive = Callable[..., "subprocess.CompletedProcess[str]"]


GRAPH = "9f86d081884c7d65"
ALLOCATION = {
    "SLURM_JOB_ID": "77",
    "SLURM_NTASKS": "2",
    "SLURM_JOB_NUM_NODES": "2",
    "SLURM_JOB_NODELIST": "n[1-2]",
    "SLURM_JOB_CPUS_PER_NODE": "2(x2)",
}
JOB = {**ALLOCATION, "SLURM_TOPO_JOB_ARM": "enforce", "SLURM_TOPO_JOB_GRAPH": GRAPH}
PLAN = f"""slurm-topo-plan 1
job 77
ranks 2
cpus_per_task 1
decision place
reason cost
graph {GRAPH}
cost 0.5
baseline block:block 0.75
nodes 2
node 0 n1
node 1 n2
rank 0 1 cpus=0 mem=0 gpus=-
rank 1 0 cpus=0 mem=0 gpus=-
end 2
"""
PLACE = """#!/bin/sh
echo "$@" >> {folder}/calls
while [ $# -gt 0 ]; do case "$1" in --plan) plan=$2;; esac; shift; done
cp {folder}/answer "$plan.new" && mv "$plan.new" "$plan"
"""
TRACED = {"SLURM_TOPO_JOB_ARM": "observe", "SLURM_TOPO_JOB_TRACE": "1"}


def a_library() -> str:
    """Some shared library of this machine."""
    maps = Path("/proc/self/maps").read_text().split()
    return next(word for word in maps if re.search(r"/libc\.so\.6$|/libc-[\d.]+\.so$|/libm\.so\.6$", word))


class Site:
    """A spool, a fake ``slurm-topo place`` and what the plugin's arguments say about them."""

    def __init__(self, folder: Path, drive: Drive) -> None:
        self.drive = drive
        self.text = PLAN
        self.job = JOB
        self.graph = GRAPH
        self.folder = folder
        self.spool = folder / "spool"
        self.user = self.spool / str(os.geteuid())
        self.local = folder / "local"
        self.tracer = folder / "libtracer.so"
        self.place = folder / "place"
        for path in (self.spool, self.user, self.user / "graphs", self.local):
            path.mkdir(mode=0o700)
        (self.user / "graphs" / f"{GRAPH}.npz").touch()
        shutil.copy(a_library(), self.tracer)
        (folder / "answer").write_text(PLAN)
        self.script(PLACE.format(folder=folder))

    def script(self, text: str) -> None:
        self.place.write_text(text)
        self.place.chmod(0o755)

    @property
    def arguments(self) -> str:
        return (
            f"spool={self.spool} local_dir={self.local} tracer={self.tracer} place={self.place} "
            f"kill_switch={self.folder}/disabled deadline_ms=5000"
        )

    @property
    def calls(self) -> list[str]:
        path = self.folder / "calls"
        return path.read_text().splitlines() if path.exists() else []

    def records(self) -> list[dict[str, Any]]:
        paths = sorted((self.user / "records").glob("*.rec"))
        return [json.loads(line) for path in paths for line in path.read_text().splitlines()]

    def plan(self) -> Path:
        (path,) = (self.user / "plans").glob("*.plan")
        return path

    def srun(self, *arguments: str, **env: str) -> Any:
        """slurm_spank_init as srun calls it; the result gets ``now``: SLURM* of the process afterwards."""
        common = {"FAKE_CONTEXT": "local", "FAKE_ARGS": self.arguments}
        result = self.drive("init", *(arguments or ("./app",)), env={**JOB, **common, **env})
        assert "rc 0\n" in result.stdout
        result.now = dict(re.findall(r"^now (\w+)=(.*)$", result.stdout, re.MULTILINE))
        result.lines = [x for x in result.stderr.splitlines() if not x.startswith("verbose: ")]
        return result

    def task(self, preexec_fn: Any = None, **env: str) -> Any:
        """slurm_spank_task_init; the result gets ``env`` of the task, ``cpus`` and ``policy``."""
        common = {"FAKE_ARGS": self.arguments, "SLURMD_NODENAME": "n2", "SLURM_TOPO_JOB_ARM": "enforce"}
        result = self.drive("task_init", "./app", env={**common, **env}, preexec_fn=preexec_fn)
        assert "rc 0\n" in result.stdout
        result.env = dict(re.findall(r"^env (\w+)=(.*)$", result.stdout, re.MULTILINE))
        result.cpus = re.search(r"^cpus (.*)$", result.stdout, re.MULTILINE)[1]
        result.policy = re.search(r"^policy (.*)$", result.stdout, re.MULTILINE)[1]
        return result

    def end_step(self, **env: str) -> Any:
        result = self.drive(
            "exit", env={"FAKE_ARGS": self.arguments, "SLURMD_NODENAME": "n2", **TRACED, **env}, cwd="/"
        )
        assert "rc 0\n" in result.stdout
        return result


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory, project_root: Path) -> Path:
    """The program; rebuilt in every session."""
    if not shutil.which("gcc") or not Path("/usr/include/slurm/spank.h").exists():
        pytest.skip("gcc or slurm/spank.h is missing (apt-get install gcc libslurm-dev)")
    folder = tmp_path_factory.mktemp("driver")
    spank = project_root / "spank"
    sources = [*sorted(spank.glob("*.c")), HERE / "fake_spank.c", HERE / "drive.c"]
    # The collector is the tracer's and is tested there; the fake in drive.c only tells who it runs as.
    collector = project_root / "slurm_topo" / "trace" / "native"
    program = folder / "drive"
    includes = [f"-I{spank}", f"-I{HERE}", f"-I{collector}", "-isystem", "/usr/include"]
    subprocess.run(
        ["gcc", *FLAGS, *SANITIZERS, *includes, "-o", str(program), *map(str, sources)],
        check=True,
        timeout=300,
    )
    return program


@pytest.fixture
def drive(driver: Path) -> Drive:
    """Run one part of the plugin: ``drive(part, *arguments, env={...})``; what a sanitizer finds fails."""

    def run(
        part: str,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        name: str = "srun",
        **options: object,
    ) -> subprocess.CompletedProcess[str]:
        command: Sequence[str] = [name, *arguments]
        result = subprocess.run(
            command,
            executable=driver,
            env={"DRIVE": part, "PATH": os.environ["PATH"], **(env or {})},
            capture_output=True,
            text=True,
            timeout=120,
            **options,  # type: ignore[call-overload]
        )
        assert result.returncode == 0, result.stderr
        assert "Sanitizer" not in result.stderr, result.stderr
        assert "runtime error" not in result.stderr, result.stderr
        return result

    return run


@pytest.fixture(scope="session")
def mpirun(tmp_path_factory: pytest.TempPathFactory, driver: Path, project_root: Path) -> Path:
    """A program called mpirun with spank/mpirun.c in it, linked to a stand-in of Open MPI 4's library."""
    folder = tmp_path_factory.mktemp("mpirun")
    spank = project_root / "spank"
    rte = folder / "libopen-rte.so.40"
    (folder / "rte.c").write_text("int rte; int *rte_of(void) { return &rte; }\n")
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(rte), str(folder / "rte.c")], check=True, timeout=60)
    core = ["advice", "allocation", "args", "base", "bind", "child", "family", "hydra", "launch", "marks"]
    core += ["mpirun", "openmpi", "options", "placed", "plan", "preload", "prrte", "record", "search"]
    core += ["shape", "spool"]
    sources = [*(str(spank / f"{name}.c") for name in core), str(HERE / "fake_mpirun.c")]
    program = folder / "mpirun"
    link = ["-Wl,--no-as-needed", str(rte), f"-Wl,-rpath,{folder}"]
    command = ["gcc", *FLAGS, *SANITIZERS, f"-I{spank}", "-o", str(program), *sources, *link]
    subprocess.run(command, check=True, timeout=300)
    return program


@pytest.fixture
def site(tmp_path: Path, drive: Drive) -> Site:
    return Site(tmp_path, drive)


@pytest.fixture
def placed(site: Site) -> dict[str, str]:
    """A plan in the spool and the environment that srun gives a task with it."""
    path = site.user / "plans" / "77-2x1-0000.plan"
    path.parent.mkdir(mode=0o700)
    path.write_text(site.text)
    path.chmod(0o600)
    return {
        "SLURM_TOPO_JOB_PLAN": str(path),
        "SLURM_HOSTFILE": str(path) + "x",
        "SLURM_DISTRIBUTION": "arbitrary",
        "SLURM_CPU_BIND": "quiet,mask_cpu:0x2",
        "SLURM_CPU_BIND_LIST": "0x2",
        "SLURM_CPU_BIND_TYPE": "mask_cpu:",
        "SLURM_CPU_BIND_VERBOSE": "quiet",
    }
