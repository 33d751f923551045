"""OTF2 archives, written by the writer of their own developers."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slurm_topo.errors import GraphError
from slurm_topo.model import CommGraph
from slurm_topo.trace.foreign import read_foreign
from slurm_topo.trace.otf2_archive import read_events

otf2 = pytest.importorskip("otf2")

RANKS = 4
Events = Callable[[Any, Any, int, Any], None]


def write_archive(folder: Path, write: Events, mpi: bool = True) -> Path:
    """An archive of four ranks with MPI_COMM_WORLD and a communicator of ranks 3 and 1, in that order.

    ``write(writer, communicators, rank, window)`` writes the events of one rank.
    """
    with otf2.writer.open(str(folder), timer_resolution=1000) as trace:
        known = trace.definitions
        root = known.system_tree_node("machine")
        groups = [known.location_group(f"rank {r}", system_tree_parent=root) for r in range(RANKS)]
        places = [known.location("main", group=group) for group in groups]
        kind, paradigm = otf2.GroupType, otf2.Paradigm.MPI if mpi else otf2.Paradigm.NONE
        known.group("world", group_type=kind.COMM_LOCATIONS, paradigm=paradigm, members=places)
        every = known.group("all", group_type=kind.COMM_GROUP, paradigm=paradigm, members=places)
        two = known.group(
            "two", group_type=kind.COMM_GROUP, paradigm=paradigm, members=[places[3], places[1]]
        )
        alone = known.group("self", group_type=kind.COMM_GROUP, paradigm=paradigm, members=[places[0]])
        names = {
            "world": known.comm("MPI_COMM_WORLD", group=every),
            "two": known.comm("two", group=two),
            "self": known.comm("MPI_COMM_SELF", group=alone),
        }
        window = known.rma_win("window", comm=names["two"])
        for rank, place in enumerate(places):
            write(trace.event_writer_from_location(place), names, rank, window)
    return folder / "traces.otf2"


def everything(writer: Any, comms: Any, rank: int, window: Any) -> None:
    writer.mpi_send(10, (rank + 1) % RANKS, comms["world"], 5, 100)
    writer.mpi_isend(20, (rank + 1) % RANKS, comms["world"], 5, 11, 1)
    writer.mpi_isend_complete(21, 1)
    writer.mpi_recv(30, (rank - 1) % RANKS, comms["world"], 5, 100)
    if rank == 3:
        writer.mpi_send(40, 1, comms["two"], 5, 7)  # rank 1 of "two" is rank 1 of the world
        writer.rma_put(41, window, 1, 500, 0)
        writer.rma_get(42, window, 1, 30, 0)
    if rank == 1:
        writer.mpi_send(40, 0, comms["two"], 5, 9)  # rank 0 of "two" is rank 3 of the world
    if rank == 0:
        writer.mpi_send(50, 0, comms["self"], 5, 1000)
    if rank in (1, 3):
        collective(writer, 60, otf2.CollectiveOp.ALLREDUCE, comms["two"], 64)
    collective(writer, 70, otf2.CollectiveOp.BCAST, comms["world"], 300 if rank == 2 else 0, root=2)
    collective(writer, 80, otf2.CollectiveOp.GATHER, comms["world"], 40, root=0)
    collective(writer, 90, otf2.CollectiveOp.BARRIER, comms["world"], 0)


def collective(writer: Any, time: int, operation: Any, comm: Any, sent: int, root: int = 0) -> None:
    writer.mpi_collective_begin(time)
    writer.mpi_collective_end(time + 1, operation, comm, root, sent, sent)


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return write_archive(tmp_path / "run", everything)


def dense(graph: CommGraph, column: np.ndarray) -> list[list[float]]:
    matrix = np.zeros((graph.ranks, graph.ranks))
    matrix[graph.source, graph.target] = column
    return matrix.tolist()


def test_partners_are_ranks_of_the_world(archive: Path) -> None:
    graph = read_foreign(archive)
    assert graph.ranks == RANKS
    sent = dense(graph, graph.nbytes - graph.modelled)
    assert sent == [
        [0, 111, 0, 0],
        [0, 0, 111, 9 + 30],
        [0, 0, 0, 111],
        [111, 7 + 500, 0, 0],
    ]


def test_collectives_are_kept_apart(archive: Path) -> None:
    graph = read_foreign(archive.parent)
    assert dense(graph, graph.modelled) == [
        [0, 0, 0, 0],
        [40, 0, 0, 64],
        [100 + 40, 100, 0, 100],
        [40, 64, 0, 0],
    ]
    calls = {"ALLREDUCE": 2, "BARRIER": 4, "BCAST": 4, "GATHER": 4}
    assert graph.meta["collective_calls"] == calls
    assert graph.meta["origin"] == "OTF2"


def test_an_archive_without_mpi_or_with_nothing_is_refused(tmp_path: Path) -> None:
    def nothing(writer: Any, comms: Any, rank: int, window: Any) -> None:
        writer.mpi_send(1, 0, comms["world"], 0, 1)

    with pytest.raises(GraphError, match="without MPI ranks; "):
        read_foreign(write_archive(tmp_path / "none", nothing, mpi=False))
    (tmp_path / "traces.otf2").write_text("hello\n")
    with pytest.raises(GraphError, match="damaged OTF2 archive"):
        read_foreign(tmp_path / "traces.otf2")
    with pytest.raises(GraphError, match="cannot be read"):
        read_foreign(tmp_path / "missing.otf2")


def test_without_the_reader_its_package_is_named(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    empty = archive.parent / "empty"
    empty.mkdir()
    (empty / "otf2.py").write_text("raise ImportError\n")
    monkeypatch.setenv("PYTHONPATH", str(empty))
    with pytest.raises(GraphError, match=r"pip install 'slurm-topo\[otf2\]'"):
        read_foreign(archive)


def test_archives_with_missing_files_are_damaged(archive: Path) -> None:
    files = [p for p in archive.parent.rglob("*") if p.is_file() and p != archive]
    assert len(files) > RANKS
    for file in files:
        kept = file.read_bytes()
        file.unlink()
        refused(archive, may_be_read=file.suffix == ".def" and file.parent != archive.parent)
        file.write_bytes(kept)
    assert read_foreign(archive).ranks == RANKS


def test_cut_and_mutated_archives_are_read_or_refused(archive: Path) -> None:
    chance = random.Random(7)
    files = [archive, archive.with_suffix(".def"), *sorted(archive.parent.rglob("*.evt"))[:2]]
    for file in files:
        kept = file.read_bytes()
        for _ in range(3):
            data = bytearray(kept)
            for _ in range(3):
                data[chance.randrange(len(data))] = chance.randrange(256)
            file.write_bytes(bytes(data))
            refused(archive, may_be_read=True)
        file.write_bytes(kept[: chance.randrange(len(kept) // 2)])
        refused(archive)
        file.write_bytes(kept)


def refused(archive: Path, may_be_read: bool = False) -> None:
    try:
        graph = read_foreign(archive)
    except GraphError as error:
        said = str(error)
    else:
        assert may_be_read
        assert graph.ranks <= RANKS
        return
    assert "\n" not in said
    assert "; " in said


def test_what_the_reader_prints_is_not_passed_on(archive: Path, tmp_path: Path) -> None:
    archive.with_suffix(".def").unlink()
    command = [sys.executable, "-m", "slurm_topo.cli.main", "trace", "import", str(archive)]
    done = subprocess.run(
        [*command, "-o", str(tmp_path / "g.npz")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 5
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "g.npz").exists()


def test_the_reader_in_process_agrees(archive: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(archive.parent, tmp_path / "copy")
    assert read_events(str(copy / "traces.otf2")).nbytes.tolist() == read_foreign(archive).nbytes.tolist()
