"""Every way to send: messages and bytes of each pair follow from the text of programs/modes.c."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slurm_topo.trace import Trace, merge_traces

pytestmark = pytest.mark.mpi
RANKS = 4
Table = dict[tuple[int, int], tuple[int, int]]


def ring(messages: int, nbytes: int, shift: int = 1) -> Table:
    """Each rank sends this to the rank at a distance."""
    return {(r, (r + shift) % RANKS): (messages, nbytes) for r in range(RANKS)}


POINT_TO_POINT: dict[str, Table] = {
    **{m: ring(1, 400) for m in ("send", "bsend", "ssend", "rsend", "isend", "ibsend", "issend", "irsend")},
    **{m: ring(3, 1200) for m in ("send_init", "bsend_init", "ssend_init", "rsend_init")},
    "sendrecv": ring(1, 40),
    "sendrecv_replace": ring(1, 40),
    "empty": ring(1, 0),
    "proc_null": {},
    "self": {(r, r): (1, 40) for r in range(RANKS)},
    "derived": ring(1, 120),
    "split": ring(1, 40, shift=2),
    "cart": {(r, r + 1): (1, 40) for r in range(RANKS - 1)},
    "inter": {(r, r ^ 1): (1, 40) for r in range(RANKS)},
    "reuse": {**ring(100, 400), **ring(100, 400, shift=-1)},
    "threads": ring(400, 1600),
}
COLLECTIVE: dict[str, Table] = {
    "neighbor_allgather": {**ring(1, 40), **ring(1, 40, shift=-1)},
    "neighbor_alltoall": {**ring(1, 40), **ring(1, 40, shift=-1)},
    "ineighbor_alltoallv": {**ring(1, 40, shift=-1), **ring(1, 80)},
    "neighbor_alltoallw": {**ring(1, 40, shift=-1), **ring(1, 20)},
    "dist_graph": ring(1, 40),
    "alltoallw": ring(1, 40),
}
TO_TARGET = {
    "put": 40,
    "rput": 40,
    "accumulate": 40,
    "get_accumulate": 40,
    "fetch_and_op": 4,
    "compare_and_swap": 8,
}
FROM_TARGET = {"get": 40, "get_accumulate": 40, "no_op": 40, "fetch_and_op": 4, "compare_and_swap": 4}


def pairs(trace: Trace, kind: str) -> Table:
    """(from, to) -> (messages, bytes) of one kind, empty pairs left out."""
    found: Table = {}
    for record in trace.ranks:
        for slot in record.sent:
            if slot[f"{kind}_messages"]:
                count = int(slot[f"{kind}_messages"]), int(slot[f"{kind}_bytes"])
                found[record.rank, int(slot["peer"])] = count
    return found


@pytest.fixture
def trace_mode(
    program: Callable[..., Path],
    mpirun: Callable[..., list[str]],
    run: Callable[..., Any],
    collect: Callable[[], Trace],
) -> Callable[[str], Trace]:
    """The trace of one mode."""

    def trace(mode: str) -> Trace:
        done = run([*mpirun(RANKS), str(program("modes.c")), mode])
        assert done.returncode == 0, done.stderr
        assert done.stdout + done.stderr == ""
        return collect()

    return trace


@pytest.mark.parametrize("mode", POINT_TO_POINT)
def test_point_to_point_is_counted_exactly(trace_mode: Callable[[str], Trace], mode: str) -> None:
    assert pairs(trace_mode(mode), "p2p") == POINT_TO_POINT[mode]


@pytest.mark.parametrize("mode", COLLECTIVE)
def test_collectives_with_one_destination_are_counted_exactly(
    trace_mode: Callable[[str], Trace], mode: str
) -> None:
    trace = trace_mode(mode)
    assert pairs(trace, "p2p") == {}
    assert pairs(trace, "coll") == COLLECTIVE[mode]


@pytest.mark.parametrize("mode", sorted({*TO_TARGET, *FROM_TARGET}))
def test_one_sided_bytes_flow_both_ways(trace_mode: Callable[[str], Trace], mode: str) -> None:
    trace = trace_mode(mode)
    assert pairs(trace, "out") == (ring(1, TO_TARGET[mode]) if mode in TO_TARGET else {})
    assert pairs(trace, "in") == (ring(1, FROM_TARGET[mode]) if mode in FROM_TARGET else {})


def test_persistent_collectives_are_counted_at_each_start(
    program: Callable[..., Path],
    mpirun: Callable[..., list[str]],
    run: Callable[..., Any],
    collect: Callable[[], Trace],
) -> None:
    done = run([*mpirun(RANKS), str(program("persistent.c"))])
    assert done.returncode == 0, done.stderr
    expected = {**ring(2, 40), **ring(2, 40, shift=-1)}
    for other in (0, 2, 3):
        messages, nbytes = expected.get((1, other), (0, 0))
        expected[1, other] = (messages + 3, nbytes + 120)
    assert pairs(collect(), "coll") == expected


def test_a_spawned_world_is_one_of_its_own(
    program: Callable[..., Path],
    mpirun: Callable[..., list[str]],
    run: Callable[..., Any],
    collect: Callable[[], Trace],
) -> None:
    done = run([*mpirun(2), str(program("spawn.c"))])
    assert done.returncode == 0, done.stderr
    worlds: dict[bool, list[int]] = {False: [], True: []}
    trace = collect()
    for record in trace.ranks:
        worlds[record.spawned].append(int(record.sent["p2p_messages"].sum()))
        assert record.size == 2
        assert record.foreign_bytes == (4 if record.rank == 0 else 0)
    assert worlds == {False: [1, 1], True: [3, 3]}
    assert len({r.world for r in trace.ranks}) == 2
    assert merge_traces([trace]).nbytes.tolist() == [4.0, 4.0]  # that of the parents
