"""The page holds everything, loads nothing and shows no markup of strangers."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import update

from slurm_topo.cli.main import main
from slurm_topo.history.database import open_engine, transaction
from slurm_topo.history.schema import jobs, programs
from slurm_topo.report.synthetic import Design, synthetic_runs, write_history
from slurm_topo.report.synthetic_case import write_case

VOID = {"meta", "br", "img", "input", "link", "hr"}


class Checker(HTMLParser):
    """Fails where tags do not close in order; collects what would be loaded."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loads: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.loads += [
            v or "" for k, v in attrs if k in ("src", "href", "srcset", "data") or k.startswith("on")
        ]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def make_page(path: Path, target: Path, *argv: str) -> str:
    with pytest.raises(SystemExit) as stop:
        main(["report", "--database", str(path), "--format", "html", "-o", str(target), *argv])
    assert stop.value.code == 0
    return target.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def full_history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two programs, one in full, one with a hostile name and switched back."""
    runs = synthetic_runs(Design(runs=80, programs=2, users=2), np.random.default_rng(3))
    path = tmp_path_factory.mktemp("page") / "page.sqlite"
    engine = open_engine(str(path))
    write_history(engine, runs)
    write_case(engine, int(runs.row[np.flatnonzero((runs.program == 1) & runs.placed)[-1]]))
    with transaction(engine) as connection:
        hostile = "<script>alert(1)</script>"
        connection.execute(
            update(programs).where(programs.c.id == 2).values(name=hostile, arm_reason="a < b")
        )
        connection.execute(
            update(programs).where(programs.c.id == 2).values(arm="observe", user_name=hostile)
        )
        connection.execute(update(jobs).where(jobs.c.reason == "margin").values(reason="<b>margin"))
        connection.execute(update(jobs).where(jobs.c.account == "project1").values(account="<i>p</i>"))
    engine.dispose()
    return path


def test_the_page_is_well_formed_and_loads_nothing(full_history: Path, tmp_path: Path) -> None:
    checker = Checker()
    text = make_page(full_history, tmp_path / "page.html")
    checker.feed(text)
    assert checker.open == []
    assert checker.loads == []
    assert not checker.tags & {"script", "iframe", "img", "link", "b i"}
    assert "url(" not in text
    assert "@import" not in text
    assert "http" not in re.sub(r"http-equiv", "", text)


def test_the_page_shows_every_part(full_history: Path, tmp_path: Path) -> None:
    text = make_page(full_history, tmp_path / "page.html")
    for words in (
        "Programs", "Where the bytes go", "Runs by week", "Node-hours saved by week", "Left alone, and why",
        "Switched back", "a &lt; b", "Sensitivity to the topology", "What the time of a run goes into",
        "Who talks to whom", "Traffic on the links of the machine", "leaf1", "Time of each run", "By account",
        "prefers-color-scheme:dark", "@media print", "&lt;script&gt;", "&lt;i&gt;p",
    ):  # fmt: skip
        assert words in text, words
    assert "<script>" not in text


def test_an_empty_history_makes_a_page_that_says_so(empty_history: Path, tmp_path: Path) -> None:
    text = make_page(empty_history, tmp_path / "page.html")
    assert "slurm-topo sync" in text
    assert "<svg" not in text


def test_the_same_history_gives_the_same_bytes(full_history: Path, tmp_path: Path) -> None:
    assert make_page(full_history, tmp_path / "a.html") == make_page(full_history, tmp_path / "b.html")
