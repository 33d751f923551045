"""Reading and writing communication graphs, and every kind of file that is none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse
from graphs import graph_of

from slurm_topo.errors import GraphError, InputError
from slurm_topo.model import CommGraph
from slurm_topo.trace import export_mtx, export_scipy, graph_digest, read_graph, write_graph


@pytest.fixture
def graph() -> CommGraph:
    return graph_of([(0, 1, 1.5), (1, 0, 2.0), (2, 0, 1e9)], 4, messages=2.0)


def triples(graph: CommGraph) -> list[tuple[int, int, float]]:
    return list(zip(graph.source.tolist(), graph.target.tolist(), graph.nbytes.tolist(), strict=True))


def test_own_format_keeps_everything(graph: CommGraph, tmp_path: Path) -> None:
    write_graph(graph, tmp_path / "g.npz")
    again = read_graph(tmp_path / "g.npz")
    assert (again.ranks, triples(again)) == (4, triples(graph))
    assert again.messages.tolist() == graph.messages.tolist()
    assert graph_digest(again) == graph_digest(graph)
    assert len(graph_digest(graph)) == 16
    assert [path.name for path in tmp_path.iterdir()] == ["g.npz"]


def test_digest_depends_on_the_traffic(graph: CommGraph) -> None:
    assert graph_digest(graph) != graph_digest(
        graph_of([(0, 1, 1.5), (1, 0, 2.0), (2, 0, 2e9)], 4, messages=2.0)
    )


@pytest.mark.parametrize("layout", ["csr", "csc", "coo", "bsr", "dia"])
def test_scipy_matrices_are_read(layout: str, tmp_path: Path) -> None:
    dense = np.array([[5, 1, 0], [0, 0, 2], [3, 0, 0]])
    scipy.sparse.save_npz(tmp_path / "m.npz", scipy.sparse.coo_matrix(dense).asformat(layout))
    assert triples(read_graph(tmp_path / "m.npz")) == [(0, 1, 1.0), (1, 2, 2.0), (2, 0, 3.0)]


def test_exports_are_read_by_scipy_and_by_us(graph: CommGraph, tmp_path: Path) -> None:
    export_scipy(graph, tmp_path / "g.npz")
    export_mtx(graph, tmp_path / "g.mtx")
    assert scipy.sparse.load_npz(tmp_path / "g.npz").toarray()[2, 0] == 1e9
    assert scipy.io.mmread(tmp_path / "g.mtx").toarray()[0, 1] == 1.5
    assert (
        triples(read_graph(tmp_path / "g.npz")) == triples(read_graph(tmp_path / "g.mtx")) == triples(graph)
    )


def test_symmetric_matrix_market_has_both_directions(tmp_path: Path) -> None:
    text = "%%MatrixMarket matrix coordinate real symmetric\n% a comment\n\n3 3 2\n2 1 4.5\n3 3 7\n"
    (tmp_path / "m.mtx").write_text(text)
    assert triples(read_graph(tmp_path / "m.mtx")) == [(0, 1, 4.5), (1, 0, 4.5)]


def test_a_byte_order_mark_is_no_part_of_a_matrix(graph: CommGraph, tmp_path: Path) -> None:
    export_mtx(graph, tmp_path / "g.mtx")
    (tmp_path / "marked.mtx").write_bytes(b"\xef\xbb\xbf" + (tmp_path / "g.mtx").read_bytes())
    assert triples(read_graph(tmp_path / "marked.mtx")) == triples(graph)


def test_pattern_matrix_market_weighs_one(tmp_path: Path) -> None:
    (tmp_path / "m.mtx").write_text("%%MatrixMarket matrix coordinate pattern general\n2 2 1\n1 2\n")
    assert triples(read_graph(tmp_path / "m.mtx")) == [(0, 1, 1.0)]


HEAD = "%%MatrixMarket matrix coordinate real general\n"


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "is empty"),
        (b"hello", "neither .npz nor Matrix Market"),
        (b"PK\x03\x04rubbish", "damaged"),
        (HEAD + "2 2 1\n", "truncated"),
        (HEAD + "2 3 1\n1 2 1\n", "2 x 3"),
        (HEAD + "2 2 1\n1 5 1\n", "outside"),
        (HEAD + "2 2 1\n1 2 -1\n", "negative"),
        (HEAD + "2 2 1\n1 2 nan\n", "not finite"),
        (HEAD + "2 2 1\n1 2 inf\n", "not finite"),
        (HEAD + "2 2 1\n1 2 word\n", "no number"),
        (HEAD + "0 0 0\n", "0 ranks"),
        (HEAD + "99999999999 99999999999 0\n", "ranks"),
        (HEAD, "no size line"),
        (HEAD.replace("real", "complex") + "2 2 1\n1 2 1 1\n", "complex"),
        (HEAD.replace("general", "hermitian") + "2 2 1\n1 2 1\n", "hermitian"),
        (HEAD.replace("coordinate", "array") + "2 2\n1\n2\n3\n4\n", "first line"),
    ],
)
def test_what_is_no_graph_is_refused_in_one_line(content: bytes | str, text: str, tmp_path: Path) -> None:
    file = tmp_path / "g"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(GraphError, match=text) as caught:
        read_graph(file)
    assert str(file) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["missing.npz", "."])
def test_what_cannot_be_opened_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(GraphError, match="cannot be read"):
        read_graph(tmp_path / name)


def test_truncated_archives_are_refused(graph: CommGraph, tmp_path: Path) -> None:
    write_graph(graph, tmp_path / "g.npz")
    whole = (tmp_path / "g.npz").read_bytes()
    for size in range(8, len(whole) - 1, 97):
        (tmp_path / "t.npz").write_bytes(whole[:size])
        with pytest.raises(GraphError):
            read_graph(tmp_path / "t.npz")


def test_complex_matrix_is_refused(tmp_path: Path) -> None:
    scipy.sparse.save_npz(tmp_path / "m.npz", scipy.sparse.csr_matrix(np.eye(2) * 1j))
    with pytest.raises(GraphError, match="complex"):
        read_graph(tmp_path / "m.npz")


def test_other_version_is_refused(graph: CommGraph, tmp_path: Path) -> None:
    write_graph(graph, tmp_path / "g.npz")
    arrays = dict(np.load(tmp_path / "g.npz"))
    np.savez(tmp_path / "g.npz", **{**arrays, "version": np.array(9)})
    with pytest.raises(GraphError, match="version 9"):
        read_graph(tmp_path / "g.npz")


def test_nothing_is_left_where_nothing_can_be_written(graph: CommGraph, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match="cannot be written"):
        write_graph(graph, tmp_path / "folder")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]
