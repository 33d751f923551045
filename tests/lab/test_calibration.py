"""Calibration in the lab, whose links are shaped: the true bandwidth of each level between nodes is known."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from slurm_topo.lab.cluster import Lab
from slurm_topo.lab.options import parse_rate
from slurm_topo.machine import read_cluster

COMMAND = [sys.executable, "-m", "slurm_topo.cli.main", "machine"]
# Messages start with a burst that the shapers let pass, and end with what the frames cost.
TOLERANCE = 0.15


@pytest.fixture(scope="module")
def folder(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the description of the lab was made from Slurm's words, and calibrated."""
    folder = tmp_path_factory.mktemp("calibration")
    for name, command in (
        ("nodes", ["scontrol", "--oneliner", "show", "node"]),
        ("topology", ["scontrol", "show", "topology"]),
    ):
        (folder / f"{name}.txt").write_text(lab.run(command).stdout)
    made = [str(folder / name) for name in ("nodes.txt", "topology.txt")]
    subprocess.run([*COMMAND, "import", *made, "-o", str(folder / "cluster.json")], check=True)
    result = lab.run(
        [*COMMAND, "calibrate", "cluster.json", "--pairs", "2", "-o", "measured.json", "--format", "json"],
        cwd=str(folder),
    )
    assert result.returncode == 0, result.stderr
    (folder / "fit.json").write_text(result.stdout)
    return folder


@pytest.fixture(scope="module")
def fits(folder: Path) -> dict[str, dict[str, Any]]:
    return {level["name"]: level for level in json.loads((folder / "fit.json").read_text())["levels"]}


@pytest.mark.parametrize(("level", "speed"), [("switch", "link_speed"), ("switch2", "uplink_speed")])
def test_bandwidth_of_shaped_links_is_found(lab: Lab, fits: dict[str, Any], level: str, speed: str) -> None:
    true = parse_rate(getattr(lab.layout.options, speed)) / 8
    assert fits[level]["one_pair"] == pytest.approx(true, rel=TOLERANCE)
    # Two pairs share the link, which carries both ways at once: ping and pong may pass each other.
    assert true * (1 - TOLERANCE) < fits[level]["total"] < 2 * true
    assert true / 2 * (1 - TOLERANCE) < fits[level]["share"] < true


def test_levels_are_ordered_as_they_were_built(fits: dict[str, Any]) -> None:
    assert list(fits) == ["node", "switch", "switch2"]
    assert fits["node"]["share"] > fits["switch"]["share"] > fits["switch2"]["share"]
    assert fits["node"]["latency_s"] < fits["switch"]["latency_s"]


def test_models_of_the_description_use_what_was_measured(folder: Path, fits: dict[str, Any]) -> None:
    levels = {level.name: level for level in read_cluster(folder / "measured.json").machine().levels}
    assert {name: level.origin for name, level in levels.items()} == dict.fromkeys(fits, "measured")
    for name, fit in fits.items():
        assert levels[name].bandwidth == pytest.approx(fit["share"])
    stored = json.loads((folder / "measured.json").read_text())["levels"]
    assert all({"date", "method", "spread"} <= level["meta"].keys() for level in stored)
