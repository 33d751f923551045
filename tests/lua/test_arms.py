"""The arm of a job: the lowest that all agree to, and the share that is held out."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(
    ("user", "site", "program", "drawn"),
    [
        (None, "enforce", "enforce", "enforce"),
        (None, "advise", "enforce", "advise"),
        (None, "enforce", "observe", "observe"),
        ("observe", "enforce", "enforce", "observe"),
        ("enforce", "observe", "enforce", "observe"),
        ("rubbish", "enforce", "enforce", "off"),
        (None, "enforce", "off", "off"),
    ],
)
def test_lowest_arm_is_drawn(start, user, site, program, drawn):
    controller = start()
    controller.write_advice(controller.keys()[0], arm=program)
    controller.write_site(arm=site)
    job = controller.job({} if user is None else {"SLURM_TOPO": user})
    controller.submit(job)
    assert job.marks["ARM"] == drawn


def arms(controller, count: int) -> list[str]:
    drawn = []
    for _ in range(count):
        job = controller.job({})
        controller.submit(job)
        drawn.append(job.marks["ARM"])
    return drawn


def test_holdout_is_the_share_that_the_site_asked_for(start):
    controller = start()
    controller.write_advice(controller.keys()[0], holdout="0.25")
    drawn = arms(controller, 2000)
    # Binomial with n = 2000, p = 0.25: six standard deviations are 0.058.
    assert abs(drawn.count("observe") / 2000 - 0.25) < 0.058
    # Neither in long runs of one arm: the chance of 60 times enforce in a row is below 1e-4.
    assert "enforce," * 60 not in ",".join(drawn)


def test_held_out_job_says_so(start):
    controller = start()
    controller.write_advice(controller.keys()[0], holdout="1")
    job = controller.job({})
    controller.submit(job)
    assert job.marks["ARM"] == "observe"
    assert job.comment.startswith("slurm-topo:1 arm=observe reason=holdout keys=")


def test_nothing_is_held_out_where_nothing_can_be_placed(start):
    controller = start()
    controller.write_advice(controller.keys()[0], holdout="1", graph=None, trace="1")
    assert arms(controller, 5) == ["enforce"] * 5


def test_draw_differs_between_processes(start):
    controller, other = start(), start()
    controller.write_advice(controller.keys()[0], holdout="0.5")
    assert arms(controller, 64) != arms(other, 64)


def variants(controller, count: int) -> list[str | None]:
    drawn = []
    for _ in range(count):
        job = controller.job({})
        controller.submit(job)
        drawn.append(job.marks.get("VARIANT"))
    return drawn


@pytest.mark.parametrize(("used", "other"), [("spread", "packed"), ("packed", "spread")])
def test_small_share_tries_the_other_variant(start, used, other):
    controller = start()
    controller.write_advice(controller.keys()[0], variant=used, trial="0.1")
    drawn = variants(controller, 2000)
    assert set(drawn) == {used, other}
    # Binomial with n = 2000, p = 0.1: six standard deviations are 0.040.
    assert abs(drawn.count(other) / 2000 - 0.1) < 0.040


def test_variant_and_arm_are_drawn_apart(start):
    controller = start()
    controller.write_advice(controller.keys()[0], variant="spread", trial="0.5", holdout="0.5")
    seen = set()
    for _ in range(64):
        job = controller.job({})
        controller.submit(job)
        seen.add((job.marks["ARM"], job.marks.get("VARIANT")))
    # Who is held out has none.
    assert seen == {("observe", None), ("enforce", "spread"), ("enforce", "packed")}


def test_variant_is_in_the_comment(start):
    controller = start()
    controller.write_advice(controller.keys()[0], variant="packed", trial="0")
    job = controller.job({})
    controller.submit(job)
    assert job.marks["VARIANT"] == "packed"
    assert job.comment.endswith(" graph=ab12 variant=packed")


def test_variant_of_the_job_that_submits_is_not_inherited(start):
    controller = start()
    controller.write_advice(controller.keys()[0])
    job = controller.job({"SLURM_TOPO_JOB_VARIANT": "packed"})
    controller.submit(job)
    assert not job.marks.get("VARIANT")


@pytest.mark.parametrize(("variant", "trial"), [("scattered", "0.1"), ("packed", "2")])
def test_advice_with_another_variant_is_malformed(start, variant, trial):
    controller = start()
    controller.write_advice(controller.keys()[0], variant=variant, trial=trial)
    job = controller.job({})
    controller.submit(job)
    assert "reason=advice-malformed" in job.comment
