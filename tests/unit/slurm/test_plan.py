"""The plan file: what is written is what is read, and nothing else is taken for a plan."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_topo.errors import InputError
from slurm_topo.slurm.plan import Plan, RankPlace, format_plan, parse_plan, read_plan, write_plan

numbers = st.sets(st.integers(0, 300), max_size=6).map(lambda s: tuple(sorted(s)))


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    nodes = draw(st.integers(1, 5))
    places = draw(
        st.lists(
            st.builds(RankPlace, st.integers(0, nodes - 1), numbers, numbers, numbers),
            min_size=1,
            max_size=12,
        )
    )
    return Plan(
        job="12",
        ranks=len(places),
        cpus_per_task=draw(st.integers(1, 8)),
        decision="place",
        reason="cost",
        variant=draw(st.sampled_from(("", "spread", "packed"))),
        memory=draw(st.sampled_from(("", "preferred", "bind", "interleave", "none"))),
        cost=draw(st.floats(0, 1e9)),
        baselines={"block:block": 2.5, "cyclic": 3.0},
        nodes=tuple(f"n{i}" for i in range(nodes)),
        places=tuple(places),
    )


@given(plans())
def test_what_is_written_is_read(plan: Plan) -> None:
    assert parse_plan(format_plan(plan)) == plan


@given(plans(), st.data())
def test_every_truncated_plan_is_refused(plan: Plan, data: st.DataObject) -> None:
    text = format_plan(plan)
    cut = data.draw(st.integers(0, len(text) - 2))
    with pytest.raises((ValueError, KeyError, IndexError)):
        parse_plan(text[:cut])


PLAN = Plan("1", 1, 1, "place", "cost", nodes=("n1",), places=(RankPlace(0, (3,)),))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("plan 1", "plan 2"),
        ("rank 0 0", "rank 0 7"),
        ("rank 0 0", "rank 1 0"),
        ("ranks 1", "ranks 2"),
        ("decision place", "decision maybe"),
        ("cpus=3", "cpus=x"),
        ("cost nan", "cost nan\ncost 2"),
    ],
)
def test_a_changed_plan_is_refused_in_one_line(tmp_path: Path, old: str, new: str) -> None:
    file = tmp_path / "a.plan"
    file.write_text(format_plan(PLAN).replace(old, new), encoding="ascii")
    with pytest.raises(InputError) as error:
        read_plan(file)
    assert str(file) in str(error.value)
    assert "\n" not in str(error.value)


def test_a_plan_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    target = tmp_path / "plan"
    target.mkdir()
    (target / "inside").touch()
    with pytest.raises(InputError, match="cannot be written"):
        write_plan(PLAN, target)
    assert [p.name for p in tmp_path.iterdir()] == ["plan"]
