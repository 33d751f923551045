"""The lab that all tests of this folder share: brought up once for a session, taken down at its end."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_topo.lab.cluster import Lab
from slurm_topo.lab.host import missing_packages
from slurm_topo.lab.options import LabOptions
from slurm_topo.lab.processes import find_keepers

_PREFIX = "stlab-test-"
_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _HERE in item.path.parents:
            item.add_marker(pytest.mark.lab)


def _obstacle() -> str:
    if os.geteuid() != 0:
        return "only root can bring up a lab"
    missing = missing_packages()
    return f"packages are missing: {' '.join(missing)}" if missing else ""


def _take_down_orphans() -> None:
    """Take down labs of sessions that were killed; their process id is in the name."""
    for folder in find_keepers().values():
        match = re.fullmatch(rf"{_PREFIX}(\d+)(-.*)?", folder.name)
        if match and not Path(f"/proc/{match[1]}").exists():
            Lab(folder).down(purge=True)


@pytest.fixture(scope="session")
def lab_folder() -> Iterator[Path]:
    """A folder that all users can enter, short enough for sockets; labs of other tests go beside it.

    Skips where no lab can run, unless SLURM_TOPO_REQUIRE_LAB=1.
    """
    obstacle = _obstacle()
    if obstacle and os.environ.get("SLURM_TOPO_REQUIRE_LAB") == "1":
        pytest.fail(obstacle)
    if obstacle:
        pytest.skip(obstacle)
    _take_down_orphans()
    folder = Path(f"/tmp/{_PREFIX}{os.getpid()}")
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def lab(lab_folder: Path) -> Iterator[Lab]:
    """A running lab: four nodes of two CPUs under two switches, with slurm_topo in it."""
    lab = Lab(lab_folder)
    try:
        lab.up(LabOptions())
        yield lab
    finally:
        if lab_folder.exists():
            lab.down(purge=True)
