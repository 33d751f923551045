"""What the hook writes to a job, and that it writes nothing else."""

from __future__ import annotations

import re

import pytest

ALLOWED = {"admin_comment"} | {
    f"environment.SLURM_TOPO_JOB_{n}" for n in ("ARM", "KEYS", "PROGRAM", "GRAPH", "RANKS", "TRACE", "PLAN")
}


def test_unknown_program_is_traced(start):
    controller = start()
    job = controller.job({})
    assert controller.submit(job) == 0
    marks = job.marks
    assert marks["ARM"] == "enforce"
    assert marks["TRACE"] == "1"
    assert "GRAPH" not in marks
    assert [k[0] for k in marks["KEYS"].split(":")] == ["s", "n", "u", "x"]
    assert job.comment == f"slurm-topo:1 arm=enforce keys={marks['KEYS']}"


def test_only_the_documented_fields_change(start):
    controller = start()
    keys = controller.keys()
    controller.write_advice(keys[0])
    job = controller.job({"PATH": "/bin", "LANG": "C"}, admin_comment="by the site", comment="mine")
    before = {k: v for k, v in job.table.items() if k != "admin_comment"}
    controller.submit(job)
    assert {k: v for k, v in job.table.items() if k != "admin_comment"} == before
    assert set(controller.written) <= ALLOWED
    assert {k: v for k, v in job.environment.items() if not k.startswith("SLURM_TOPO_JOB_")} == {
        "PATH": "/bin",
        "LANG": "C",
    }


@pytest.mark.parametrize("which", [0, 1, 2])
def test_advice_of_any_key_places_the_job(start, which):
    controller = start()
    keys = controller.keys()
    controller.write_advice(keys[which])
    job = controller.job({})
    controller.submit(job)
    assert job.marks == {
        "ARM": "enforce",
        "KEYS": ":".join(keys),
        "PROGRAM": "12",
        "GRAPH": "ab12",
        "RANKS": "8",
        "TRACE": "0",
    }
    assert job.comment == f"slurm-topo:1 arm=enforce keys={':'.join(keys)} program=12 graph=ab12"


def test_exact_advice_wins_over_loose(start):
    controller = start()
    keys = controller.keys()
    controller.write_advice(keys[0], graph="aa00")
    controller.write_advice(keys[2], graph="bb00")
    job = controller.job({})
    controller.submit(job)
    assert job.marks["GRAPH"] == "aa00"


def test_admin_comment_of_the_site_is_kept(start):
    controller = start()
    job = controller.job({}, admin_comment="project=42")
    controller.submit(job)
    assert job.comment.startswith("project=42; slurm-topo:1 arm=enforce keys=s")


def test_job_of_srun_gets_the_comment_only(start):
    controller = start()
    job = controller.job(None, script=None, argv={0: "./halo"})
    assert controller.submit(job) == 0
    assert re.fullmatch(r"slurm-topo:1 arm=enforce keys=n\w{22}:u\w{22}:x\w{22}", job.comment)
    assert controller.written == ["admin_comment"]


@pytest.mark.parametrize("word", ["/usr/bin/python3", "numactl", "apptainer"])
def test_interpreter_or_wrapper_alone_is_no_program(start, word):
    """Slurm 22.05 hands on the first word of srun's command: Python programs of an account are not one."""
    controller = start()
    job = controller.job(None, script=None, argv={0: word}, name=word.rsplit("/", 1)[-1])
    controller.submit(job)
    assert "x" not in [key[0] for key in re.sub(r".* keys=", "", job.comment).split(":")]
    nameless = controller.job(None, script=None, argv={0: "sh"}, name="sh")
    controller.submit(nameless)
    assert nameless.comment == "slurm-topo:1 arm=enforce reason=interactive"


def test_allocation_of_salloc_gets_its_arm_for_the_steps_in_it(start):
    controller = start()
    job = controller.job(None, script=None, argv=None, name="interactive")
    assert controller.submit(job) == 0
    assert job.comment == "slurm-topo:1 arm=enforce reason=interactive"
    assert controller.written == ["admin_comment"]


def test_marks_of_an_outer_job_do_not_count(start):
    controller = start()
    inherited = {
        f"SLURM_TOPO_JOB_{n}": "old" for n in ("ARM", "KEYS", "PROGRAM", "GRAPH", "RANKS", "TRACE", "PLAN")
    }
    job = controller.job(dict(inherited))
    controller.submit(job)
    assert job.marks["GRAPH"] == job.marks["PLAN"] == job.marks["PROGRAM"] == job.marks["RANKS"] == ""
    assert job.marks["ARM"] == "enforce"
    serial = controller.job(dict(inherited), num_tasks=1.0)
    controller.submit(serial)
    assert {k: v for k, v in serial.marks.items() if v} == {"ARM": "off"}


def test_half_written_marks_are_not_taken_for_ours(start):
    controller = start()
    controller.fake.fail_on_write = "SLURM_TOPO_JOB_TRACE"
    job = controller.job({})
    assert controller.submit(job) == 0
    assert "ARM" not in job.marks
    assert "left alone" in controller.logged[-1]


def test_at_most_four_small_files_are_read(start):
    controller = start()
    keys = controller.keys()
    controller.write_advice(keys[3])
    controller.submit(controller.job({}))
    folder = str(controller.advice)
    opened = controller.opened
    assert opened[0] == str(controller.kill_switch)
    assert opened[1:] == [f"{folder}/site", *[f"{folder}/{k[1:3]}/{k}" for k in keys]]
