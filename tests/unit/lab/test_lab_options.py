"""Options of a lab: what is accepted, what is refused and how that is said."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slurm_topo.errors import LabError
from slurm_topo.lab.options import LabOptions, parse_rate


@pytest.mark.parametrize(
    ("text", "bits"), [("200mbit", 2e8), ("1gbit", 1e9), ("1.5mbit", 1.5e6), ("64kbit", 64e3)]
)
def test_rates_are_read_as_tc_reads_them(text: str, bits: float) -> None:
    assert parse_rate(text) == bits


@pytest.mark.parametrize("text", ["", "200", "0mbit", "-1mbit", "fast", "200 mbit", "200mbit; reboot"])
def test_what_is_no_rate_is_refused(text: str) -> None:
    with pytest.raises(LabError, match="200mbit"):
        parse_rate(text)


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"nodes": 0}, "--nodes 0"),
        ({"nodes": 201}, "--nodes 201"),
        ({"switches": 5}, "--switches 5"),
        ({"switches": 0}, "--switches 0"),
        ({"cpus": 0}, "--cpus 0"),
        ({"memory": 1}, "--memory 1"),
        ({"gpus": -1}, "--gpus -1"),
        ({"uplink_speed": "200mbit"}, "--uplink-speed 200mbit"),
        ({"uplink_speed": "1gbit"}, "--uplink-speed 1gbit"),
    ],
)
def test_options_out_of_range_are_named(wrong: dict[str, Any], named: str) -> None:
    with pytest.raises(LabError, match=named):
        LabOptions(**wrong)


def test_one_switch_has_no_uplink_to_be_slower() -> None:
    assert LabOptions(switches=1, uplink_speed="1gbit").switches == 1


def test_options_survive_the_state_file() -> None:
    options = LabOptions(nodes=7, switches=3, cpus=1, link_speed="1gbit", integrate=False)
    assert LabOptions.from_json(json.loads(json.dumps(options.to_json()))) == options


def test_options_of_a_later_version_are_dropped() -> None:
    assert LabOptions.from_json({**LabOptions().to_json(), "fans": 4}) == LabOptions()


def test_differences_name_what_was_asked_and_what_runs() -> None:
    assert LabOptions().differences(LabOptions(nodes=8)) == ["nodes 8 (runs: 4)"]
