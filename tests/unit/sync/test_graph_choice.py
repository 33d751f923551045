"""Which graph the steps of a program are placed with."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import numpy as np
import pytest
from sqlalchemy import select

from slurm_topo.history.schema import graphs, programs


@pytest.fixture
def site(site):
    """Without graphs that are predicted for other numbers of ranks."""
    site.settings = replace(site.settings, scale_confidence=1.0)
    return site


def chosen(site) -> tuple[int, float]:
    """Ranks and bytes of the graph that the only program is placed with."""
    site.sync()
    query = select(graphs.c.content).join(programs, programs.c.graph == graphs.c.digest)
    with site.history() as history, history.engine.connect() as connection:
        content = connection.execute(query).scalar_one()
    arrays = np.load(io.BytesIO(content))
    return int(arrays["ranks"]), float(arrays["nbytes"].sum())


def test_steps_that_differ_are_placed_with_their_mean(site):
    keys = site.add_job(1, steps=("batch", "0", "1", "2"))
    for step, nbytes in (("0", 1000), ("1", 1000), ("2", 4000)):
        site.trace(1, keys, step=step, nbytes=nbytes)
    assert chosen(site) == (8, 8 * 2000.0)
    # Each step keeps its own graph; the next pass changes nothing.
    assert chosen(site) == (8, 8 * 2000.0)


def test_steps_that_are_alike_are_placed_with_their_graph(site):
    keys = site.add_job(1, steps=("batch", "0", "1"))
    for step in ("0", "1"):
        site.trace(1, keys, step=step, nbytes=3000)
    assert chosen(site) == (8, 8 * 3000.0)
    with site.history() as history, history.engine.connect() as connection:
        assert len(connection.execute(select(graphs.c.digest)).all()) == 1


def test_a_mean_says_of_which_steps_it_is(site):
    keys = site.add_job(1, steps=("batch", "0", "1", "2"))
    for step, nbytes in (("0", 1000), ("1", 1000), ("2", 4000)):
        site.trace(1, keys, step=step, nbytes=nbytes)
    site.sync()
    query = select(graphs.c.meta).join(programs, programs.c.graph == graphs.c.digest)
    with site.history() as history, history.engine.connect() as connection:
        meta = json.loads(connection.execute(query).scalar_one())
        digests = set(connection.execute(select(graphs.c.digest)).scalars())
        mean = connection.execute(select(programs.c.graph)).scalar_one()
    assert meta["origin"] == "mean"
    assert sorted(part["times"] for part in meta["steps"]) == [1, 2]
    assert {part["graph"] for part in meta["steps"]} == digests - {mean}
    assert meta["job"] == "1"
    # What was measured of one step is not said of the mean.
    assert not {"seconds", "step", "bound_by", "wait_share", "phase_bytes", "messages_of_size"} & set(meta)
