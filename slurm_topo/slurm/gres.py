"""GPUs as Slurm writes them: GRES of nodes and jobs, and gres.conf."""

from __future__ import annotations

import re
from collections.abc import Mapping

from slurm_topo.errors import InputError
from slurm_topo.units import expand_hostlist, expand_ints

Cores = tuple[tuple[int, ...], ...]
_MOST_GPUS = 256


def job_gpus(gres: str) -> tuple[int, ...]:
    """Numbers of the GPUs of a job on a node, as Slurm counts them there; empty where it does not say.

    Examples
    --------
    >>> job_gpus("gpu:a100:2(IDX:0-1),gpu:v100:1(IDX:4),shard:0")
    (0, 1, 4)
    >>> job_gpus("gpu:2(CNT:2)")
    ()
    """
    found: set[int] = set()
    for entry in _entries(gres) if gres else ():
        if not re.match(r"gpu(:|\(|$)", entry):
            continue
        index = re.search(r"\(IDX:([\d,-]+)\)", entry)
        if index:
            found.update(expand_ints(index[1]))
    return tuple(sorted(found))


def node_gpus(gres: str, cores_per_socket: int) -> Cores:
    """Abstract cores next to each GPU of a node, from ``Gres`` of ``scontrol show node``.

    Parameters
    ----------
    gres : str
        Such as ``gpu:a100:2(S:0),gpu:a100:2(S:1)``; without sockets a GPU is next to all.
    cores_per_socket : int
        Of the node.

    Returns
    -------
    tuple of tuples of int
        Empty tuple for a GPU that is as near to all; nothing where the node has no GPU.
    """
    found: list[tuple[int, ...]] = []
    for entry in _entries(gres):
        match = re.match(r"gpu(?::[^:(]+)*?(?::(\d+))?(?:\(S:([\d,-]+)\))?$", entry)
        if not match:
            continue
        sockets = expand_ints(match[2]) if match[2] else []
        cores = tuple(s * cores_per_socket + c for s in sockets for c in range(cores_per_socket))
        found += [cores] * min(int(match[1] or 1), _MOST_GPUS)
    return tuple(found[:_MOST_GPUS])


def _entries(gres: str) -> list[str]:
    """GRES one by one; commas stand inside parentheses, too."""
    return [e for e in re.split(r",(?![^(]*\))", gres.strip()) if e and e != "(null)"]


def parse_gres_conf(text: str) -> dict[str, Cores]:
    """Abstract cores next to each GPU of the nodes that a gres.conf names; key ``""``: of all other nodes.

    A line without ``File`` stands for ``Count`` GPUs; AutoDetect says nothing here (hwloc knows more).

    Raises
    ------
    InputError
        A host list or a number list cannot be read.
    """
    found: dict[str, list[tuple[int, ...]]] = {}
    for line in text.replace("\\\n", " ").splitlines():
        fields = {k.lower(): v for k, v in re.findall(r"(\w+)=(\S+)", line.split("#")[0])}
        if fields.get("name", "").lower() != "gpu":
            continue
        cores = tuple(expand_ints(fields.get("cores", fields.get("cpus", ""))))
        names = expand_hostlist(fields["nodename"]) if "nodename" in fields else [""]
        for name in names:
            found.setdefault(name, []).extend([cores] * min(_count(fields), _MOST_GPUS))
    return {name: tuple(gpus[:_MOST_GPUS]) for name, gpus in found.items()}


def _count(fields: Mapping[str, str]) -> int:
    if "file" in fields:
        return len(expand_hostlist(fields["file"]))
    digits = re.match(r"\d+", fields.get("count", "1"))
    if not digits:
        raise InputError(f"gres.conf: Count={fields['count']} is no number; correct that line")
    return int(digits[0])


def merge_cores(of_node: Cores, conf: Mapping[str, Cores], name: str) -> Cores:
    """What gres.conf says of a node where it counts as many GPUs as slurmctld; else what slurmctld says."""
    written = conf.get(name, conf.get("", ()))
    return written if len(written) == len(of_node) and any(written) else of_node
