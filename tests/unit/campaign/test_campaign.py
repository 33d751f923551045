"""The campaign end to end with the real simulator, small."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from slurm_topo.campaign.agreement import PATTERNS, agreement, rank_correlation
from slurm_topo.campaign.centre import draw_requests, read_requests
from slurm_topo.campaign.patterns import halo
from slurm_topo.cli.judge import example_machine
from slurm_topo.cli.main import cli
from slurm_topo.errors import InputError
from slurm_topo.judge.simgrid import Simulator
from slurm_topo.trace import write_graph

SMALL = (
    *("--jobs", "30", "--programs", "4", "--node", "package:2 l3:2 core:2 pu:1"),
    *("--switches", "2", "--nodes", "2", "--largest", "4", "--format", "json"),
)


def run(folder: Path, *arguments: str) -> dict[str, Any]:
    result = CliRunner().invoke(
        cli, ["campaign", "--folder", str(folder), *SMALL, *arguments], catch_exceptions=False
    )
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("campaign")
    return folder, run(folder)


def test_every_job_is_counted_once(done: tuple[Path, dict[str, Any]]) -> None:
    _, found = done
    assert found["jobs"] == 30 == len(found["outcomes"]) == sum(found["decisions"].values())
    assert found["decisions"]["traced"] == len({o["program"] for o in found["outcomes"]}) == found["programs"]
    assert found["gained"] + found["lost"] <= found["decisions"]["placed"]
    assert sum(kind["jobs"] for kind in found["by_kind"].values()) == 30


def test_figures_follow_from_the_jobs(done: tuple[Path, dict[str, Any]]) -> None:
    _, found = done
    after = [o["completion_after_s"] / 60 for o in found["outcomes"]]
    before = [o["completion_before_s"] / 60 for o in found["outcomes"]]
    figure = found["figures"]["completion_min"]
    assert figure["after"] == pytest.approx(np.mean(after))
    assert figure["change"] == pytest.approx(np.mean(after) / np.mean(before) - 1)
    assert figure["low"] <= figure["change"] <= figure["high"]
    cost = found["figures"]["cost_per_job"]["before"]
    assert cost == pytest.approx(np.mean([o["nodes"] * o["run_before_s"] / 3600 for o in found["outcomes"]]))
    for o in found["outcomes"]:
        if o["decision"] != "placed" and o["shape_before"] == o["shape_after"]:
            assert o["run_after_s"] == pytest.approx(o["run_before_s"])


def test_an_interrupted_campaign_goes_on(
    done: tuple[Path, dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, found = done
    lines = (folder / "judged.jsonl").read_text().splitlines(keepends=True)
    # Killed while it wrote its last line.
    (tmp_path / "judged.jsonl").write_text("".join(lines[:-1]) + lines[-1][:20])
    calls = []
    seconds = Simulator.seconds
    monkeypatch.setattr(Simulator, "seconds", lambda self, *a: calls.append(1) or seconds(self, *a))
    again = run(tmp_path)
    assert 1 <= len(calls) <= 2
    for name in ("figures", "decisions", "outcomes", "sensitivity"):
        assert again[name] == found[name]
    assert len((tmp_path / "judged.jsonl").read_text().splitlines()) == len(lines)
    # All is known now.
    calls.clear()
    run(tmp_path)
    assert not calls


def test_a_damaged_line_inside_the_store_is_named(done: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    lines = (done[0] / "judged.jsonl").read_text().splitlines()
    (tmp_path / "judged.jsonl").write_text("\n".join(["{", *lines]) + "\n")
    result = CliRunner().invoke(cli, ["campaign", "--folder", str(tmp_path), *SMALL])
    assert isinstance(result.exception, InputError)
    assert "line 1 is damaged" in str(result.exception)


def test_sensitivity_and_shares(done: tuple[Path, dict[str, Any]]) -> None:
    _, found = done
    assert set(found["sensitivity"]) == {
        *("as assumed", "latency halved", "latency doubled", "bandwidth halved", "bandwidth doubled"),
    }
    changes = [found["run_change_by_share"][share] for share in ("0.1", "0.3", "0.5")]
    assert changes[0] * 3 == pytest.approx(changes[1])
    assert changes[0] * 5 == pytest.approx(changes[2])


def test_traced_graphs_and_a_log_of_a_centre(tmp_path: Path) -> None:
    graphs = tmp_path / "graphs"
    graphs.mkdir()
    write_graph(halo(16), graphs / "solver.npz")
    log = tmp_path / "log.swf"
    log.write_text(
        "; MaxProcs: 32\n"
        + "".join(f"{i} {i * 60} 5 {600 + i} 8 -1 -1 8 -1 -1 1 1 1 1 1 1 -1 -1\n" for i in range(1, 31))
    )
    found = run(tmp_path / "c", "--graphs", str(graphs), "--trace", str(log), "--no-sensitivity")
    assert found["jobs"] == 30
    assert {o["nodes"] for o in found["outcomes"]} == {2}
    assert "solver" in {o["program"] for o in found["outcomes"]}
    assert min(o["submit_s"] for o in found["outcomes"]) == 0
    with pytest.raises(InputError, match="30 jobs of a minute"):
        CliRunner().invoke(
            cli, ["campaign", *SMALL, "--jobs", "31", "--trace", str(log)], catch_exceptions=False
        )


def test_a_log_without_such_jobs_is_refused(tmp_path: Path) -> None:
    log = tmp_path / "log.swf"
    log.write_text("1 0 5 10 8 -1 -1 8 -1 -1 1 1 1 1 1 1 -1 -1\n")
    with pytest.raises(InputError, match="no job of a minute"):
        read_requests(log, 10)


def test_drawn_jobs_have_the_quoted_medians() -> None:
    requests = draw_requests(20_000, np.random.default_rng(1))
    assert np.median([r.run_s for r in requests]) / 60 == pytest.approx(30.5, rel=0.1)
    assert np.median([r.share for r in requests]) * 240 == pytest.approx(18, rel=0.15)
    assert all(a.submit_s <= b.submit_s for a, b in pairwise(requests))


def test_objective_and_judge_agree_on_a_halo() -> None:
    found = agreement("halo", PATTERNS["halo"](32, 1), example_machine(), 20, 1)
    assert found.mappings == 20
    assert found.correlation["sum"] > 0.5
    assert not found.indifferent


def test_nothing_to_rank_is_said() -> None:
    assert np.isnan(rank_correlation(np.array([1.0, 1.0, 1.0 + 1e-13]), np.array([1.0, 2.0, 3.0])))
    assert rank_correlation(np.array([1.0, 2, 3]), np.array([3.0, 2, 1])) == pytest.approx(-1)


def test_the_agreement_command_prints_a_table() -> None:
    result = CliRunner().invoke(
        cli, ["judge", "--agreement", "--ranks", "16", "--mappings", "8"], catch_exceptions=False
    )
    assert result.exit_code == 0
    for pattern in PATTERNS:
        assert pattern in result.stdout
