"""What sync removes from a user's folder, and what stays."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

DAY = 86400


def fill(site, name: str, age_days: float, folder: str = "graphs") -> Path:
    """A file of that age."""
    path = site.write(folder, name, b"x")
    when = site.now - int(age_days * DAY)
    os.utime(path, (when, when))
    return path


def graphs(site) -> set[str]:
    return {path.name for path in (site.user_spool / "graphs").iterdir()}


def test_graph_that_nothing_names_stays_a_month(site):
    fill(site, "00000000000000aa.npz", 29)
    fill(site, "00000000000000bb.npz", 31)
    result = site.sync()
    assert graphs(site) == {"00000000000000aa.npz"}
    assert result.pruned == 1


def test_graph_of_advice_stays_however_old_it_is_and_a_month_after_that(site):
    """A job that was submitted with the old graph finds it when it starts."""
    site.trace(1, site.add_job(1, arm="observe"))
    site.sync()
    old = graphs(site)
    assert old
    site.now += 40 * DAY
    site.sync()
    assert graphs(site) == old
    # Other graphs take their place.
    site.trace(2, site.add_job(2, arm="observe", end=site.now - 100), nbytes=77)
    site.sync()
    new = graphs(site) - old
    assert new
    site.now += 29 * DAY
    site.sync()
    assert graphs(site) == old | new
    site.now += 3 * DAY
    site.sync()
    assert graphs(site) == new


def test_only_the_newest_hundred_of_them_stay(site):
    for number in range(150):
        fill(site, f"{number:016x}.npz", 1 + number / 100)
    site.sync()
    assert graphs(site) == {f"{number:016x}.npz" for number in range(100)}


def test_files_of_the_user_stay(site):
    for name in ("notes.txt", "mine.npz", "x" * 80 + ".npz"):
        fill(site, name, 1000)
    site.sync()
    assert graphs(site) == {"notes.txt", "mine.npz", "x" * 80 + ".npz"}


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("graphs", ".00000000000000aa.npz.4711"),
        ("plans", ".7-8x1-0123456789abcdef.plan.x7_a1b2c"),
        ("plans", ".7-8x1-0123456789abcdef.plan.4711"),
        ("traces", "7.0.n1.trace.4711.tmp"),
    ],
)
def test_half_of_a_killed_writer_goes_after_a_day(site, folder, name):
    path = fill(site, name, 2, folder)
    young = fill(site, name + "1" if not name.endswith("tmp") else "8" + name, 0.5, folder)
    site.sync()
    assert not path.exists()
    assert young.exists()


def test_refused_files_are_kept_half_a_year(site):
    old, young = fill(site, "7.0.n1.trace", 181, "rejected"), fill(site, "8.0.n1.trace", 179, "rejected")
    site.sync()
    assert not old.exists()
    assert young.exists()


def test_folder_is_looked_through_once_a_day_even_if_the_clock_jumped_back(site):
    site.sync()
    old = fill(site, "00000000000000aa.npz", 400)
    site.now += 3600
    site.sync()
    assert old.exists()
    site.now -= 30 * DAY
    site.sync()
    assert not old.exists()


def test_links_are_neither_followed_nor_touched(site, tmp_path):
    target = tmp_path / "precious.npz"
    target.write_bytes(b"x")
    os.utime(target, (1000, 1000))
    site.trace(1, site.add_job(1, arm="observe"))
    site.sync()
    graph = min((site.user_spool / "graphs").iterdir())
    graph.unlink()
    graph.symlink_to(target)
    (site.user_spool / "graphs" / "00000000000000aa.npz").symlink_to(target)
    site.now += 400 * DAY
    site.sync()
    assert target.stat().st_mtime == 1000
    assert target.read_bytes() == b"x"
