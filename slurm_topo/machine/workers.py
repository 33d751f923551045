"""Where N equal workers go when nothing is known of their communication: spread over memory, GPUs near.

Memory domains come first, as a worker's pages cost it most; inside a domain workers get neighbouring
cores; a worker gets the GPUs of its domain, and a domain without any the nearest ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from slurm_topo.errors import MachineError
from slurm_topo.hwloc.topology import Object, Topology, bits
from slurm_topo.machine.affinity import Affinity, find_affinity


@dataclass(frozen=True)
class Worker:
    """Place of one worker.

    Attributes
    ----------
    index : int
        0, 1, ...; neighbours in number are neighbours in place.
    cores : tuple of int
        Logical cores, ascending.
    pus : tuple of int
        OS indices of the PUs.
    numa : tuple of int
        OS indices of the NUMA nodes of its domains.
    gpus : tuple of str
        Labels of its GPUs (``gpu0``); shared where there are fewer GPUs than workers.
    """

    index: int
    cores: tuple[int, ...]
    pus: tuple[int, ...]
    numa: tuple[int, ...]
    gpus: tuple[str, ...]


@dataclass(frozen=True)
class _Domain:
    """Cores (as sets of usable PUs with their logical number) that share a set of NUMA nodes."""

    numa: tuple[int, ...]
    cores: tuple[tuple[int, tuple[int, ...]], ...]


def spread_workers(topology: Topology, count: int) -> tuple[Worker, ...]:
    """Places of ``count`` workers on a node.

    Parameters
    ----------
    topology : Topology
        The node.
    count : int
        From 1 to the number of usable PUs.

    Raises
    ------
    MachineError
        The number is out of range.

    Notes
    -----
    With D domains and N workers: fewer workers than domains share out whole domains, none left idle;
    otherwise each domain gets N/D workers, rounded so that no two differ by more than one, the larger
    share where there are more cores.
    """
    domains = _domains(topology)
    most = sum(len(pus) for d in domains for _, pus in d.cores)
    if not 1 <= count <= most:
        raise MachineError(f"{count} workers: the node has room for 1 to {most}; choose a number in between")
    places: list[tuple[tuple[_Domain, ...], list[tuple[int, tuple[int, ...]]]]] = []
    if count <= len(domains):
        for group in _chunks(domains, count):
            places.append((tuple(group), [core for d in group for core in d.cores]))
    else:
        for domain, share in zip(domains, _shares(domains, count), strict=True):
            places += [((domain,), part) for part in _split(domain, share)]
    gpus = _gpus(find_affinity(topology), [place for place, _ in places])
    return tuple(
        Worker(
            index=i,
            cores=tuple(sorted({core for core, _ in part})),
            pus=tuple(sorted(pu for _, pus in part for pu in pus)),
            numa=tuple(n for d in group for n in d.numa),
            gpus=gpus[i],
        )
        for i, (group, part) in enumerate(places)
    )


def _domains(topology: Topology) -> list[_Domain]:
    found: dict[int, list[tuple[int, tuple[int, ...]]]] = {}
    for core in topology.of_kind("Core") or topology.of_kind("PU"):
        usable = core.cpuset & topology.allowed_cpuset
        if usable:
            found.setdefault(core.nodeset, []).append((core.logical, tuple(_threads(topology, core, usable))))
    return [_Domain(tuple(bits(nodes)), tuple(cores)) for nodes, cores in found.items()]


def _threads(topology: Topology, core: Object, usable: int) -> list[int]:
    """Usable PUs of a core in logical order."""
    if core.kind == "PU":
        return [core.os_index]
    below = [topology.objects[i] for i in core.children]
    return [pu.os_index for pu in below if pu.kind == "PU" and usable >> pu.os_index & 1] or bits(usable)


def _chunks(items: Sequence[_Domain], count: int) -> list[Sequence[_Domain]]:
    """Neighbours in ``count`` parts whose sizes differ by one at most."""
    size, more = divmod(len(items), count)
    cuts = [i * size + min(i, more) for i in range(count + 1)]
    return [items[a:b] for a, b in pairwise(cuts)]


def _shares(domains: Sequence[_Domain], count: int) -> list[int]:
    """Workers of each domain: as even as can be, never more than its PUs, larger domains first."""
    room = [sum(len(pus) for _, pus in d.cores) for d in domains]
    shares = [0] * len(domains)
    for _ in range(count):
        open_ = [i for i, share in enumerate(shares) if share < room[i]]
        best = min(open_, key=lambda i: (shares[i], -len(domains[i].cores), i))
        shares[best] += 1
    return shares


def _split(domain: _Domain, share: int) -> list[list[tuple[int, tuple[int, ...]]]]:
    """Neighbouring cores for each worker; single threads where there are more workers than cores."""
    units = list(domain.cores)
    if share > len(units):
        units = [(core, (pu,)) for core, pus in domain.cores for pu in pus]
    if not share:
        return []
    size, more = divmod(len(units), share)
    cuts = [i * size + min(i, more) for i in range(share + 1)]
    return [units[a:b] for a, b in pairwise(cuts)]


def _gpus(affinity: Affinity, places: Sequence[tuple[_Domain, ...]]) -> list[tuple[str, ...]]:
    """GPUs of each worker: a fair part of those next to its domains, else the nearest one."""
    labels = [e.label for e in affinity.endpoints]
    gpus = [i for i, label in enumerate(labels) if label.startswith("gpu")]
    if not gpus:
        return [() for _ in places]
    groups: dict[tuple[int, ...], list[int]] = {}
    for worker, domains in enumerate(places):
        groups.setdefault(tuple(n for d in domains for n in d.numa), []).append(worker)
    chosen: list[tuple[str, ...]] = [() for _ in places]
    served = dict.fromkeys(gpus, 0)
    alone = []
    for nodes, workers in groups.items():
        near = [g for g in gpus if set(affinity.endpoints[g].numa) & set(nodes)]
        if not near:
            alone += [(nodes, worker) for worker in workers]
        for k, worker in enumerate(workers):
            # At least one each: GPUs are shared where there are fewer of them.
            first = k * len(near) // len(workers)
            part = near[first : max((k + 1) * len(near) // len(workers), first + 1)]
            chosen[worker] = tuple(labels[g] for g in part)
            served.update({g: served[g] + 1 for g in part})
    for nodes, worker in alone:
        best = min(gpus, key=lambda g: (served[g] > 0, -_speed(affinity, g, nodes, labels), served[g], g))
        served[best] += 1
        chosen[worker] = (labels[best],)
    return chosen


def _speed(affinity: Affinity, gpu: int, nodes: Sequence[int], labels: Sequence[str]) -> float:
    """GB/s of the best path between a GPU and one of the NUMA nodes."""
    ends = [labels.index(f"numa{node}") for node in nodes if f"numa{node}" in labels]
    return max((affinity.paths[gpu][end].bandwidth_gbs for end in ends), default=0.0)
