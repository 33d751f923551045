"""Traces of other tools."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from slurm_topo.cli.main import main
from slurm_topo.errors import GraphError
from slurm_topo.model import CommGraph
from slurm_topo.trace import read_graph
from slurm_topo.trace.foreign import read_foreign


def dense(graph: CommGraph) -> np.ndarray:
    matrix = np.zeros((graph.ranks, graph.ranks))
    matrix[graph.source, graph.target] = graph.nbytes
    return matrix


def test_monitoring_of_all_ranks_is_read(tmp_path: Path) -> None:
    for rank in range(3):
        (tmp_path / f"run.{rank}.prof").write_text(
            "# POINT TO POINT\n"
            f"E\t{rank}\t{(rank + 1) % 3}\t100 bytes\t4 msgs sent\t0,0\n"
            f"I\t{rank}\t{(rank + 2) % 3}\t8 bytes\t1 msgs sent\n"
            "# COLLECTIVES\n"
            f"C\t{rank}\t{(rank + 2) % 3}\t8 bytes\t1 msgs sent\n"
        )
    (tmp_path / "other.0.prof").write_text("E\t0\t7\t1 bytes\t1 msgs sent\n")
    graph = read_foreign(tmp_path / "run.1.prof")
    assert graph.ranks == 3
    assert dense(graph).tolist() == [[0, 100, 8], [8, 0, 100], [100, 8, 0]]
    assert (graph.messages.sum(), graph.modelled.sum()) == (15, 24)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["0 send 1 0 10", "1 recv 0 0 10"], {(0, 1): 80}),
        (["0 init 1", "0 isend 1 0 10 1", "1 wait 0"], {(0, 1): 40}),
        (["0 bcast 5 0", "1 bcast 5 0", "2 bcast 5 0"], {(0, 1): 40, (0, 2): 40}),
        (["0 reduce 5 9 1", "1 reduce 5 9 1", "2 reduce 5 9 1"], {(2, 1): 40, (0, 1): 40}),
        (["0 alltoallv 9 0 3 9 0 1", "1 alltoallv 9 1 0 9 3 0"], {(0, 1): 24, (1, 0): 8}),
        (["0 allgatherv 2 2 3 0 0", "1 allgatherv 3 2 3 0 0"], {(0, 1): 16, (1, 0): 24}),
        (["0 gather 4 4 1 6 6", "1 gather 4 4 1 6 6"], {(0, 1): 4}),
        (["0 alltoall 4 4", "1 alltoall 4 4", "0 barrier", "1 barrier"], {(0, 1): 32, (1, 0): 32}),
    ],
)
def test_actions_of_simgrid(tmp_path: Path, lines: list[str], expected: dict[tuple[int, int], int]) -> None:
    (tmp_path / "t.txt").write_text("\n".join(lines) + "\n")
    graph = read_foreign(tmp_path / "t.txt")
    pairs = zip(graph.source.tolist(), graph.target.tolist(), strict=True)
    assert dict(zip(pairs, graph.nbytes.tolist(), strict=True)) == expected


def test_list_of_simgrid_files(tmp_path: Path) -> None:
    (tmp_path / "all.txt").write_text("parts/a.txt\nparts/b.txt\n")
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "a.txt").write_text("0 send 1 0 1\n")
    (tmp_path / "parts" / "b.txt").write_text("1 recv 0 0 1\n")
    assert dense(read_foreign(tmp_path / "all.txt")).tolist() == [[0, 8], [0, 0]]


@pytest.mark.parametrize(
    "content", ["", "hello world\n", "0 send 1\n", "0 send 1 0 x\n", "@ mpiP\n", "\xff\xfe"]
)
def test_what_cannot_be_read_is_one_line(tmp_path: Path, content: str) -> None:
    (tmp_path / "t").write_text(content, encoding="latin-1")
    with pytest.raises(GraphError, match=r"; "):
        read_foreign(tmp_path / "t")
    with pytest.raises(GraphError, match="cannot be read"):
        read_foreign(tmp_path / "missing")
    with pytest.raises(GraphError, match=r"no \.prof file"):
        read_foreign(tmp_path)


ACTIONS = (
    "0 init\n1 init\n2 init\n0 send 1 0 10\n1 bcast 5 0\n2 allreduce 9 8 4\n0 alltoallv 9 0 3 4 9 0 1 1\n"
)
PROFILE = "".join(
    f"{k}\t0\t{v}\t{100 * v} bytes\t4 msgs sent\t0,0\n" for k, v in [("E", 1), ("I", 2), ("C", 3)]
)


@pytest.mark.parametrize(("name", "text"), [("t.txt", ACTIONS), ("t.0.prof", PROFILE)])
def test_cut_and_mutated_traces_are_read_or_refused(tmp_path: Path, name: str, text: str) -> None:
    chance = random.Random(11)
    variants = [text[:end] for end in range(len(text))]
    for _ in range(400):
        place, letter = chance.randrange(len(text)), chance.choice("0123456789-.e \t\nxE")
        variants.append(text[:place] + letter * chance.choice((1, 1, 12)) + text[place + 1 :])
    file, read = tmp_path / name, 0
    for variant in variants:
        file.write_text("\ufeff" + variant)
        try:
            graph = read_foreign(file)
        except GraphError as error:
            said = str(error)
        else:
            read += 1
            assert np.isfinite(graph.nbytes).all()
            continue
        assert "\n" not in said
        assert "; " in said
    assert 50 < read < len(variants)


def test_import_writes_a_graph(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "t.txt").write_text("0 send 1 0 10\n1 recv 0 0 10\n")
    with pytest.raises(SystemExit) as ended:
        main(["trace", "import", str(tmp_path / "t.txt"), "-o", str(tmp_path / "g.npz")])
    assert not ended.value.code
    assert "2 ranks, 1 pairs" in capsys.readouterr().err
    assert read_graph(tmp_path / "g.npz").nbytes.tolist() == [80]
    with pytest.raises(SystemExit) as ended:
        main(["trace", "import", str(tmp_path / "t.txt"), "-o", str(tmp_path / "g.txt")])
    assert ended.value.code == 4


def test_recorded_traces(shared_data: Path) -> None:
    mpi = shared_data / "data" / "mpi"
    monitored = read_foreign(mpi / "local-generated" / "ompi-monitoring-4.1.4" / "st.3.prof")
    assert monitored.ranks == 8
    assert dense(monitored)[0, 1] == 5242880 + 40
    simulated = read_foreign(mpi / "local-generated" / "smpi-ti" / "ti.trace")
    assert simulated.ranks == 16
    assert (
        dense(simulated) - simulated_modelled(simulated)
        == (dense(simulated) - simulated_modelled(simulated)).T
    ).all()
    replayed = [read_foreign(f) for f in sorted((mpi / "simgrid-tit" / "replay").glob("actions_*.txt"))]
    assert all(g.ranks >= 2 for g in replayed)
    assert sum(g.nbytes.sum() > 0 for g in replayed) > len(replayed) / 2
    assert read_foreign(mpi / "simgrid-tit" / "replay_multiple" / "smpi_replay.txt").ranks == 32


def simulated_modelled(graph: CommGraph) -> np.ndarray:
    matrix = np.zeros((graph.ranks, graph.ranks))
    matrix[graph.source, graph.target] = graph.modelled
    return matrix
