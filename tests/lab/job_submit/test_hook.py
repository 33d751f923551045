"""The submit hook in a real slurmctld."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from slurm_topo.history.sync.comment import SubmitMark, parse_comment
from slurm_topo.lab.cluster import Lab

# Why a job is left alone, and the options of such a job.
LEFT_ALONE = {
    "tasks": ["-n1"],
    "fixed": ["-N2", "-n4", "-m", "cyclic"],
    "user": ["-N2", "-n4", "--topo=off"],
}


def submit(lab: Lab, *options: str, wrap: str = "srun ./halo 4") -> str:
    """Submit a held job as nobody; its number."""
    command = ["sbatch", "--parsable", "--hold", "-o", "/dev/null", *options, "--wrap", wrap]
    done = lab.run(command, user="nobody", cwd="/tmp")
    assert done.returncode == 0, done.stderr
    return done.stdout.strip().split(";")[0]


def _all_comment(shown: str) -> str:
    found = re.search(r"AdminComment=(slurm-topo:1(?: \w+=\S+)*)", shown)
    return found[1] if found else ""


def _comment(lab: Lab, job: str) -> SubmitMark:
    shown = lab.run(["scontrol", "show", "job", "-o", job], cwd="/tmp").stdout
    lab.run(["scancel", job], cwd="/tmp")
    found = parse_comment(_all_comment(shown))
    assert found is not None, shown
    return found


def hook_errors(lab: Lab) -> list[str]:
    text = lab.layout.log("slurmctld").read_text(errors="replace")
    return [line for line in text.splitlines() if "job_submit/lua" in line]


@contextmanager
def site_script(lab: Lab, change) -> Iterator[None]:
    """The site's own script, changed; slurmctld reads it again because it is newer."""
    path = lab.layout.etc("job_submit.lua")
    before = path.read_text()
    time.sleep(1.1)
    path.write_text(change(before))
    try:
        yield
    finally:
        time.sleep(1.1)
        path.write_text(before)


def test_job_gets_its_keys_from_exact_to_loose(lab: Lab) -> None:
    found = _comment(lab, submit(lab, "-N2", "-n4", "-J", "marked"))
    assert [key[0] for key in found.keys] == ["s", "n", "u", "x"]
    assert found.arm in ("observe", "enforce")


def test_keys_are_those_of_python(lab: Lab) -> None:
    from slurm_topo.slurm.fingerprint import fingerprint_keys

    found = _comment(lab, submit(lab, "-N2", "-n4", "-c", "1", "-J", "marked"))
    # sbatch writes this around a wrapped command.
    script = b"#!/bin/sh\n# This script was created by sbatch --wrap.\n\nsrun ./halo 4\n"
    expected = fingerprint_keys("65534", "4x1", script, b"marked", b"", b"./halo")
    assert list(found.keys[:3]) == expected[:3]


@pytest.mark.parametrize("reason", LEFT_ALONE)
def test_job_that_is_left_alone_says_why(lab: Lab, reason: str) -> None:
    found = _comment(lab, submit(lab, *LEFT_ALONE[reason]))
    assert (found.arm, found.reason) == ("off", reason)


def test_nodes_without_tasks_are_a_shape(lab: Lab) -> None:
    two, four = (_comment(lab, submit(lab, f"-N{n}", "-J", "shape")) for n in (2, 4))
    assert two.arm != "off"
    assert set(two.keys).isdisjoint(four.keys)


def test_heterogeneous_job_is_left_alone(lab: Lab) -> None:
    command = ["sbatch", "--parsable", "--hold", "-N1", "-n2", ":", "-N1", "-n2", "--wrap", "true"]
    job = lab.run(command, user="nobody", cwd="/tmp").stdout.strip()
    found = _comment(lab, job)
    assert (found.arm, found.reason) == ("off", "het-job")


@pytest.mark.parametrize("export", [[], ["--export=NONE"]])
def test_marks_are_in_the_environment_of_the_job(lab: Lab, export: list[str]) -> None:
    output = f"/tmp/{lab.layout.folder.name}-env-{len(export)}"
    command = ["sbatch", "--wait", "--parsable", "-N2", "-n4", "-J", "env", "-o", output, *export]
    environ = {"SLURM_TOPO_JOB_GRAPH": "old", "SLURM_TOPO_JOB_ARM": "enforce"}
    try:
        done = lab.run([*command, "--wrap", "env; true mpirun"], user="nobody", cwd="/tmp", env=environ)
        assert done.returncode == 0, done.stderr
        with open(output) as stream:
            found = dict(line.strip().split("=", 1) for line in stream if line.startswith("SLURM_TOPO_JOB_"))
    finally:
        lab.run(["rm", "-f", output], cwd="/tmp")
    assert found["SLURM_TOPO_JOB_ARM"] in ("observe", "enforce")
    assert found["SLURM_TOPO_JOB_KEYS"].startswith("s")
    assert found["SLURM_TOPO_JOB_TRACE"] == "1"
    assert found.get("SLURM_TOPO_JOB_GRAPH", "") == ""


def test_srun_and_salloc_leave_no_error_in_the_log(lab: Lab) -> None:
    before = hook_errors(lab)
    assert lab.run(["srun", "-N2", "-n4", "true"], user="nobody", cwd="/tmp").returncode == 0
    assert lab.run(["salloc", "-N2", "-n4", "true"], user="nobody", cwd="/tmp").returncode == 0
    assert hook_errors(lab) == before


def test_site_keeps_its_own_rejections(lab: Lab) -> None:
    def reject(text: str) -> str:
        return text.replace(
            "return slurm.SUCCESS", 'if job_desc.name == "no" then return 2057 end return slurm.SUCCESS', 1
        )

    with site_script(lab, reject):
        done = lab.run(["sbatch", "-J", "no", "-N2", "-n4", "--wrap", "true"], user="nobody", cwd="/tmp")
        assert done.returncode != 0
        assert _comment(lab, submit(lab, "-N2", "-n4", "-J", "yes")).keys


def test_hook_that_is_gone_leaves_the_site_as_it_was(lab: Lab) -> None:
    def lose(text: str) -> str:
        return text.replace("slurm_topo.lua", "gone.lua")

    with site_script(lab, lose):
        job = submit(lab, "-N2", "-n4")
        shown = lab.run(["scontrol", "show", "job", "-o", job], cwd="/tmp").stdout
        lab.run(["scancel", job], cwd="/tmp")
        assert "slurm-topo" not in shown
        assert "gone.lua" in lab.layout.log("slurmctld").read_text(errors="replace")
    assert _comment(lab, submit(lab, "-N2", "-n4")).keys
