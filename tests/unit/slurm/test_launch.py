"""The plan of a step: which way the ranks lie, and which memory they get."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from slurm_topo.config import Settings
from slurm_topo.model import CommGraph, Level, Machine
from slurm_topo.slurm.launch import plan_step
from slurm_topo.slurm.layout import StepLayout
from slurm_topo.slurm.plan import Plan

SETTINGS = Settings(budget_s=5.0)


def node(hbm: bool = False, captured: bool = True) -> Machine:
    """Four NUMA nodes of four cores, two a package; nodes 4 and 5 are the fast memory of a package each."""
    core = np.arange(16)
    return Machine(
        levels=tuple(Level(n, 1e-6 * 2**i, 1e-9 * 2**i) for i, n in enumerate(("numa", "package", "node"))),
        groups=np.stack([core // 4, core // 8, core * 0]).astype(np.int32),
        node=np.zeros(16, dtype=np.int32),
        node_names=("n1",),
        pus=tuple((c,) for c in range(16)),
        numa=(core // 4 if captured else core * 0 - 1).astype(np.int32),
        hbm=tuple((4 + c // 8,) for c in range(16)) if hbm else (),
    )


def ring(ranks: int, offset: int) -> CommGraph:
    """Each rank sends to the one so many ranks on."""
    source = np.arange(ranks, dtype=np.int32)
    target = ((source + offset) % ranks).astype(np.int32)
    return CommGraph(ranks, source, target, np.full(ranks, 1e6), np.full(ranks, 1.0), np.zeros(ranks))


def plan(
    variant: str = "",
    settings: Settings = SETTINGS,
    ranks: int = 8,
    offset: int = 3,
    exact: bool = False,
    **shape: bool,
) -> Plan:
    layout = StepLayout([ranks], exact=exact)
    return plan_step(ring(ranks, offset), "ab", node(**shape), layout, 1, "1", settings, variant=variant)


def numas(made: Plan) -> list[int]:
    return sorted(place.cpus[0] // 4 for place in made.places)


@pytest.mark.parametrize(
    ("variant", "packing", "used"),
    [
        ("", "learn", "spread"),
        ("spread", "learn", "spread"),
        ("packed", "learn", "packed"),
        ("nonsense", "learn", "spread"),
        ("packed", "spread", "spread"),
        ("spread", "packed", "packed"),
    ],
)
def test_ranks_lie_as_drawn_unless_the_site_decides(variant: str, packing: str, used: str) -> None:
    made = plan(variant, replace(SETTINGS, packing=packing))
    assert (made.decision, made.variant) == ("place", used)
    assert numas(made) == {"spread": [0, 0, 1, 1, 2, 2, 3, 3], "packed": [0] * 4 + [1] * 4}[used]


@pytest.mark.parametrize(
    ("variant", "exact", "width"), [("spread", False, 2), ("spread", True, 1), ("packed", False, 1)]
)
def test_cores_that_nobody_asked_for_are_in_the_masks_as_slurm_alone_would_have_it(
    variant: str, exact: bool, width: int
) -> None:
    assert {len(place.cpus) for place in plan(variant, exact=exact).places} == {width}


def test_step_that_exists_stays_on_its_nodes() -> None:
    """Neither of Slurm's ways has the partners in one package; between the nodes nothing can be changed."""
    one = node()
    both = replace(
        one,
        groups=np.concatenate([one.groups, one.groups + 8], axis=1),
        node=np.repeat([0, 1], 16).astype(np.int32),
        node_names=("n1", "n2"),
        pus=one.pus * 2,
        numa=np.tile(one.numa, 2),
    )
    both = replace(
        both,
        levels=(*both.levels, Level("switch", 1e-5, 1e-8)),
        groups=np.concatenate([both.groups, np.zeros((1, 32), dtype=np.int32)]),
    )
    where = np.arange(32, dtype=np.int32) % 2
    made = plan_step(
        ring(32, 14), "ab", both, StepLayout([16, 16], where), 1, "1", replace(SETTINGS, margin=0.0)
    )
    assert made.decision == "place"
    assert [place.node for place in made.places] == where.tolist()


def test_packed_plan_is_held_against_what_slurm_does_alone() -> None:
    spread, packed = plan("spread"), plan("packed")
    assert packed.baselines == pytest.approx(spread.baselines)
    assert packed.cost < spread.cost < spread.baselines["block:block"]


def test_ranks_on_all_cores_have_no_variant() -> None:
    assert plan("packed", ranks=16).variant == ""


def test_order_of_slurm_that_cannot_be_beaten_counts_as_spread() -> None:
    # Neighbours one rank apart on a NUMA node each: nothing is better as long as they are spread.
    made = plan(ranks=4, offset=1)
    assert (made.decision, made.reason, made.variant) == ("stand-down", "margin", "spread")
    assert plan("packed", ranks=4, offset=1).decision == "place"


@pytest.mark.parametrize(
    ("memory", "policy", "of_first", "of_last"),
    [
        ("preferred", "preferred", (0,), (3,)),
        ("strict", "bind", (0,), (3,)),
        ("interleave", "interleave", (0, 1, 2, 3), (0, 1, 2, 3)),
        ("hbm", "preferred", (4,), (5,)),
        ("none", "none", (0,), (3,)),
    ],
)
def test_memory_is_the_sites(
    memory: str, policy: str, of_first: tuple[int, ...], of_last: tuple[int, ...]
) -> None:
    made = plan(settings=replace(SETTINGS, memory=memory), hbm=True)
    assert made.memory == policy
    of = {place.cpus[0] // 4: place.mem for place in made.places}
    assert (of[0], of[3]) == (of_first, of_last)


def test_fast_memory_that_is_not_there_is_not_asked_for() -> None:
    made = plan(settings=replace(SETTINGS, memory="hbm"))
    assert {place.mem for place in made.places} == {(0,), (1,), (2,), (3,)}


@pytest.mark.parametrize("memory", ["preferred", "interleave", "hbm"])
def test_memory_of_a_node_that_nobody_captured_is_left_to_the_node(memory: str) -> None:
    made = plan(settings=replace(SETTINGS, memory=memory), captured=False)
    assert {place.mem for place in made.places} == {()}
