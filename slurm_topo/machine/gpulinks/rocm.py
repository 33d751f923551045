"""``rocm-smi --showtopo`` (and its parts): weights, hops, types of link, NUMA nodes, bandwidths."""

from __future__ import annotations

import re

from slurm_topo.errors import MachineError
from slurm_topo.machine.gpulinks.clean import clean
from slurm_topo.machine.gpulinks.matrix import LinkDevice, LinkMatrix, check_symmetric

TOOL = "rocm-smi --showtopo"
_SECTION = re.compile(r"^[\s=]*={2,}\s*([A-Za-z][^=]*?)\s*=*\s*$")
_NUMA = re.compile(r"^\s*GPU\s*\[?(\d+)\]?\s*:.*Numa (Node|Affinity):\s*(-?\d+)", re.IGNORECASE)
_KINDS = {"weight": "weight", "hops": "hops", "link type": "type", "bandwidth": "bandwidth"}
_TYPES = ("XGMI", "PCIE", "QPI", "UNKNOWN", "N/A")


def is_rocm_topo(text: str) -> bool:
    """True for text that looks like ``rocm-smi --showtopo``."""
    return bool(
        re.search(r"between two GPUs|ROCm System Management|Numa (Node|Affinity):", text, re.IGNORECASE)
    )


def parse_rocm_topo(text: str) -> LinkMatrix:
    """The links of ``rocm-smi --showtopo``; types of link are the least that must be there.

    Raises
    ------
    MachineError
        The matrix of types is missing, a matrix is truncated or contradicts itself, a value is unknown.
    """
    plain = clean(text)
    tables = _tables(plain)
    if "type" not in tables:
        raise MachineError(
            f"{TOOL}: 'Link Type between two GPUs' is missing; paste the output of --showtopo whole"
        )
    labels, cells = tables["type"]
    n = len(labels)
    codes = [["X" if i == j else _type(cells[i][j]) for j in range(n)] for i in range(n)]
    check_symmetric(TOOL, labels, codes)
    nodes = _numa(plain)
    lost = [i for i in nodes if i >= n]
    if lost:
        raise MachineError(
            f"{TOOL}: names GPU {lost[0]} but the matrix has {n}: it is truncated; paste it whole"
        )
    devices = tuple(LinkDevice(label, "gpu", numa=nodes.get(i)) for i, label in enumerate(labels))
    return LinkMatrix(
        TOOL,
        devices,
        tuple(tuple(row) for row in codes),
        hops=_numbers(tables, "hops", labels),
        weights=_numbers(tables, "weight", labels),
        bandwidth_gbs=_bandwidths(tables, labels),
        notes=() if nodes else ("the NUMA nodes of the GPUs are not known",),
    )


def _tables(text: str) -> dict[str, tuple[list[str], list[list[str]]]]:
    found: dict[str, tuple[list[str], list[list[str]]]] = {}
    kind, labels, rows = "", list[str](), list[list[str]]()

    def close() -> None:
        if not kind or not labels:
            return
        if len(rows) != len(labels):
            raise MachineError(
                f"{TOOL}: the table of {kind} lists {len(labels)} GPUs but has {len(rows)} rows: "
                "truncated; paste it whole"
            )
        found[kind] = (labels, rows)

    for line in text.split("\n"):
        section = _SECTION.match(line)
        if section:
            close()
            title = section[1].lower()
            kind = next((v for k, v in _KINDS.items() if k in title and "gpu" in title), "")
            labels, rows = [], []
            continue
        words = line.split()
        if not kind or not words or not re.fullmatch(r"GPU\d+", words[0]):
            continue
        if not labels:
            labels = words
            if any(not re.fullmatch(r"GPU\d+", w) for w in labels):
                raise MachineError(
                    f"{TOOL}: {line.strip()[:40]!r} where GPU0, GPU1 ... should be; paste it whole"
                )
        elif len(rows) < len(labels):
            if words[0] != labels[len(rows)] or len(words) != len(labels) + 1:
                raise MachineError(
                    f"{TOOL}: row {words[0]} of the table of {kind} has {len(words) - 1} of "
                    f"{len(labels)} cells: "
                    "truncated; paste it whole"
                )
            rows.append(words[1:])
    close()
    return found


def _type(cell: str) -> str:
    if cell.upper() not in _TYPES:
        raise MachineError(f"{TOOL}: {cell!r} is no type of link; known are {', '.join(_TYPES)}")
    return "N/A" if cell.upper() == "UNKNOWN" else cell.upper()


def _numbers(
    tables: dict[str, tuple[list[str], list[list[str]]]], kind: str, labels: list[str]
) -> tuple[tuple[int, ...], ...]:
    if kind not in tables:
        return ()
    if tables[kind][0] != labels:
        raise MachineError(
            f"{TOOL}: the table of {kind} lists other GPUs than that of types; paste one output"
        )
    try:
        return tuple(tuple(int(cell) for cell in row) for row in tables[kind][1])
    except ValueError as error:
        raise MachineError(f"{TOOL}: the table of {kind} holds {error}; paste it again whole") from error


def _bandwidths(
    tables: dict[str, tuple[list[str], list[list[str]]]], labels: list[str]
) -> tuple[tuple[float, ...], ...]:
    """Highest of ``min-max`` in MB/s as GB/s; 0 for N/A."""
    if "bandwidth" not in tables or tables["bandwidth"][0] != labels:
        return ()
    rows = []
    for row in tables["bandwidth"][1]:
        numbers = [re.findall(r"\d+", cell) for cell in row]
        rows.append(tuple(int(n[-1]) / 1000.0 if n else 0.0 for n in numbers))
    return tuple(rows)


def _numa(text: str) -> dict[int, tuple[int, ...]]:
    """NUMA node of each GPU: the affinity where it is known, else the node."""
    found: dict[int, dict[str, int]] = {}
    for line in text.split("\n"):
        match = _NUMA.match(line)
        if match:
            found.setdefault(int(match[1]), {})[match[2].lower()] = int(match[3])
    chosen = {gpu: values.get("affinity", -1) for gpu, values in found.items()}
    chosen = {gpu: node if node >= 0 else found[gpu].get("node", -1) for gpu, node in chosen.items()}
    return {gpu: (node,) for gpu, node in chosen.items() if node >= 0}
