"""The machine as links: capacities and latencies that follow from the levels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from slurm_topo.errors import MachineError
from slurm_topo.judge.platform import FASTEST, Overrides, platform_of
from slurm_topo.machine.tree import parse_tree
from slurm_topo.model import Level, Machine


def machine_of(tree: str, levels: list[tuple[str, float, float]]) -> Machine:
    return replace(parse_tree(tree), levels=tuple(Level(*level) for level in levels))


def test_links_carry_what_their_cores_keep_together() -> None:
    machine = machine_of("tree:4:3:2/1:1:1", [("numa", 0, 1e-9), ("node", 0, 2e-9), ("switch", 0, 1e-8)])
    platform = platform_of(machine)
    assert platform.zones == 1 + 2 + 6
    assert platform.parent.tolist()[: platform.zones] == [-1, 0, 0, 1, 1, 1, 2, 2, 2]
    capacity = platform.capacity / platform.unit
    assert capacity[1:3] == pytest.approx([12 * 1e8] * 2)
    assert capacity[3:9] == pytest.approx([4 * 5e8] * 6)
    assert capacity[9:] == pytest.approx([1e9] * 24)


def test_latencies_of_a_path_add_up_to_those_of_its_level() -> None:
    machine = machine_of("tree:2:2/1:1", [("numa", 3e-7, 1e-9), ("switch", 1.3e-6, 1e-8)])
    platform = platform_of(machine)
    core, zone = platform.latency[-1] * platform.unit, platform.latency[1] * platform.unit
    assert 2 * core == pytest.approx(3e-7)
    assert 2 * (core + zone) == pytest.approx(1.3e-6)


def test_groups_of_unequal_size() -> None:
    machine = machine_of("tree:6:1/1:1", [("numa", 0, 1e-9), ("node", 0, 1e-8)])
    machine = replace(machine, groups=np.array([[0, 0, 0, 0, 7, 7], [0] * 6], dtype=np.int32))
    capacity = platform_of(machine).capacity[1:3] / platform_of(machine).unit
    assert capacity == pytest.approx([4e8, 2e8])


def test_only_the_network_is_varied() -> None:
    machine = machine_of("tree:2:2/1:1", [("numa", 1e-7, 1e-9), ("switch", 1e-6, 1e-8)])
    plain, varied = platform_of(machine), platform_of(machine, Overrides(latency=2, bandwidth=0.5))
    assert varied.capacity[1:3] == pytest.approx(plain.capacity[1:3] / 2)
    assert varied.capacity[3:] == pytest.approx(plain.capacity[3:])
    # What the network adds to the latency inside a node is doubled, or all but gone; never less than nothing.
    assert varied.latency[1] * varied.unit == pytest.approx(2 * (1e-6 - 1e-7) / 2)
    assert platform_of(machine, Overrides(latency=0.01)).latency[1] > 0


def test_a_tree_without_units_is_scaled_to_what_a_simulator_counts() -> None:
    platform = platform_of(parse_tree("tree:4:2/1:100"))
    assert platform.capacity[-1] == pytest.approx(FASTEST)
    assert platform.unit == pytest.approx(FASTEST)


def test_a_latency_that_falls_outward_is_refused() -> None:
    machine = machine_of("tree:2:2/1:1", [("numa", 1e-6, 1e-9), ("node", 1e-7, 1e-8)])
    with pytest.raises(MachineError, match="1e-07 s at level node and 1e-06 s at numa"):
        platform_of(machine)
