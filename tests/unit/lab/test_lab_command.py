"""The command line of the lab where there is none."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from slurm_topo.cli.lab import lab
from slurm_topo.errors import LabError


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch) -> CliRunner:
    monkeypatch.setattr("slurm_topo.cli.lab._as_root", lambda: None)
    monkeypatch.delenv("SLURM_TOPO_LAB_DIR", raising=False)
    return CliRunner()


@pytest.mark.parametrize("words", [["status"], ["env"], ["logs"], ["run", "--", "true"], ["shell"], ["down"]])
def test_a_folder_without_a_lab_is_named(runner: CliRunner, tmp_path: Path, words: list[str]) -> None:
    folder = tmp_path / "lab"
    result = runner.invoke(lab, [words[0], "--dir", str(folder), *words[1:]])
    assert isinstance(result.exception, LabError)
    assert str(folder) in str(result.exception)
    assert not folder.exists()


def test_the_folder_can_come_from_the_environment(
    runner: CliRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_TOPO_LAB_DIR", str(tmp_path / "elsewhere"))
    assert "elsewhere" in str(runner.invoke(lab, ["status"]).exception)


def test_missing_packages_are_named_with_what_installs_them(monkeypatch: pytest.MonkeyPatch) -> None:
    from slurm_topo.lab import host

    monkeypatch.setattr(host.os, "geteuid", lambda: 0)
    monkeypatch.setattr(host.shutil, "which", lambda command, path: None if command == "munged" else command)
    monkeypatch.setattr(host, "_LIBRARIES", {"slurm*/no_such_plugin.so": "slurm-wlm-mysql-plugin"})
    with pytest.raises(LabError, match=r"apt-get install .* munge slurm-wlm-mysql-plugin$"):
        host.check_machine()


def test_whoever_is_not_root_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    from slurm_topo.lab import host

    monkeypatch.setattr(host.os, "geteuid", lambda: 1000)
    with pytest.raises(LabError, match="root"):
        host.check_machine()
