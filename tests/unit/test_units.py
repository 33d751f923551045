"""Slurm's times, sizes and hostlists."""

from __future__ import annotations

import doctest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_topo import units
from slurm_topo.errors import InputError


def test_examples_in_docstrings_run() -> None:
    assert doctest.testmod(units).failed == 0


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 5400),
        ("1:30", 90),
        ("01:30:00", 5400),
        ("2-12", 216000),
        ("1-00:00:01", 86401),
        ("00:00:01.5", 1.5),
    ],
)
def test_time_of_every_form(text: str, seconds: float) -> None:
    assert units.parse_time(text) == seconds


@pytest.mark.parametrize("text", ["", "abc", "1:2:3:4", "-5", "1-", "٢:٢"])
def test_bad_time_is_one_clear_error(text: str) -> None:
    with pytest.raises(InputError, match="not a Slurm time"):
        units.parse_time(text)


@pytest.mark.parametrize(
    "text", ["n[1-", "n]1[", "n[3-1]", "n[a-b]", "n[[1]]", "n[1-9999999]", "n[²]", "n[1-٤]"]
)
def test_bad_hostlist_is_one_clear_error(text: str) -> None:
    with pytest.raises(InputError, match="hostlist"):
        units.expand_hostlist(text)


def test_hostlist_with_two_brackets_expands_in_order() -> None:
    assert units.expand_hostlist("r[1-2]n[08-09]") == ["r1n08", "r1n09", "r2n08", "r2n09"]


@given(st.lists(st.integers(0, 5000), min_size=1, max_size=60, unique=True))
def test_folded_hostlist_expands_to_the_same_hosts(numbers: list[int]) -> None:
    hosts = {f"node{n}" for n in numbers}
    assert set(units.expand_hostlist(units.fold_hostlist(sorted(hosts)))) == hosts


@pytest.mark.parametrize(
    ("hosts", "folded"),
    [
        (["n0", "n1"], "n[0-1]"),
        (["n00", "n01"], "n[00-01]"),
        (["n0", "n00", "n1"], "n[0-1],n00"),
        (["n9", "n10"], "n[9-10]"),
    ],
)
def test_a_zero_alone_is_no_padding(hosts: list[str], folded: str) -> None:
    assert units.fold_hostlist(hosts) == folded


@given(st.lists(st.from_regex(r"[a-c][0-9]{1,3}", fullmatch=True), unique=True))
def test_padded_names_fold_without_loss(hosts: list[str]) -> None:
    assert set(units.expand_hostlist(units.fold_hostlist(hosts))) == set(hosts)


@given(st.sets(st.integers(0, 4000), max_size=80))
def test_folded_numbers_expand_to_the_same_numbers(numbers: set[int]) -> None:
    assert units.expand_ints(units.fold_ints(numbers)) == sorted(numbers)


@pytest.mark.parametrize(
    ("text", "nbytes"), [("1024", 1024), ("1K", 1024), ("1.5G", 1.5 * 2**30), ("2MiB", 2**21)]
)
def test_size_of_every_form(text: str, nbytes: float) -> None:
    assert units.parse_size(text) == nbytes
