"""The tracer in the task, and the counters at the end of the step."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

Site = Any  # of conftest.py, which is no module that can be imported

TRACED = {"SLURM_TOPO_JOB_ARM": "observe", "SLURM_TOPO_JOB_TRACE": "1"}


def test_task_is_traced(site: Site) -> None:
    result = site.task(**TRACED)
    counters = site.local / f"slurm-topo-{os.geteuid()}" / "77.0"
    assert result.env["LD_PRELOAD"] == str(site.tracer)
    assert result.env["SLURM_TOPO_JOB_COUNTERS"] == str(counters)
    assert counters.stat().st_mode & 0o777 == 0o700


def test_batch_step_has_its_name(site: Site) -> None:
    assert site.task(**TRACED, FAKE_STEP="4294967291").env["SLURM_TOPO_JOB_COUNTERS"].endswith("/77.batch")


@pytest.mark.parametrize("step", ["4294967292", "4294967290"], ids=["extern", "interactive"])
def test_other_steps_are_not_traced(site: Site, step: str) -> None:
    assert "LD_PRELOAD" not in site.task(**TRACED, FAKE_STEP=step).env


def test_preload_of_the_user_is_kept_and_the_tracer_not_doubled(site: Site) -> None:
    before = f"libmine.so {site.tracer}:libother.so"
    # LD_PRELOAD would act on the driver itself: the fake takes it under another name.
    result = site.task(FAKE_LD_PRELOAD=before, **TRACED, SLURM_TOPO_JOB_COUNTERS="/old")
    assert result.env["LD_PRELOAD"] == f"{site.tracer}:libmine.so:libother.so"
    assert result.env["SLURM_TOPO_JOB_COUNTERS"].endswith("/77.0")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, "verify_asan_link_order=0"),
        ("detect_leaks=0", "detect_leaks=0:verify_asan_link_order=0"),
        ("verify_asan_link_order=1", "verify_asan_link_order=1"),
    ],
)
def test_address_sanitizer_of_a_program_bears_the_tracer(site: Site, before: str | None, after: str) -> None:
    users = {} if before is None else {"FAKE_ASAN_OPTIONS": before}
    assert site.task(**TRACED, **users).env["ASAN_OPTIONS"] == after


@pytest.mark.parametrize(
    ("before", "after"),
    [("{tracer}", None), ("{tracer}:libmine.so", "libmine.so"), ("libmine.so", "libmine.so")],
)
def test_step_that_is_not_traced_loses_the_tracer_of_the_batch_step(
    site: Site, before: str, after: str | None
) -> None:
    value = before.format(tracer=site.tracer)
    env = {**TRACED, "SLURM_TOPO": "off", "SLURM_TOPO_JOB_COUNTERS": "/old"}
    result = site.task(FAKE_LD_PRELOAD=value, **env)
    assert result.env.get("LD_PRELOAD") == after
    assert "SLURM_TOPO_JOB_COUNTERS" not in result.env


def foreign(library: bytes) -> bytes:
    """The library, as if for a machine that nobody has."""
    return library[:18] + b"\xfe\xfe" + library[20:]


def program(library: bytes) -> bytes:
    """The same bytes with ET_EXEC in the head."""
    return library[:16] + b"\x02\x00" + library[18:]


TRACE_FAULTS: dict[str, Callable[[Site], object]] = {
    "tracer missing": lambda s: s.tracer.unlink(),
    "tracer empty": lambda s: s.tracer.write_bytes(b""),
    "tracer no library": lambda s: s.tracer.write_text("#!/bin/sh\n" * 1000),
    "tracer cut short": lambda s: os.truncate(s.tracer, s.tracer.stat().st_size - 1),
    "tracer a head only": lambda s: os.truncate(s.tracer, 4096),
    "tracer of another machine": lambda s: s.tracer.write_bytes(foreign(s.tracer.read_bytes())),
    "tracer a program": lambda s: s.tracer.write_bytes(program(s.tracer.read_bytes())),
    "library for an MPI cut short": lambda s: s.tracer.with_name("libtracer_openmpi.so").write_bytes(
        s.tracer.read_bytes()[:9000]
    ),
    "tracer a FIFO": lambda s: (s.tracer.unlink(), os.mkfifo(s.tracer)),
    "tracer a folder": lambda s: (s.tracer.unlink(), s.tracer.mkdir()),
    "local folder missing": lambda s: s.local.rmdir(),
    "user folder a link": lambda s: (s.local / f"slurm-topo-{os.geteuid()}").symlink_to("/tmp"),
    "user folder a file": lambda s: (s.local / f"slurm-topo-{os.geteuid()}").touch(),
    "user folder open": lambda s: (
        (s.local / f"slurm-topo-{os.geteuid()}").mkdir(),
        (s.local / f"slurm-topo-{os.geteuid()}").chmod(0o777),
    ),
    "kill switch": lambda s: (s.folder / "disabled").touch(),
}


@pytest.mark.parametrize("name", TRACE_FAULTS)
def test_task_runs_untraced_where_the_tracer_cannot_work(site: Site, name: str) -> None:
    TRACE_FAULTS[name](site)
    result = site.task(**TRACED)
    assert "LD_PRELOAD" not in result.env
    assert "SLURM_TOPO_JOB_COUNTERS" not in result.env
    reasons = [(r["where"], r["decision"], r["reason"].split(":")[0]) for r in site.records()]
    assert reasons == ([] if name == "kill switch" else [("task", "stand-down", "tracer")])


@pytest.mark.parametrize("damage", ["missing", "cut short"])
def test_library_that_broke_after_the_batch_step_is_taken_out(site: Site, damage: str) -> None:
    if damage == "missing":
        site.tracer.unlink()
    else:
        os.truncate(site.tracer, 5000)
    before = {"FAKE_LD_PRELOAD": f"{site.tracer}:libmine.so", "SLURM_TOPO_JOB_COUNTERS": "/old"}
    result = site.task(**before, **TRACED)
    assert result.env["LD_PRELOAD"] == "libmine.so"
    assert "SLURM_TOPO_JOB_COUNTERS" not in result.env


def counters_of(site: Site, uid: int) -> None:
    folder = site.local / f"slurm-topo-{uid}" / "77.0"
    folder.mkdir(parents=True)
    for path in (folder, folder.parent):
        os.chown(path, uid, uid)


def test_counters_are_collected(site: Site) -> None:
    counters_of(site, os.geteuid())
    site.end_step(SLURM_TOPO_JOB_KEYS="s1:n2", SLURM_TOPO_JOB_PLAN="/p.plan")
    text = (site.user / "traces" / "77.0.n2.trace").read_text().splitlines()
    assert text[1] == str(site.local / f"slurm-topo-{os.geteuid()}" / "77.0")
    assert text[2] == "77 0 n2 s1:n2 /p.plan 2 1"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has rights to give up")
def test_collector_gives_up_roots_rights_for_good(site: Site) -> None:
    for path in (site.folder, *site.folder.parents[:3]):
        path.chmod(path.stat().st_mode | 0o055)
    site.spool.chmod(0o1777)
    site.local.chmod(0o1777)
    counters_of(site, 65534)
    site.end_step(FAKE_UID="65534", FAKE_GID="65534")
    path = site.spool / "65534" / "traces" / "77.0.n2.trace"
    assert path.read_text().splitlines()[0] == "65534 65534 65534 groups 1 back 0"
    assert path.stat().st_uid == 65534


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to play another user")
def test_root_neither_reads_nor_writes_what_a_user_planted(site: Site) -> None:
    """Links of the user to root's files: the collector, being the user, cannot follow them."""
    secret = site.folder / "secret"
    secret.mkdir(mode=0o700)
    site.spool.chmod(0o1777)
    site.local.chmod(0o1777)
    for path in (site.folder, *site.folder.parents[:3]):
        path.chmod(path.stat().st_mode | 0o055)
    counters_of(site, 65534)
    (site.spool / "65534").symlink_to(secret)
    site.end_step(FAKE_UID="65534", FAKE_GID="65534")
    assert list(secret.iterdir()) == []


@pytest.mark.parametrize("wish", ["hang", "fail"])
def test_counters_that_cannot_be_collected_do_not_stay_in_memory(site: Site, wish: str) -> None:
    counters_of(site, os.geteuid())
    folder = site.local / f"slurm-topo-{os.geteuid()}" / "77.0"
    (folder / "0.counters").touch()
    result = site.end_step(FAKE_COLLECT=wish)
    assert list((site.user / "traces").iterdir()) == []
    assert not folder.exists()
    assert ("no trace: the disk is full" in result.stderr) == (wish == "fail")


def test_step_that_was_not_traced_collects_nothing(site: Site) -> None:
    counters_of(site, os.geteuid())
    site.end_step(SLURM_TOPO_JOB_TRACE="0")
    assert not (site.user / "traces").exists()


def test_extern_step_collects_nothing(site: Site) -> None:
    site.end_step(FAKE_STEP="4294967292")
    assert not (site.user / "traces").exists()
