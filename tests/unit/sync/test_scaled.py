"""A program that is new at its number of ranks is placed with a graph predicted from another one."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from sqlalchemy import select

from slurm_topo.history.schema import graphs, programs
from slurm_topo.slurm.fingerprint import fingerprint_keys
from slurm_topo.trace import read_graph

PERIOD = 1000


def ring(site, job: int, keys: str, ranks: int = 8, stray: int = 0, size: int = PERIOD) -> None:
    """Traces of a job whose ranks send to both neighbours of a ring (and to some others)."""
    sent = [{(r + 1) % ranks: size, (r - 1) % ranks: size} for r in range(ranks)]
    for r, peers in enumerate(sent):
        if stray and r % 3 == 0:
            peers[(r * r + 5) % ranks] = stray
    site.trace_of(job, keys, sent)


def key_of(site, ranks: int, name: bytes = b"halo") -> str:
    """The key that a job of another size will be looked up by."""
    (key,) = [k for k in fingerprint_keys(str(site.uid), f"{ranks}x1", executable=name) if k[0] == "u"]
    return key


def published(site, digest: str):
    return read_graph(site.user_spool / "graphs" / f"{digest}.npz")


def test_a_regular_program_is_advised_at_other_sizes(site) -> None:
    ring(site, 1, site.add_job(1))
    site.sync()
    advice = site.advice()
    for ranks in (4, 16, 32, 64):
        found = advice[key_of(site, ranks)]
        assert (found["ranks"], found["trace"], found["arm"]) == (str(ranks), "1", "enforce")
        graph = published(site, found["graph"])
        assert (graph.ranks, graph.source.size) == (ranks, 2 * ranks)
        assert graph.meta["origin"] == "scaled"
        assert graph.meta["scaled_from"] == 8
        assert 0.8 <= graph.meta["confidence"] < 1
    assert key_of(site, 24) not in advice
    # The real graph stays what it is, and nothing changes while nothing happens.
    assert advice[key_of(site, 8)]["trace"] == "0"
    before = site.dump()
    site.sync()
    assert {k: v for k, v in site.dump().items() if k != "sync_state"} == {
        k: v for k, v in before.items() if k != "sync_state"
    }


def test_the_first_real_trace_takes_its_place(site) -> None:
    ring(site, 1, site.add_job(1, end=site.now - 300))
    site.sync()
    predicted = site.advice()[key_of(site, 16)]["graph"]
    keys = ":".join(fingerprint_keys(str(site.uid), "16x1", b"srun ./halo 2", b"halo", b"physics", b"./halo"))
    site.add_job(2, comment=f"slurm-topo:1 arm=enforce keys={keys} program=1 graph={predicted}")
    site.sync()
    # It ran, but left no trace: the prediction serves all of its own keys meanwhile.
    advice = site.advice()
    assert {advice[k]["graph"] for k in keys.split(":") if k[0] != "x"} == {predicted}
    ring(site, 2, keys, ranks=16, stray=77)
    site.sync()
    advice = site.advice()
    real = advice[key_of(site, 16)]["graph"]
    assert real != predicted
    assert published(site, real).meta["origin"] == "trace"
    assert advice[key_of(site, 16)]["trace"] == "0"


@pytest.mark.parametrize("confidence", [0.95, 1.0])
def test_predictions_that_are_not_sure_enough_are_not_used(site, confidence: float) -> None:
    site.settings = replace(site.settings, scale_confidence=confidence)
    ring(site, 1, site.add_job(1))
    site.sync()
    assert key_of(site, 16) not in site.advice()
    assert len(list((site.user_spool / "graphs").iterdir())) == 1


def test_irregular_programs_are_traced_at_each_size(site) -> None:
    keys = site.add_job(1)
    ring(site, 1, keys, stray=5 * PERIOD)
    site.sync()
    assert site.advice()[key_of(site, 8)]["graph"]
    assert key_of(site, 16) not in site.advice()


def test_names_that_anybody_has_are_not_advised_at_other_sizes(site) -> None:
    ring(site, 1, site.add_job(1, executable=b"./main"))
    site.sync()
    assert not [key for key in site.advice() if key[0] == "u"]


def test_predictions_that_nobody_used_are_forgotten_with_their_trace(site) -> None:
    keys = site.add_job(1, end=site.now - 300)
    ring(site, 1, keys)
    site.sync()
    first = site.advice()[key_of(site, 16)]["graph"]
    site.add_job(2)
    ring(site, 2, keys, size=2 * PERIOD)
    site.sync()
    second = site.advice()[key_of(site, 16)]["graph"]
    with site.history() as history, history.engine.connect() as connection:
        rows = {row.digest: json.loads(row.meta) for row in connection.execute(select(graphs))}
        traced = set(connection.execute(select(programs.c.graph)).scalars())
    assert first not in rows
    assert rows[second]["scaled_graph"] in traced
    assert np.isclose(rows[second]["confidence"], published(site, second).meta["confidence"])


def test_two_traces_that_predict_the_same_keep_it(site) -> None:
    keys = site.add_job(1, end=site.now - 300)
    ring(site, 1, keys)
    site.sync()
    first = site.advice()[key_of(site, 16)]["graph"]
    site.add_job(2)
    ring(site, 2, keys, stray=30)  # another graph of the same structure
    site.sync()
    assert site.advice()[key_of(site, 16)]["graph"] == first
    with site.history() as history:
        assert history.graph(first) is not None
