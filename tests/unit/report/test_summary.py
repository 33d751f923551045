"""The figures of a report follow from the runs."""

from __future__ import annotations

import csv
import json
from dataclasses import replace

import numpy as np
import pytest

from slurm_topo.report.export import render_csv, render_json
from slurm_topo.report.periods import period_labels, period_names
from slurm_topo.report.runs import Labels, Program, Records, Runs, no_traffic, runs_of
from slurm_topo.report.summary import summarise
from slurm_topo.report.table import render


def records(runs: Runs) -> Records:
    return Records(runs, {}, no_traffic())


def test_counts_add_up(runs: Runs) -> None:
    report = summarise(records(runs))
    assert report.runs == len(runs) == sum(p.runs for p in report.programs)
    assert report.placed == runs.placed.sum() == sum(a.placed for p in report.programs for a in p.arms)
    assert sum(n for _, n in report.stood_down) == runs.decision.isin(("stand-down",)).sum()
    for _, groups in report.groups:
        assert sum(g.runs for g in groups) == report.runs
        assert sum(g.saved.value or 0 for g in groups) == pytest.approx(report.saved.value)


def test_the_saving_is_the_effect_of_the_history(runs: Runs) -> None:
    report = summarise(records(runs))
    savings = [p.saving for p in report.programs]
    assert np.mean([s.value for s in savings]) == pytest.approx(0.2, abs=0.02)
    assert all(s.low is not None and s.high is not None and s.low < s.value < s.high for s in savings)  # type: ignore[operator]
    hours = float(runs.node_hours[runs.placed].sum())
    assert report.saved.value == pytest.approx(hours * (1 / 0.8 - 1), rel=0.15)


def test_runs_that_did_not_complete_are_counted_but_not_timed(runs: Runs) -> None:
    failed = replace(runs, state=Labels(np.zeros(len(runs), dtype=np.int32), ("FAILED",)))
    report = summarise(records(failed))
    assert report.runs == len(runs)
    assert not report.saved.known
    assert not any(p.time_before.known or p.saving.known for p in report.programs)


def test_one_run_on_each_side_gives_a_saving_without_an_interval() -> None:
    made = runs_of(
        {
            "job": [1, 2],
            "program": [5, 5],
            "state": ["COMPLETED", "COMPLETED"],
            "elapsed": [10.0, 6.0],
            "nodes": [2, 2],
            "placed": [False, True],
            "arm": ["enforce", "enforce"],
            "decision": ["trace", "place"],
        }
    )
    program = summarise(records(made)).programs[0]
    assert program.saving.value == pytest.approx(0.4)
    assert program.saving.low is None
    assert program.saved.value == pytest.approx(2 * 4 / 3600)


def test_a_limited_report_keeps_the_best_and_all_that_were_switched_back(runs: Runs) -> None:
    everything = summarise(records(runs))
    last = everything.programs[-1].program
    back = {last: Program(last, "slow", "u", "a", switched_back="slower in 9 of 9 runs")}
    some = summarise(replace(records(runs), programs=back), most=2)
    assert [p.program for p in some.programs] == [*(p.program for p in everything.programs[:2]), last]
    assert some.all_programs == everything.all_programs
    assert some.saved == everything.saved


def test_weeks_are_iso_weeks_of_utc() -> None:
    labels = period_labels(np.array([1798761599.0, 1798761600.0, 1798934400.0, np.nan]), "week")
    assert labels.texts() == ["2026-W53", "2026-W53", "2026-W53", ""]
    assert period_labels(np.array([1798329599.0, 1798329600.0]), "week").texts() == ["2026-W52", "2026-W52"]


def test_a_series_has_no_gap_and_holds_every_run(runs: Runs) -> None:
    for rows in (runs, runs.take(runs.start < runs.start.min() + 86400 * 9), runs.take(np.arange(5))):
        unit, points = summarise(records(rows)).series
        assert sum(p.runs for p in points) == len(rows)
        names = period_names(float(rows.start.min()), float(rows.start.max()), unit)
        assert [p.name for p in points] == names
        assert len(set(names)) == len(names)
    assert summarise(records(runs)).series[0] == "week"


def test_a_history_without_runs_is_a_report_without_figures(runs: Runs) -> None:
    report = summarise(records(runs.take(np.zeros(len(runs), dtype=bool))))
    assert report.runs == 0
    assert report.programs == ()
    assert not report.saved.known


def test_programs_worth_a_look_say_why(runs: Runs) -> None:
    assert summarise(records(runs)).notices == ()
    odd = runs.take(np.arange(len(runs)))
    slow = (odd.program == 1) & odd.placed
    odd.elapsed[slow] *= 2
    never = odd.program == 2
    odd.placed[never] = False
    odd.decision.codes[never] = 0
    alone = (odd.program == 3) & ~odd.placed
    odd.placed[odd.program == 3] = False
    odd.decision.codes[odd.program == 3] = 0
    odd.decision.codes[alone | (odd.program == 3)] = odd.decision.names.index("stand-down")
    known = {2: Program(2, "untraced", "u", "a"), 3: Program(3, "alone", "u", "a", graph="f" * 16)}
    said = {n.program: n.why for n in summarise(replace(records(odd), programs=known)).notices}
    assert set(said) == {1, 2, 3}
    assert said[1].startswith("slower when placed, by ")
    assert said[2].startswith("no communication graph after ")
    assert said[3].startswith("left alone in ")


def advised(placed: bool) -> Runs:
    """A run that was left alone in each of two arms, and one that was placed or not."""
    return runs_of(
        {
            "job": [1, 2, 3],
            "program": [5, 5, 5],
            "state": ["COMPLETED"] * 3,
            "elapsed": [10.0, 10.0, 6.0],
            "nodes": [2, 2, 2],
            "placed": [False, False, placed],
            "arm": ["observe", "advise", "enforce"],
            "decision": ["trace", "none", "place" if placed else "stand-down"],
            "cost": [9.0, 2.0, 3.0],
            "baseline": [8.0, 8.0, 8.0],
        }
    )


def test_what_arm_advise_would_have_placed_is_a_prospect_until_something_is_placed() -> None:
    report = summarise(records(advised(placed=False)))
    assert report.programs[0].cost_after.value == 2
    assert "8.00 s~ -> 2.00 s~  (-75.0 %)  if it were placed" in render(report)
    report = summarise(records(advised(placed=True)))
    assert report.programs[0].cost_after.value == 3
    assert "if it were placed" not in render(report)


def packing(variant: str = "", reason: str = "") -> Records:
    """A program with three spread runs, one packed one, and one of another shape."""
    made = runs_of(
        {
            "job": [1, 2, 3, 4, 5],
            "program": [5] * 5,
            "state": ["COMPLETED"] * 5,
            "elapsed": [10.0, 12.0, 11.0, 8.0, 50.0],
            "nodes": [2] * 5,
            "placed": [True] * 5,
            "arm": ["enforce"] * 5,
            "decision": ["place"] * 5,
            "variant": ["spread", "spread", "spread", "packed", ""],
        }
    )
    known = {5: Program(5, "halo", "ada", "", variant=variant, variant_reason=reason)}
    return Records(made, known, no_traffic())


def test_spread_and_packed_runs_are_counted_and_timed() -> None:
    report = summarise(packing())
    (program,) = report.programs
    assert [(v.variant, v.runs, v.time.value) for v in program.variants] == [
        ("spread", 3, 11.0),
        ("packed", 1, 8.0),
    ]
    assert (program.variant, program.variant_reason) == ("spread", "no difference shown yet")
    text = render(report)
    assert "ranks spread        3 runs, median 11.0 s" in text
    assert "ranks packed        1 run, median 8.00 s" in text
    assert "in use: spread      no difference shown yet" in text


def test_way_in_use_says_why() -> None:
    report = summarise(packing("packed", "packed runs take 8.0 s where spread ones take 11.0 s"))
    assert "in use: packed      packed runs take 8.0 s where spread ones take 11.0 s" in render(report)
    exported = json.loads(render_json(report))["programs"][0]
    assert exported["variant"] == "packed"
    assert [v["runs"] for v in exported["variants"]] == [3, 1]
    (row,) = csv.DictReader(render_csv(report).splitlines())
    assert (row["variant"], row["spread_runs"], row["packed_runs"]) == ("packed", "3", "1")
    assert (float(row["time_spread"]), float(row["time_packed"])) == (11.0, 8.0)


def test_program_without_a_choice_says_nothing_of_it(runs: Runs) -> None:
    report = summarise(records(runs))
    assert not any(p.variants or p.variant for p in report.programs)
    assert "packed" not in render(report, details=20)
