"""Whose cluster description a launch is placed on: anybody may make files in the spool."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from slurm_topo.cli.launch import description_of
from slurm_topo.config import Settings
from slurm_topo.errors import MachineError, SlurmError

TEXT = (
    '{"format": "slurm-topo-cluster", "version": 1, "nodes": [{"names": "n1", "class": "a"}],'
    ' "classes": {"a": {"sockets": 1, "cores_per_socket": 2}}}'
)
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give files away")


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "spool").mkdir(mode=0o1777)
    (tmp_path / "spool" / "cluster.json").write_text(TEXT)
    return replace(Settings(), spool=str(tmp_path / "spool"))


def test_description_of_the_site_is_read(settings: Settings) -> None:
    assert list(description_of(settings).nodes) == ["n1"]


@as_root
def test_description_of_the_spools_owner_is_read(settings: Settings) -> None:
    for path in (Path(settings.spool), settings.cluster_file):
        os.chown(path, 65534, 65534)
    assert list(description_of(settings).nodes) == ["n1"]


@as_root
def test_description_of_slurm_user_is_read(settings: Settings) -> None:
    os.chown(settings.cluster_file, 64030, 64030)
    config = "SlurmctldPort           = 6817\nSlurmUser               = slurm(64030)\n"
    assert list(description_of(settings, lambda argv: config).nodes) == ["n1"]


@as_root
@pytest.mark.parametrize("config", ["SlurmUser               = slurm(64030)\n", "", None])
def test_description_of_another_user_is_refused(settings: Settings, config: str | None) -> None:
    os.chown(settings.cluster_file, 65534, 65534)

    def run(argv: Sequence[str]) -> str:
        if config is None:
            raise SlurmError("scontrol: failed")
        return config

    with pytest.raises(MachineError, match="only root, SlurmUser or the spool's owner"):
        description_of(settings, run)


@pytest.mark.parametrize("kind", ["link", "fifo", "folder", "open"])
def test_what_anybody_could_have_put_there_is_refused(settings: Settings, tmp_path: Path, kind: str) -> None:
    path = settings.cluster_file
    if kind == "open":
        path.chmod(0o666)
    else:
        path.rename(tmp_path / "whole.json")
    if kind == "link":
        path.symlink_to(tmp_path / "whole.json")
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    with pytest.raises(MachineError, match="only root, SlurmUser or the spool's owner"):
        description_of(settings)


def test_description_that_the_site_names_is_its_own_affair(settings: Settings, tmp_path: Path) -> None:
    link = tmp_path / "link.json"
    link.symlink_to(settings.cluster_file)
    assert list(description_of(replace(settings, cluster=str(link))).nodes) == ["n1"]
