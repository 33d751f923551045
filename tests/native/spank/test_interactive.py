"""Steps of salloc and of srun on the command line: marks are asked for, the graph is found by the command."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from slurm_topo.slurm.fingerprint import program_key, step_keys

Site = Any  # of conftest.py, which is no module that can be imported
UID = str(os.geteuid())
OTHER = "abcdef0123456789"
MARK = "slurm-topo:1 arm=enforce reason=interactive"


class Shell:
    """A site whose slurmctld says of each job what ``comment`` holds."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.bin = site.folder / "bin"
        self.bin.mkdir()
        self.comment(MARK)

    def scontrol(self, text: str) -> None:
        path: Path = self.bin / "scontrol"
        path.write_text(f'#!/bin/sh\necho "$@" >> {self.site.folder}/asked\n{text}')
        path.chmod(0o755)

    def comment(self, item: str) -> None:
        self.scontrol(f"echo 'JobId=77 JobName=x Comment=y AdminComment={item}  Power= '\n")

    def steps(self, *lines: str, holdout: str = "0") -> None:
        folder = self.site.user / "advice"
        folder.mkdir(mode=0o700, exist_ok=True)
        text = "\n".join(
            ["slurm-topo-steps 1", f"holdout {holdout}", *(f"step {x}" for x in lines), f"end {len(lines)}"]
        )
        (folder / "steps").write_text(text + "\n")
        (folder / "steps").chmod(0o600)

    def run(self, part: str, *arguments: str, **env: str) -> Any:
        common = {
            "FAKE_CONTEXT": "local",
            "FAKE_ARGS": self.site.arguments,
            "PATH": f"{self.bin}:/usr/bin:/bin",
        }
        result = self.site.drive(part, *arguments, env={**common, **env})
        result.now = dict(
            line[4:].split("=", 1) for line in result.stdout.splitlines() if line.startswith("now ")
        )
        return result

    def salloc(self, *arguments: str, **env: str) -> Any:
        """A step of an allocation that the hook could not mark."""
        job = {k: v for k, v in self.site.job.items() if not k.startswith("SLURM_TOPO")}
        return self.run("init", *(arguments or ("./app", "in")), **{**job, **env})

    def plain(self, *arguments: str, **env: str) -> Any:
        """srun on the command line: the job exists when the step does."""
        later = {
            "SLURM_JOB_ID": "77",
            "SLURM_NTASKS": "2",
            "SLURM_NNODES": "2",
            "SLURM_NODELIST": "n[1-2]",
            "SLURM_JOB_CPUS_PER_NODE": "2(x2)",
            "SLURM_TASKS_PER_NODE": "1(x2)",
        }
        later = {f"LATER_{k}": v for k, v in {**later, **env}.items()}
        return self.run("started", *(arguments or ("-n2", "./app", "in")), **later)

    @property
    def record(self) -> dict[str, Any]:
        found: dict[str, Any] = self.site.records()[-1]
        return found


@pytest.fixture
def shell(site: Site) -> Shell:
    return Shell(site)


def command_key(ranks: int, command: str = "./app in") -> str:
    return step_keys(UID, command.encode(), b"", ranks)[0]


def executable_key(ranks: int, executable: str = "app") -> str:
    return step_keys(UID, b"", executable.encode(), ranks)[1]


@pytest.mark.parametrize(
    ("words", "executable"),
    [
        (["./app", "in"], "app"),
        (["python3", "-u", "a.py", "8"], "python3 -u a.py"),
        (["/usr/bin/python3", "-m", "pkg", "8"], "python3 -m pkg 8"),
        (["numactl", "-l", "./app"], "numactl -l app"),
        (["python3"], "python3"),
    ],
)
def test_keys_are_those_of_python(drive: Any, words: list[str], executable: str) -> None:
    jobs = ":".join(kind + "0" * 22 for kind in "snuxc")
    command, program, number, joined = drive("keys", "8", *words, env={"KEYS": jobs}).stdout.split()
    assert [command, program] == step_keys(UID, " ".join(words).encode(), executable.encode(), 8)
    assert number == program_key(UID, 12, 8)
    # The keys of an outer step are replaced; those of the job that a trace may tell of stay, and fit into it.
    assert joined == ":".join([*(kind + "0" * 22 for kind in "snu"), command, program])
    assert len(joined) < 128


@pytest.mark.parametrize(
    ("comment", "found"),
    [
        (MARK, "1 enforce keys= program="),
        (
            "project=4; slurm-topo:1 arm=observe keys=n1:x2 program=7 graph=ab",
            "1 observe keys=n1:x2 program=7",
        ),
        ("slurm-topo:1 arm=enforce; slurm-topo:1 arm=off reason=user-list", "1 off keys= program="),
        ("slurm-topo:1 arm=sideways", "0 unknown keys= program="),
        ("nothing", "0 unknown keys= program="),
    ],
)
def test_marks_are_read_from_the_job(drive: Any, comment: str, found: str) -> None:
    text = f"JobId=77 Comment=slurm-topo:1 arm=enforce WorkDir=/ AdminComment={comment}  Power= "
    assert drive("marks", text).stdout == found + "\n"


def test_first_step_in_salloc_is_traced(shell: Shell) -> None:
    result = shell.salloc()
    assert result.now["SLURM_TOPO_JOB_ARM"] == "enforce"
    assert result.now["SLURM_TOPO_JOB_TRACE"] == "1"
    assert result.now["SLURM_TOPO_JOB_KEYS"] == f"{command_key(2)}:{executable_key(2)}"
    assert "SLURM_HOSTFILE" not in result.now
    assert (shell.record["decision"], shell.record["reason"]) == ("trace", "graph unknown")
    assert (shell.site.folder / "asked").read_text() == "--oneliner show job 77\n"


def test_step_in_salloc_with_a_known_graph_is_placed(shell: Shell) -> None:
    shell.steps(f"{command_key(2)} graph={shell.site.graph} ranks=2 arm=enforce trace=0")
    result = shell.salloc()
    assert result.now["SLURM_HOSTFILE"].startswith("/proc/self/fd/")
    assert "SLURM_TOPO_JOB_TRACE" not in result.now
    assert shell.record["decision"] == "place"


def test_graph_of_the_executable_serves_and_the_run_is_traced(shell: Shell) -> None:
    shell.steps(f"{executable_key(2)} graph={shell.site.graph} ranks=2 arm=enforce trace=0")
    result = shell.salloc("./app", "other")
    assert "SLURM_HOSTFILE" in result.now
    assert result.now["SLURM_TOPO_JOB_TRACE"] == "1"
    assert shell.record["traced"] == 1


@pytest.mark.parametrize(
    ("line", "reason"),
    [("arm=observe trace=0", "arm"), ("arm=enforce trace=0", "holdout")],
)
def test_step_in_salloc_stays_in_observe(shell: Shell, line: str, reason: str) -> None:
    line = f"{command_key(2)} graph={shell.site.graph} ranks=2 {line}"
    shell.steps(line, holdout="1" if reason == "holdout" else "0")
    assert "SLURM_HOSTFILE" not in shell.salloc().now
    assert (shell.record["arm"], shell.record["reason"]) == ("observe", reason)


@pytest.mark.parametrize("item", ["slurm-topo:1 arm=off reason=user-list", "no item of ours"])
def test_job_that_the_hook_left_alone_is_left_alone(shell: Shell, item: str) -> None:
    shell.comment(item)
    assert not {k for k in shell.salloc().now if k.startswith("SLURM_TOPO")}
    assert shell.site.records() == []


def test_slurmctld_that_does_not_answer_is_a_reason(shell: Shell) -> None:
    shell.scontrol("echo 'Unable to contact slurm controller' >&2; exit 1\n")
    result = shell.salloc()
    assert not {k for k in result.now if k.startswith("SLURM_TOPO")}
    assert [x for x in result.stderr.splitlines() if not x.startswith("verbose: ")] == []
    assert shell.record["decision"] == "stand-down"
    assert shell.record["reason"].startswith("scontrol: ended with exit code 1: Unable to contact")


@pytest.mark.parametrize(
    "env", [{"ENVIRONMENT": "BATCH"}, {"SLURM_STEP_ID": "0"}, {"SLURM_STEPID": "4294967291"}]
)
def test_batch_scripts_and_steps_are_not_asked_for(shell: Shell, env: dict[str, str]) -> None:
    shell.salloc(**env)
    assert not (shell.site.folder / "asked").exists()
    assert shell.site.records() == []


def test_shell_of_salloc_itself_is_no_step_of_ours(shell: Shell) -> None:
    shell.salloc("--interactive", "--pty", "bash")
    assert not (shell.site.folder / "asked").exists()


def test_srun_on_the_command_line_is_traced(shell: Shell) -> None:
    result = shell.plain()
    assert result.now["SLURM_TOPO_JOB_TRACE"] == "1"
    assert result.now["SLURM_TOPO_JOB_ARM"] == "enforce"
    assert (shell.record["job"], shell.record["ranks"]) == (77, 2)
    assert (shell.record["decision"], shell.record["reason"]) == ("trace", "graph unknown")


def test_srun_on_the_command_line_is_placed_inside_its_nodes(shell: Shell) -> None:
    shell.steps(f"{command_key(2)} graph={shell.site.graph} ranks=2 arm=enforce trace=0")
    result = shell.plain()
    assert "SLURM_HOSTFILE" not in result.now
    assert result.now["SLURM_TOPO_JOB_PLAN"] == str(shell.site.plan())
    assert shell.record["decision"] == "place"
    assert shell.site.calls[0].endswith(" --keep-nodes")


@pytest.mark.parametrize(
    ("arguments", "env", "reason"),
    [
        (("-n2", "--cpu-bind=none", "./app", "in"), {}, "user: cpu-bind"),
        (("-n1", "--pty", "bash"), {"SLURM_NTASKS": "1"}, "shape: one task"),
        (("-n1", "./a", ":", "-n1", "./b"), {}, "shape: heterogeneous step"),
        (("--multi-prog", "file"), {}, "shape: multi-prog"),
    ],
)
def test_srun_on_the_command_line_that_is_not_placed_says_why(
    shell: Shell, arguments: tuple[str, ...], env: dict[str, str], reason: str
) -> None:
    shell.steps(
        f"{command_key(2)} graph={shell.site.graph} ranks=2 arm=enforce trace=0",
        f"{command_key(1, 'bash')} graph={shell.site.graph} ranks=1 arm=enforce trace=0",
        f"{command_key(2, './a : -n1 ./b')} graph={shell.site.graph} ranks=2 arm=enforce trace=0",
        f"{command_key(2, 'file')} graph={shell.site.graph} ranks=2 arm=enforce trace=0",
    )
    result = shell.plain(*arguments, **env)
    assert "SLURM_TOPO_JOB_PLAN" not in result.now
    assert (shell.record["decision"], shell.record["reason"]) == ("stand-down", reason)


def test_step_of_another_size_has_the_graph_of_its_size(shell: Shell) -> None:
    """In a marked job: the job's graph is for the job's number of ranks only."""
    (shell.site.user / "graphs" / f"{OTHER}.npz").touch()
    shell.steps(f"{program_key(UID, 12, 3)} graph={OTHER} ranks=3 arm=enforce trace=0")
    answer = shell.site.text.replace(shell.site.graph, OTHER).replace("ranks 2", "ranks 3")
    answer = answer.replace("end 2", "rank 2 0 cpus=1 mem=0 gpus=-\nend 3")
    (shell.site.folder / "answer").write_text(answer)
    result = shell.run(
        "init", "-n3", "./app", **shell.site.job, SLURM_TOPO_JOB_PROGRAM="12", SLURM_TOPO_JOB_RANKS="2"
    )
    assert "SLURM_HOSTFILE" in result.now
    assert shell.record["graph"] == OTHER
    assert "--ntasks 3" in shell.site.calls[0]


def test_step_of_an_unknown_size_is_traced(shell: Shell) -> None:
    result = shell.run("init", "-n3", "./app", **shell.site.job)
    assert "SLURM_HOSTFILE" not in result.now
    assert result.now["SLURM_TOPO_JOB_TRACE"] == "1"
    assert shell.record["reason"] == "graph unknown"
    # In the job's own size the job's graph counts.
    shell.run("init", "-n2", "./app", **shell.site.job)
    assert shell.record["decision"] == "place"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "slurm-topo-steps 2\nholdout 0\nend 0\n",
        "slurm-topo-steps 1\nholdout 0\nstep {line}\nend 2\n",
        "slurm-topo-steps 1\nholdout 0\nstep {line}\n",
        "slurm-topo-steps 1\nholdout 2\nstep {line}\nend 1\n",
        "slurm-topo-steps 1\nholdout 0\nstep {line} graph=/etc/passwd\nend 1\n",
        "slurm-topo-steps 1\nholdout 0\nstep {line}\nend 1\nstep {line}\n",
    ],
)
def test_damaged_file_is_no_advice(shell: Shell, text: str) -> None:
    line = f"{command_key(2)} graph={shell.site.graph} ranks=2 arm=enforce trace=0"
    shell.steps(line)
    (shell.site.user / "advice" / "steps").write_text(text.format(line=line))
    assert "SLURM_HOSTFILE" not in shell.salloc().now
    assert shell.record["reason"] == "graph unknown"
