"""srun's command line and environment: where the shape of the step is certain, and where not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

Drive = Callable[..., object]

JOB = {"SLURM_JOB_ID": "77", "SLURM_NTASKS": "4", "SLURM_JOB_NUM_NODES": "2"}


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("./app", "-m", "--cpu-bind=none"),
        ("-n4", "./app"),
        ("-n", "4", "-N2", "-c1", "./app"),
        ("--ntasks=4", "--nodes", "2", "./app"),
        ("--lab", "-n", "4", "-u", "./app"),
        ("-luK0", "-Jname", "--job-name", "-m", "./app"),
        ("-Q", "--mpi=pmix", "--export=ALL,A=1", "--kill-on-bad-exit", "./app"),
        ("--", "-m", "cyclic"),
        ("--cpu-bind=verbose", "./app"),
        ("--hint=nomultithread", "--threads-per-core=1", "--overlap", "./app"),
        ("--jobid=77", "--ntasks-per-node", "2", "./app"),
        ("--topo=advise", "./app"),
    ],
)
def test_shape_is_certain(drive: Drive, arguments: tuple[str, ...]) -> None:
    out = drive("shape", *arguments, env=JOB).stdout.splitlines()
    assert out[0] == "0 certain"
    assert out[1].startswith("ntasks 4 cpus 1 nodes 2 ")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--cpu-bind=cores", "./app"), "user: cpu-bind"),
        (("--cpu_bind", "none", "./app"), "user: cpu_bind"),
        (("--cpu-b=none", "./app"), "user: cpu-bind"),
        (("-m", "cyclic", "./app"), "user: distribution"),
        (("-mcyclic", "./app"), "user: distribution"),
        (("-lmcyclic", "./app"), "user: distribution"),
        (("--distribution=plane=2", "./app"), "user: distribution"),
        (("--mem-bind=local", "./app"), "user: mem-bind"),
        (("--gpu-bind=closest", "./app"), "user: gpu-bind"),
        (("-w", "n1", "./app"), "user: nodelist"),
        (("-x", "n1", "./app"), "user: exclude"),
        (("-r1", "./app"), "user: relative"),
        (("-F", "file", "./app"), "user: nodefile"),
        (("--hint=compute_bound", "./app"), "user: hint"),
        (("-n1", "./app"), "shape: fewer nodes than the job has"),
        (("-N1", "./app"), "shape: fewer nodes than the job has"),
        (("-N3", "./app"), "shape: more nodes than the job has"),
        (("-N1-2", "./app"), "shape: nodes"),
        (("-nfour", "./app"), "shape: ntasks"),
        (("--multi-prog", "file"), "shape: multi-prog"),
        (("-O", "./app"), "shape: overcommit"),
        (("--het-group=0", "./app"), "shape: het-group"),
        (("-n4", "./app", ":", "-n2", "./b"), "shape: heterogeneous step"),
        (("--container-image=x", "./app"), "shape: srun option --container-image=x is not known"),
        (("--n", "4", "./app"), "shape: srun option --n is not known"),
        (("-y", "./app"), "shape: srun option -y is not known"),
        (("-n",), "shape: srun option --ntasks has no value"),
        (("--label=1", "./app"), "shape: srun option --label takes no value"),
        (("--jobid=78", "./app"), "shape: jobid"),
        (("-N2", "-w", "n[1-2]", "--ntasks=2", "/usr/bin/orted", "-mca"), "launcher: /usr/bin/orted"),
    ],
)
def test_uncertain_command_line_stands_down(drive: Drive, arguments: tuple[str, ...], reason: str) -> None:
    assert drive("shape", *arguments, env=JOB).stdout.splitlines()[0] == f"-1 {reason}"


@pytest.mark.parametrize(
    ("arguments", "env", "shape"),
    [
        (("-n2",), {}, "ntasks 2 cpus 1 nodes 2 per_node 0 all 0 exact 0 overlap 0"),
        (("-n6", "-c2"), {}, "ntasks 6 cpus 2 nodes 2 per_node 0 all 0 exact 1 overlap 0"),
        (("--overlap", "-N1", "-n2"), {}, "ntasks 2 cpus 1 nodes 1 per_node 0 all 1 exact 0 overlap 1"),
        (("-n2",), {"SRUN_CPUS_PER_TASK": "2"}, "ntasks 2 cpus 2 nodes 2 per_node 0 all 0 exact 1 overlap 0"),
        ((), {"SLURM_NTASKS": ""}, "ntasks 2 cpus 1 nodes 2 per_node 0 all 0 exact 0 overlap 0"),
        (("--ntasks-per-node=3",), {"SLURM_NTASKS": ""}, "ntasks 6 cpus 1 nodes 2 per_node 3 all 1"),
    ],
)
def test_step_of_another_size_has_its_own_shape(
    drive: Drive, arguments: tuple[str, ...], env: dict[str, str], shape: str
) -> None:
    out = drive("shape", *arguments, "./app", env={**JOB, **env}).stdout.splitlines()
    assert out[0] == "0 certain"
    assert out[1].startswith(shape)


@pytest.mark.parametrize(
    ("arguments", "env"),
    [
        (("--threads-per-core=1",), {}),
        (("--hint=nomultithread",), {}),
        ((), {"SLURM_HINT": "nomultithread"}),
        ((), {"SLURM_THREADS_PER_CORE": "1"}),
    ],
)
def test_one_hardware_thread_of_a_core_is_asked_for(
    drive: Drive, arguments: tuple[str, ...], env: dict[str, str]
) -> None:
    out = drive("shape", *arguments, "./app", env={**JOB, **env}).stdout.splitlines()
    assert out[0] == "0 certain"
    assert " one_thread 1 " in out[1]
    assert " one_thread 0 " in drive("shape", "./app", env=JOB).stdout


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [
        ("SLURM_HOSTFILE", "/x", "user"),
        ("SLURM_DISTRIBUTION", "cyclic", "user"),
        ("SLURM_CPU_BIND", "cores", "user"),
        ("SLURM_MEM_BIND", "local", "user"),
        ("SLURM_GPU_BIND", "closest", "user"),
        ("SLURM_HINT", "multithread", "user"),
        ("SLURM_THREADS_PER_CORE", "2", "user"),
        ("SLURM_OVERCOMMIT", "1", "shape"),
        ("SLURM_HET_SIZE", "2", "shape"),
        ("SLURM_NTASKS_PER_SOCKET", "2", "shape"),
        ("SLURM_GPUS_PER_TASK", "1", "shape"),
        ("SLURM_GPUS", "8", "shape"),
        ("SLURM_TRES_PER_TASK", "cpu=1,gres/gpu=1", "shape"),
        ("SLURM_TRES_PER_TASK", "gres/gpu=1", "shape"),
    ],
)
def test_users_variable_stands_down(drive: Drive, name: str, value: str, kind: str) -> None:
    out = drive("shape", "./app", env={**JOB, name: value}).stdout.splitlines()[0]
    assert out == f"-1 {kind}: {name}"


def test_step_inside_a_step_stands_down(drive: Drive) -> None:
    out = drive(
        "shape", "./app", env={**JOB, "SLURM_STEP_ID": "0", "SLURM_CPU_BIND": "quiet,mask_cpu:0x1"}
    ).stdout
    assert out.startswith("-1 shape: inside another step\n")


@pytest.mark.parametrize(
    "env", [{"SLURM_STEP_ID": "4294967291"}, {"SLURM_STEPID": "4294967290"}, {"SLURM_TRES_PER_TASK": "cpu=1"}]
)
def test_variables_of_batch_scripts_are_no_obstacle(drive: Drive, env: dict[str, str]) -> None:
    assert drive("shape", "./app", env={**JOB, **env}).stdout.startswith("0 certain\n")


def test_job_without_a_number_of_nodes_stands_down(drive: Drive) -> None:
    out = drive("shape", "./app", env={"SLURM_JOB_ID": "77", "SLURM_NTASKS": "2"}).stdout
    assert out.startswith("-1 shape: the job names no number of nodes\n")


def test_job_that_goes_on_without_lost_nodes_is_left_alone(drive: Drive) -> None:
    out = drive("shape", "./app", env={**JOB, "SLURM_TOPO_JOB_NO_KILL": "1"}).stdout
    assert out.startswith("-1 shape: a job with --no-kill\n")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [(("--no-kill", "job.sh"), True), (("-N2", "-k", "job.sh"), True), (("-N2", "job.sh"), False)],
)
def test_sbatch_tells_srun_of_no_kill(drive: Drive, arguments: tuple[str, ...], told: bool) -> None:
    env = {"FAKE_CONTEXT": "allocator", "FAKE_ARGS": "", "SLURM_TOPO_JOB_NO_KILL": "" if told else "1"}
    out = drive("init", *arguments, env=env).stdout
    assert ("now SLURM_TOPO_JOB_NO_KILL=1\n" in out) == told


def test_one_task_is_no_step_to_place(drive: Drive) -> None:
    out = drive("shape", "-n1", "./app", env={**JOB, "SLURM_JOB_NUM_NODES": "1"}).stdout
    assert out.startswith("-1 shape: one task\n")


def test_last_topo_option_counts_and_is_read_beside_other_reasons(drive: Drive) -> None:
    out = drive(
        "shape", "--topo=off", "-mcyclic", "--topo", "advise", "-Q", "./app", env=JOB
    ).stdout.splitlines()
    assert out[0] == "-1 user: distribution"
    assert out[1].endswith("quiet 1 info 0 topo advise")


def test_long_command_line_is_read(drive: Drive) -> None:
    out = drive("shape", "-n4", "./app", *["argument" * 10] * 5000, env=JOB).stdout
    assert out.startswith("0 certain\n")


@pytest.mark.parametrize("seed", ["1", "2"])
def test_random_command_lines_break_nothing(drive: Drive, seed: str) -> None:
    words = drive("fuzz-shape", seed, "20000", env=JOB).stdout.split()
    assert 0 < int(words[1]) < 10000
