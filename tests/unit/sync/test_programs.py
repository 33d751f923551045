"""Which jobs are the same program, and what each of its keys is told."""

from __future__ import annotations


def numbers(site) -> dict[int, int | None]:
    site.sync()
    with site.history() as history:
        return {run.job: run.program for run in history.runs()}


def test_same_script_is_the_same_program(site):
    site.add_job(1, end=site.now - 300)
    site.add_job(2, end=site.now - 200)
    assert numbers(site) == {1: 1, 2: 1}


def test_edited_script_with_the_same_name_and_executable(site):
    site.add_job(1, end=site.now - 300, script=b"srun ./halo 1")
    site.add_job(2, end=site.now - 200, script=b"srun ./halo 2")
    assert numbers(site) == {1: 1, 2: 1}
    # Two scripts; one name, one program of the user, one of the account.
    assert len(site.advice()) == 5


def test_same_name_but_another_executable_is_another_program(site):
    site.add_job(1, end=site.now - 300, script=b"srun ./halo", executable=b"./halo", name="run")
    site.add_job(2, end=site.now - 200, script=b"srun ./fft", executable=b"./fft", name="run")
    assert numbers(site) == {1: 1, 2: 2}
    # The program is part of the key of a name: each has its own.
    shared = {k: v for k, v in site.advice().items() if k.startswith("n")}
    assert sorted(a["program"] for a in shared.values()) == ["1", "2"]


def test_same_program_from_another_folder_is_the_same(site):
    site.add_job(1, end=site.now - 300, script=b"srun ./halo", executable=b"./halo", name="first")
    site.add_job(2, end=site.now - 200, script=b"srun /v2/halo", executable=b"/v2/halo", name="second")
    assert numbers(site) == {1: 1, 2: 1}


def test_same_executable_under_another_name_is_the_same_program(site):
    site.add_job(1, end=site.now - 300, name="first", script=b"one")
    site.add_job(2, end=site.now - 200, name="second", script=b"two")
    assert numbers(site) == {1: 1, 2: 1}


def test_users_have_programs_of_their_own(site):
    site.add_job(1, end=site.now - 300)
    site.add_job(2, end=site.now - 200, user="bob", uid=4242)
    assert numbers(site) == {1: 1, 2: 2}


def test_graph_of_a_colleague_serves_the_executable_only(site):
    keys = site.add_job(1, end=site.now - 300, arm="observe")
    site.trace(1, keys)
    bobs = site.add_job(2, end=site.now - 200, user="bob", uid=4242)
    site.sync()
    advice = site.advice()
    loose = keys.split(":")[-1]
    assert bobs.split(":")[-1] == loose
    assert advice[loose]["graph"] == advice[keys.split(":")[0]]["graph"]
    assert advice[loose]["trace"] == "1"
    assert "graph" not in advice[bobs.split(":")[0]]
    assert advice[bobs.split(":")[0]]["trace"] == "1"


def test_graph_that_does_not_fit_any_more_is_traced_again(site):
    keys = site.add_job(1, end=site.now - 300, arm="observe")
    site.trace(1, keys)
    site.add_job(2)
    site.record(2, "stand-down", "ranks")
    site.sync()
    exact = site.advice()[keys.split(":")[0]]
    assert exact["trace"] == "1"
    assert "graph" in exact


def test_forgotten_programs_lose_their_advice(site):
    site.add_job(1)
    site.sync()
    assert site.advice()
    site.now += 200 * 86400
    site.sync()
    assert site.advice() == {}


def test_site_that_only_observes_says_so_everywhere(site, make_site):
    from dataclasses import replace

    site.settings = replace(site.settings, arm="observe", holdout=0.25)
    site.add_job(1)
    site.sync()
    assert {a["arm"] for a in site.advice().values()} == {"observe"}
    text = (site.folder / "advice" / "site").read_text()
    assert text == "slurm-topo-advice 1\narm observe\nholdout 0.25\ntrace 1\nend\n"


def test_comment_that_was_lost_does_not_lose_the_program(site):
    """Some sites write job statistics over admin_comment when a job ends."""
    keys = site.add_job(1, end=site.now - 5000, comment="JS1:abc")
    site.trace(1, keys)
    site.record(1, "trace", "arm", arm="observe")
    site.sync()
    with site.history() as history:
        (program,) = history.programs()
        # The key of the executable belongs to the account: a user's file cannot speak for it.
        assert sorted(program.keys) == sorted(keys.split(":")[:3])
        assert [a.arm for a in program.arms] == ["observe"]
    site.add_job(2, comment="JS1:def")
    site.record(2, "place", "cost", graph=program.graph)
    site.add_job(3, comment="JS1:ghi")
    site.sync()
    with site.history() as history:
        assert {run.job: run.program for run in history.runs()} == {1: 1, 2: 1, 3: None}
    before = site.dump()
    site.sync()
    assert site.dump() == before


def test_keys_in_a_trace_cannot_take_over_the_advice_of_another_user(site):
    alices = site.add_job(1, user="alice", uid=4242, end=site.now - 5000)
    site.sync()
    before = site.advice()
    site.add_job(2, comment="")
    site.trace(2, alices)
    site.sync()
    with site.history() as history:
        assert {run.job: run.program for run in history.runs()} == {1: 1, 2: None}
    assert site.advice() == before


def test_slurmctld_can_read_the_advice_whatever_the_umask(site):
    import os
    from pathlib import Path

    site.add_job(1)
    before = os.umask(0o077)
    try:
        site.sync()
    finally:
        os.umask(before)
    folder = Path(site.settings.advice_dir)
    for path in (folder, *folder.glob("*")):
        if not path.name.startswith("."):
            wanted = 0o755 if path.is_dir() else 0o644
            assert path.stat().st_mode & 0o777 == wanted
    assert all(path.stat().st_mode & 0o777 == 0o644 for path in folder.glob("??/*"))


def test_comment_that_comes_after_the_trace_adds_the_executable(site):
    """Slurm accounts admin_comment when a job ends, and a step may have ended before."""
    keys = site.add_job(1, end=None, comment="")
    site.jobs[1][2]["End"] = "2026-12-01T04:20:00"
    site.trace(1, keys)
    site.sync()
    # Beside these stands the key of the step's own command.
    mine, executable = set(keys.split(":")[:3]), keys.split(":")[3]
    assert mine <= set(site.advice())
    assert executable not in site.advice()
    site.add_job(1, end=site.now - 5, submitted=site.now - 70, arm="observe")
    site.sync()
    assert mine | {executable} <= set(site.advice())
    with site.history() as history:
        assert [(run.program, run.arm) for run in history.runs()] == [(1, "observe")]
