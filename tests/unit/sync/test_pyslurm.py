"""Accounting through pyslurm, where it is installed and fits.

No release of pyslurm fits the Slurm of the tests (22.05): the stand-in here has the names and types that its
25.11 documents. That these hold what slurmdbd sent is not tested.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from slurm_topo.errors import SlurmError
from slurm_topo.slurm.library import fitting_library, read_by_library
from slurm_topo.slurm.sacct import parse_sacct

NO_VAL64 = 2**64 - 2


def number(text: str) -> int:
    return int(text) if text.isdigit() else 0


def moment(text: str) -> int | None:
    from slurm_topo.slurm import values

    return values.moment(text)


def as_pyslurm(rows: list[dict[str, str]]) -> Any:
    """A job with its steps as pyslurm would hand it out."""

    def common(row: dict[str, str]) -> dict[str, Any]:
        return {
            "name": row["JobName"],
            "start_time": moment(row["Start"]),
            "end_time": moment(row["End"]),
            "elapsed_time": number(row["ElapsedRaw"]),
            "state": row["State"].split()[0],
            "exit_code": 0,
            "exit_code_signal": None,
            "num_nodes": number(row["NNodes"]),
            "nodelist": row["NodeList"] or None,
            "cpus": number(row["NCPUS"]),
            "stats": SimpleNamespace(consumed_energy=NO_VAL64, total_cpu_time=None),
        }

    head, *rest = rows
    steps = {
        row["JobIDRaw"].split(".")[1]: SimpleNamespace(**common(row), ntasks=number(row["NTasks"]))
        for row in rest
    }
    return SimpleNamespace(
        **common(head),
        id=int(head["JobIDRaw"]),
        user_name=head["User"],
        user_id=int(head["UID"]),
        account=head["Account"],
        partition=head["Partition"],
        cluster=head["Cluster"],
        submit_time=moment(head["Submit"]),
        admin_comment=head["AdminComment"],
        comment=None,
        array_id=None,
        array_task_id=None,
        heterogeneous_id=0,
        heterogeneous_offset=None,
        gpus={},
        steps=steps,
    )


@pytest.fixture
def pyslurm(site, monkeypatch) -> Any:
    """A module that answers from the jobs of the site."""
    asked: list[dict[str, Any]] = []

    def load(chosen: dict[str, Any]) -> dict[str, dict[int, Any]]:
        asked.append(chosen)
        jobs = {job: as_pyslurm(rows) for job, rows in site.jobs.items()}
        return {"lab": {j: jobs[j] for j in chosen.get("ids", jobs) if j in jobs}}

    db = SimpleNamespace(JobFilter=lambda **chosen: chosen, Jobs=SimpleNamespace(load=load))
    module = SimpleNamespace(__version__="25.11.2", db=db, asked=asked)
    monkeypatch.setitem(sys.modules, "pyslurm", module)
    real = site.run
    monkeypatch.setattr(
        site, "run", lambda argv: "slurm 25.11.1\n" if argv == ["sacct", "--version"] else real(argv)
    )
    return module


def fill(site) -> None:
    site.trace(1, site.add_job(1, arm="observe", end=site.now - 5000))
    site.add_job(2, state="CANCELLED by 1000")
    site.add_job(3, end=None)


def test_the_history_is_the_same_as_by_sacct(site, make_site, pyslurm) -> None:
    site.settings = replace(site.settings, accounting="pyslurm")
    other = make_site("sacct")
    for each in (site, other):
        fill(each)
        assert each.sync().error is None
    assert not any(call[0] == "sacct" for call in site.calls)
    assert pyslurm.asked
    assert any(call[0] == "sacct" for call in other.calls)
    assert site.dump() == other.dump()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"__version__": "22.5.0"}, "version 22.5.0 is not of slurm 25.11.1"),
        ({"db": None}, "has no pyslurm.db.JobFilter"),
        ({"__version__": ""}, "version unknown is not of"),
    ],
)
def test_a_library_that_does_not_fit_is_said_and_sacct_is_asked(site, pyslurm, change, why) -> None:
    vars(pyslurm).update(change)
    site.settings = replace(site.settings, accounting="pyslurm")
    fill(site)
    result = site.sync()
    assert result.jobs == 3
    (line,) = result.outcome.warnings
    assert line.startswith("pyslurm: ")
    assert why in line
    assert line.endswith("sacct is asked instead")


def test_a_library_that_is_not_there_is_said(site, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "pyslurm", None)
    library, why = fitting_library(site.run)
    assert library is None
    assert "cannot be imported" in why


def test_what_it_raises_is_one_line_and_the_pass_goes_on(site, pyslurm, monkeypatch) -> None:
    def fail(_: Any) -> None:
        raise RuntimeError("Failed to get\nJobs")

    monkeypatch.setattr(pyslurm.db.Jobs, "load", fail)
    site.settings = replace(site.settings, accounting="pyslurm")
    result = site.sync()
    assert isinstance(result.error, SlurmError)
    assert str(result.error) == (
        'pyslurm: RuntimeError (Failed to get Jobs); set accounting = "sacct" or try it by hand'
    )


def test_rows_are_those_of_sacct(site, pyslurm) -> None:
    site.add_job(1)
    by_library = list(read_by_library(pyslurm, 0))
    text = "".join("|".join(row.values()) + "\n" for row in site.jobs[1])
    by_text = list(parse_sacct(text, list(site.jobs[1][0])))
    for one, other in zip(by_library, by_text, strict=True):
        same = {"user": one.user, "uid": one.uid, "partition": one.partition, "tasks": one.tasks}
        assert replace(other, **same) == one
