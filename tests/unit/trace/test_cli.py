"""slurm-topo trace, without MPI."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse

from slurm_topo.cli.main import main
from slurm_topo.config import Settings
from slurm_topo.errors import LaunchError
from slurm_topo.trace import find_library, read_graph, traced_environment

Make = Callable[..., Path]
Record = Callable[..., bytes]


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["trace", *arguments])
    return int(ended.value.code or 0)


@pytest.fixture
def ring(make_trace: Make, make_record: Record) -> Path:
    """Four ranks that send 1000 bytes to the next one, a tenth of it in collectives; rank 3 is missing."""
    return make_trace([make_record(r, 4, {(r + 1) % 4: (9, 900, 1, 100)}) for r in range(3)])


@pytest.fixture
def fake_tracer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Native parts that are there and do nothing."""
    folder = tmp_path / "lib"
    folder.mkdir()
    (folder / "libslurm_topo_trace.so").write_bytes(b"")
    collect = folder / "slurm-topo-collect"
    collect.write_text(
        '#!/bin/sh\nls "$1"/*.counters >/dev/null 2>&1 || { echo "ranks 0"; exit 0; }\n'
        "echo ranks 2\necho a reason\n"
    )
    collect.chmod(0o755)
    monkeypatch.setenv("SLURM_TOPO_LIBRARY_DIR", str(folder))
    monkeypatch.setenv("SLURM_TOPO_LOCAL_DIR", str(tmp_path))
    return folder


def test_table_names_program_missing_ranks_and_pairs(ring: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("show", str(ring), "--pairs", "2") == 0
    out = capsys.readouterr().out
    assert "program      app (Open MPI v4.1.4)" in out
    assert "ranks        4" in out
    assert "missing      ranks 3 left no counters" in out
    assert "10% of it modelled" in out
    assert "... 1 more pairs" in out


def test_json_holds_everything(ring: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("show", str(ring), "--format", "json") == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["format"], document["version"]) == ("slurm-topo-communication", 1)
    assert (document["ranks"], document["bytes"], document["modelled_bytes"]) == (4, 3000, 300)
    assert document["pairs"]["source"] == [0, 1, 2]
    assert document["meta"]["missing_ranks"] == [3]


def test_exports_are_read_by_scipy(ring: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected = np.zeros((4, 4))
    expected[[0, 1, 2], [1, 2, 3]] = 1000
    assert run("show", str(ring), "--export", str(tmp_path / "a.npz")) == 0
    assert np.array_equal(scipy.sparse.load_npz(tmp_path / "a.npz").toarray(), expected)
    assert run("show", str(ring), "--export", str(tmp_path / "a.mtx")) == 0
    assert np.array_equal(np.asarray(scipy.io.mmread(tmp_path / "a.mtx").todense()), expected)
    assert run("show", str(ring), "--export", str(tmp_path / "a.txt")) == 4
    assert "choose one of these suffixes" in capsys.readouterr().err


def test_every_export_that_is_asked_for_is_written(ring: Path, tmp_path: Path) -> None:
    wanted = [tmp_path / name for name in ("a.npz", "b.mtx", "c.npz")]
    assert run("show", str(ring), *[word for path in wanted for word in ("--export", str(path))]) == 0
    assert [read_graph(path).nbytes.sum() for path in wanted] == [3000, 3000, 3000]
    assert run("show", str(ring), "--export", str(tmp_path / "d.npz"), "--export", str(tmp_path / "d")) == 4
    assert not (tmp_path / "d.npz").exists()


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_the_matrix_is_drawn(ring: Path, tmp_path: Path, suffix: str) -> None:
    pytest.importorskip("matplotlib")
    picture = tmp_path / f"a.{suffix}"
    assert run("show", str(ring), "--plot", str(picture)) == 0
    head = picture.read_bytes()[:200]
    assert head.startswith(b"\x89PNG") if suffix == "png" else b"<svg" in picture.read_bytes()


def test_pictures_without_matplotlib_are_an_error_of_one_line(
    ring: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert run("show", str(ring), "--plot", str(tmp_path / "a.png")) == 3
    assert "pip install" in capsys.readouterr().err
    assert run("show", str(ring), "--plot", str(tmp_path / "a.bmp")) == 3


def test_damaged_and_mixed_files_are_errors(
    ring: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = ring.read_bytes()
    (tmp_path / "cut.trace").write_bytes(data[:-8])
    assert run("show", str(tmp_path / "cut.trace")) == 5
    assert "damaged" in capsys.readouterr().err
    assert run("show", str(tmp_path / "missing.trace")) == 5
    (tmp_path / "g.mtx").write_text("%%MatrixMarket matrix coordinate real general\n2 2 1\n1 2 5\n")
    assert run("show", str(ring), str(tmp_path / "g.mtx")) == 5
    assert run("show", str(tmp_path / "g.mtx")) == 0


def test_run_without_a_traced_rank_has_a_code_of_its_own(
    fake_tracer: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "out.trace")
    assert run("run", "-o", out, "--", "sh", "-c", "echo data; exit 0") == 11
    captured = capfd.readouterr()
    assert captured.out == "data\n"
    assert "no rank was traced" in captured.err
    assert run("run", "-o", out, "--", "sh", "-c", "exit 3") == 3
    assert run("run", "-o", out, "--", "sh", "-c", "kill -9 $$") == 137


def test_run_passes_environment_and_exit_code(
    fake_tracer: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    script = 'echo $SLURM_TOPO_JOB_COUNTERS; touch "$SLURM_TOPO_JOB_COUNTERS/0.1.0.counters"; exit 5'
    assert run("run", "-o", str(tmp_path / "out.trace"), "--", "sh", "-c", script) == 5
    captured = capfd.readouterr()
    folder = Path(captured.out.strip().splitlines()[-1])
    assert folder.parent == tmp_path
    assert not folder.exists()
    assert "some counters are missing (a reason)" in captured.err


def test_run_says_what_cannot_be(
    fake_tracer: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("run", "-o", str(tmp_path / "no" / "x"), "--", "true") == 4
    assert run("run", "-o", str(tmp_path), "--", "true") == 4
    assert run("run", "-o", str(tmp_path / "x"), "--", "/no/such/program") == 11
    assert "cannot be started" in capsys.readouterr().err
    (fake_tracer / "libslurm_topo_trace.so").unlink()
    assert run("run", "-o", str(tmp_path / "x"), "--", "true") == 11
    assert "SLURM_TOPO_LIBRARY_DIR" in capsys.readouterr().err


def test_library_of_the_settings_is_the_only_one_looked_for(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match=str(tmp_path)):
        find_library(Settings(library_dir=str(tmp_path)))
    (tmp_path / "libslurm_topo_trace.so").write_bytes(b"")
    assert find_library(Settings(library_dir=str(tmp_path))) == tmp_path / "libslurm_topo_trace.so"


def test_environment_keeps_the_order_of_preloads() -> None:
    environment = traced_environment({"LD_PRELOAD": "b.so /t.so", "A": "1"}, Path("/t.so"), "/c")
    assert environment == {
        "LD_PRELOAD": "/t.so:b.so",
        "A": "1",
        "SLURM_TOPO_JOB_COUNTERS": "/c",
        "ASAN_OPTIONS": "verify_asan_link_order=0",
    }
    own = traced_environment({"ASAN_OPTIONS": "detect_leaks=0:verify_asan_link_order=1"}, Path("/t.so"), "/c")
    assert own["ASAN_OPTIONS"] == "detect_leaks=0:verify_asan_link_order=1"
    assert "SLURM_TOPO_JOB_COUNTERS" not in os.environ


def test_graphs_of_run_are_read_back(ring: Path, tmp_path: Path) -> None:
    from slurm_topo.trace import write_graph

    write_graph(read_graph(ring), tmp_path / "g.npz")
    graph = read_graph(tmp_path / "g.npz")
    assert graph.modelled.tolist() == [100, 100, 100]
    assert graph.meta["program"] == "app"


def test_scale_predicts_or_says_that_it_cannot(
    make_trace: Make, make_record: Record, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ring = make_trace([make_record(r, 8, {(r + 1) % 8: (1, 50), (r - 1) % 8: (1, 50)}) for r in range(8)])
    out = tmp_path / "g.npz"
    assert run("scale", str(ring), "-n", "12", "-o", str(out)) == 0
    assert "grid of 8 closed, 2 directions" in capsys.readouterr().err
    graph = read_graph(out)
    assert (graph.ranks, graph.source.size, graph.nbytes.sum()) == (12, 24, 1200)
    assert run("show", str(ring)) == 0
    assert "structure    grid of 8 closed" in capsys.readouterr().out
    assert run("show", str(ring), "--format", "json") == 0
    structure = json.loads(capsys.readouterr().out)["structure"]
    assert (structure["kind"], structure["dims"], structure["periodic"]) == ("grid", [8], [True])
    star = make_trace([make_record(0, 8, {r: (1, r) for r in range(1, 8)})], name="star.trace")
    assert run("scale", str(star), "-n", "12", "-o", str(tmp_path / "s.npz")) == 5
    assert "no regular structure" in capsys.readouterr().err
    assert not (tmp_path / "s.npz").exists()


def test_scale_takes_the_law_of_sizes_from_several_graphs(
    make_trace: Make, make_record: Record, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def ring(n: int, nbytes: int) -> str:
        slots = [{(r + 1) % n: (1, nbytes), (r - 1) % n: (1, nbytes)} for r in range(n)]
        return str(make_trace([make_record(r, n, slots[r]) for r in range(n)], name=f"{n}.trace"))

    small, middle, out = ring(8, 64), ring(16, 64), str(tmp_path / "g.npz")
    assert run("scale", small, middle, "-n", "32", "-o", out) == 0
    assert "sizes stay, by graphs of 8, 16 ranks" in capsys.readouterr().err
    assert run("scale", small, "-n", "32", "-o", out) == 0
    assert "one number of ranks does not tell" in capsys.readouterr().err
    assert read_graph(out).meta["sizes"]["law"] == "assumed"
    assert run("show", out) == 0
    assert "predicted    from 8 ranks, confidence 0.9" in capsys.readouterr().out
    star = str(make_trace([make_record(0, 8, {r: (1, r) for r in range(1, 8)})], name="star.trace"))
    assert run("scale", middle, star, "-n", "32", "-o", out) == 5
