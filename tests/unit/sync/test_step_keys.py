"""Advice for steps by their own keys: each command and each number of ranks has its graph."""

from __future__ import annotations

import pytest

from slurm_topo.history.sync.stepkeys import FORGET_S, TRIES
from slurm_topo.slurm.fingerprint import program_key, step_keys


def steps_of(site) -> dict[str, dict[str, str]]:
    """The published file by key."""
    lines = (site.user_spool / "advice" / "steps").read_text().splitlines()
    assert lines[0] == "slurm-topo-steps 1"
    assert lines[1] == "holdout 0.1"
    assert lines[-1] == f"end {len(lines) - 3}"
    found = {}
    for line in lines[2:-1]:
        word, key, *values = line.split()
        assert word == "step"
        found[key] = dict(value.split("=") for value in values)
    return found


def keys_of(site, ranks: int = 8, command: bytes = b"./halo 4") -> list[str]:
    return step_keys(str(site.uid), command, command.split()[0], ranks)


def told(job_keys: str, keys: list[str]) -> str:
    """What srun writes: the account's key is left out, or it would not fit."""
    return ":".join([*(key for key in job_keys.split(":") if key and key[0] != "x"), *keys])


def trace(site, job: int, keys: list[str], **values) -> None:
    site.trace(job, told(":".join(keys), []), **values)


def test_traced_step_has_advice_by_its_command_and_its_executable(site):
    job_keys = site.add_job(1, arm="observe")
    own = keys_of(site)
    trace(site, 1, [job_keys, *own])
    site.sync()
    found = steps_of(site)
    (graph,) = {line["graph"] for line in found.values()}
    assert [found[key] for key in own] == [{"graph": graph, "ranks": "8", "arm": "enforce", "trace": "0"}] * 2
    assert (site.user_spool / "graphs" / f"{graph}.npz").exists()


def test_step_of_salloc_gives_advice_without_a_program(site):
    site.add_job(1, comment="slurm-topo:1 arm=enforce reason=interactive", name="interactive", steps=("0",))
    trace(site, 1, keys_of(site))
    site.sync()
    assert set(steps_of(site)) == set(keys_of(site))
    assert site.advice() == {}


def test_numbers_of_ranks_of_a_program_do_not_take_each_others_graph(site):
    """A program of unknown shape runs on 8 and on 4 ranks in turn."""
    job_keys = site.add_job(1, arm="observe", end=site.now - 300)
    trace(site, 1, [job_keys])
    site.sync()
    site.add_job(2, arm="observe", end=site.now - 200)
    trace(site, 2, [job_keys], places=[("n1", 0), ("n1", 1), ("n2", 0), ("n2", 1)], size=4)
    site.sync()
    found = steps_of(site)
    eight, four = (found[program_key(str(site.uid), 1, n)] for n in (8, 4))
    assert (eight["ranks"], four["ranks"]) == ("8", "4")
    assert eight["graph"] != four["graph"]
    site.add_job(3, arm="observe", end=site.now - 100)
    trace(site, 3, [job_keys])
    site.sync()
    again = steps_of(site)
    assert again[program_key(str(site.uid), 1, 4)] == four
    assert again[program_key(str(site.uid), 1, 8)] == eight


def test_command_without_traffic_is_traced_a_few_times_only(site):
    for job in range(1, TRIES + 1):
        keys = site.add_job(job, arm="observe", end=site.now - 500 + job)
        site.trace_without_ranks(job, told(keys, keys_of(site)))
        site.sync()
        expected = {"graph": "-", "arm": "enforce", "trace": str(int(job < TRIES))}
        assert [steps_of(site)[key] for key in keys_of(site)] == [expected] * 2


@pytest.mark.parametrize("state", ["FAILED", "CANCELLED"])
def test_run_that_ended_early_replaces_no_graph(site, state):
    keys = site.add_job(1, arm="observe", end=site.now - 300)
    trace(site, 1, [keys, *keys_of(site)], nbytes=1000)
    site.sync()
    before = steps_of(site)[keys_of(site)[0]]
    site.add_job(2, arm="observe", end=site.now - 200, state=state)
    trace(site, 2, [keys, *keys_of(site)], nbytes=10)
    site.sync()
    assert steps_of(site)[keys_of(site)[0]] == before
    site.add_job(3, arm="observe", end=site.now - 100)
    trace(site, 3, [keys, *keys_of(site)], nbytes=2000)
    site.sync()
    assert steps_of(site)[keys_of(site)[0]]["graph"] != before["graph"]


def test_commands_that_nobody_runs_are_forgotten(site):
    keys = site.add_job(1, arm="observe")
    trace(site, 1, [keys, *keys_of(site)])
    site.sync()
    site.now += FORGET_S + 1
    site.sync()
    assert steps_of(site) == {}


def test_how_a_search_ended_is_in_the_history(site):
    site.add_job(1)
    site.record(1, "place", "cost", search="budget")
    site.sync()
    with site.history() as history:
        (run,) = history.runs()
        assert [d.search for d in history.decisions(run.id)] == ["budget"]
