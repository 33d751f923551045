"""What docs/report.md and docs/compare.md show works as it is written."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path

import click
import pytest

from slurm_topo.cli.compare import compare
from slurm_topo.cli.report import report
from slurm_topo.report.comparison.method import Method, make_method
from slurm_topo.report.comparison.prices import NAMES, make_prices
from slurm_topo.report.comparison.selection import REASONS


def blocks(path: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)


def test_the_methods_defaults_are_those_of_the_description(project_root: Path) -> None:
    method, _ = blocks(project_root / "docs/compare.md", "toml")
    assert make_method(tomllib.loads(method), "docs/compare.md") == Method()


def test_the_prices_of_the_description_hold_every_name(project_root: Path) -> None:
    _, prices = blocks(project_root / "docs/compare.md", "toml")
    assert set(make_prices(tomllib.loads(prices), "docs/compare.md").prices) == set(NAMES)


def test_every_reason_of_exclusion_is_described(project_root: Path) -> None:
    text = " ".join((project_root / "docs/compare.md").read_text(encoding="utf-8").split())
    for reason in REASONS:
        assert reason in text, reason


@pytest.mark.parametrize(("page", "command"), [("docs/report.md", report), ("docs/compare.md", compare)])
def test_every_command_of_the_description_parses(
    project_root: Path, page: str, command: click.Command
) -> None:
    lines = [line for block in blocks(project_root / page, "") for line in block.splitlines()]
    shown = [re.split(r"\s{2,}", line)[0] for line in lines if line.startswith(f"slurm-topo {command.name}")]
    assert len(shown) >= 4
    for line in shown:
        command.make_context(str(command.name), shlex.split(line)[2:])
