"""Programs that placing makes slower go back to observe, and stay there until they are set free."""

from __future__ import annotations

import numpy as np
import pytest

from slurm_topo.history.sync.judge import judge, set_free


def add_runs(site, placed: list[int], other: list[int]) -> str:
    keys, job = "", 0
    for times, arm in ((other, "observe"), (placed, "enforce")):
        for seconds in times:
            job += 1
            keys = site.add_job(job, seconds=seconds, arm=arm, end=site.now - 5000 + job)
            if arm == "enforce":
                told = (
                    '{"format": "slurm-topo-record", "version": 1, "time": 1, "where": "srun", '
                    f'"job": {job}, "ranks": 8, "decision": "place", "reason": "cost"}}\n'
                )
                site.write("records", f"{job}.1.n1.rec", told)
    return keys


def test_program_that_got_slower_is_switched_back(site):
    keys = add_runs(site, placed=[120, 121, 119, 122, 118], other=[100, 101, 99, 100, 102])
    result = site.sync()
    assert len(result.switched) == 1
    assert "placed runs take 120.0 s where others take 100.0 s" in result.switched[0]
    assert site.advice()[keys.split(":")[0]]["arm"] == "observe"
    with site.history() as history:
        (program,) = history.programs()
        assert program.arm == "observe"
        assert "noise" in program.arm_reason
    assert site.sync().switched == []


@pytest.mark.parametrize(
    ("placed", "other"),
    [
        ([120] * 4, [100] * 5),
        ([101, 100, 100, 101, 100], [100] * 5),
        ([50, 51, 52, 50, 49], [100] * 5),
        ([60, 180, 100, 150, 90], [60, 160, 100, 130, 80]),
    ],
    ids=["too few", "within the clock", "faster", "within the noise"],
)
def test_program_stays_placed(site, placed, other):
    add_runs(site, placed, other)
    assert site.sync().switched == []


def test_null_effect_is_rarely_called_worse():
    rng = np.random.default_rng(1)
    wrong = sum(
        bool((v := judge(rng.normal(100, 10, 12).tolist(), rng.normal(100, 10, 12).tolist())) and v.worse)
        for _ in range(1000)
    )
    assert wrong <= 15


def test_real_slowdown_is_found():
    rng = np.random.default_rng(2)
    found = sum(
        judge(rng.normal(130, 5, 10).tolist(), rng.normal(100, 5, 10).tolist()).worse for _ in range(200)
    )
    assert found == 200


def test_program_that_was_set_free_is_judged_by_later_runs(site):
    keys = add_runs(site, placed=[120] * 5, other=[100] * 5)
    site.sync()
    with site.history() as history, history.writing() as connection:
        assert set_free(connection, 1, site.now)
        assert not set_free(connection, 99, site.now)
    assert site.sync().switched == []
    assert site.advice()[keys.split(":")[0]]["arm"] == "enforce"
