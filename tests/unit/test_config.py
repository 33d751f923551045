"""Settings come from defaults, file, environment and flags, in this order."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_topo.config import Settings, load_settings
from slurm_topo.errors import ConfigError


def write(folder: Path, text: str) -> Path:
    file = folder / "slurm-topo.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_later_sources_win(tmp_path: Path) -> None:
    file = write(tmp_path, 'spool = "/file"\narm = "advise"\nmargin = 0.5\n')
    settings = load_settings(file, {"SLURM_TOPO_ARM": "enforce", "SLURM_TOPO_MARGIN": "0.25"}, margin=0.125)
    assert (settings.spool, settings.arm, settings.margin) == ("/file", "enforce", 0.125)
    assert settings.database == Settings().database


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("spol = 'x'", "spol"),
        ("arm = 'on'", "enforce"),
        ("margin = 'x'", "margin"),
        ("holdout = 2", "between 0 and 1"),
        ("trial = 1.5", "between 0 and 1"),
        ("packing = 'scatter'", "learn, spread, packed"),
        ("memory = 'bind'", "preferred, strict, interleave, hbm, none"),
        ("spool = 3", "quotes"),
        ("spool = ", "TOML"),
    ],
)
def test_bad_file_is_one_clear_error(tmp_path: Path, text: str, word: str) -> None:
    with pytest.raises(ConfigError, match=word):
        load_settings(write(tmp_path, text), {})


def test_a_byte_order_mark_is_no_part_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "slurm-topo.toml"
    file.write_bytes(b'\xef\xbb\xbfarm = "advise"\n')
    assert load_settings(file, {}).arm == "advise"


def test_missing_file_is_an_error_only_when_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load_settings(tmp_path / "none.toml", {})


def test_unknown_variable_is_an_error_but_the_jobs_own_are_not() -> None:
    assert load_settings(None, {"SLURM_TOPO_JOB_ARM": "enforce"}) == load_settings(None, {})
    with pytest.raises(ConfigError, match="spooll"):
        load_settings(None, {"SLURM_TOPO_SPOOLL": "/x"})
