"""srun with one part broken: it stands down with one line and a record."""

from __future__ import annotations

import os
import re
import resource
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Site = Any  # of conftest.py, which is no module that can be imported


def untouched(result: Any) -> bool:
    return not {"SLURM_HOSTFILE", "SLURM_DISTRIBUTION", "SLURM_TOPO_JOB_PLAN"} & set(result.now)


def break_place(site: Site, text: str) -> None:
    site.script("#!/bin/sh\n" + text)


FAULTS: dict[str, tuple[Callable[[Site], object], str]] = {
    "graph missing": (
        lambda s: (s.user / "graphs" / f"{s.graph}.npz").unlink(),
        "graph: .*.npz is missing",
    ),
    "graphs missing": (
        lambda s: (s.user / "graphs").rename(s.user / "x"),
        "spool .*graphs: cannot be opened",
    ),
    "graph a link": (
        lambda s: (
            (s.user / "graphs" / f"{s.graph}.npz").unlink(),
            (s.user / "graphs" / f"{s.graph}.npz").symlink_to("/etc/passwd"),
        ),
        "graph: .* is missing",
    ),
    "spool missing": (lambda s: s.spool.rename(s.folder / "x"), "spool .*: cannot be opened"),
    "spool a file": (
        lambda s: (s.spool.rename(s.folder / "x"), s.spool.touch()),
        "spool .*: cannot be opened",
    ),
    "spool writable": (lambda s: s.user.chmod(0o777), "spool .*: others may write there"),
    "plans a link": (lambda s: (s.user / "plans").symlink_to("/tmp"), "spool .*plans: cannot be opened"),
    "plans a file": (lambda s: (s.user / "plans").touch(), "spool .*plans: cannot be opened"),
    "place missing": (lambda s: s.place.unlink(), "place: .*No such file or directory"),
    "place not executable": (lambda s: s.place.chmod(0o600), "place: .*Permission denied"),
    "place fails": (
        lambda s: break_place(s, "echo broken >&2; exit 9"),
        "place: ended with exit code 9: broken",
    ),
    "place crashes": (lambda s: break_place(s, "kill -SEGV $$"), "place: was killed by signal 11"),
    "place silent": (lambda s: break_place(s, "exit 0"), "place: wrote no plan"),
    "interpreter missing": (
        lambda s: s.script("#!/nonexistent/python\n"),
        "place: ended with exit code 127: cannot be executed: No such file or directory",
    ),
    "plan writable": (
        lambda s: s.script(
            '#!/bin/sh\nfor plan; do :; done\ncp ../answer "$plan"; chmod 666 "$plan"\n'.replace(
                "../", f"{s.folder}/"
            )
        ),
        "77-2x1-.*.plan: others may write it",
    ),
    "plan rubbish": (
        lambda s: (s.folder / "answer").write_bytes(os.urandom(5000)),
        "plan: does not begin with",
    ),
    "plan empty": (lambda s: (s.folder / "answer").write_text(""), "plan: does not begin with"),
    "plan truncated": (
        lambda s: (s.folder / "answer").write_text(s.text[:-10]),
        r"plan: damaged at line 1\d",
    ),
    "plan version": (
        lambda s: (s.folder / "answer").write_text(s.text.replace("plan 1", "plan 2", 1)),
        "plan: does not",
    ),
    "plan of another job": (
        lambda s: (s.folder / "answer").write_text(s.text.replace("job 77", "job 78")),
        "plan: belongs to another step",
    ),
    "plan of other nodes": (
        lambda s: (s.folder / "answer").write_text(s.text.replace("1 n2", "1 n9")),
        "plan: node n9 is not of this job",
    ),
    "plan too crowded": (
        lambda s: (s.folder / "answer").write_text(
            s.text.replace("cpus_per_task 1", "cpus_per_task 1").replace("rank 1 0 cpus=0", "rank 1 1 cpus=0")
        ),
        "plan: node n1 gets no rank",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_fault_stands_down_with_one_line(site: Site, name: str) -> None:
    damage, reason = FAULTS[name]
    damage(site)
    result = site.srun()
    assert untouched(result)
    (line,) = result.lines
    assert re.match(f"info: slurm-topo: stood down: {reason}", line)
    if not name.startswith("spool"):
        (record,) = site.records()
        assert record["decision"] == "stand-down"
        assert re.match(reason, record["reason"])


@pytest.mark.parametrize("distance", [1, 4, 9])
def test_two_faults_at_once_are_one_line(site: Site, tmp_path: Path, distance: int) -> None:
    """Each fault together with the one that stands so far behind it in the table."""
    names = list(FAULTS)
    broken = 0
    for i, first in enumerate(names):
        second = names[(i + distance) % len(names)]
        folder = tmp_path / str(i)
        folder.mkdir()
        pair = type(site)(folder, site.drive)
        try:
            FAULTS[first][0](pair)
            FAULTS[second][0](pair)
        except OSError:
            continue  # the first leaves nothing that the second could break
        result = pair.srun()
        assert untouched(result), (first, second)
        assert len(result.lines) == 1, (first, second, result.lines)
        broken += 1
    assert broken > len(names) // 2


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give files away")
@pytest.mark.parametrize("name", ["", "graphs", "plans", "records"])
def test_spool_of_somebody_else_is_not_used(site: Site, name: str) -> None:
    (site.user / name).mkdir(exist_ok=True)
    os.chown(site.user / name, 65534, 65534)
    result = site.srun()
    (line,) = result.lines
    assert "belongs to another user" in line
    if name != "records":
        assert untouched(result)


def test_search_that_hangs_is_waited_for_once_a_job(site: Site) -> None:
    site.script(f"#!/bin/sh\necho call >> {site.folder}/calls\nexec sleep 1000\n")
    arguments = site.arguments.replace("deadline_ms=5000", "deadline_ms=200")
    first = site.srun(FAKE_ARGS=arguments)
    second = site.srun(FAKE_ARGS=arguments)
    assert first.lines == ["info: slurm-topo: stood down: place: took more than 200 ms"]
    assert second.lines == ["info: slurm-topo: stood down: place-late"]
    assert untouched(first)
    assert untouched(second)
    assert site.calls == ["call"]


@pytest.mark.parametrize("answer", ["rubbish", "slurm-topo-plan 2\n", ""])
def test_search_whose_plan_cannot_be_read_is_started_once_a_job(site: Site, answer: str) -> None:
    """As after an upgrade of the search without the plugin."""
    (site.folder / "answer").write_text(answer)
    first, second = site.srun(), site.srun()
    assert first.lines[0].startswith("info: slurm-topo: stood down: plan: does not begin with")
    assert second.lines == ["info: slurm-topo: stood down: place-failed"]
    assert untouched(second)
    assert len(site.calls) == 1


def test_quiet_srun_stays_quiet(site: Site) -> None:
    site.place.unlink()
    assert site.srun("-Q", "./app").lines == []


def test_unknown_word_of_the_user_stands_down(site: Site) -> None:
    result = site.srun(SLURM_TOPO="perhaps")
    assert untouched(result)
    assert result.lines == [
        "info: slurm-topo: stood down: SLURM_TOPO=perhaps is none of off, observe, advise, enforce"
    ]


def test_limit_on_file_sizes_stands_down(site: Site) -> None:
    site.srun()
    common = {"FAKE_CONTEXT": "local", "FAKE_ARGS": site.arguments}
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))  # noqa: E731
    result = site.drive("init", "./app", env={**site.job, **common}, preexec_fn=limit)
    assert "SLURM_HOSTFILE" not in result.stdout
    assert "stood down: file in memory: File too large" in result.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount")
@pytest.mark.parametrize("full", ["size=4k", "nr_inodes=2"], ids=["blocks", "inodes"])
def test_full_file_system_stands_down(site: Site, full: str) -> None:
    plans = site.user / "plans"
    plans.mkdir(mode=0o700)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"{full},mode=700", "none", str(plans)], check=False
    )
    if mounted.returncode:
        pytest.skip("mount is not allowed here")
    try:
        (plans / "filler").write_bytes(b"x" * 4096)
        result = site.srun()
        assert untouched(result)
        assert len(result.lines) == 1
    finally:
        subprocess.run(["umount", str(plans)], check=True)
