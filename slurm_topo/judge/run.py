"""A graph judged on a machine: simulated seconds of several placements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from slurm_topo.judge.platform import Overrides, platform_of
from slurm_topo.judge.simgrid import Simulator
from slurm_topo.judge.workload import WINDOW, workload_of
from slurm_topo.model import CommGraph, Ints, Machine


@dataclass(frozen=True)
class Judgement:
    """Simulated seconds of the communication of a whole run, by the name of the placement."""

    seconds: Mapping[str, float]
    iterations: float
    rounds: int


def judge(
    graph: CommGraph,
    machine: Machine,
    placements: Mapping[str, Ints],
    *,
    rounds: int = 1,
    window: int = WINDOW,
    overrides: Overrides | None = None,
    simulator: Simulator | None = None,
) -> Judgement:
    """Replay the graph with each placement.

    Parameters
    ----------
    graph : CommGraph
        n ranks.
    machine : Machine
        At least n cores.
    placements : mapping of str to int32 array, shape (n,)
        Core of each rank.
    rounds, window
        As in :func:`slurm_topo.judge.workload.workload_of`.
    overrides : Overrides, optional
        Other assumptions about the network.

    Raises
    ------
    LaunchError
        SimGrid is not here, failed or took too long.
    MachineError, PlacementError
        The machine cannot be a platform, or a placement does not fit.
    """
    run = simulator or Simulator.find()
    platform, workload = platform_of(machine, overrides), workload_of(graph, rounds, window)
    if not graph.source.size:
        return Judgement(dict.fromkeys(placements, 0.0), 1.0, rounds)
    seconds = {name: run.seconds(platform, workload, placement) for name, placement in placements.items()}
    return Judgement(seconds, workload.repeats * rounds, rounds)
