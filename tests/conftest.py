"""Fixtures that every suite shares."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder of recorded data outside the project; tests that need it skip where it is absent."""
    path = Path(os.environ.get("SLURM_TOPO_SHARED", ROOT.parent / "shared"))
    if not (path / "data").is_dir():
        pytest.skip(f"{path}: no recorded data here (set SLURM_TOPO_SHARED)")
    return path


@pytest.fixture(scope="session")
def project_root() -> Path:
    """The checkout."""
    return ROOT
