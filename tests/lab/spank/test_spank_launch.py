"""Ways to launch: which steps are placed, and that the others run as Slurm alone runs them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from slurm_topo.slurm.fingerprint import program_key, step_keys

Site = Any  # of conftest.py, which is no module that can be imported
Outcomes = dict[str, Any]

TELL = (
    'echo "$SLURM_PROCID $SLURMD_NODENAME $(sed -n "s/^Cpus_allowed_list:[[:space:]]*//p" /proc/self/status)'
    ' $(head -n 1 /proc/self/numa_maps | cut -d" " -f2) ${SLURM_HOSTFILE:--} ${SLURM_CPU_BIND:--}"'
)
NODES = ["n1", "n2", "n3", "n4"]
PLACED = {r: (NODES[r % 4], str(1 - r // 4)) for r in range(8)}
BLOCK = {r: (NODES[r // 2], str(r % 2)) for r in range(8)}
CYCLIC = {r: (NODES[r % 4], str(r // 4)) for r in range(8)}


def quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def step(options: str = "", before: str = "") -> str:
    return f"{before} srun --mpi=none {options} sh -c {quoted(TELL)}"


# name -> (command, ranks -> (node, CPUs), word with which the recorded reason begins)
WAYS: dict[str, tuple[str, dict[int, tuple[str, str]], str]] = {
    "bare srun": (step(), PLACED, "cost"),
    "srun again": (step(), PLACED, "cost"),
    "srun with the job's own numbers": (step("-n8 -N4 -c1 --kill-on-bad-exit=1 -u"), PLACED, "cost"),
    "tasks per node": (step("--ntasks-per-node=2"), PLACED, "cost"),
    "exact on the whole job": (step("--exact"), PLACED, "cost"),
    "overlap": (step("--overlap --mem=10"), PLACED, "cost"),
    "topo enforce": (step("--topo=enforce"), PLACED, "cost"),
    "topo advise": (step("--topo=advise"), BLOCK, "advise"),
    "topo observe": (step("--topo observe"), BLOCK, "arm"),
    "topo off": (step("--topo=off"), BLOCK, "user: topo off"),
    "topo off in the environment": (step(before="SLURM_TOPO=off"), BLOCK, "user: topo off"),
    "distribution": (step("-m cyclic"), CYCLIC, "user: distribution"),
    "plane distribution": (step("-m plane=2"), BLOCK, "user: distribution"),
    "distribution in the environment": (
        step(before="SLURM_DISTRIBUTION=cyclic"),
        CYCLIC,
        "user: SLURM_DISTRIBUTION",
    ),
    "cpu-bind": (step("--cpu-bind=none"), {r: (n, "0-1") for r, (n, _) in BLOCK.items()}, "user: cpu-bind"),
    "cpu-bind in the environment": (
        step(before="SLURM_CPU_BIND=none"),
        {r: (n, "0-1") for r, (n, _) in BLOCK.items()},
        "user: SLURM_CPU_BIND",
    ),
    "mem-bind": (step("--mem-bind=local"), BLOCK, "user: mem-bind"),
    "host file": (
        step(
            "-m arbitrary", "printf 'n4\\nn4\\nn3\\nn3\\nn2\\nn2\\nn1\\nn1\\n' > hosts; SLURM_HOSTFILE=hosts"
        ),
        {r: (NODES[3 - r // 2], str(r % 2)) for r in range(8)},
        "user: distribution",
    ),
    "host file alone": (
        step("", "printf 'n4\\nn4\\nn3\\nn3\\nn2\\nn2\\nn1\\nn1\\n' > hosts; SLURM_HOSTFILE=hosts"),
        {},
        "user: SLURM_HOSTFILE",
    ),
    "node list": (step("-w n[1-4]"), BLOCK, "user: nodelist"),
    "fewer tasks": (step("-n6"), {r: PLACED[r] for r in range(6)}, "cost"),
    "a task a node": (step("-n4"), {r: PLACED[r] for r in range(4)}, "cost"),
    "a number of tasks that never ran": (step("-n7"), {}, "graph unknown"),
    "fewer tasks than nodes": (step("-n3"), {}, "shape: fewer nodes than the job has"),
    "one task": (step("-n1"), {}, "shape: fewer nodes than the job has"),
    "fewer nodes": (step("-N2 -n4"), {}, "shape: fewer nodes than the job has"),
    "fewer nodes, overlapping": (
        step("-N2 -n4 --overlap"),
        {r: (NODES[r % 2], str(1 - r // 2)) for r in range(4)},
        "cost",
    ),
    "more CPUs a task": (step("-n4 -c2"), {r: (NODES[r], "1") for r in range(4)}, "cost"),
    "exact on a part": (step("--exact -n4"), {r: (NODES[r], "0") for r in range(4)}, "shape: exact"),
    "CPUs a task imply exact": (step("-n4 -c1"), {r: (NODES[r], "0") for r in range(4)}, "shape: exact"),
    "one thread a core": (step("--hint=nomultithread"), PLACED, "cost"),
    "excluded nodes": (step("-N3 -n3 -x n1"), {}, "user: exclude"),
    "relative to a node": (step("-r1 -N3 -n3"), {}, "user: relative"),
    "no kill": (step("-k"), BLOCK, "shape: no-kill"),
    "spread": (step("--spread-job"), BLOCK, "shape: spread-job"),
    "tasks per socket": (step("--ntasks-per-socket=2"), {}, "shape: ntasks-per-socket"),
    "overcommit": (step("-O"), {}, "shape: overcommit"),
    "MPMD": (
        f"printf '0-7 sh tell.sh\\n' > prog; echo {quoted(TELL)} > tell.sh; "
        "srun --mpi=none --multi-prog prog",
        BLOCK,
        "shape: multi-prog",
    ),
    "heterogeneous step": (
        f"srun --mpi=none -n4 -N2 sh -c {quoted(TELL)} : -n4 -N2 sh -c {quoted(TELL)}",
        {},
        "shape: ",
    ),
}


@pytest.fixture(scope="module")
def launched(spank_site: Site) -> tuple[Outcomes, list[dict[str, Any]]]:
    """Every way in one job, one after another, and the records of srun in their order."""
    spank_site.reset()
    # The program has run on these numbers of ranks before.
    spank_site.know(*(f"{program_key('65534', 7, ranks)} ranks={ranks}" for ranks in (1, 3, 4, 6)))
    outcomes = spank_site.in_job(
        {name: way[0] for name, way in WAYS.items()}, "-N4", "-n8", env={"SLURM_TOPO_JOB_PROGRAM": "7"}
    )
    return outcomes, spank_site.records("srun")


@pytest.mark.parametrize("name", WAYS)
def test_step_runs_where_it_should(launched: tuple[Outcomes, Any], name: str) -> None:
    _, expected, reason = WAYS[name]
    outcome = launched[0][name]
    if name == "heterogeneous step":
        # Not every Slurm takes it inside a plain job; what counts is that we keep out of it.
        assert outcome.lines == []
        return
    assert outcome.code == 0, outcome.err
    assert outcome.lines == []
    if expected:
        assert outcome.ranks == expected
    else:
        assert outcome.ranks
    applied = reason == "cost"
    assert outcome.policies == ({"prefer:0"} if applied else outcome.policies - {"prefer:0"})
    if applied:
        # Neither the host file nor a binding that is no longer true reaches what the ranks start.
        assert all(line.split()[4:] == ["-", "-"] for line in outcome.out.splitlines())


def test_every_decision_is_recorded_with_its_reason(launched: tuple[Outcomes, list[dict[str, Any]]]) -> None:
    records = launched[1]
    expected = [way[2] for name, way in WAYS.items() if name != "heterogeneous step"]
    assert len(records) >= len(expected)
    for record, reason in zip(records, expected, strict=False):
        assert record["reason"].startswith(reason)
        decisions = {"cost": "place", "advise": "none", "arm": "none", "graph unknown": "trace"}
        assert record["decision"] == decisions.get(reason, "stand-down")


def test_search_runs_once_for_all_steps_of_a_shape(launched: Any, spank_site: Site) -> None:
    placed = [
        record for record in launched[1] if record["decision"] == "place" or record["reason"] == "advise"
    ]
    assert len(spank_site.calls) == len({record["plan"] for record in placed}) < len(placed)


def test_tasks_record_what_is_in_force(site: Site) -> None:
    site.in_job({"a": step()}, "-N4", "-n8")
    records = site.records("task")
    assert {r["rank"]: (r["node"], r["cpus"]) for r in records} == PLACED
    assert {(r["decision"], r["step"], r["mem"]) for r in records} == {("place", "0", "0")}


def test_batch_script_is_placed_like_an_interactive_one(site: Site) -> None:
    outcome = site.in_job({"a": step()}, "-N4", "-n8", launcher="sbatch")["a"]
    assert outcome.ranks == PLACED


def test_steps_side_by_side_keep_to_their_own_cpus(site: Site) -> None:
    """Two exact steps in one job: the plan would put both on the same CPUs, so Slurm's choice stands."""
    half = step("--exact -n2 -N2 -c1")
    command = f"{half} > one & {half} > two & wait; cat one; echo; cat two"
    outcome = site.in_job({"a": command}, "-N2", "-n2", "--exclusive")["a"]
    first, second = outcome.out.split("\n\n")
    assert outcome.lines == []
    taken = [(row.split()[1], row.split()[2]) for row in (first + "\n" + second).splitlines()]
    assert len(set(taken)) == 4
    assert {r["reason"] for r in site.records("srun")} == {"shape: exact"}


def own_keys(command: str, executable: str, ranks: int) -> list[str]:
    """What sync has learnt of this command of the user."""
    keys = step_keys("65534", command.encode(), executable.encode(), ranks)
    return [f"{key} ranks={ranks}" for key in keys]


def test_steps_in_salloc_are_traced_and_later_placed(site: Site) -> None:
    """The hook cannot write to the environment of salloc: srun asks slurmctld what it decided."""
    unmark = "unset ${!SLURM_TOPO_JOB_*};"
    first = site.in_job({"a": step("-v", unmark)}, "-N4", "-n8", "-J", "shell")["a"]
    assert first.ranks == BLOCK
    (record,) = site.records("srun")
    # Before the first sync the site observes.
    assert (record["arm"], record["decision"], record["traced"]) == ("observe", "trace", 1)
    site.know(*own_keys(f"sh -c {TELL}", f"sh -c {TELL}", 8))
    with arm_of_the_site(site, "enforce"):
        outcomes = site.in_job({"a": step("", unmark), "b": step("--topo=off", unmark)}, "-N4", "-n8")
    assert outcomes["a"].ranks == PLACED
    assert outcomes["b"].ranks == BLOCK
    assert [r["reason"] for r in site.records("srun")[1:]] == ["cost", "user: topo off"]
    assert not outcomes["a"].lines


def test_srun_on_the_command_line_is_traced_and_later_placed_inside_its_nodes(site: Site) -> None:
    command = ["srun", "-N4", "-n8", "--mpi=none", "sh", "-c", TELL]

    def ranks() -> dict[int, tuple[str, str]]:
        run = site.lab.run(command, user="nobody", cwd="/tmp")
        assert run.returncode == 0, run.stderr
        assert "slurm-topo" not in run.stderr
        rows = [line.split() for line in run.stdout.splitlines()]
        return {int(row[0]): (row[1], row[2]) for row in rows}

    assert ranks() == BLOCK
    assert [(r["decision"], r["traced"]) for r in site.records("srun")] == [("trace", 1)]
    site.know(*own_keys(f"sh -c {TELL}", f"sh -c {TELL}", 8))
    with arm_of_the_site(site, "enforce"):
        # Slurm's nodes, the other CPU of each.
        assert ranks() == {r: (node, str(1 - int(cpu))) for r, (node, cpu) in BLOCK.items()}
        other = site.lab.run([*command[:4], "-m", "plane=2", *command[4:]], user="nobody", cwd="/tmp")
    assert other.returncode == 0
    assert [r["reason"] for r in site.records("srun")[1:]] == ["cost", "user: distribution"]


def test_interactive_shell_is_left_alone_with_its_reason(site: Site) -> None:
    run = site.lab.run(
        ["srun", "-n1", "--pty", "sh", "-c", "srun --overlap -n1 --mpi=none true; env"],
        user="nobody",
        cwd="/tmp",
    )
    assert run.returncode == 0, run.stderr
    assert "LD_PRELOAD" not in run.stdout
    # One task: the hook leaves the whole job alone.
    assert site.records("srun") == []
    run = site.lab.run(["srun", "-n2", "--pty", "sh", "-c", "true"], user="nobody", cwd="/tmp")
    assert run.returncode == 0, run.stderr
    assert [r["decision"] for r in site.records("srun")] == ["trace"]


def test_step_with_a_binding_of_its_own_is_traced_in_its_first_run(site: Site) -> None:
    """What it teaches serves later runs; --topo=off keeps the tracer away as well."""
    marks = {"SLURM_TOPO_JOB_TRACE": "1"}
    command = "srun --mpi=none --cpu-bind=none -n2 env"
    outcomes = site.in_job({"a": command, "b": f"SLURM_TOPO=off {command}"}, "-N1", "-n2", env=marks)
    assert "libslurm_topo_trace.so" in outcomes["a"].out
    assert "libslurm_topo_trace.so" not in outcomes["b"].out
    first, second = site.records("srun")
    assert (first["decision"], first["reason"], first["traced"]) == ("stand-down", "user: cpu-bind", 1)
    assert (second["reason"], "traced" in second) == ("user: topo off", False)


def test_steps_with_their_own_cpus_by_a_number_of_cpus_are_kept_apart(site: Site) -> None:
    """-c implies --exact: two such steps side by side must not get one plan."""
    half = step("-n2 -N2 -c1") + "; sleep 0.2"
    command = f"( {half} ) > one & ( {half} ) > two & wait; cat one; echo; cat two"
    outcome = site.in_job({"a": command}, "-N2", "-n2", "--exclusive")["a"]
    rows = [row.split() for row in outcome.out.splitlines() if row.strip()]
    assert {r["reason"] for r in site.records("srun")} == {"shape: exact"}
    assert len({(row[1], row[2]) for row in rows}) == 4


@contextmanager
def arm_of_the_site(site: Site, arm: str) -> Iterator[None]:
    """What the hook reads where a program has no advice of its own."""
    path = site.lab.layout.advice / "site"
    before = path.read_text() if path.exists() else None
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"slurm-topo-advice 1\narm {arm}\nholdout 0\ntrace 1\nend\n")
    try:
        yield
    finally:
        path.unlink()
        if before is not None:
            path.write_text(before)


def test_nested_srun_inherits_nothing(site: Site) -> None:
    inner = 'test "$SLURM_PROCID" != 0 || srun --mpi=none --overlap -n1 -N1 env'
    outcome = site.in_job({"a": f"srun --mpi=none sh -c {quoted(inner)}"}, "-N2", "-n4")["a"]
    assert outcome.code == 0, outcome.err
    assert outcome.lines == []
    assert "SLURM_PROCID=0" in outcome.out
    assert "SLURM_HOSTFILE=" not in outcome.out
    assert "SLURM_TOPO_JOB_PLAN=" not in outcome.out
    assert [r["reason"] for r in site.records("srun")] == ["cost", "shape: inside another step"]


def test_export_none_is_placed(site: Site) -> None:
    outcome = site.in_job({"a": step("--export=NONE").replace(" sh -c ", " /bin/sh -c ")}, "-N4", "-n8")["a"]
    assert outcome.code == 0, outcome.err
    assert {r["rank"]: (r["node"], r["cpus"]) for r in site.records("task")} == PLACED


def test_array_tasks_have_plans_of_their_own(site: Site) -> None:
    script = f"#!/bin/sh\nexport SLURM_TOPO_JOB_ARM=enforce SLURM_TOPO_JOB_GRAPH=9f86d081884c7d65\n{step()}\n"
    path = site.folder / "array.sh"
    path.write_text(script)
    path.chmod(0o755)
    command = ["sbatch", "--wait", "-a0-1", "-N2", "-n4", "-o", f"{site.folder}/array.%a", str(path)]
    result = site.lab.run(command, user="nobody", cwd="/tmp")
    assert result.returncode == 0, result.stderr
    plans = list((site.user / "plans").glob("*.plan"))
    assert len({re.match(r"(\d+)-", plan.name)[1] for plan in plans}) == 2  # type: ignore[index]


def test_job_on_fewer_ranks_than_cpus_is_placed(site: Site) -> None:
    outcome = site.in_job({"a": step()}, "-N4", "-n4", "--exclusive")["a"]
    assert outcome.ranks == {r: (NODES[r], "1") for r in range(4)}


def test_job_with_tasks_per_node_is_placed_without_a_warning(site: Site) -> None:
    outcome = site.in_job({"a": step()}, "-N4", "--ntasks-per-node=2")["a"]
    assert outcome.ranks == PLACED
    assert "Warning" not in outcome.err


def test_heterogeneous_job_is_left_alone(site: Site) -> None:
    outcome = site.in_job({"a": step()}, "-N1", "-n2", ":", "-N1", "-n2")["a"]
    assert outcome.code == 0, outcome.err
    assert outcome.lines == []
    assert {r["reason"] for r in site.records("srun")} == {"shape: SLURM_HET_SIZE"}


@pytest.mark.parametrize("options", ["", "-c2"])
def test_several_cpus_a_rank_are_bound_together(site: Site, options: str) -> None:
    """With and without -c of the step: srun 22.05 does not take the job's by itself."""
    site.mode("pairs")
    outcome = site.in_job({"a": step(options)}, "-N4", "-n4", "-c2")["a"]
    assert outcome.code == 0, outcome.err
    assert outcome.lines == []
    assert outcome.ranks == {r: (NODES[3 - r], "0-1") for r in range(4)}


def test_openmp_follows_the_placement(site: Site) -> None:
    site.mode("pairs")
    outcome = site.in_job({"a": "srun --mpi=none env | grep OMP_"}, "-N4", "-n4", "-c2")["a"]
    assert set(outcome.out.split()) == {"OMP_NUM_THREADS=2", "OMP_PLACES=cores", "GOMP_CPU_AFFINITY=0-1"}


def test_job_without_marks_is_left_alone(site: Site) -> None:
    commands = {"a": step(before="unset ${!SLURM_TOPO_JOB_*};")}
    outcome = site.in_job(commands, "-N4", "-n8", launcher="sbatch")["a"]
    assert outcome.ranks == BLOCK
    assert site.records("srun") == []


def test_kill_switch_stops_everything(site: Site) -> None:
    (site.folder / "disabled").touch()
    try:
        outcome = site.in_job({"a": step()}, "-N4", "-n8")["a"]
    finally:
        (site.folder / "disabled").unlink()
    assert outcome.ranks == BLOCK
    assert site.records("srun") == []


@pytest.mark.parametrize("command", ["sbatch", "salloc", "srun"])
def test_option_is_in_the_help(site: Site, command: str) -> None:
    shown = site.lab.run([command, "--help"]).stdout
    assert "--topo=off|observe|advise|enforce" in shown


@pytest.mark.parametrize("command", [["sbatch", "--wrap", "true"], ["salloc", "true"], ["srun", "true"]])
def test_wrong_value_is_rejected_on_the_command_line(site: Site, command: list[str]) -> None:
    result = site.lab.run([command[0], "--topo=sideways", *command[1:]], user="nobody", cwd="/tmp")
    assert result.returncode != 0
    assert "--topo=sideways is unknown; it is one of off, observe, advise, enforce" in result.stderr


@pytest.mark.parametrize("export", [[], ["--export=NONE"], ["--export=HOME"]])
def test_option_of_sbatch_reaches_the_job(site: Site, export: list[str]) -> None:
    output = site.folder / "option.out"
    output.unlink(missing_ok=True)
    command = ["sbatch", "--wait", "--topo=observe", "-n1", *export, "-o", str(output), "--wrap", "env"]
    result = site.lab.run(command, user="nobody", cwd="/tmp")
    assert result.returncode == 0, result.stderr
    assert "SLURM_TOPO=observe" in output.read_text().splitlines()


def test_option_in_the_script_is_read(site: Site) -> None:
    script, output = site.folder / "option.sh", site.folder / "option.out"
    script.write_text(f"#!/bin/sh\n#SBATCH --topo=off\n#SBATCH -n1 -o {output}\nenv\n")
    script.chmod(0o755)
    result = site.lab.run(["sbatch", "--wait", str(script)], user="nobody", cwd="/tmp")
    assert result.returncode == 0, result.stderr
    assert "SLURM_TOPO=off" in output.read_text().splitlines()


MPI_TELL = TELL.replace("$SLURM_PROCID $SLURMD_NODENAME", "$OMPI_COMM_WORLD_RANK $(hostname)")

# name -> (mpirun's options, whether it is placed, word with which the recorded reason begins)
MPIRUN: dict[str, tuple[str, bool, str]] = {
    "bare": ("", True, "cost"),
    "the job's number of ranks": ("-n 8 --report-bindings -x HOME -mca btl self,tcp", True, "cost"),
    "another number of ranks": ("-n 4", False, "shape: ntasks differs"),
    "mapping": ("--map-by node", False, "shape: mpirun option --map-by"),
    "binding": ("--bind-to none", False, "shape: mpirun option --bind-to"),
    "mapping by parameter": ("-mca rmaps_base_mapping_policy node", False, "user: rmaps_base_mapping_policy"),
    "several programs": ("-n 4 true : -n 4", False, "shape: "),
}


@pytest.fixture(scope="module")
def mpirun(spank_site: Site) -> tuple[Outcomes, list[dict[str, Any]]]:
    """All of them in one batch job that was marked at submission."""
    spank_site.reset()
    with spank_site.without_hook():
        outcomes = spank_site.in_job(
            {name: f"mpirun {way[0]} sh -c {quoted(MPI_TELL)}" for name, way in MPIRUN.items()},
            "-N4",
            "-n8",
            launcher="sbatch",
            marked=True,
        )
    return outcomes, spank_site.records("mpirun")


@pytest.mark.parametrize("name", MPIRUN)
def test_mpirun_is_placed_where_its_shape_is_certain(mpirun: tuple[Outcomes, Any], name: str) -> None:
    outcome = mpirun[0][name]
    assert outcome.code == 0, outcome.err
    assert outcome.lines == []
    assert (outcome.ranks == PLACED) == MPIRUN[name][1]


def test_decision_on_mpirun_is_recorded(mpirun: tuple[Any, list[dict[str, Any]]]) -> None:
    assert len(mpirun[1]) == len(MPIRUN)
    for record, (_, applied, reason) in zip(mpirun[1], MPIRUN.values(), strict=True):
        assert record["reason"].startswith(reason)
        assert record["decision"] == ("place" if applied else "stand-down")
