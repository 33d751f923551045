"""The tracer's C core under sanitizers: tables, counters, models of collectives, collector."""

from __future__ import annotations

import os
import random
import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from slurm_topo.trace import read_trace

HERE = Path(__file__).parent
SANITIZE = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g", "-O1")
MODEL = tuple(
    f"model_{part}.c"
    for part in ("trees", "rooted", "all", "reduce_scatter", "nonblocking", "inter", "mpich")
)
HEADER, SLOT = 2048, 128


@pytest.fixture(scope="session")
def build(project_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Compile a C test with parts of the tracer."""
    if not shutil.which("gcc"):
        pytest.skip("gcc is not here")
    native = project_root / "slurm_topo" / "trace" / "native"
    folder = tmp_path_factory.mktemp("native")

    def compile_test(source: Path, *parts: str, options: tuple[str, ...] = SANITIZE) -> Path:
        target = folder / (source.stem + "".join(options).replace("/", "_"))
        if not target.exists():
            files = [str(source), *(str(native / part) for part in parts)]
            command = ["gcc", "-std=c11", *options, "-I", str(native), *files, "-o", str(target), "-lpthread"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
        return target

    return compile_test


def passes(binary: Path, *arguments: str) -> None:
    done = subprocess.run([str(binary), *arguments], capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr[-3000:]


def test_table_keeps_what_it_is_given(build: Callable[..., Path]) -> None:
    # The tables that readers may still be in are kept on purpose.
    passes(build(HERE / "test_map.c", "map.c", options=("-fsanitize=undefined", "-g", "-O1")))


def test_table_has_no_data_races(build: Callable[..., Path]) -> None:
    passes(build(HERE / "test_map.c", "map.c", options=("-fsanitize=thread", "-g", "-O1")))


def test_counters_grow_and_stop_in_peace(build: Callable[..., Path], tmp_path: Path) -> None:
    passes(build(HERE / "test_counters.c", "counters.c"), str(tmp_path))


def test_models_send_what_must_arrive(build: Callable[..., Path]) -> None:
    passes(build(HERE / "test_model.c", *MODEL))


@pytest.fixture
def collector(build: Callable[..., Path], project_root: Path) -> Path:
    """The collector's executable, under sanitizers."""
    return build(project_root / "slurm_topo" / "trace" / "native" / "collect_main.c", "collect.c")


def rank_file(rank: int, size: int, peers: list[int], **changes: int) -> bytes:
    """Counters as the tracer writes them: one message of 8 bytes to each peer."""
    fields = {"version": 1, "header": HEADER, "slot": SLOT, "slots": len(peers), "state": 1, **changes}
    head = struct.pack(
        "<8s4I2i2IiI",
        b"STCOUNT\n",
        *(fields[k] for k in ("version", "header", "slot", "slots")),
        rank,
        size,
        rank + 100,
        fields["state"],
        0,
        0,
    )
    slots = b"".join(struct.pack("<2I15Q", peer, 0, 1, 8, *[0] * 13) for peer in peers)
    return head.ljust(HEADER, b"\0") + slots


def collect(collector: Path, folder: Path, out: Path, *meta: str) -> tuple[int, list[str]]:
    done = subprocess.run(
        [str(collector), str(folder), str(out), *meta],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "Sanitizer" not in done.stderr, done.stderr
    return done.returncode, done.stdout.splitlines()


def fill(folder: Path, size: int) -> None:
    folder.mkdir()
    for rank in range(size):
        (folder / f"{rank}.{rank + 100}.0.counters").write_bytes(rank_file(rank, size, [(rank + 1) % size]))


def test_collector_makes_one_file_and_cleans_up(collector: Path, tmp_path: Path) -> None:
    folder, out = tmp_path / "counters", tmp_path / "77.0.n1.trace"
    fill(folder, 3)
    code, lines = collect(
        collector, folder, out, "job=77", "step=0", "node=n1", "nodes=2", "keys=sa:nb", "plan=/p"
    )
    assert (code, lines) == (0, ["ranks 3"])
    assert not folder.exists()
    assert out.stat().st_mode & 0o777 == 0o600
    trace = read_trace(out)
    assert (trace.job, trace.step, trace.node, trace.nodes) == ("77", "0", "n1", 2)
    assert (trace.keys, trace.plan) == ("sa:nb", "/p")
    assert [int(r.sent["peer"][0]) for r in trace.ranks] == [1, 2, 0]


def test_collector_skips_what_is_not_counters(collector: Path, tmp_path: Path) -> None:
    folder, out = tmp_path / "counters", tmp_path / "out.trace"
    fill(folder, 2)
    bad = {
        "empty": b"",
        "short": rank_file(0, 4, [])[:1000],
        "magic": b"x" * 4096,
        "version": rank_file(0, 4, [], version=2),
        "slots": rank_file(0, 4, [1], slots=4),
        "many": rank_file(0, 4, [1], slots=2**32 - 1),
        "new": rank_file(0, 4, [], state=0),
        "rank": rank_file(4, 4, []),
        "negative": rank_file(-1, 4, []),
    }
    for name, data in bad.items():
        (folder / f"{name}.counters").write_bytes(data)
    (folder / "link.counters").symlink_to("/etc/passwd")
    os.mkfifo(folder / "fifo.counters")
    (folder / "folder.counters").mkdir()
    code, lines = collect(collector, folder, out)
    assert code == 0
    assert lines == ["ranks 2", f"{len(bad) + 3} files of counters were not complete"]
    assert len(read_trace(out).ranks) == 2


def test_collector_passes_on_why_a_rank_has_no_counters(collector: Path, tmp_path: Path) -> None:
    folder, out = tmp_path / "counters", tmp_path / "out.trace"
    fill(folder, 2)
    (folder / "999.off").write_text("disk\nfull")
    assert collect(collector, folder, out) == (0, ["ranks 2", "disk full"])
    assert read_trace(out).reason == "disk full"


@pytest.mark.parametrize("trouble", ["missing", "file", "link", "nowhere", "nothing"])
def test_collector_says_what_is_wrong(collector: Path, tmp_path: Path, trouble: str) -> None:
    folder, out = tmp_path / "counters", tmp_path / "out.trace"
    if trouble == "file":
        folder.write_text("")
    elif trouble == "link":
        fill(tmp_path / "real", 1)
        folder.symlink_to(tmp_path / "real")
    elif trouble == "nowhere":
        fill(folder, 1)
        out = tmp_path / "missing" / "out.trace"
    elif trouble == "nothing":
        folder.mkdir()
    code, lines = collect(collector, folder, out)
    assert not out.exists()
    if trouble == "nothing":
        assert (code, lines) == (0, ["ranks 0"])
    else:
        assert code == 1
        assert lines[0] == "ranks -1"
        assert "cannot" in lines[1]
    if trouble == "nowhere":
        assert len(list(folder.iterdir())) == 1


def test_collector_survives_random_bytes(collector: Path, tmp_path: Path) -> None:
    rng = random.Random(7)
    folder, out = tmp_path / "counters", tmp_path / "out.trace"
    folder.mkdir()
    for i in range(200):
        data = bytearray(rank_file(i % 4, 4, [0, 1, 2, 3]))
        for _ in range(rng.randint(1, 8)):
            data[rng.randrange(64)] = rng.randrange(256)
        (folder / f"{i}.counters").write_bytes(data[: rng.choice([len(data), rng.randrange(len(data))])])
    code, lines = collect(collector, folder, out)
    assert code == 0
    kept = int(lines[0].split()[1])
    assert kept < 200
    if kept:
        assert len(read_trace(out).ranks) == kept
