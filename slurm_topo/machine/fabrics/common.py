"""What every source of a fabric gives: switches, and what had to be decided on the way."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from slurm_topo.errors import InputError, MachineError
from slurm_topo.machine.fabric import Switch
from slurm_topo.units import expand_hostlist


@dataclass(frozen=True)
class FabricText:
    """Switches as read from a text.

    Attributes
    ----------
    source : str
        ``topology.conf``, ``topology.yaml``, ``scontrol show topology`` or ``ibnetdiscover``.
    switches : tuple of Switch
        A tree (or several).
    notes : tuple of str
        What was left out or decided; for the administrator to read.
    """

    source: str
    switches: tuple[Switch, ...]
    notes: tuple[str, ...] = ()

    @property
    def nodes(self) -> tuple[str, ...]:
        """All nodes below the switches, in order of appearance."""
        return tuple(dict.fromkeys(node for switch in self.switches for node in switch.nodes))


def hosts(source: str, text: str) -> tuple[str, ...]:
    """A hostlist of a source; empty for nothing and for ``(null)``.

    Raises
    ------
    MachineError
        The hostlist is malformed.
    """
    if text.strip() in ("", "(null)"):
        return ()
    try:
        return tuple(expand_hostlist(text))
    except InputError as error:
        raise MachineError(f"{source}: {error}") from error


def without_doubles(switches: Iterable[Switch]) -> tuple[tuple[Switch, ...], tuple[str, ...]]:
    """Each node and each switch below one switch only, the first that names it; and what was dropped."""
    owner: dict[tuple[str, str], str] = {}
    kept, dropped = [], []
    for switch in switches:
        lists = []
        for kind, names in (("node", switch.nodes), ("switch", switch.switches)):
            mine = []
            for name in dict.fromkeys(names):
                if owner.setdefault((kind, name), switch.name) == switch.name:
                    mine.append(name)
                else:
                    dropped.append(f"{kind} {name} stays below {owner[kind, name]}, not {switch.name}")
            lists.append(tuple(mine))
        kept.append(Switch(switch.name, lists[0], lists[1]))
    return tuple(kept), tuple(dropped)


def aggregate_blocks(
    blocks: Sequence[tuple[str, tuple[str, ...]]], sizes: Sequence[int]
) -> tuple[Switch, ...]:
    """Switches of Slurm's block topology: base blocks, above them the aggregates that ``BlockSizes`` allows.

    A size of k base blocks joins k neighbours in the order of the file, as Slurm does.
    """
    switches = [Switch(name, nodes) for name, nodes in blocks]
    level = [(name, 1) for name, _ in blocks]
    base = sizes[0] if sizes else max((len(nodes) for _, nodes in blocks), default=1)
    for size in sizes[1:]:
        width = max(size // max(base, 1), 1)
        joined: list[tuple[str, int]] = []
        group: list[tuple[str, int]] = []
        for entry in level:
            group.append(entry)
            if sum(count for _, count in group) >= width:
                joined.append(_join(group, switches))
                group = []
        if group:
            joined.append(_join(group, switches))
        level = joined
    return tuple(switches)


def _join(group: list[tuple[str, int]], switches: list[Switch]) -> tuple[str, int]:
    if len(group) == 1:
        return group[0]
    name = f"{group[0][0]}..{group[-1][0]}"
    switches.append(Switch(name, (), tuple(child for child, _ in group)))
    return name, sum(count for _, count in group)
