"""Every run has exactly one fate, and the counts add up."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_topo.report.comparison.method import Method
from slurm_topo.report.comparison.selection import REASONS, select
from slurm_topo.report.runs import Labels, Runs, runs_of

BASE = {
    "program": [1, 1], "user": ["u", "u"], "partition": ["p", "p"], "arm": ["observe", "enforce"],
    "state": ["COMPLETED"] * 2, "elapsed": [10.0, 9.0], "nodes": [2, 2], "ranks": [4, 4],
    "placed": [False, True], "start": [0.0, 5.0],
}  # fmt: skip
ODD = {
    "did not complete": {"state": "TIMEOUT"},
    "time is not known": {"elapsed": np.nan},
    "shorter than the limit": {"elapsed": 1.0},
    "arm is neither observe nor enforce": {"arm": "off"},
    "carried the tracer": {"traced": True},
    "no graph was known at submission": {"eligible": False},
    "stood down although assigned": {"placed": False, "arm": "enforce"},
    "part of the key is not known": {"nodes": np.nan},
    "no run of the other side with the same key": {"nodes": 64},
}


def with_odd(change: dict[str, object]) -> Runs:
    """Two good runs and a third that differs from the second in one thing."""
    columns = {**BASE, "traced": [False, False], "eligible": [True, True]}
    made = {name: [*values, change.get(name, values[1])] for name, values in columns.items()}  # type: ignore[misc]
    return runs_of({"job": [1, 2, 3], **made})


@pytest.mark.parametrize("reason", REASONS)
def test_each_reason_is_given_for_what_it_says(reason: str) -> None:
    method = Method(estimand="placed", shortest_s=2.0)
    found = select(with_odd(ODD[reason]), method)
    assert found.used.tolist() == [True, True, False]
    assert found.counts() == {reason: 1}


def test_a_run_that_stood_down_counts_where_it_was_assigned() -> None:
    found = select(with_odd(ODD["stood down although assigned"]), Method(estimand="assigned"))
    assert found.used.all()
    assert found.after.tolist() == [False, True, True]


@given(st.integers(0, 100_000))
@settings(max_examples=40, deadline=None)
def test_counts_add_up_and_keys_have_both_sides(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 80))
    pick = {
        "state": ("COMPLETED", "FAILED"),
        "arm": ("observe", "enforce", "off", ""),
        "user": ("a", "b"),
        "partition": ("p", "q"),
    }
    columns: dict[str, object] = {
        name: Labels(rng.integers(0, len(words), n).astype(np.int32), words) for name, words in pick.items()
    }
    for name in ("elapsed", "nodes", "ranks"):
        columns[name] = np.where(rng.random(n) < 0.1, np.nan, rng.integers(0, 3, n).astype(float))
    for name in ("placed", "traced", "eligible"):
        columns[name] = rng.random(n) < 0.7
    runs = runs_of({"job": np.arange(n), "program": rng.integers(0, 3, n), **columns})
    found = select(runs, Method())
    assert int(found.used.sum()) + sum(found.counts().values()) == n
    for key in np.unique(found.key[found.used]):
        rows = found.key == key
        assert set(found.after[rows].tolist()) == {False, True}
        for name in ("program", "nodes", "ranks"):
            assert len(np.unique(getattr(runs, name)[rows])) == 1
        for name in ("user", "partition"):
            assert len(set(getattr(runs, name).take(rows).texts())) == 1
        assert len(np.unique(found.cluster[rows])) == 1


def test_the_order_of_the_runs_does_not_matter(runs: Runs) -> None:
    order = np.random.default_rng(0).permutation(len(runs))
    there = select(runs, Method())
    back = select(replace(runs).take(order), Method())
    assert there.reason[order].tolist() == back.reason.tolist()
