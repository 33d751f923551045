"""Steps of other sizes than their job, as srun 22.05 lays them out."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_topo.cli.launch import machine_of
from slurm_topo.errors import InputError
from slurm_topo.machine import read_cluster
from slurm_topo.slurm.allocation import Allocation
from slurm_topo.slurm.layout import nodes_of_ranks, step_layout


def allocation(*cpus: int, tasks: tuple[int, ...] = ()) -> Allocation:
    nodes = tuple(f"n{i + 1}" for i in range(len(cpus)))
    tasks = tasks or cpus
    return Allocation(7, nodes, sum(tasks), tasks, 1, cpus)


# (CPUs of the job on each node, ranks, CPUs a rank, nodes) -> ranks on each node, as seen on Slurm 22.05.8.
SEEN = [
    ((2, 2, 1), 5, 1, None, [2, 2, 1]),
    ((2, 2, 1), 4, 1, None, [2, 1, 1]),
    ((2, 2, 1), 3, 1, None, [1, 1, 1]),
    ((2, 2, 2, 2), 5, 1, None, [2, 1, 1, 1]),
    ((2, 2, 2, 2), 6, 1, None, [2, 2, 1, 1]),
    ((2, 2, 2, 2), 4, 1, 2, [2, 2]),
    ((2, 2, 2, 2), 3, 2, 3, [1, 1, 1]),
]


@pytest.mark.parametrize(("cpus", "ranks", "width", "nodes", "expected"), SEEN)
def test_layout_is_slurms(
    cpus: tuple[int, ...], ranks: int, width: int, nodes: int | None, expected: list[int]
) -> None:
    assert step_layout(allocation(*cpus), ranks, width, nodes) == expected


def test_step_of_the_jobs_size_keeps_the_jobs_spread() -> None:
    assert step_layout(allocation(8, 8, tasks=(1, 7)), 8) == [1, 7]


def test_ranks_a_node_are_limited() -> None:
    assert step_layout(allocation(4, 4), 3, most_per_node=2) == [2, 1]
    with pytest.raises(InputError, match="have room for 4"):
        step_layout(allocation(4, 4), 5, most_per_node=2)


@pytest.mark.parametrize(("ranks", "width", "nodes"), [(9, 1, None), (3, 4, None), (2, 1, 3)])
def test_step_that_does_not_fit_is_an_error(ranks: int, width: int, nodes: int | None) -> None:
    with pytest.raises(InputError, match="job 7"):
        step_layout(allocation(4, 4), ranks, width, nodes)


@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=5),
    st.sampled_from(["", "block", "cyclic", "block:cyclic"]),
)
def test_every_rank_has_a_node_and_every_node_its_number(tasks: list[int], way: str) -> None:
    nodes = nodes_of_ranks(tasks, way)
    assert np.bincount(nodes, minlength=len(tasks)).tolist() == tasks


def test_other_distributions_are_not_known() -> None:
    with pytest.raises(InputError, match="plane"):
        nodes_of_ranks([2, 2], "plane")


@pytest.mark.parametrize(("one_thread", "width"), [(True, 1), (False, 2)])
def test_one_hardware_thread_of_each_core_where_that_is_asked_for(
    tmp_path: Path, one_thread: bool, width: int
) -> None:
    file = tmp_path / "cluster.json"
    node = {"sockets": 1, "cores_per_socket": 4, "threads_per_core": 2}
    description = {"format": "slurm-topo-cluster", "version": 1, "classes": {"node": node}}
    file.write_text(json.dumps(description | {"nodes": [{"names": "n[1-2]", "class": "node"}]}))
    machine = machine_of(read_cluster(file), allocation(8, 8), 1, one_thread)
    assert machine.node_names == ("n1",)
    assert {len(pus) for pus in machine.pus} == {width}
    assert machine.cores == 4
