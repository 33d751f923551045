"""The switches of a cluster as a tree, however irregular, and the group of every node at every tier."""

from __future__ import annotations

import bisect
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

from slurm_topo.errors import MachineError
from slurm_topo.machine.shape import renumber


@dataclass(frozen=True)
class Switch:
    """A switch: the nodes right below it, and the switches below it (both may be empty)."""

    name: str
    nodes: tuple[str, ...] = ()
    switches: tuple[str, ...] = ()


class Fabric:
    """Switches above nodes; several roots and nodes without a switch are fine.

    Parameters
    ----------
    switches : sequence of Switch
        In any order.

    Raises
    ------
    MachineError
        A name occurs twice, a switch below is unknown or has two parents, a node hangs under two switches, or
        the switches form a cycle.
    """

    def __init__(self, switches: Sequence[Switch]) -> None:
        self.switches = tuple(switches)
        self.by_name: dict[str, Switch] = {}
        for switch in switches:
            if switch.name in self.by_name:
                raise MachineError(f"switch {switch.name}: described twice; remove one of the two")
            self.by_name[switch.name] = switch
        self.parent: dict[str, str] = {}
        self.leaf: dict[str, str] = {}
        for switch in switches:
            self._adopt(switch)
        self.height = self._heights()

    def _adopt(self, switch: Switch) -> None:
        for child in switch.switches:
            if child not in self.by_name:
                raise MachineError(f"switch {switch.name}: {child} below it is not described; add it")
            other = self.parent.setdefault(child, switch.name)
            if other != switch.name:
                raise MachineError(f"switch {child}: is below {other} and {switch.name}; leave it below one")
        for node in switch.nodes:
            other = self.leaf.setdefault(node, switch.name)
            if other != switch.name:
                raise MachineError(f"node {node}: is below {other} and {switch.name}; leave it below one")

    def _heights(self) -> dict[str, int]:
        """1 for a switch without switches below, else one more than the highest of these."""
        waiting = {s.name: len(set(s.switches)) for s in self.switches}
        ready = [name for name, count in waiting.items() if count == 0]
        height: dict[str, int] = {}
        while ready:
            name = ready.pop()
            children = self.by_name[name].switches
            height[name] = 1 + max((height[c] for c in children), default=0)
            above = self.parent.get(name)
            if above is not None:
                waiting[above] -= 1
                if waiting[above] == 0:
                    ready.append(above)
        if len(height) < len(self.switches):
            name = next(s.name for s in self.switches if s.name not in height)
            raise MachineError(f"switch {name}: is above itself; switches must form a tree")
        return height

    def above(self, node: str) -> Iterator[str]:
        """The switches above a node, nearest first; none for a node without a switch."""
        name = self.leaf.get(node)
        while name is not None:
            yield name
            name = self.parent.get(name)

    def tiers(self, nodes: Sequence[str]) -> list[tuple[int, ...]]:
        """Group of each node at each tier of switches, leaves first; the last tier holds all nodes.

        At tier h nodes are together that have a common switch of height h or less. Nodes without a switch,
        and trees without a common root, meet at one tier more.
        """
        if len(nodes) < 2:
            return [(0,) * len(nodes)]
        paths = [[(self.height[s], s) for s in self.above(node)] for node in nodes]
        top = max((path[-1][0] for path in paths if path), default=0)
        found: list[tuple[int, ...]] = []
        for tier in range(1, top + 1):
            found.append(renumber([_at(path, tier, node) for path, node in zip(paths, nodes, strict=True)]))
        if not found or max(found[-1]) > 0:
            found.append((0,) * len(nodes))
        return found


def _at(path: Sequence[tuple[int, str]], tier: int, node: str) -> Hashable:
    """The highest switch above a node that is not above the tier, else the node itself."""
    # A path rises, so that the switches up to the tier come first.
    count = bisect.bisect_right(path, tier, key=lambda step: step[0])
    return ("switch", path[count - 1][1]) if count else ("node", node)
