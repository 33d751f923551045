"""Collectives: what the tracer models against what Open MPI's monitoring component sees, case by case."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.mpi
MONITORED = ("--mca", "pml_monitoring_enable", "1")
SIZES = ["1", "5", "12", "40", "100", "300", "700", "1500", "5000", "20000", "70000", "300000", "1500000"]


@pytest.fixture
def compare(
    program: Callable[..., Path], mpirun: Callable[..., list[str]], run: Callable[..., Any]
) -> Callable[..., tuple[int, int, str]]:
    """Cases, failures and the differences of one run of programs/compare.c."""

    def compare_run(ranks: int, *arguments: str) -> tuple[int, int, str]:
        done = run([*mpirun(ranks, *MONITORED), str(program("compare.c")), *arguments])
        assert done.returncode == 0, done.stderr
        words = done.stdout.split()
        return int(words[1]), int(words[3]), done.stderr

    return compare_run


@pytest.mark.parametrize("ranks", [2, 3, 5, 8])
def test_blocking_collectives_equal_the_monitoring(compare: Callable[..., Any], ranks: int) -> None:
    cases, failures, differences = compare(ranks, "b", *SIZES)
    assert cases > 300
    assert failures == 0, differences


def test_blocking_collectives_of_many_ranks_equal_the_monitoring(compare: Callable[..., Any]) -> None:
    cases, failures, differences = compare(17, "b", *SIZES[:-3])
    assert cases > 200
    assert failures == 0, differences


@pytest.mark.parametrize("ranks", [2, 3, 4, 7])
def test_nonblocking_collectives_equal_the_monitoring(compare: Callable[..., Any], ranks: int) -> None:
    cases, failures, differences = compare(ranks, "n", "1", "100", "5000", "70000", "300000")
    assert cases > 100
    assert failures == 0, differences


@pytest.mark.parametrize("ranks", [2, 4, 6])  # the component itself fails with unequal groups
def test_collectives_between_two_groups_equal_the_monitoring(compare: Callable[..., Any], ranks: int) -> None:
    cases, failures, differences = compare(ranks, "i", "4", "100", "5000", "70000")
    assert cases > 40
    assert failures == 0, differences
