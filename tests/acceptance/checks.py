"""What has to hold for every rank of a placed job."""

from __future__ import annotations

from slurm_topo.slurm.plan import Plan
from tests.acceptance.evidence import (
    PREFERRED,
    PREFERRED_MANY,
    Rank,
    decision_of,
    owned_cpus,
    plan_of,
    read_ranks,
)
from tests.acceptance.guest import Results
from tests.acceptance.shape import Shape


def check_placed(results: Results, shape: Shape, name: str, size: int) -> tuple[Plan, list[Rank]]:
    """A job was placed, and each of its ranks is where the plan says, with its memory.

    Returns
    -------
    plan, ranks
        For what else a case has to show.
    """
    out = results.out
    ranks = read_ranks(out, name)
    assert [rank.rank for rank in ranks] == list(range(size)), (
        f"{name}: ranks {[r.rank for r in ranks]} came back"
    )
    decision = decision_of(out, ranks[0].job)
    assert decision["decision"] == "place", decision
    plan = plan_of(out, ranks[0].job)
    assert plan.cost < min(plan.baselines["block:block"], plan.baselines["block:cyclic"])
    owned = owned_cpus(out, name)
    for rank in ranks:
        check_rank(rank, plan, shape)
        assert rank.cpus <= owned[rank.node], f"{name}: {rank} is on CPUs of others"
    check_apart(ranks)
    return plan, ranks


def check_rank(rank: Rank, plan: Plan, shape: Shape) -> None:
    """Node, mask, memory policy and pages of one rank against its line of the plan."""
    place = plan.places[rank.rank]
    assert rank.node == plan.nodes[place.node], rank
    assert rank.cpus == set(place.cpus), f"{rank}: the plan says {place}"
    numas = {shape.numa_of(cpu) for cpu in place.cpus}
    assert set(place.mem) == numas, f"{place}: its CPUs are on NUMA nodes {numas}"
    assert rank.policy in (PREFERRED, PREFERRED_MANY), rank
    assert rank.policy_nodes == numas, rank
    assert rank.numa_maps.split()[1].startswith("prefer"), rank
    # Twice: the call that asks page by page, and the file that an administrator reads.
    assert set(rank.pages) == numas, rank
    assert set(rank.mapped) == numas, rank
    assert sum(rank.pages.values()) == 1024, rank
    # A nested srun would inherit a binding that is not in force any more.
    assert "SLURM_CPU_BIND" not in rank.environment, rank


def check_apart(ranks: list[Rank]) -> None:
    """No CPU has two ranks."""
    seen: set[tuple[str, int]] = set()
    for rank in ranks:
        mine = {(rank.node, cpu) for cpu in rank.cpus}
        assert not mine & seen, f"{rank} shares {mine & seen}"
        seen |= mine
