"""doctor on a real Slurm: nothing on the healthy lab; planted faults by name; its job asks all nodes."""

from __future__ import annotations

import json
import sys
from typing import Any

from slurm_topo.lab.cluster import Lab


def doctor(lab: Lab, *arguments: str) -> tuple[int, list[dict[str, Any]]]:
    command = [
        sys.executable,
        "-m",
        "slurm_topo.cli.main",
        "--config",
        str(lab.layout.etc("slurm-topo.toml")),
    ]
    conf = ["--slurm-conf", str(lab.layout.etc("slurm.conf"))]
    result = lab.run([*command, "doctor", *conf, "--format", "json", *arguments])
    assert result.returncode in (0, 1, 2), result.stderr
    return result.returncode, json.loads(result.stdout)["findings"]


def test_the_healthy_lab_has_no_finding(lab: Lab) -> None:
    code, found = doctor(lab, "--probe")
    assert [finding for finding in found if finding["severity"] != "note"] == []
    assert code == 0


def test_a_fault_in_the_lab_is_found(lab: Lab) -> None:
    file = lab.layout.etc("plugstack.conf")
    healthy = file.read_text()
    try:
        file.write_text(healthy.replace("optional ", "required ").replace("place=/", "place=/nowhere/"))
        code, found = doctor(lab)
    finally:
        file.write_text(healthy)
    assert code == 2
    assert {f["name"] for f in found if f["severity"] != "note"} == {"plugin-required", "plugin-place"}
