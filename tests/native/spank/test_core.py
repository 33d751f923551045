"""The plugin's core without Slurm: arguments, command line, plan, allocation, spool, records, child."""

from __future__ import annotations

import json
import os
import resource
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

Drive = Callable[..., object]

PLAN = """slurm-topo-plan 1
job 77
ranks 4
cpus_per_task 1
decision place
reason cost
graph 9f86d081884c7d65
machine 5d41402abc4b2a76
solver multisection+swap
cost 0.0123
baseline block:block 0.0456
baseline cyclic 0.0311
nodes 2
node 0 n1
node 1 n2
rank 0 1 cpus=0-1 mem=0 gpus=-
rank 1 0 cpus=4 mem=- gpus=0,1
rank 2 1 cpus=2 mem=0-1 gpus=-
rank 3 0 cpus=5,7 mem=- gpus=-
end 4
"""
STAND_DOWN = """slurm-topo-plan 1
job 77
ranks 4
cpus_per_task 1
decision stand-down
reason margin
graph 9f86d081884c7d65
machine -
solver -
cost nan
nodes 0
end 0
"""
JOB = {"SLURM_JOB_ID": "77", "SLURM_NTASKS": "4", "SLURM_JOB_NUM_NODES": "2"}


def write(folder: Path, text: str | bytes) -> str:
    path = folder / "file.plan"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return str(path)


def test_plan_is_read(drive: Drive, tmp_path: Path) -> None:
    out = drive("plan", write(tmp_path, PLAN)).stdout.splitlines()
    assert out[0] == "job 77 ranks 4 cpus 1 place 1 reason cost cost 0.0123 baseline 0.0456 nodes 2"
    assert out[1:] == ["rank 0 n2 cpus=0-1", "rank 1 n1 cpus=4", "rank 2 n2 cpus=2", "rank 3 n1 cpus=5,7"]


def test_plan_of_the_python_writer_is_read(drive: Drive, tmp_path: Path) -> None:
    plan = pytest.importorskip("slurm_topo.slurm.plan")
    places = tuple(plan.RankPlace(node=r % 2, cpus=(r,), mem=(0,)) for r in range(4))
    common = {"job": "77", "ranks": 4, "cpus_per_task": 1, "graph": "ab12", "nodes": ("n1", "n2")}
    plan.write_plan(
        plan.Plan(
            **common, decision="place", reason="cost", cost=1e-7, baselines={"cyclic": 2e-7}, places=places
        ),
        tmp_path / "a",
    )
    plan.write_plan(
        plan.Plan(**{**common, "nodes": ()}, decision="stand-down", reason="margin"), tmp_path / "b"
    )
    assert (
        "place 1 reason cost cost 1e-07 baseline 2e-07 nodes 2" in drive("plan", str(tmp_path / "a")).stdout
    )
    assert "place 0 reason margin cost -1 baseline -1 nodes 0" in drive("plan", str(tmp_path / "b")).stdout


@pytest.mark.parametrize("text", [PLAN, STAND_DOWN], ids=["place", "stand-down"])
def test_every_truncated_plan_is_refused(drive: Drive, tmp_path: Path, text: str) -> None:
    assert drive("prefixes", write(tmp_path, text)).stdout == f"prefixes {len(text)} accepted 0 whole 0\n"


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_mutated_plans_break_nothing(drive: Drive, tmp_path: Path, seed: int) -> None:
    out = drive("mutations", write(tmp_path, PLAN), str(seed), "20000").stdout.split()
    # Some mutations are harmless (another CPU number); most are not.
    assert 0 < int(out[3]) < 10000


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("slurm-topo-plan 1", "slurm-topo-plan 2"),
        ("job 77\n", ""),
        ("job 77\n", "job 77\njob 78\n"),
        ("ranks 4", "ranks 5"),
        ("ranks 4", "ranks 4000000000"),
        ("ranks 4", "ranks -4"),
        ("nodes 2", "nodes 4000000000"),
        ("nodes 2", "nodes 1"),
        ("rank 2 1", "rank 1 1"),
        ("rank 2 1", "rank 2 2"),
        ("cpus=2 ", "cpus=4096 "),
        ("cpus=2 ", "cpus=3-2 "),
        ("cpus=2 ", "cpus=2, "),
        ("cpus=2 ", "cpus= "),
        ("gpus=-\nend", "gpus=- more=1\nend"),
        ("end 4", "end 3"),
        ("end 4\n", "end 4\nend 4\n"),
        ("decision place", "decision maybe"),
        ("reason cost", "reason two words"),
        ("node 1 n2", "node 1 "),
        ("job 77", "colour red"),
        ("cost 0.0123", "cost 0x1p3"),
        ("rank 0 1", "rank\x000 1"),
    ],
)
def test_wrong_plan_is_refused(drive: Drive, tmp_path: Path, old: str, new: str) -> None:
    assert old in PLAN
    assert drive("plan", write(tmp_path, PLAN.replace(old, new, 1))).stdout.startswith("error plan: ")


def test_oversized_plan_is_refused(drive: Drive, tmp_path: Path) -> None:
    text = PLAN + "#" * (16 << 20)
    assert drive("plan", write(tmp_path, text)).stdout == "error plan: larger than 16 MiB\n"


def test_arguments_have_defaults(drive: Drive) -> None:
    assert drive("args").stdout == (
        "spool /var/spool/slurm-topo local_dir /dev/shm tracer - place - config - "
        "kill /etc/slurm-topo/disabled deadline 1000 memory 0 gpus 0 openmp 1\n"
    )


def test_arguments_are_read(drive: Drive) -> None:
    out = drive(
        "args", "spool=/s", "local_dir=/l", "tracer=/t.so", "place=/p", "config=/c", "kill_switch=/k",
        "deadline_ms=250", "memory=bind", "gpus=isolate", "openmp=none",
    ).stdout  # fmt: skip
    assert out == (
        "spool /s local_dir /l tracer /t.so place /p config /c "
        "kill /k deadline 250 memory 1 gpus 1 openmp 0\n"
    )


@pytest.mark.parametrize(
    "word",
    [
        "spol=/s",
        "spool",
        "spool=relative",
        "deadline_ms=fast",
        "deadline_ms=99999999",
        "tracer=/a:b",
        "memory=x",
        "gpus=x",
        "openmp=x",
        "mpirun=x",
    ],
)
def test_wrong_argument_is_named(drive: Drive, word: str) -> None:
    assert drive("args", word).stdout.startswith(f"error plugstack.conf: argument {word} ")


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
        (("-n2", "./app"), "shape: ntasks differs from the job's"),
        (("-N1", "./app"), "shape: nodes differs from the job's"),
        (("-N1-2", "./app"), "shape: nodes"),
        (("-c2", "./app"), "shape: cpus-per-task differs from the job's"),
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


def test_job_without_a_number_of_tasks_stands_down(drive: Drive) -> None:
    out = drive("shape", "./app", env={"SLURM_JOB_ID": "77", "SLURM_JOB_NUM_NODES": "2"}).stdout
    assert out.startswith("-1 shape: the job names no number of tasks or nodes\n")


def test_last_topo_option_counts_and_is_read_beside_other_reasons(drive: Drive) -> None:
    out = drive(
        "shape", "--topo=off", "-mcyclic", "--topo", "advise", "-Q", "./app", env=JOB
    ).stdout.splitlines()
    assert out[0] == "-1 user: distribution"
    assert out[1].endswith("quiet 1 info 0 topo advise")


def test_long_command_line_is_read(drive: Drive) -> None:
    out = drive("shape", "-n4", "./app", *["argument" * 10] * 5000, env=JOB).stdout
    assert out.startswith("0 certain\n")


@pytest.mark.parametrize(
    ("nodes", "counts", "names"),
    [
        ("n1", "4", ["n1 4"]),
        ("n[1-3]", "4(x2),2", ["n1 4", "n2 4", "n3 2"]),
        ("n[08-10,12]", "1(x4)", ["n08 1", "n09 1", "n10 1", "n12 1"]),
        ("r[1-2]n[1-2],login", "1(x5)", ["r1n1 1", "r1n2 1", "r2n1 1", "r2n2 1", "login 1"]),
        ("c[1-2]-x", "8(x2)", ["c1-x 8", "c2-x 8"]),
    ],
)
def test_allocation_is_read(drive: Drive, nodes: str, counts: str, names: list[str]) -> None:
    out = drive("allocation", env={"SLURM_JOB_NODELIST": nodes, "SLURM_JOB_CPUS_PER_NODE": counts}).stdout
    assert out.splitlines() == names


@pytest.mark.parametrize(
    ("nodes", "counts"),
    [
        ("n[1-3", "1(x3)"),
        ("n[3-1]", "1"),
        ("n[1-99999999]", "1"),
        ("n[1-3]", "1(x2)"),
        ("n[1-3]", "1(x4)"),
        ("n1", "(x1)"),
        ("n1", "1(x1"),
        ("n[a-b]", "1"),
        ("", "1"),
        ("n" * 300, "1"),
        ("[1-60000][1-60000]", "1"),
    ],
)
def test_allocation_that_is_not_understood_is_refused(drive: Drive, nodes: str, counts: str) -> None:
    out = drive("allocation", env={"SLURM_JOB_NODELIST": nodes, "SLURM_JOB_CPUS_PER_NODE": counts}).stdout
    assert out.startswith("error shape: SLURM_JOB_")


def test_plan_that_fits_gives_its_host_file(drive: Drive, tmp_path: Path) -> None:
    env = {"SLURM_JOB_NODELIST": "n[1-2]", "SLURM_JOB_CPUS_PER_NODE": "8(x2)"}
    assert drive("fits", write(tmp_path, PLAN), "0", "1", env=env).stdout == "fits\nn2\nn1\nn2\nn1\n"


@pytest.mark.parametrize(
    ("nodes", "counts", "per_node", "every", "change", "reason"),
    [
        ("n[3-4]", "8(x2)", "0", "0", None, "plan: node n1 is not of this job"),
        ("n[1-3]", "8(x3)", "0", "1", None, "plan: has 2 nodes, the job 3"),
        ("n1", "8", "0", "0", None, "plan: has 2 nodes, the job 1"),
        ("n[1-2]", "8,1", "0", "0", None, "plan: node n2 gets 2 ranks, more than its CPUs"),
        ("n[1-2]", "8(x2)", "1", "0", None, "plan: node n1 gets 2 ranks, more than --ntasks-per-node"),
        ("n[1-2]", "8(x2)", "0", "0", ("cpus=2 ", "cpus=1-2 "), "plan: two ranks share a CPU"),
        ("n[1-2]", "8(x2)", "0", "0", ("node 1 n2", "node 1 n1"), "plan: node n1 is named twice"),
    ],
)
def test_plan_that_does_not_fit_is_refused(
    drive: Drive,
    tmp_path: Path,
    nodes: str,
    counts: str,
    per_node: str,
    every: str,
    change: tuple[str, str] | None,
    reason: str,
) -> None:
    env = {"SLURM_JOB_NODELIST": nodes, "SLURM_JOB_CPUS_PER_NODE": counts}
    text = PLAN.replace(*change) if change else PLAN
    assert drive("fits", write(tmp_path, text), per_node, every, env=env).stdout == reason + "\n"


def script(folder: Path, text: str) -> str:
    path = folder / "place"
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)
    return str(path)


def test_child_that_succeeds(drive: Drive, tmp_path: Path) -> None:
    out = drive("child", "5000", script(tmp_path, f'echo "$1" > {tmp_path}/seen'), "argument").stdout
    assert out == "0 \n"
    assert (tmp_path / "seen").read_text() == "argument\n"


def test_child_sees_a_clean_environment(drive: Drive, tmp_path: Path) -> None:
    env = {
        "LD_PRELOAD": "",
        "PYTHONPATH": "/x",
        "LD_LIBRARY_PATH": "",
        "SLURM_JOB_ID": "7",
        "EXTRA": "SLURM_NTASKS=9",
        "SLURM_NTASKS": "4",
    }
    drive("child", "5000", script(tmp_path, f"env > {tmp_path}/seen"), env=env)
    seen = (tmp_path / "seen").read_text().splitlines()
    assert {"SLURM_JOB_ID=7", "SLURM_NTASKS=9", "OMP_NUM_THREADS=1"} <= set(seen)
    assert not [line for line in seen if line.startswith(("LD_", "PYTHON", "SLURM_NTASKS=4"))]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "echo first >&2; echo 'the last line' >&2; exit 7",
            "1 place: ended with exit code 7: the last line\n",
        ),
        ("exit 3", "1 place: ended with exit code 3\n"),
        ("kill -SEGV $$", "1 place: was killed by signal 11\n"),
        ("printf 'a\\033[31mb\\n' >&2; exit 1", "1 place: ended with exit code 1: a?[31mb\n"),
    ],
)
def test_child_that_fails_tells_why(drive: Drive, tmp_path: Path, text: str, reason: str) -> None:
    assert drive("child", "5000", script(tmp_path, text)).stdout == reason


def test_child_that_floods_standard_error_is_read_to_its_end(drive: Drive, tmp_path: Path) -> None:
    text = "i=0; while [ $i -lt 20000 ]; do echo line $i >&2; i=$((i+1)); done; exit 2"
    assert (
        drive("child", "60000", script(tmp_path, text)).stdout
        == "1 place: ended with exit code 2: line 19999\n"
    )


def test_child_that_is_missing(drive: Drive, tmp_path: Path) -> None:
    out = drive("child", "1000", str(tmp_path / "nothing")).stdout
    assert out == f"1 place: {tmp_path}/nothing: No such file or directory\n"


def test_child_that_hangs_is_killed_with_its_group(drive: Drive, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    out = drive(
        "child", "300", script(tmp_path, f"sleep 1000 & echo $! > {pids}; echo $$ >> {pids}; wait")
    ).stdout
    assert out == "2 place: took more than 300 ms\n"
    for _ in range(100):
        if not any(Path(f"/proc/{pid}/cmdline").exists() and Path(f"/proc/{pid}/cmdline").read_bytes()
                   for pid in pids.read_text().split()):  # fmt: skip
            break
        time.sleep(0.05)
    else:
        pytest.fail("a process of the killed group is still there")


def test_child_ends_where_sigchld_is_ignored(drive: Drive, tmp_path: Path) -> None:
    ignore = lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # noqa: E731
    out = drive("child", "5000", script(tmp_path, "exit 0"), preexec_fn=ignore).stdout
    assert out == "0 \n"


def test_spool_folder_is_made_for_the_user_alone(drive: Drive, tmp_path: Path) -> None:
    assert drive("spool", str(tmp_path), "plans", "1", "write", "f", "data").stdout == "0 \n"
    folder = tmp_path / str(os.geteuid())
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / "plans" / "f").stat().st_mode & 0o777 == 0o600
    assert [p.name for p in (folder / "plans").iterdir()] == ["f"]
    assert drive("spool", str(tmp_path), "plans", "0", "read", "f").stdout == "data \n"


def user_folder(tmp_path: Path, name: str = "plans") -> Path:
    folder = tmp_path / str(os.geteuid()) / name
    folder.mkdir(parents=True, mode=0o700)
    folder.parent.chmod(0o700)
    folder.chmod(0o700)
    return folder


def test_planted_links_are_not_followed(drive: Drive, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    (target / "secret").write_text("secret")
    folder = user_folder(tmp_path)
    (folder / "f").symlink_to(target / "secret")
    for verb in (["read", "f"], ["append", "f", "x"]):
        assert "cannot be opened" in drive("spool", str(tmp_path), "plans", "0", *verb).stdout
    drive("spool", str(tmp_path), "plans", "0", "write", "f", "mine")
    assert (target / "secret").read_text() == "secret"
    assert (folder / "f").read_text() == "mine"
    assert not (folder / "f").is_symlink()
    (tmp_path / str(os.geteuid()) / "records").symlink_to(target)
    out = drive("spool", str(tmp_path), "records", "1", "append", "secret", "x").stdout
    assert out.startswith("error spool ")
    assert (target / "secret").read_text() == "secret"


def test_planted_user_folder_is_not_followed(drive: Drive, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    (tmp_path / str(os.geteuid())).symlink_to(target)
    assert drive("spool", str(tmp_path), "plans", "1", "write", "f", "x").stdout.startswith("error spool ")
    assert list(target.iterdir()) == []


@pytest.mark.parametrize("kind", ["fifo", "folder", "large", "writable"])
def test_what_is_no_file_of_the_user_is_not_read(drive: Drive, tmp_path: Path, kind: str) -> None:
    folder = user_folder(tmp_path)
    path = folder / "f"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.write_text("x" * (1001 if kind == "large" else 10))
        path.chmod(0o666 if kind == "writable" else 0o600)
    assert drive("spool", str(tmp_path), "plans", "0", "read", "f").stdout.startswith("error f: ")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give files away")
@pytest.mark.parametrize("what", ["user", "folder", "file"])
def test_what_belongs_to_somebody_else_is_not_used(drive: Drive, tmp_path: Path, what: str) -> None:
    folder = user_folder(tmp_path)
    (folder / "f").write_text("x")
    os.chown({"user": folder.parent, "folder": folder, "file": folder / "f"}[what], 65534, 65534)
    assert "belongs to another user" in drive("spool", str(tmp_path), "plans", "1", "read", "f").stdout


def test_folder_that_others_may_write_is_not_used(drive: Drive, tmp_path: Path) -> None:
    user_folder(tmp_path).chmod(0o770)
    assert "others may write" in drive("spool", str(tmp_path), "plans", "1", "read", "f").stdout


def test_missing_spool_is_named(drive: Drive, tmp_path: Path) -> None:
    out = drive("spool", str(tmp_path / "none"), "plans", "1", "read", "f").stdout
    assert out == f"error spool {tmp_path}/none: cannot be opened (No such file or directory)\n"


@pytest.mark.parametrize("verb", ["write", "append"])
def test_file_size_limit_is_an_error_and_no_signal(drive: Drive, tmp_path: Path, verb: str) -> None:
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))  # noqa: E731
    out = drive("spool", str(tmp_path), "plans", "1", verb, "f", "x" * 100, preexec_fn=limit).stdout
    assert out == "-1 f: cannot be written (File too large)\n"
    left = [p.name for p in (tmp_path / str(os.geteuid()) / "plans").iterdir()]
    assert left == ([] if verb == "write" else ["f"])


def test_record_is_json_of_at_most_a_thousand_bytes(drive: Drive) -> None:
    odd = 'quote " back \\ tab \t line \n umlaut ü'
    out = drive(
        "record", "reason", odd, "long", "x" * 5000, "b", "ü" * 500, "c", "y" * 400, "d", "z" * 400
    ).stdout
    assert out.endswith("}\n")
    assert out.count("\n") == 1
    assert len(out.encode()) <= 1000
    record = json.loads(out)
    assert record["format"] == "slurm-topo-record"
    assert record["version"] == 1
    assert record["where"] == "srun"
    assert record["reason"] == odd
    assert set(record["b"]) == {"ü"}
    assert "left_out" not in record


def test_record_replaces_what_is_no_utf8(drive: Drive) -> None:
    out = drive("record", "reason", os.fsdecode(b"a\xff\xc0\xafb\xed\xa0\x80c\xf8")).stdout
    assert json.loads(out)["reason"] == "a???b???c?"


@pytest.mark.parametrize(
    ("visible", "known", "gpus", "isolate", "list_"),
    [
        ("0,1,2,3", "-", "2", "0", "2,0,1,3"),
        ("0,1,2,3", "-", "2-3", "0", "2,3,0,1"),
        ("0,1,2,3", "-", "2-3", "1", "2,3"),
        # ConstrainDevices: Slurm's 4..7 are seen as 0..3.
        ("0,1,2,3", "4,5,6,7", "6", "0", "2,0,1,3"),
        ("GPU-aa,GPU-bb", "0,1", "1", "0", "GPU-bb,GPU-aa"),
        ("0", "-", "0", "0", "0"),
        ("0,1", "-", "5", "0", "refused"),
        ("0,1", "0,1,2", "1", "0", "refused"),
        ("GPU-aa,GPU-bb", "-", "1", "0", "refused"),
        ("0,,1", "-", "1", "0", "refused"),
        ("", "-", "1", "0", "refused"),
        (",".join(f"GPU-{i:032}" for i in range(4)), "0,1,2,3", "1", "0", "refused"),
    ],
)
def test_devices_of_the_rank_come_first(
    drive: Drive, visible: str, known: str, gpus: str, isolate: str, list_: str
) -> None:
    assert drive("devices", visible, known, gpus, isolate).stdout == list_ + "\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ("./app",),
        ("-n", "4", "./app", "--map-by", "node"),
        ("--np", "4", "-x", "HOME", "-mca", "btl", "tcp,self", "--mca", "pml", "ob1", "-q", "./app"),
        ("--wdir", "/tmp", "-report-bindings", "--tag-output", "./app", "-n", "9"),
    ],
)
def test_shape_of_mpirun_is_certain(drive: Drive, arguments: tuple[str, ...]) -> None:
    out = drive("mpirun-shape", *arguments, env=JOB, name="mpi").stdout.splitlines()
    assert out[0] == "0 certain"
    assert out[1].startswith("ntasks 4 cpus 1 nodes 2 ")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("-n", "2", "./app"), "shape: ntasks differs from the job's"),
        (("--map-by", "node", "./app"), "shape: mpirun option --map-by"),
        (("-bind-to", "none", "./app"), "shape: mpirun option -bind-to"),
        (("--hostfile", "x", "./app"), "shape: mpirun option --hostfile"),
        (("--oversubscribe", "./app"), "shape: mpirun option --oversubscribe"),
        (("-H", "n1", "./app"), "shape: mpirun option -H"),
        (("-mca", "rmaps_base_mapping_policy", "node", "./app"), "user: rmaps_base_mapping_policy"),
        (("-mca", "hwloc_base_binding_policy", "none", "./app"), "user: hwloc_base_binding_policy"),
        (("-mca", "btl"), "shape: mpirun option -mca has no value"),
        (("-n", "4", "./app", ":", "./b"), "shape: heterogeneous step"),
    ],
)
def test_uncertain_mpirun_stands_down(drive: Drive, arguments: tuple[str, ...], reason: str) -> None:
    assert drive("mpirun-shape", *arguments, env=JOB, name="mpi").stdout.splitlines()[0] == f"-1 {reason}"


def test_word_on_mapping_is_found_in_parameters(drive: Drive, tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path)}
    assert drive("mpirun-wish", env={**home, "OMPI_MCA_btl": "tcp"}).stdout == "none\n"
    named = {**home, "OMPI_MCA_rmaps_base_oversubscribe": "1"}
    assert drive("mpirun-wish", env=named).stdout == "user: OMPI_MCA_rmaps_base_oversubscribe\n"
    (tmp_path / ".openmpi").mkdir()
    file = tmp_path / ".openmpi" / "mca-params.conf"
    file.write_text("# rmaps_base_mapping_policy = node\nbtl = tcp\n")
    assert drive("mpirun-wish", env=home).stdout == "none\n"
    file.write_text("btl = tcp\n  hwloc_base_binding_policy = none")
    assert drive("mpirun-wish", env=home).stdout == f"user: hwloc_base_binding_policy in {file}\n"


@pytest.mark.parametrize(
    ("before", "room", "after"),
    [
        ("/a/libx.so", 50, "1 "),
        ("/a/libx.so:/b/liby.so", 50, "1 /b/liby.so"),
        ("/b/liby.so /a/libx.so:libx.so::/c/mylibx.so", 50, "1 /b/liby.so:/c/mylibx.so"),
        ("/b/liby.so", 11, "1 /b/liby.so"),
        ("/b/liby.so", 10, "0 "),
        ("a:b", 4, "1 a:b"),
        ("a:b", 3, "0 a"),
    ],
)
def test_library_is_taken_out_of_a_list(drive: Drive, before: str, room: int, after: str) -> None:
    assert drive("preload", before, "libx.so", str(room)).stdout == after + "\n"
