"""Reports of IPM and mpiP: what they tell is read, what they do not tell is said."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from slurm_topo.cli.main import main
from slurm_topo.errors import GraphError
from slurm_topo.trace import read_graph
from slurm_topo.trace.foreign import read_foreign


def entry(call: str, nbytes: int, partner: int, count: int) -> str:
    return (
        f'<hent key="0x1" call="{call}" bytes="{nbytes}" orank="{partner}" region="0" callsite="0" '
        f'count="{count}" tid="0" >1.0e-03 1.0e-05 2.0e-05</hent>'
    )


def task(rank: int, ranks: int, entries: list[str], version: str = "2.0.6", full: bool = True) -> list[str]:
    """One rank, in the order in which IPM writes it; its command line is not escaped."""
    hashed = [f'<hash nlog="9" nkey="{len(entries)}" >', *entries, "</hash>"] if full else []
    return [
        f'<task ipm_version="{version}" cookie="nocookie" mpi_rank="{rank}" mpi_size="{ranks}" '
        'stamp_init="1.5" stamp_final="2.5" username="u" allocationname="a" flags="0" pid="9" >',
        f'<job nhosts="1" ntasks="{ranks}" start="1" final="2" cookie="nocookie" code="unknown" >77</job>',
        '<cmdline realpath="/opt/app" md5sum="x" >./app <in & -x</cmdline>',
        '<regions n="1" >',
        '<region label="ipm_noregion" nexits="1" wtime="1" utime="1" stime="1" mtime="1" id="1" >',
        '<func name="MPI_Send" count="3" bytes="3.0000e+02" > 1.0000e-03 </func>',
        "</region>",
        "</regions>",
        *hashed,
        f'<internal rank="{rank}" log_i="1" log_t="1" report_delta="-1" fname="f" logrank="0" ></internal>',
        "</task>",
    ]


def report(tasks: list[list[str]]) -> str:
    lines = [
        '<?xml version="1.0" encoding="iso-8859-1"?>',
        "<ipm_job_profile>",
        '<calltable nsections="1" >',
        '<section module="MPI" nentries="1" >',
        '<entry name="MPI_Send" />',
        "</section>",
        "</calltable>",
        *[line for one in tasks for line in one],
        "</ipm_job_profile>",
    ]
    return "\n".join(lines) + "\n"


def ring(version: str = "2.0.6") -> str:
    """Three ranks: 3 x 100 bytes by Send and 2 x 8 by Isend to the next one, and what must not count."""
    tasks = []
    for rank in range(3):
        after, before = (rank + 1) % 3, (rank - 1) % 3
        entries = [
            entry("MPI_Send", 100, after, 3),
            entry("MPI_Isend", 8, after, 2),
            entry("MPI_Recv", 100, before, 3),
            entry("MPI_Irecv", 8, before, 2),
            entry("MPI_Wait", 0, 0, 4),
            entry("MPI_Allreduce", 16, 0, 5),
        ]
        tasks.append(task(rank, 3, entries, version))
    return report(tasks)


def test_what_is_sent_is_counted_once(tmp_path: Path) -> None:
    (tmp_path / "r.xml").write_text(ring())
    graph = read_foreign(tmp_path / "r.xml")
    assert graph.ranks == 3
    assert list(zip(graph.source.tolist(), graph.target.tolist(), strict=True)) == [(0, 1), (1, 2), (2, 0)]
    assert graph.nbytes.tolist() == [316, 316, 316]
    assert graph.messages.tolist() == [5, 5, 5]
    assert not graph.modelled.any()
    assert graph.meta["collective_calls"] == {"allreduce": 15}
    assert graph.meta["collective_bytes"] == 240


@pytest.mark.parametrize(("version", "doubtful"), [("2.0.6", True), ("0.983", False)])
def test_import_says_what_the_report_cannot_tell(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], version: str, doubtful: bool
) -> None:
    (tmp_path / "r.xml").write_text(ring(version))
    with pytest.raises(SystemExit) as ended:
        main(["trace", "import", str(tmp_path / "r.xml"), "-o", str(tmp_path / "g.npz")])
    assert not ended.value.code
    said = capsys.readouterr().err
    assert "15 calls of collectives (240 B) are not in the graph" in said
    assert ("communicator of the call" in said) == doubtful
    assert read_graph(tmp_path / "g.npz").nbytes.sum() == 948


def test_reports_without_partners_are_refused_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "terse.xml").write_text(report([task(r, 2, [], full=False) for r in range(2)]))
    with pytest.raises(GraphError, match=r"no hash entries.*IPM_LOG=full"):
        read_foreign(tmp_path / "terse.xml")
    clustered = report([task(0, 2, []), ['<taskcopy mpi_rank="1" cluster_rank="0"></taskcopy>']])
    (tmp_path / "clustered.xml").write_text(clustered)
    with pytest.raises(GraphError, match=r"clustered.*IPM_LOG=full"):
        read_foreign(tmp_path / "clustered.xml")
    (tmp_path / "app.4.1.mpiP").write_text("@ mpiP\n@ Command : ./app\n@ Version : 3.5.0\n")
    with pytest.raises(GraphError, match=r"mpiP.*not to whom; trace the program with slurm-topo trace run"):
        read_foreign(tmp_path / "app.4.1.mpiP")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('orank="1"', 'orank="7"', "partner 7 in a world of 3"),
        ('callsite="0" count="3"', 'callsite="0" count="many"', "count is 'many'"),
        ('bytes="100"', 'bytes="-1"', "bytes is '-1'"),
        ('mpi_rank="1"', 'mpi_rank="0"', "rank 0 has two tasks"),
        ('mpi_size="3"', 'mpi_size="2"', "does not fit"),
        ("</task>", "", "a task begins in another"),
    ],
)
def test_damage_is_named(tmp_path: Path, old: str, new: str, said: str) -> None:
    (tmp_path / "r.xml").write_text(ring().replace(old, new, 1))
    with pytest.raises(GraphError, match=said):
        read_foreign(tmp_path / "r.xml")


def test_partners_that_are_nobody_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "r.xml").write_text(ring().replace('orank="1"', 'orank="-2"'))
    assert read_foreign(tmp_path / "r.xml").messages.sum() == 10


def test_cut_at_every_line_is_damaged(tmp_path: Path) -> None:
    lines = ring().splitlines(keepends=True)
    whole = read_foreign_text(tmp_path, "".join(lines))
    assert whole is not None
    closed = len(lines) - 1  # only the very last line, which closes the document, may be missing
    for end in range(1, closed):
        assert read_foreign_text(tmp_path, "".join(lines[:end])) is None


def test_mutated_reports_are_read_or_refused(tmp_path: Path) -> None:
    chance = random.Random(3)
    text, refused = ring(), 0
    for _ in range(300):
        place = chance.randrange(len(text))
        letter = chance.choice('0123456789<>"=x \n-')
        mutated = text[:place] + letter + text[place + chance.randrange(3) :]
        refused += read_foreign_text(tmp_path, mutated) is None
    assert refused > 10


def read_foreign_text(tmp_path: Path, text: str) -> np.ndarray | None:
    """Bytes of the graph, None where it is refused with one line."""
    file = tmp_path / "r.xml"
    file.write_text(text)
    try:
        return read_foreign(file).nbytes
    except GraphError as error:
        said = str(error)
    assert "\n" not in said
    assert "; " in said
    return None
