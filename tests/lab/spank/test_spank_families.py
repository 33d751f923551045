"""mpirun and srun of each MPI family in real jobs: each rank on node and CPUs of the plan, or as alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

Site = Any  # of conftest.py, which is no module that can be imported
Family = Any  # of tests/conftest.py

NODES = ["n1", "n2", "n3", "n4"]
CYCLIC = {r: (NODES[r % 4], str(1 - r // 4)) for r in range(8)}
BLOCKS = {r: (NODES[r // 2], str(1 - r % 2)) for r in range(8)}
MODES = {"ok": CYCLIC, "blocks": BLOCKS}
UNEVEN = {0: ("n1", "1"), 1: ("n2", "1"), 2: ("n2", "0")}

# Slurm's PMIx in the step of the daemons confuses MPICH 5, with and without us; and UCX takes the nodes of
# the lab, which have one kernel, for one node.
PLAIN = "export SLURM_MPI_TYPE=none FI_PROVIDER=tcp UCX_TLS=tcp,self;"

# family -> what is placed in jobs of 8 ranks: name -> (mode of the plan, variables, options)
PLACED = {
    "openmpi5": {
        "bare": ("ok", "", ""),
        "own numbers": ("ok", "", "-n 8 -x HOME --mca btl self,tcp,sm --report-bindings"),
    },
    "mpich5": {
        "bare": ("ok", "", ""),
        "own numbers": ("ok", "", "-n 8 -genv A b -wdir /tmp"),
        "blocks": ("blocks", "", ""),
    },
    "mpich4": {"blocks": ("blocks", "", "")},
    "intel": {"blocks": ("blocks", "", ""), "own numbers": ("blocks", "", "-np 8 -genv A b -prot")},
}

# family -> what is left alone: name -> (mode, variables, options, word with which the reason begins)
ALONE = {
    "openmpi5": {"mapping": ("ok", "", "--map-by node", "shape: mpirun option --map-by")},
    "mpich5": {"binding": ("ok", "HYDRA_BINDING=core", "", "user: HYDRA_BINDING")},
    "mpich4": {"mixed ranks": ("ok", "", "", "launcher: Hydra before 5")},
    "intel": {
        "mixed ranks": ("ok", "", "", "launcher: Intel MPI cannot mix"),
        "pinning": ("blocks", "I_MPI_PIN_DOMAIN=node", "", "user: I_MPI_PIN_DOMAIN"),
    },
}


@pytest.fixture(scope="module")
def marked(spank_site: Site) -> Iterator[Callable[..., tuple[Any, list[dict[str, Any]]]]]:
    """Run commands in one batch job that was marked at its submission: outcomes, and what mpirun recorded."""

    def run(commands: dict[str, str], *options: str) -> tuple[Any, list[dict[str, Any]]]:
        spank_site.reset()
        done = spank_site.in_job(commands, *options, launcher="sbatch", marked=True)
        return done, spank_site.records("mpirun")

    with spank_site.without_hook():
        yield run


@pytest.fixture(scope="module")
def where(spank_site: Site, mpi_family: Callable[[str], Family]) -> Callable[[Family], Path]:
    """The program that tells where it is, compiled for a family.

    Debian's MPICH 4.0.2 hangs now and then between nodes of the lab, also without us: its launcher starts
    a program of MPICH 5, which has the same ABI.
    """

    def build(family: Family) -> Path:
        if family.name == "mpich4":
            family = mpi_family("mpich5")
        target = spank_site.folder / f"where-{family.name}"
        made: Path = family.compile(Path(__file__).with_name("where.c"), target)
        return made

    return build


def started(family: Family, site: Site, program: Path, mode: str, variables: str, options: str) -> str:
    """A command line for a batch script, with the plan's mode set before it."""
    environment = {} if family.name == "mpich4" else family.environment
    setting = " ".join(f"{name}={value}" for name, value in environment.items())
    # A plan is kept as long as the job lives: another mode is another plan.
    plan = f"echo {mode} > {site.folder}/mode; rm -f {site.user}/plans/*;"
    command = f"{setting} {variables} timeout 40 {family.launcher[0]} {options} {program}"
    # Daemons of Open MPI 5 lose each other now and then on a busy machine, also without us.
    return f"{plan} {PLAIN} for i in 1 2 3; do {command} > out && break; done; e=$?; cat out; exit $e"


@pytest.mark.parametrize("name", PLACED)
def test_mpirun_of_the_family_puts_each_rank_where_the_plan_says(
    name: str, mpi_family: Callable[[str], Family], spank_site: Site, where: Any, marked: Any
) -> None:
    family = mpi_family(name)
    program = where(family)
    done, records = marked(
        {case: started(family, spank_site, program, *way) for case, way in PLACED[name].items()}, "-N4", "-n8"
    )
    for case, (mode, _, _) in PLACED[name].items():
        outcome = done[case]
        assert outcome.code == 0, outcome.err
        assert outcome.lines == []
        lines = [line for line in outcome.out.splitlines() if line.split()[5:] == ["-"]]
        # In force after MPI_Init, and nothing of ours is left in the environment.
        ranks = {int(line.split()[0]): tuple(line.split()[1:3]) for line in lines}
        assert ranks == MODES[mode]
        assert {tuple(line.split()[3:5]) for line in lines} == {("prefer:0", "28/8")}
    assert {(r["decision"], r["reason"]) for r in records} == {("place", "cost")}
    tasks = spank_site.records("task")
    wanted = [
        pair for way in PLACED[name].values() for pair in {"ok": CYCLIC, "blocks": BLOCKS}[way[0]].items()
    ]
    assert {(r["rank"], (r["node"], r["cpus"])) for r in tasks} == set(wanted)
    assert {r["decision"] for r in tasks} == {"place"}


@pytest.mark.parametrize("name", ALONE)
def test_uncertain_mpirun_of_the_family_runs_as_alone(
    name: str, mpi_family: Callable[[str], Family], spank_site: Site, where: Any, marked: Any
) -> None:
    family = mpi_family(name)
    program = where(family)
    commands = {}
    for case, (mode, variables, options, _) in ALONE[name].items():
        command = started(family, spank_site, program, mode, variables, options)
        commands[case] = command
        commands[f"{case}, off"] = f"export SLURM_TOPO=off; {command}"
    done, records = marked(commands, "-N4", "-n8")
    for case in ALONE[name]:
        with_us, alone = done[case], done[f"{case}, off"]
        assert with_us.code == alone.code == 0, with_us.err
        assert sorted(with_us.out.splitlines()) == sorted(alone.out.splitlines())
        assert with_us.lines == []
    reasons = [word for way in ALONE[name].values() for word in (way[3], "user: topo off")]
    assert {r["decision"] for r in records} == {"stand-down"}
    found = [key for key, _ in groupby(r["reason"] for r in records)]
    assert len(found) == len(reasons)
    assert all(text.startswith(word) for text, word in zip(found, reasons, strict=True)), found
    assert spank_site.records("task") == []


@pytest.mark.parametrize("name", ["openmpi4", "openmpi5", "mpich5"])
def test_plan_may_fill_nodes_otherwise_than_slurm(
    name: str, mpi_family: Callable[[str], Family], spank_site: Site, where: Any, marked: Any
) -> None:
    """Slurm counts two ranks on n1 and one on n2, the plan has it the other way round."""
    if name == "openmpi4":
        tell = "echo $OMPI_COMM_WORLD_RANK $(hostname) $(sed -n s/^Cpus_allowed_list:.//p /proc/self/status)"
        command = f"echo uneven > {spank_site.folder}/mode; mpirun sh -c '{tell}'"
    else:
        family = mpi_family(name)
        command = started(family, spank_site, where(family), "uneven", "", "")
    done, records = marked({"uneven": command}, "-N2", "-n3", "--exclusive")
    assert done["uneven"].code == 0, done["uneven"].err
    assert done["uneven"].ranks == UNEVEN
    assert {r["reason"] for r in records} == {"cost"}


# (family, --mpi=)
SRUN = [("openmpi5", "pmix"), ("mpich5", "pmi2"), ("intel", "pmi2"), ("intel", "pmix")]


@pytest.mark.parametrize(("name", "way"), SRUN)
def test_srun_places_the_family(
    name: str, way: str, mpi_family: Callable[[str], Family], site: Site, where: Any
) -> None:
    family = mpi_family(name)
    setting = " ".join(f"{name}={value}" for name, value in family.environment.items())
    outcome = site.in_job(
        {"a": f"{PLAIN} {setting} timeout 40 srun --mpi={way} {where(family)}"}, "-N4", "-n8"
    )["a"]
    assert outcome.code == 0, outcome.err
    assert outcome.ranks == CYCLIC
    assert {line.split()[4] for line in outcome.out.splitlines()} == {"28/8"}
    assert [r["reason"] for r in site.records("srun")] == ["cost"]
