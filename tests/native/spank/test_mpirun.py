"""mpirun in a batch script: the library that does for it what the plugin does for srun."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

Site = Any  # of conftest.py, which is no module that can be imported

MARKED = {"SLURM_TOPO_JOB_GRAPH": "9f86d081884c7d65", "FAKE_STEP": "4294967291"}


@pytest.fixture
def launch(site: Site) -> Path:
    """The library for mpirun, beside the tracer."""
    path = site.folder / "libslurm_topo_launch.so"
    shutil.copy(site.tracer, path)
    return path


def test_batch_script_of_a_known_program_gets_the_library_for_mpirun(site: Site, launch: Path) -> None:
    env = site.task(**MARKED).env
    assert env["LD_PRELOAD"] == str(launch)
    assert env["SLURM_TOPO_JOB_LAUNCH"] == (
        f"spool={site.spool} place={site.place} kill_switch={site.folder}/disabled deadline_ms=5000"
    )


@pytest.mark.parametrize(
    "change",
    [
        {"FAKE_STEP": "0"},
        {"SLURM_TOPO": "observe"},
        {"SLURM_TOPO_JOB_GRAPH": None},
        {"arguments": " mpirun=none"},
        {"library": None},
        {"library cut short": None},
        {"disabled": True},
    ],
    ids=lambda change: next(iter(change)),
)
def test_other_steps_do_not_get_it(site: Site, launch: Path, change: dict[str, Any]) -> None:
    if "library" in change:
        launch.unlink()
    if "library cut short" in change:
        os.truncate(launch, 5000)
    if "disabled" in change:
        (site.folder / "disabled").touch()
    env = {**MARKED, "FAKE_ARGS": site.arguments + change.get("arguments", "")}
    env |= {name: value for name, value in change.items() if name.isupper()}
    result = site.task(**{k: v for k, v in env.items() if v is not None})
    assert not {"LD_PRELOAD", "SLURM_TOPO_JOB_LAUNCH"} & set(result.env)


def test_steps_of_the_batch_script_lose_it_again(site: Site, launch: Path) -> None:
    env = {**MARKED, "FAKE_STEP": "0", "SLURM_TOPO_JOB_LAUNCH": "spool=/x"}
    result = site.task(FAKE_LD_PRELOAD=f"{launch}:libmine.so", **env)
    assert result.env["LD_PRELOAD"] == "libmine.so"
    assert "SLURM_TOPO_JOB_LAUNCH" not in result.env


def run_mpirun(program: Path, site: Site, *arguments: str, **env: str) -> tuple[dict[str, str], list[str]]:
    """What the library leaves in the environment of mpirun, and what it prints."""
    common = {"SLURM_TOPO_JOB_LAUNCH": site.arguments, "HOME": str(site.folder)}
    result = subprocess.run(
        [str(program), *arguments],
        env={**site.job, **common, "PATH": os.environ["PATH"], **env},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert result.returncode == 0, result.stderr
    assert "Sanitizer" not in result.stderr
    return dict(line.split("=", 1) for line in result.stdout.splitlines()), result.stderr.splitlines()


def test_mpirun_gets_a_rank_file(mpirun: Path, site: Site) -> None:
    found, said = run_mpirun(mpirun, site, "-n", "2", "./app")
    # In memory: it cannot vanish before mpirun reads it.
    assert found.pop("OMPI_MCA_rmaps_rank_file_path").startswith("/proc/self/fd/")
    assert found == {
        "OMPI_MCA_rmaps_rank_file_physical": "1",
        "line 0": "rank 0=n2 slot=0",
        "line 1": "rank 1=n1 slot=0",
    }
    assert said == []
    (record,) = site.records()
    assert (record["where"], record["decision"], record["reason"]) == ("mpirun", "place", "cost")


def test_mpirun_and_srun_share_the_plan(mpirun: Path, site: Site) -> None:
    run_mpirun(mpirun, site, "./app")
    assert "SLURM_HOSTFILE" in site.srun().now
    assert len(site.calls) == 1


@pytest.mark.parametrize(
    ("arguments", "env", "cpus", "reason"),
    [
        (("--map-by", "node", "./app"), {}, "cpus=0", "shape: mpirun option --map-by"),
        (
            ("./app",),
            {"OMPI_MCA_rmaps_base_mapping_policy": "node"},
            "cpus=0",
            "user: OMPI_MCA_rmaps_base_mapping",
        ),
        (("./app",), {"SLURM_TOPO": "off"}, "cpus=0", "user: topo off"),
        (("./app",), {}, "cpus=2", "shape: mpirun on parts of nodes"),
        (("./app",), {}, "cpus=-", "plan: no CPUs"),
    ],
)
def test_uncertain_mpirun_is_left_alone(
    mpirun: Path, site: Site, arguments: tuple[str, ...], env: dict[str, str], cpus: str, reason: str
) -> None:
    (site.folder / "answer").write_text(site.text.replace("cpus=0", cpus))
    found, said = run_mpirun(mpirun, site, *arguments, **env)
    assert not [name for name in found if "rank_file" in name]
    assert said == []
    assert site.records()[0]["reason"].startswith(reason)


def test_fault_in_mpirun_is_one_line(mpirun: Path, site: Site) -> None:
    site.place.unlink()
    found, said = run_mpirun(mpirun, site, "./app")
    assert found == {}
    assert said == [f"mpirun: slurm-topo: stood down: place: {site.place}: No such file or directory"]


def test_unmarked_mpirun_is_left_alone(mpirun: Path, site: Site) -> None:
    assert run_mpirun(mpirun, site, "./app", SLURM_TOPO_JOB_ARM="off") == ({}, [])
    assert run_mpirun(mpirun, site, "./app", SLURM_TOPO_JOB_LAUNCH="rubbish") == ({}, [])
    assert not (site.user / "records").exists()


def test_mpirun_of_another_library_is_left_alone(drive: Any, site: Site) -> None:
    """The driver has the library in it and is no program of Open MPI."""
    env = {**site.job, "SLURM_TOPO_JOB_LAUNCH": site.arguments}
    drive("args", env=env, name="mpiexec")
    assert site.records()[0]["reason"] == "launcher: not the mpirun of Open MPI 4"
