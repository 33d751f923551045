"""``place``: the placement of a graph on a machine, never worse than what Slurm alone would do."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from slurm_topo.config import OBJECTIVES
from slurm_topo.errors import PlacementError
from slurm_topo.model import CommGraph, Ints, Machine, Placement
from slurm_topo.placement.assignment import assign
from slurm_topo.placement.baselines import baselines
from slurm_topo.placement.cores import select_cores
from slurm_topo.placement.cost import check_placement, cost
from slurm_topo.placement.load import objective_value
from slurm_topo.placement.native import Control, Instance
from slurm_topo.placement.relief import relieve
from slurm_topo.placement.search import BEST, LAUNCH, Search
from slurm_topo.placement.search import Effort as Work

Effort = Literal["launch", "best"]
EFFORTS = {"launch": LAUNCH, "best": BEST}
# Of a budget the search for the least sum has this share where the loads count too.
SUM_SHARE = 0.6


def place(
    graph: CommGraph,
    machine: Machine,
    *,
    effort: Effort | Work = "launch",
    budget_s: float | None = None,
    seed: int = 0,
    start: NDArray[np.integer] | None = None,
    fixed: Mapping[int, int] | None = None,
    objective: str = "sum",
) -> Placement:
    """Match a communication graph with a machine.

    Parameters
    ----------
    graph : CommGraph
        Who sent how much to whom, n ranks.
    machine : Machine
        At least n cores.
    effort : {"launch", "best"} or Effort of search.py
        How much work the search is worth: for a launch that waits for it, or ahead of time.
    budget_s : float, optional
        Seconds of elapsed time after which the search ends with the best that it has. The amount of work is
        otherwise counted, not timed, so that a seed gives the same placement again.
    seed : int
        Seed of the random generator, at least 0.
    start : int array, shape (n,), optional
        A known placement to start from (of an earlier run, say).
    fixed : mapping of int to int, optional
        Rank to core: these ranks stay there. The baselines do not know about them, so that the result may
        then be worse than a baseline.
    objective : {"sum", "load", "auto"}
        What is minimised: see :func:`slurm_topo.placement.load.objective_value`.

    Returns
    -------
    Placement
        Its objective is never above that of a baseline or of `start` (unless ranks are fixed).

    Raises
    ------
    PlacementError
        More ranks than cores, or `start` or `fixed` do not fit.

    Notes
    -----
    A KeyboardInterrupt during the search ends it; the best placement so far is returned.
    """
    if not isinstance(effort, Work) and effort not in EFFORTS:
        raise PlacementError(f"effort {effort!r} is unknown; it is one of {', '.join(EFFORTS)}")
    if objective not in OBJECTIVES:
        raise PlacementError(f"objective {objective!r} is unknown; it is one of {', '.join(OBJECTIVES)}")
    work = effort if isinstance(effort, Work) else EFFORTS[effort]
    began = time.process_time()
    if machine.distances is not None and objective != "sum":
        raise PlacementError(
            f"objective {objective}: distances between cores say nothing of links; use objective sum"
        )
    now = time.monotonic()
    known = baselines(machine, graph.ranks)
    judge = _Judge(graph, machine, objective)
    starts = dict(known)
    if start is not None:
        check_placement(graph, machine, np.asarray(start))
        starts["start"] = np.asarray(start, dtype=np.int32)
    pinned = _check_fixed(graph, machine, fixed)
    starts = {name: _pin(placement, pinned) for name, placement in starts.items()}
    keys = {name: judge.key(placement) for name, placement in starts.items()}
    best = min(keys, key=keys.__getitem__)
    found, key, solver = starts[best], keys[best], best
    endings: list[str] = []
    if graph.source.size and graph.ranks > 1:
        limit = _Limit(now, budget_s, objective)
        cheapest = min(keys, key=lambda name: judge.cost_of(keys[name]))
        search = _search if machine.distances is None else _search_distances
        for placement, name in search(
            graph, machine, starts, cheapest, best, work, limit, seed, pinned, endings
        ):
            reached = judge.key(placement)
            if reached < key:
                found, key, solver = placement, reached, name
    # The baselines know nothing of ranks that are pinned.
    known_keys = {n: judge.key(placement) for n, placement in known.items()} if pinned else keys
    return Placement(
        core_of_rank=found,
        cost=judge.cost_of(key),
        baselines={name: judge.cost_of(known_keys[name]) for name in known},
        solver=solver,
        seed=seed,
        seconds=time.process_time() - began,
        objective=objective,
        value=key[0],
        baseline_values={name: known_keys[name][0] for name in known},
        ended=next((ending for ending in endings if ending != "work"), "work"),
    )


@dataclass(frozen=True)
class _Judge:
    """The objective as :func:`slurm_topo.placement.load.objective_value` has it, the cost behind it."""

    graph: CommGraph
    machine: Machine
    objective: str

    def key(self, placement: Ints) -> tuple[float, float]:
        """Less is better."""
        value = objective_value(self.objective, self.graph, self.machine, placement)
        return value, 0.0 if self.objective == "sum" else cost(self.graph, self.machine, placement)

    def cost_of(self, key: tuple[float, float]) -> float:
        """The cost of the placement that has this key."""
        return key[0] if self.objective == "sum" else key[1]


@dataclass(frozen=True)
class _Limit:
    """Times of the monotonic clock at which the search for the sum, and that for the objective, end."""

    began: float
    budget_s: float | None
    objective: str

    def end(self, share: float = 1.0) -> float:
        """0: it does not end by time."""
        return 0.0 if self.budget_s is None else self.began + share * self.budget_s


def _check_fixed(graph: CommGraph, machine: Machine, fixed: Mapping[int, int] | None) -> dict[int, int]:
    pinned = {int(rank): int(core) for rank, core in (fixed or {}).items()}
    for rank, core in pinned.items():
        if not (0 <= rank < graph.ranks and 0 <= core < machine.cores):
            raise PlacementError(
                f"fixed rank {rank} on core {core}: there are {graph.ranks} ranks and {machine.cores} cores; "
                "name existing ones"
            )
    if len(set(pinned.values())) < len(pinned):
        raise PlacementError("fixed ranks: a core is given twice; give each rank its own")
    return pinned


def _pin(placement: Ints, pinned: Mapping[int, int]) -> Ints:
    """The placement with the pinned ranks on their cores; who was there takes the core that becomes free."""
    if not pinned:
        return placement
    moved = placement.copy()
    rank_at = {int(core): rank for rank, core in enumerate(placement)}
    for rank, core in pinned.items():
        other, left = rank_at.get(core), int(moved[rank])
        if other is not None:
            moved[other] = left
            rank_at[left] = other
        else:
            rank_at.pop(left, None)
        moved[rank] = core
        rank_at[core] = rank
    return moved


def _search(
    graph: CommGraph,
    machine: Machine,
    starts: Mapping[str, Ints],
    cheapest: str,
    best: str,
    work: Work,
    limit: _Limit,
    seed: int,
    pinned: Mapping[int, int],
    endings: list[str],
) -> list[tuple[Ints, str]]:
    """Placements that a search found and the names of their solvers: the least sum first. Fills `endings`."""
    cores = select_cores(graph.ranks, machine, starts[cheapest], pinned.values())
    index = np.full(machine.cores, -1, dtype=np.int32)
    index[cores] = np.arange(cores.size, dtype=np.int32)
    fixed = _mask(pinned, cores.size)
    loads_too = limit.objective != "sum"
    control = Control(limit.end(SUM_SHARE if loads_too else 1.0))
    with Instance.build(graph, machine, cores) as instance:
        search = Search(instance, control, seed, fixed)
        # The best start comes first: the search always holds it.
        for name in sorted(starts, key=lambda name: name != cheapest):
            local = index[starts[name]]
            if (local >= 0).all():
                search.offer(_with_free_cores(local, cores.size), name)
        _run(lambda: search.run(work, graph.ranks), control)
        endings.append(_ending(control))
    found = {search.best_name: search.best}
    if loads_too and not control.stopped():
        local = index[starts[best]]
        if (local >= 0).all():
            found.setdefault(best, _with_free_cores(local, cores.size))
        control = Control(limit.end())
        budget = work.work(graph.ranks)
        better: dict[str, Ints] = {}
        _run(
            lambda: better.update(
                relieve(graph, machine, cores, found, fixed, limit.objective, budget, seed, control)
            ),
            control,
        )
        endings.append(_ending(control))
        found.update(better)
    return [(cores[placement[: graph.ranks]].astype(np.int32), name) for name, placement in found.items()]


def _search_distances(
    graph: CommGraph,
    machine: Machine,
    starts: Mapping[str, Ints],
    cheapest: str,
    best: str,
    work: Work,
    limit: _Limit,
    seed: int,
    pinned: Mapping[int, int],
    endings: list[str],
) -> list[tuple[Ints, str]]:
    """The same where distances count: what the levels alone lead to is one more start."""
    known = {name: _with_free_cores(placement, machine.cores) for name, placement in starts.items()}
    if len(machine.levels) > 1:
        tree = replace(machine, distances=None)
        half = _Limit(limit.began, None if limit.budget_s is None else SUM_SHARE * limit.budget_s, "sum")
        for placement, name in _search(
            graph, tree, starts, cheapest, best, work, half, seed, pinned, endings
        ):
            known.setdefault(name, _with_free_cores(placement, machine.cores))
    fixed = _mask(pinned, machine.cores)
    control = Control(limit.end())
    budget = work.work(graph.ranks)
    found: list[tuple[Ints, str]] = []
    _run(lambda: found.append(assign(graph, machine, known, fixed, budget, seed, control)), control)
    endings.append(_ending(control))
    return [(placement[: graph.ranks], name) for placement, name in found]


def _mask(pinned: Mapping[int, int], vertices: int) -> NDArray[np.uint8] | None:
    """1 for the ranks that stay where they are; None without any."""
    if not pinned:
        return None
    fixed = np.zeros(vertices, dtype=np.uint8)
    fixed[list(pinned)] = 1
    return fixed


def _with_free_cores(local: Ints, cores: int) -> Ints:
    """Ranks first, then the vertices that stand for free cores."""
    free = np.ones(cores, dtype=bool)
    free[local] = False
    return np.concatenate([local, np.flatnonzero(free).astype(np.int32)])


def _ending(control: Control) -> str:
    """How a search ended, as in ``Placement.ended``."""
    return "interrupted" if control.stopped() else "budget" if control.expired() else "work"


def _run(search: Callable[[], None], control: Control) -> None:
    """Search in a thread: the kernel does not hold the interpreter, so that signals are handled here."""
    failures: list[BaseException] = []
    done = threading.Event()

    def work() -> None:
        try:
            search()
        except BaseException as error:  # carried over to the caller's thread
            failures.append(error)
        finally:
            done.set()

    threading.Thread(target=work, name="placement", daemon=True).start()
    # Not Thread.join: interrupted once it takes the thread for ended (CPython 3.11); the kernel still runs.
    while not done.is_set():
        try:
            done.wait()
        except KeyboardInterrupt:
            control.stop()
    if failures:
        raise failures[0]
