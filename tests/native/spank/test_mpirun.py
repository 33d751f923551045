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
        f"spool={site.spool} place={site.place} kill_switch={site.folder}/disabled deadline_ms=5000 "
        "memory=plan openmp=set"
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
        # Open MPI ends where the rank file has more on a node than Slurm's numbers.
        "SLURM_TASKS_PER_NODE": "1(x2)",
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


# What is in the file of each launcher, as C text.
STRINGS = {
    "intel": "I_MPI_HYDRA_HOST_FILE",
    "hydra 5": r"HYDRA_HOST_FILE\0" "5.0.2",
    "hydra 4": r"HYDRA_HOST_FILE\0" "4.3.2",
    "forerunner": "OMPI_PRTERUN",
    "unknown": "",
}
SHOW = r"""
#include <stdio.h>
extern char **environ;
const char known[] = "" "%s";
int main(void)
{
    for (int i = 0; environ[i]; i++)
        puts(environ[i]);
    return known[0] == 1;
}
"""


@pytest.fixture(scope="session")
def library(project_root: Path) -> Path:
    """The library that the plugin preloads, up to date."""
    build = project_root / "build"
    command = ["make", "-s", "-C", str(project_root / "spank"), f"BUILD={build}"]
    subprocess.run(command, check=True, timeout=300)
    return build / "lib" / "libslurm_topo_launch.so"


@pytest.fixture
def start(site: Site, library: Path, tmp_path: Path) -> Any:
    """Run a program that is made like a family's launcher (or a rank) with the library; its environment."""

    def run(kind: str, *arguments: str, name: str = "mpiexec", **env: str) -> dict[str, str]:
        program = tmp_path / kind.replace(" ", "") / name
        program.parent.mkdir(exist_ok=True)
        source = program.with_suffix(".c")
        source.write_text(SHOW % STRINGS[kind].replace(r"\0", r'\0" "'))
        subprocess.run(["gcc", "-o", str(program), str(source)], check=True, timeout=60)
        common = {
            "SLURM_TOPO_JOB_LAUNCH": site.arguments,
            "HOME": str(site.folder),
            "LD_PRELOAD": str(library),
        }
        done = subprocess.run(
            [str(program), *arguments],
            env={**site.job, **common, "PATH": os.environ["PATH"], **env},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert (done.returncode, done.stderr) == (0, "")
        return dict(line.split("=", 1) for line in done.stdout.splitlines())

    return run


def test_hydra_gets_a_map_of_ranks_and_the_ranks_their_plan(start: Any, site: Site) -> None:
    env = start("hydra 5", "-n", "2", "./app")
    # The plan has rank 0 on the second node.
    assert env["HYDRA_CONFIG_FILE"].startswith("/proc/self/fd/")
    assert env["SLURM_TASKS_PER_NODE"] == "1(x2)"
    assert env["SLURM_TOPO_JOB_RANKS"].startswith(f"PMI:{site.user}/plans/")
    assert env["LD_PRELOAD"]
    assert site.records()[0]["decision"] == "place"


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("hydra 4", "launcher: Hydra before 5"),
        ("intel", "launcher: Intel MPI cannot mix"),
        ("unknown", "launcher: mpiexec is of no family that is known"),
    ],
)
def test_launcher_that_cannot_carry_out_the_plan_is_left_alone(
    start: Any, site: Site, kind: str, reason: str
) -> None:
    env = start(kind, "-n", "2", "./app")
    ours = {
        "SLURM_TOPO_JOB_RANKS",
        "SLURM_TOPO_JOB_LAUNCH",
        "LD_PRELOAD",
        "SLURM_TASKS_PER_NODE",
        "I_MPI_PIN",
    }
    assert not ours & set(env)
    (record,) = site.records()
    assert (record["decision"], record["reason"][: len(reason)]) == ("stand-down", reason)


@pytest.mark.parametrize("kind", ["hydra 4", "intel"])
def test_ranks_in_blocks_need_no_map(start: Any, site: Site, kind: str) -> None:
    # The plan has rank 0 on the second of its nodes: here that is the first of the job.
    text = site.text.replace("node 0 n1", "node 0 n2").replace("node 1 n2", "node 1 n1")
    (site.folder / "answer").write_text(text)
    env = start(kind, "-n", "2", "./app")
    assert site.records()[0]["reason"] == "cost"
    assert "HYDRA_CONFIG_FILE" not in env
    assert env["SLURM_TASKS_PER_NODE"] == "1(x2)"
    assert env.get("I_MPI_PIN") == ("0" if kind == "intel" else None)


def test_forerunner_leaves_everything_to_what_it_starts(start: Any, site: Site, library: Path) -> None:
    env = start("forerunner", "./app", name="mpirun")
    assert env["LD_PRELOAD"] == str(library)
    assert env["SLURM_TOPO_JOB_LAUNCH"]
    assert not (site.user / "records").exists()


def rank_of(site: Site, **more: str) -> dict[str, str]:
    """What a placed mpiexec gives a rank; the plan has rank 0 on this host."""
    path = site.user / "plans" / "77-2x1-0000.plan"
    path.parent.mkdir(mode=0o700, exist_ok=True)
    path.write_text(site.text.replace(" n2", f" {os.uname().nodename.split('.')[0]}"))
    path.chmod(0o600)
    return {"SLURM_TOPO_JOB_RANKS": f"PMI:{path}", "PMI_RANK": "0", "PMI_SIZE": "2", **more}


def test_rank_binds_itself_and_forgets(start: Any, site: Site) -> None:
    env = start("unknown", name="app", **rank_of(site))
    assert not {"SLURM_TOPO_JOB_RANKS", "SLURM_TOPO_JOB_LAUNCH", "LD_PRELOAD"} & set(env)
    (record,) = site.records()
    assert (record["where"], record["decision"], record["cpus"]) == ("task", "place", "0")


@pytest.mark.parametrize(
    ("name", "more", "reason"),
    [
        ("app", {"PMI_SIZE": "3"}, "plan: is for 2 ranks, the step has 3"),
        ("app", {"PMI_RANK": "1"}, "plan: has rank 1 on another node"),
        ("app", {"PMI_SPAWNED": "1"}, None),
        ("hydra_pmi_proxy", {}, None),
        ("srun", {}, None),
    ],
)
def test_what_is_no_rank_of_the_plan_is_not_bound(
    start: Any, site: Site, name: str, more: dict[str, str], reason: str | None
) -> None:
    env = start("unknown", name=name, **rank_of(site, **more))
    # Daemons hand it on to the ranks.
    assert ("LD_PRELOAD" in env) == (name != "app")
    records = site.records() if (site.user / "records").exists() else []
    assert [r["reason"] for r in records if r["decision"] == "stand-down"] == ([reason] if reason else [])
    assert not [r for r in records if r["decision"] == "place"]
