"""Machines given as tree:a1:..:ak/d1:..:dk."""

from __future__ import annotations

import pytest

from slurm_topo.errors import MachineError
from slurm_topo.machine.tree import parse_tree


def test_cores_run_with_the_innermost_level_fastest() -> None:
    machine = parse_tree("tree:2:3:2/1:2.5:10")
    assert machine.cores == 12
    assert machine.groups[0].tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    assert machine.groups[1].tolist() == [0] * 6 + [1] * 6
    assert machine.groups[2].tolist() == [0] * 12
    assert [level.seconds_per_byte for level in machine.levels] == [1.0, 2.5, 10.0]


def test_a_million_cores_are_possible() -> None:
    assert parse_tree("tree:64:2:128:64/1:2:10:100").cores == 1 << 20


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("mesh:2/1", "does not begin"),
        ("tree:", "0 slashes"),
        ("tree:2:2/1:2/3", "2 slashes"),
        ("tree:/", "arity is not"),
        ("tree:2:x/1:2", "arity is not"),
        ("tree:2:2/1:x", "cost is not"),
        ("tree:2:2/1", "2 arities and 1 costs"),
        ("tree:2:0/1:2", "arity 0"),
        ("tree:2:2/1:-1", "negative"),
        ("tree:2:2/1:nan", "cost is not"),
        ("tree:2:2/1:1e999", "not finite"),
        ("tree:4/1_0", "cost is not"),
        ("tree:1_6/1", "arity is not"),
        ("tree:٤/1", "arity is not"),
        ("tree:4/٢", "cost is not"),
        ("tree: 4/1", "arity is not"),
        ("tree:4/ 1", "cost is not"),
        ("tree:+4/1", "arity is not"),
        ("tree:-4/1", "arity is not"),
        ("tree:4²/1", "arity is not"),
        ("tree:" + "9" * 5000 + "/1", "arity is not"),
        ("tree:99999:99999/1:2", "more than"),
    ],
)
def test_what_is_no_tree_is_refused(text: str, reason: str) -> None:
    with pytest.raises(MachineError, match=reason):
        parse_tree(text)
