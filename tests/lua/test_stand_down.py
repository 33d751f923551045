"""Which jobs the hook leaves alone, and that it says why in one word."""

from __future__ import annotations

import os
import signal

import pytest

NO_VAL, NO_VAL16 = 4294967294.0, 65534.0


def reason(job) -> str:
    """The word in the comment of a job that was left alone."""
    assert job.marks.get("ARM", "off") == "off"
    assert job.comment.startswith("slurm-topo:1 arm=off reason=")
    return job.comment.rpartition("=")[2]


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"num_tasks": 1.0}, "tasks"),
        ({"num_tasks": NO_VAL}, "tasks"),
        ({"het_job_offset": 0.0}, "het-job"),
        ({"het_job_offset": 1.0}, "het-job"),
        ({"script": "#!/bin/sh\n#SBATCH -m cyclic\nsrun ./a\n"}, "fixed"),
        ({"script": "#!/bin/sh\n#SBATCH --distribution=block:cyclic\nsrun ./a\n"}, "fixed"),
        ({"script": "#!/bin/sh\n\n# note\n#SBATCH -n 4 --mem-bind=local\nsrun ./a\n"}, "fixed"),
        ({"script": "#!/bin/sh\n#SBATCH --hint=compute_bound\nsrun ./a\n"}, "fixed"),
        ({"script": "#!/bin/sh\n#SBATCH -N2 --no-kill\nsrun ./a\n"}, "no-kill"),
        ({"script": "#!/bin/sh\n#SBATCH -k\nsrun ./a\n"}, "no-kill"),
    ],
)
def test_job_is_left_alone(start, fields, word):
    controller = start()
    job = controller.job({}, **fields)
    assert controller.submit(job) == 0
    assert reason(job) == word


@pytest.mark.parametrize("name", ["SLURM_HOSTFILE", "SLURM_CPU_BIND", "SLURM_DISTRIBUTION", "SLURM_MEM_BIND"])
def test_places_fixed_in_the_environment_win(start, name):
    controller = start()
    job = controller.job({name: "x"})
    controller.submit(job)
    assert reason(job) == "fixed"


@pytest.mark.parametrize(
    "script",
    [
        "#!/bin/sh\n#SBATCH --mem=4G -n 8\nsrun ./a\n",
        "#!/bin/sh\n#SBATCH --mail-type=END\nsrun ./a -m 3\n",
        "#!/bin/sh\nsrun ./a\n#SBATCH -m cyclic\n",
        "#!/bin/sh\n##SBATCH -m cyclic\nsrun ./a\n",
    ],
)
def test_other_options_do_not_count_as_fixed(start, script):
    controller = start()
    job = controller.job({}, script=script)
    controller.submit(job)
    assert job.marks["ARM"] == "enforce"


def test_user_says_off(start):
    controller = start()
    job = controller.job({"SLURM_TOPO": "off"})
    controller.submit(job)
    assert reason(job) == "user"


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ('deny_partitions = { "batch" }', "partition"),
        ('deny_accounts = { "physics" }', "account"),
        ('deny_users = { "ada" }', "user-list"),
        ('deny_users = { "1000" }', "user-list"),
    ],
)
def test_lists_of_the_site(start, settings, word):
    controller = start(settings=settings)
    job = controller.job({})
    controller.submit(job)
    assert reason(job) == word


def test_one_of_several_partitions_suffices(start):
    controller = start(settings='deny_partitions = { "debug" }')
    job = controller.job({}, partition="batch,debug")
    controller.submit(job)
    assert reason(job) == "partition"


def test_kill_switch_touches_nothing(start):
    controller = start()
    controller.kill_switch.write_text("")
    job = controller.job({})
    assert controller.submit(job) == 0
    assert controller.written == []


def test_site_that_was_never_synced_is_observed(start):
    controller = start()
    key = controller.keys()[0]
    controller.write_advice(key)
    (controller.advice / "site").unlink()
    for fields in ({}, {"script": "#!/bin/sh\nsrun ./other\n", "name": "other"}):
        job = controller.job({}, **fields)
        assert controller.submit(job) == 0
        assert job.marks["ARM"] == "observe"
        assert job.marks["TRACE"] == ("1" if fields else "0")
    assert controller.logged == []


def test_site_that_is_off_touches_nothing(start):
    controller = start()
    controller.write_site(arm="off")
    job = controller.job({})
    controller.submit(job)
    assert controller.written == []


GOOD = (
    "slurm-topo-advice 1\nkey {key}\nprogram 12\ngraph ab12\nranks 8\narm enforce\nholdout 0\ntrace 0\nend\n"
)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        (GOOD.replace("end\n", ""), "advice-truncated"),
        (GOOD.replace("end\n", "end"), "advice-truncated"),
        ("", "advice-truncated"),
        (GOOD.replace("advice 1", "advice 2"), "advice-version"),
        (GOOD.replace("advice 1", "advice 10"), "advice-version"),
        ("\x00\xff" * 40, "advice-malformed"),
        ("rubbish\n", "advice-malformed"),
        (GOOD.replace("trace 0\n", ""), "advice-malformed"),
        (GOOD.replace("arm enforce", "arm always"), "advice-malformed"),
        (GOOD.replace("holdout 0", "holdout 2"), "advice-malformed"),
        (GOOD.replace("holdout 0", "holdout -1"), "advice-malformed"),
        (GOOD.replace("graph ab12", "graph ../../etc"), "advice-malformed"),
        (GOOD.replace("graph ab12", "graph ab12; rm"), "advice-malformed"),
        (GOOD.replace("trace 0", "trace 0\ntrace 1"), "advice-malformed"),
        (GOOD + "more\n", "advice-malformed"),
        (GOOD.replace("{key}", "s" + "0" * 22), "advice-malformed"),
        (GOOD + "#" * 5000, "advice-oversized"),
    ],
)
def test_bad_advice_stands_down_and_is_logged(start, text, word):
    controller = start()
    key = controller.keys()[0]
    controller.write(key, text.replace("{key}", key).encode("latin-1"))
    job = controller.job({})
    assert controller.submit(job) == 0
    assert reason(job) == word
    assert len(controller.logged) == 1
    assert word.removeprefix("advice-") in controller.logged[0]


def test_directory_in_place_of_advice(start):
    controller = start()
    key = controller.keys()[0]
    (controller.advice / key[1:3] / key).mkdir(parents=True)
    job = controller.job({})
    assert controller.submit(job) == 0
    assert reason(job) == "advice-unreadable"


@pytest.mark.parametrize("name", ["advice", "site", "kill switch"])
def test_fifo_in_place_of_a_file_does_not_hold_slurmctld(start, name):
    """A Lua that waits cannot be ended: the job is submitted by a child, which is given ten seconds."""
    controller = start()
    key = controller.keys()[0]
    paths = {"advice": controller.advice / key[1:3] / key, "site": controller.advice / "site"}
    path = paths.get(name, controller.kill_switch)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    child = os.fork()
    if child == 0:
        signal.alarm(10)
        job = controller.job({})
        code = controller.submit(job)
        expected = name == "advice"
        os._exit(0 if code == 0 and (job.marks.get("ARM") == "off") == expected else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_rubbish_in_the_site_file_touches_nothing_and_is_logged(start):
    controller = start()
    controller.write("site", b"\x00" * 100)
    job = controller.job({})
    assert controller.submit(job) == 0
    assert controller.written == []
    assert "site is malformed" in controller.logged[0]


def test_job_name_cannot_inject_a_format(start):
    controller = start()
    key = controller.keys(name="%s%d%n")[1]
    controller.write(key, "rubbish\n")
    assert controller.submit(controller.job({}, name="%s%d%n")) == 0
    assert "%s%d%n" in controller.logged[0]


def test_one_thread_a_core_is_no_obstacle(start):
    for environment, line in (({"SLURM_HINT": "nomultithread"}, ""), ({}, "#SBATCH --hint=nomultithread\n")):
        controller = start()
        job = controller.job(environment, script=f"#!/bin/sh\n{line}srun ./a\n")
        controller.submit(job)
        assert job.marks["ARM"] == "enforce"
