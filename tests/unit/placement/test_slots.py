"""Slots keep Slurm's tasks a node and spread ranks evenly over the node's domains."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_topo.errors import PlacementError
from slurm_topo.model import Level, Machine
from slurm_topo.placement.slots import make_slots, slots_of_places, with_spare


def cluster(nodes: int, domains: int, cores: int, threads: int = 1) -> Machine:
    """Nodes of NUMA domains of cores, with OS CPUs numbered core by core."""
    count = nodes * domains * cores
    core = np.arange(count)
    inside = core % (domains * cores)
    groups = np.stack([core // cores, core // (domains * cores), core * 0]).astype(np.int32)
    return Machine(
        levels=tuple(Level(n, 1e-6, 1e-9) for n in ("numa", "node", "switch")),
        groups=groups,
        node=(core // (domains * cores)).astype(np.int32),
        node_names=tuple(f"n{i}" for i in range(nodes)),
        pus=tuple(tuple(int(c) * threads + t for t in range(threads)) for c in inside),
        numa=(inside // cores).astype(np.int32),
    )


def test_fewer_ranks_than_cores_are_spread_over_domains() -> None:
    slots = make_slots(cluster(2, 4, 4), [4, 6], 1)
    assert Counter(zip(slots.machine.node.tolist(), slots.machine.numa.tolist(), strict=True)) == {
        (0, 0): 1,
        (0, 1): 1,
        (0, 2): 1,
        (0, 3): 1,
        (1, 0): 2,
        (1, 1): 2,
        (1, 2): 1,
        (1, 3): 1,
    }


def test_packed_ranks_fill_domain_after_domain() -> None:
    slots = make_slots(cluster(2, 4, 4), [4, 6], 1, packed=True)
    assert Counter(zip(slots.machine.node.tolist(), slots.machine.numa.tolist(), strict=True)) == {
        (0, 0): 4,
        (1, 0): 4,
        (1, 1): 2,
    }


def test_packed_ranks_take_roomy_domains_first_and_end_where_it_fits_most_tightly() -> None:
    whole = cluster(1, 4, 4)
    # Domains of 1, 4, 2 and 3 free cores.
    kept = np.array([0, 4, 5, 6, 7, 8, 9, 12, 13, 14])
    machine = replace(
        whole,
        groups=whole.groups[:, kept],
        node=whole.node[kept],
        numa=whole.numa[kept],
        pus=tuple(whole.pus[c] for c in kept),
    )
    slots = make_slots(machine, [6], 1, packed=True)
    assert Counter(slots.machine.numa.tolist()) == {1: 4, 2: 2}
    assert Counter(make_slots(machine, [3], 1, packed=True).machine.numa.tolist()) == {3: 3}


def test_ranks_on_all_cores_lie_in_one_way() -> None:
    machine = cluster(2, 2, 4)
    assert make_slots(machine, [8, 8], 1).cores == make_slots(machine, [8, 8], 1, packed=True).cores


def test_a_rank_of_two_cores_stays_in_one_domain() -> None:
    slots = make_slots(cluster(1, 2, 4), [4], 2)
    assert slots.cores == ((0, 1), (2, 3), (4, 5), (6, 7))


def test_a_rank_larger_than_a_domain_takes_neighbouring_cores() -> None:
    assert make_slots(cluster(1, 4, 2), [2], 3).cores == ((0, 1, 2), (3, 4, 5))


def test_threads_of_a_core_are_counted_once() -> None:
    slots = make_slots(cluster(1, 1, 4, threads=2), [2], 4)
    assert [len(s) for s in slots.cores] == [2, 2]
    assert slots.machine.pus[0] == (0, 1, 2, 3)


def test_more_ranks_than_cores_is_an_error() -> None:
    with pytest.raises(PlacementError, match="do not fit"):
        make_slots(cluster(1, 2, 2), [5], 1)


@pytest.mark.parametrize(
    ("tasks", "expected"),
    [
        ([1], [(0, 1, 2, 3, 4, 5, 6, 7)]),
        ([2], [(0, 1, 2, 3), (4, 5, 6, 7)]),
        ([3], [(0, 2), (1, 3), (4, 5, 6, 7)]),
        ([8], [(c,) for c in range(8)]),
    ],
)
def test_spare_cores_go_to_the_nearest_rank(tasks: list[int], expected: list[tuple[int, ...]]) -> None:
    machine = cluster(1, 2, 4)
    grown = with_spare(machine, make_slots(machine, tasks, 1))
    assert [tuple(sorted(slot)) for slot in grown.cores] == expected
    assert grown.machine.cores == sum(tasks)


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 3), st.data())
def test_no_core_is_left_idle_and_no_rank_gets_less_than_it_asked_for(
    domains: int, cores: int, width: int, data: st.DataObject
) -> None:
    machine = cluster(1, domains, cores)
    slots = make_slots(machine, [data.draw(st.integers(0, domains * cores // width))], width)
    grown = with_spare(machine, slots)
    used = [c for slot in grown.cores for c in slot]
    assert len(used) == len(set(used)) == (domains * cores if slots.cores else 0)
    assert all(set(slot) <= set(larger) for slot, larger in zip(slots.cores, grown.cores, strict=True))


def test_slots_of_given_places_are_those_places() -> None:
    machine = cluster(2, 2, 2)
    slots = slots_of_places(machine, [(1, [2, 3]), (0, [0]), (1, [0, 1]), (0, [3])])
    assert slots.cores == ((0,), (3,), (4, 5), (6, 7))
    with pytest.raises(PlacementError, match="share a core"):
        slots_of_places(machine, [(0, [0, 1]), (0, [1])])
    with pytest.raises(PlacementError, match="node n1"):
        slots_of_places(machine, [(0, [0]), (1, [77])])


@given(st.integers(1, 3), st.integers(1, 4), st.integers(1, 4), st.integers(1, 3), st.booleans(), st.data())
def test_slots_are_disjoint_and_as_many_as_slurm_gave(
    nodes: int, domains: int, cores: int, width: int, packed: bool, data: st.DataObject
) -> None:
    most = domains * cores // width
    tasks = data.draw(st.lists(st.integers(0, most), min_size=nodes, max_size=nodes).filter(any))
    machine = cluster(nodes, domains, cores)
    slots = make_slots(machine, tasks, width, packed)
    used = [c for s in slots.cores for c in s]
    assert len(used) == len(set(used)) == sum(tasks) * width
    assert [int((slots.machine.node == k).sum()) for k in range(nodes)] == tasks
