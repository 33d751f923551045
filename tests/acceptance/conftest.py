"""The emulated machines, each booted once for all of its tests."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance.cases import (
    MEMORY_CASES,
    MEMORY_TRACE,
    NUMA_CASES,
    NUMA_TRACE,
    SMT_CASES,
    SMT_TRACE,
    SYNC,
    setup,
)
from tests.acceptance.guest import Results, run_guest
from tests.acceptance.image import CACHE
from tests.acceptance.shape import Node, Shape
from tests.acceptance.site import site_files

NUMA = Shape("numa")
MEMORY = Shape(
    "memory",
    cores=2,
    hbm=True,
    nodes=(
        Node("n1", "192.0.2.11", gpus="nvidia"),
        Node("n2", "192.0.2.12", gpus="amd"),
        Node("n3", "192.0.2.13", gpus="intel"),
    ),
)
SMT = Shape("smt", cores=2, threads=2, nodes=(Node("n1", "192.0.2.11"),))
TOOLS = ("debootstrap", "qemu-system-x86_64", "mke2fs", "debugfs", "mpicc", "dpkg", "apt-get")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """These proofs take ten minutes and more: they run when they are named (``make acceptance``)."""
    del collection_path
    named = any("acceptance" in str(argument) for argument in config.invocation_params.args)
    return None if named else True


def _run(shape: Shape, cases: list) -> Results:  # type: ignore[type-arg]
    missing = [tool for tool in TOOLS if not shutil.which(tool)]
    if os.geteuid() != 0:
        missing.insert(0, "root's rights")
    if missing:
        word = f"the emulated machine needs {', '.join(missing)}; run `make acceptance`"
        pytest.fail(word) if os.environ.get("SLURM_TOPO_REQUIRE_LAB") else pytest.skip(word)
    return run_guest(shape, site_files(shape), cases, CACHE / f"run-{shape.name}")


@pytest.fixture(scope="session")
def numa() -> Results:
    """Two Slurm nodes on a machine of four NUMA nodes with four cores each."""
    return _run(NUMA, [setup(NUMA), NUMA_TRACE, SYNC, *NUMA_CASES])


@pytest.fixture(scope="session")
def smt() -> Results:
    """A Slurm node of four NUMA nodes with two cores of two threads each."""
    return _run(SMT, [setup(SMT), SMT_TRACE, SYNC, *SMT_CASES])


@pytest.fixture(scope="session")
def memory() -> Results:
    """Three Slurm nodes on a machine of four NUMA nodes with two cores each, HBM and GPUs."""
    return _run(MEMORY, [setup(MEMORY), MEMORY_TRACE, SYNC, *MEMORY_CASES])


@pytest.fixture
def passed() -> Callable[[Results, str], None]:
    """Checks that a case of the machine ended as it should."""

    def check(results: Results, case: str) -> None:
        outcome = results.outcomes[case]
        assert outcome.code == 0, f"{case}: exit code {outcome.code}\n{outcome.stdout}\n{outcome.stderr}"

    return check
