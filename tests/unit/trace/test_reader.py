"""Reading and merging trace files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from slurm_topo.errors import GraphError
from slurm_topo.trace import is_trace, read_graph, read_trace, read_traces

Make = Callable[..., Path]
Record = Callable[..., bytes]


def test_what_a_rank_did_is_read(make_trace: Make, make_record: Record) -> None:
    sent = {1: (3, 300, 2, 20, 0, 0, 0, 0, 320)}
    trace = read_trace(make_trace([make_record(0, 2, sent, cpus=(1, 9), script="run.py", bins={7: 3})]))
    (rank,) = trace.ranks
    assert (trace.job, trace.step, trace.node, trace.keys, trace.plan) == ("77", "0", "n1", "sa:nb", "/plan")
    assert (rank.rank, rank.size, rank.host, rank.library) == (0, 2, "n1", "Open MPI v4.1.4")
    assert (rank.start_s, rank.end_s, rank.finalized, rank.spawned) == (1000.0, 1010.0, True, False)
    assert rank.cpus == (1, 9)
    assert rank.wait_p2p_s == pytest.approx(1.0)
    assert rank.wait_coll_s == pytest.approx(0.5)
    assert rank.messages_of_size[7] == 3
    assert rank.program == "app"
    assert rank.collectives == 7
    assert int(rank.sent["p2p_bytes"][0]) == 300
    assert rank.sent["epoch_bytes"][0].tolist() == [320, 0, 0, 0, 0, 0]


def test_nodes_of_a_step_become_one_graph(make_trace: Make, make_record: Record) -> None:
    first = make_trace([make_record(0, 4, {1: (1, 10), 2: (2, 20, 1, 5)}), make_record(1, 4, {0: (4, 40)})])
    second = make_trace([make_record(2, 4, {3: (0, 0, 1, 8)}, host="n2")], name="77.0.n2.trace", node="n2")
    graph = read_traces([second, first])
    assert graph.ranks == 4
    assert list(zip(graph.source.tolist(), graph.target.tolist(), strict=True)) == [
        (0, 1),
        (0, 2),
        (1, 0),
        (2, 3),
    ]
    assert graph.nbytes.tolist() == [10, 25, 40, 8]
    assert graph.messages.tolist() == [1, 3, 4, 1]
    assert graph.modelled.tolist() == [0, 5, 0, 8]
    assert graph.meta["missing_ranks"] == [3]
    assert graph.meta["hosts"] == {"n1": "0-1", "n2": "2"}
    assert graph.meta["seconds"] == pytest.approx(10.0)
    assert graph.meta["finalized"] is True


def test_one_sided_bytes_go_the_way_they_flow(make_trace: Make, make_record: Record) -> None:
    graph = read_traces(
        [make_trace([make_record(0, 2, {1: (0, 0, 0, 0, 1, 100, 2, 30)}), make_record(1, 2, {})])]
    )
    assert dict(zip(graph.source.tolist(), graph.nbytes.tolist(), strict=True)) == {0: 100, 1: 30}


def test_traffic_with_oneself_is_no_traffic(make_trace: Make, make_record: Record) -> None:
    graph = read_traces([make_trace([make_record(0, 2, {0: (1, 10), 1: (1, 1)}), make_record(1, 2, {})])])
    assert graph.nbytes.tolist() == [1]


def test_the_world_with_most_ranks_is_taken(make_trace: Make, make_record: Record) -> None:
    spawned = [make_record(r, 2, {1 - r: (1, 7)}, world="w2", flags=1) for r in range(2)]
    main = [make_record(r, 3, {(r + 1) % 3: (1, 9)}) for r in range(3)]
    graph = read_traces([make_trace([*spawned, *main])])
    assert graph.ranks == 3
    assert graph.nbytes.tolist() == [9, 9, 9]
    assert graph.meta["other_worlds"] == 1


def test_a_rank_that_ran_twice_counts_once(make_trace: Make, make_record: Record) -> None:
    old, new = make_record(0, 2, {1: (1, 5)}), make_record(0, 2, {1: (1, 6)}, start_s=1001.0)
    assert read_traces([make_trace([new, old, make_record(1, 2, {})])]).nbytes.tolist() == [6]


def test_an_ended_program_is_marked(make_trace: Make, make_record: Record) -> None:
    graph = read_traces([make_trace([make_record(0, 1, {}, state=1, end_s=0)])])
    assert graph.meta["finalized"] is False
    assert graph.meta["seconds"] == pytest.approx(20.0)  # until the counters were collected


@pytest.mark.parametrize("cut", [0, 5, 100, 2047, 2048, 3000, -128, -1])
def test_a_truncated_trace_is_an_error(make_trace: Make, make_record: Record, cut: int) -> None:
    path = make_trace([make_record(0, 2, {1: (1, 5)}), make_record(1, 2, {})])
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(GraphError, match=r"77\.0\.n1\.trace: .*; "):
        read_trace(path)


def test_every_changed_byte_is_noticed(make_trace: Make, make_record: Record) -> None:
    path = make_trace([make_record(0, 2, {1: (1, 5)}), make_record(1, 2, {})])
    data = path.read_bytes()
    rng = np.random.default_rng(3)
    for at in rng.integers(2048, len(data), 200):
        changed = bytearray(data)
        changed[at] ^= 1 << int(rng.integers(8))
        path.write_bytes(changed)
        with pytest.raises(GraphError, match="damaged"):
            read_trace(path)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"version": 2}, "version 2"),
        ({"rank": 5}, "rank 5 of 2"),
        ({"peer": 2}, "none of the 2 ranks"),
        ({"magic": 1}, "is no rank"),
    ],
)
def test_what_is_wrong_is_said(
    make_trace: Make, make_record: Record, change: dict[str, int], said: str
) -> None:
    data = make_record(change.get("rank", 0), 2, {change.get("peer", 1): (1, 5)})
    if "magic" in change:
        data = b"x" + data[1:]
    with pytest.raises(GraphError, match=said):
        read_trace(make_trace([data], version=change.get("version", 1)))


def test_files_that_are_no_traces(tmp_path: Path, make_trace: Make, make_record: Record) -> None:
    other = tmp_path / "x.trace"
    other.write_text("hello")
    assert not is_trace(other)
    assert not is_trace(tmp_path / "missing")
    with pytest.raises(GraphError, match="is no trace"):
        read_trace(other)
    with pytest.raises(GraphError, match="No such file"):
        read_trace(tmp_path / "missing")
    with pytest.raises(GraphError, match="no rank has left counters"):
        read_traces([make_trace([])])


def test_a_trace_is_a_graph_for_every_reader(make_trace: Make, make_record: Record) -> None:
    path = make_trace([make_record(r, 2, {1 - r: (1, 7)}) for r in range(2)])
    assert is_trace(path)
    assert read_graph(path).nbytes.tolist() == [7, 7]


def test_thousands_of_ranks_are_merged(make_trace: Make, make_record: Record) -> None:
    """A 16 x 16 x 16 halo exchange over 32 nodes: files grow with partners, not with ranks."""
    side, each = 16, 128
    size = side**3

    def neighbours(rank: int) -> list[int]:
        x, y, z = rank // side**2, rank // side % side, rank % side
        moves = [(dx, dy, dz) for dx in (-1, 0, 1) for dy in (-1, 0, 1) for dz in (-1, 0, 1)]
        found = [((x + a) % side * side + (y + b) % side) * side + (z + c) % side for a, b, c in moves]
        return [other for other in found if other != rank]

    paths = []
    for node in range(size // each):
        ranks = range(node * each, (node + 1) * each)
        records = [
            make_record(r, size, dict.fromkeys(neighbours(r), (1, 1000)), host=f"n{node}") for r in ranks
        ]
        paths.append(make_trace(records, name=f"77.0.n{node}.trace", node=f"n{node}", nodes=32))
    assert sum(p.stat().st_size for p in paths) < size * (2048 + 26 * 128) + 32 * 2048 + 1
    graph = read_traces(paths)
    assert (graph.ranks, graph.source.size) == (size, size * 26)
    assert graph.nbytes.sum() == size * 26 * 1000.0
    assert len(graph.meta["hosts"]) == 32
    assert graph.meta["missing_ranks"] == []
