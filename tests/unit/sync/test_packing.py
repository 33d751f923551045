"""Spread or packed: decided from times, and decided again."""

from __future__ import annotations

import numpy as np
import pytest

from slurm_topo.history.sync.packing import compare, newest_together


class Site:
    """Runs of one program as the submit hook draws their variants, looked at after every fifth run."""

    def __init__(self, seed: int, noise: float, trial: float = 0.1) -> None:
        self.rng = np.random.default_rng(seed)
        self.noise, self.trial = noise, trial
        self.used, self.runs, self.switches, self.count = "spread", [], [], 0

    def run(self, saving: float, count: int) -> None:
        """So many runs, of which packed ones take (1 - saving) times as long as spread ones."""
        for _ in range(count):
            self.count += 1
            other = "packed" if self.used == "spread" else "spread"
            variant = other if self.rng.random() < self.trial else self.used
            mean = 100 * (1 - saving if variant == "packed" else 1)
            seconds = float(round(mean * np.exp(self.rng.normal(0, self.noise))))
            self.runs.insert(0, (self.count, variant, seconds))
            if self.count % 5 == 0:
                self._look()

    def _look(self) -> None:
        found = compare(*newest_together(self.runs, self.used))
        if found and found.other_is_faster:
            self.used = "packed" if self.used == "spread" else "spread"
            self.switches.append((self.count, self.used))
            self.runs.clear()


@pytest.mark.parametrize("noise", [0.01, 0.1, 0.3])
def test_noise_switches_nothing(noise):
    sites = [Site(seed, noise) for seed in range(20)]
    for site in sites:
        site.run(0.0, 400)
    # Two-sided 0.02 % a look; looks at nearly the same runs are nearly the same look.
    assert sum(len(site.switches) for site in sites) <= 1


@pytest.mark.parametrize(
    ("saving", "noise", "count"), [(0.05, 0.01, 200), (0.05, 0.03, 400), (0.2, 0.03, 150), (0.2, 0.1, 300)]
)
def test_packed_is_chosen_where_it_is_faster_and_stays(saving, noise, count):
    sites = [Site(seed, noise) for seed in range(8)]
    for site in sites:
        site.run(saving, count)
        assert [used for _, used in site.switches] == ["packed"]
        site.run(saving, 200)
        assert site.used == "packed"
        assert len(site.switches) == 1


@pytest.mark.parametrize("saving", [-0.05, -0.2, 0.01])
def test_spread_stays_where_packed_is_slower_or_hardly_faster(saving):
    for seed in range(8):
        site = Site(seed, 0.03)
        site.run(saving, 300)
        assert site.switches == []


@pytest.mark.parametrize("loss", [0.05, 0.2])
def test_choice_is_taken_back_when_times_get_worse(loss):
    for seed in range(8):
        site = Site(seed, 0.02)
        site.run(0.2, 150)
        assert site.used == "packed"
        site.run(-loss, 500)
        assert [used for _, used in site.switches] == ["packed", "spread"]


def test_few_runs_prove_nothing():
    assert compare([100.0] * 50, [50.0] * 4) is None
    found = compare([100.0] * 5, [50.0] * 5)
    assert found is not None
    assert not found.other_is_faster


def test_difference_that_is_not_worth_it_changes_nothing():
    for other, faster in ((99.0, False), (97.0, True)):
        found = compare([100.0] * 40, [other] * 40)
        assert found is not None
        assert found.z > 5
        assert found.other_is_faster == faster


def test_statistic_is_that_of_mann_and_whitney():
    # By hand: of the 6 x 5 pairs 24 have the second time below the first and 2 are equal, U = 25 of 30.
    used, other = [9.0, 7.0, 8.0, 6.0, 5.0, 7.0], [4.0, 5.0, 3.0, 7.0, 2.0]
    pairs = sum((b < a) + 0.5 * (a == b) for a in used for b in other)
    ties = (3**3 - 3) + (2**3 - 2)
    variance = 6 * 5 / 12 * (12 - ties / (11 * 10))
    found = compare(used, other)
    assert found is not None
    assert found.z == pytest.approx((pairs - 15 - 0.5) / variance**0.5)
    assert (found.used_s, found.other_s) == (7.0, 4.0)


def test_runs_that_hung_do_not_decide():
    times = [100.0, 101.0, 99.0, 100.0, 102.0] * 4
    found = compare([*times, 5000.0, 5000.0], times)
    assert found is not None
    assert not found.other_is_faster


def test_only_runs_of_the_same_weeks_are_compared():
    old = [(day, "spread", 200.0) for day in range(100)]
    new = [(100 + day, "packed" if day % 10 == 0 else "spread", 100.0) for day in range(100)]
    used, other = newest_together([*reversed(new), *reversed(old)], "spread")
    assert set(used) == {100.0}
    assert len(other) == 10


def add_runs(site, first: int, times: list[int], variant: str, decision: str = "place") -> str:
    keys = ""
    for number, seconds in enumerate(times):
        # Every second one: the other variant runs in between.
        job = first + 2 * number
        keys = site.add_job(job, seconds=seconds, end=site.now - 5000 + job, submitted=site.now - 6000 + job)
        reason = "cost" if decision == "place" else "margin"
        site.record(job, decision, reason, variant=variant)
    return keys.split(":")[0]


def test_program_without_a_choice_tries_nothing(site):
    key = add_runs(site, 1, [100] * 3, "")
    site.sync()
    assert "variant" not in site.advice()[key]


def test_program_with_a_choice_is_tried_and_decided(site):
    key = add_runs(site, 1, [100, 101, 99, 102] * 5, "spread")
    site.sync()
    assert site.advice()[key] | {"variant": "spread", "trial": "0.1"} == site.advice()[key]
    add_runs(site, 202, [80, 81, 79, 80, 82, 80, 81, 79], "packed")
    # The other way is compared with what ran at the same time.
    add_runs(site, 201, [100, 101, 99, 102] * 5, "spread")
    result = site.sync()
    assert len(result.repacked) == 1
    assert "packed runs take 80.2 s where spread ones take 100.5 s" in result.repacked[0]
    assert site.advice()[key] | {"variant": "packed", "trial": "0.1"} == site.advice()[key]
    with site.history() as history:
        (program,) = history.programs()
        assert program.variant == "packed"
        assert program.variant_reason in result.repacked[0]
        assert [run.variant for run in history.runs()].count("packed") == 8
    assert site.sync().repacked == []


def test_later_runs_take_the_choice_back(site):
    add_runs(site, 1, [100] * 10, "spread")
    add_runs(site, 2, [80] * 10, "packed")
    assert len(site.sync().repacked) == 1
    site.now += 86400
    add_runs(site, 201, [100] * 10, "spread")
    key = add_runs(site, 202, [130] * 10, "packed")
    (line,) = site.sync().repacked
    assert "spread runs take 100.0 s where packed ones take 130.0 s" in line
    assert site.advice()[key]["variant"] == "spread"


def test_runs_that_slurm_alone_spreads_as_well_are_compared_too(site):
    add_runs(site, 1, [100] * 10, "spread", "stand-down")
    add_runs(site, 2, [80] * 10, "packed")
    assert len(site.sync().repacked) == 1


def test_site_may_decide_itself(site):
    from dataclasses import replace

    site.settings = replace(site.settings, packing="packed")
    add_runs(site, 1, [100] * 10, "spread")
    key = add_runs(site, 2, [80] * 10, "packed")
    assert site.sync().repacked == []
    assert "variant" not in site.advice()[key]


def test_trials_do_not_make_a_program_look_worse_than_slurm(site):
    for job in range(900, 910):
        site.add_job(job, seconds=100, arm="observe", end=site.now - 5000 + job)
    add_runs(site, 1, [90] * 10, "spread")
    add_runs(site, 2, [200] * 10, "packed")
    assert site.sync().switched == []


def test_packed_program_is_held_against_slurm_by_its_packed_runs(site):
    for job in range(900, 910):
        site.add_job(job, seconds=70, arm="observe", end=site.now - 5000 + job)
    add_runs(site, 1, [100] * 10, "spread")
    add_runs(site, 2, [80] * 10, "packed")
    result = site.sync()
    assert len(result.repacked) == 1
    assert "placed runs take 80.0 s where others take 70.0 s" in result.switched[0]
