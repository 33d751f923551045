"""``rocm-smi --showtopo`` (and its parts): weights, hops, types of link, NUMA nodes, bandwidths."""

from __future__ import annotations

import re

from slurm_topo.errors import MachineError
from slurm_topo.machine.gpulinks.amdsmi import is_amd_topo, parse_amd_topo
from slurm_topo.machine.gpulinks.clean import clean, unbroken
from slurm_topo.machine.gpulinks.matrix import LinkDevice, LinkMatrix, check_symmetric

TOOL = "rocm-smi --showtopo"
_SECTION = re.compile(r"^[\s=]*={2,}\s*([A-Za-z][^=]*?)\s*=*\s*$")
_NUMA = re.compile(r"^\s*GPU\s*\[?(\d+)\]?\s*:.*Numa (Node|Affinity):\s*(-?\d+)", re.IGNORECASE)
_ROW = re.compile(r"^\s*GPU\d+\s+(?!GPU)\S")
_KINDS = {"weight": "weight", "hops": "hops", "link type": "type", "bandwidth": "bandwidth"}
_TYPES = ("XGMI", "PCIE", "QPI", "UNKNOWN", "N/A")


def is_rocm_topo(text: str) -> bool:
    """True for text that looks like ``rocm-smi --showtopo`` or ``amd-smi topology``."""
    return is_amd_topo(text) or bool(
        re.search(r"between two GPUs|ROCm System Management|Numa (Node|Affinity):", text, re.IGNORECASE)
    )


def parse_rocm_topo(text: str) -> LinkMatrix:
    """The links of ``rocm-smi --showtopo`` or ``amd-smi topology``; types of link must be there at least.

    Raises
    ------
    MachineError
        The matrix of types is missing, a matrix is truncated or contradicts itself, a value is unknown.
    """
    if is_amd_topo(text):
        return parse_amd_topo(text)
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
    """Labels and cells of each table, by kind."""
    sections: dict[str, list[str]] = {}
    kind = ""
    for line in text.split("\n"):
        section = _SECTION.match(line)
        if section:
            title = section[1].lower()
            kind = next((v for k, v in _KINDS.items() if k in title and "gpu" in title), "")
            sections[kind] = []
        elif kind:
            sections[kind].append(line)
    return {kind: _table(kind, lines) for kind, lines in sections.items() if kind and "".join(lines).strip()}


def _table(kind: str, lines: list[str]) -> tuple[list[str], list[list[str]]]:
    text = "\n".join(lines)
    first: MachineError | None = None
    # A terminal may have broken lines at its width, also inside a word.
    for variant in dict.fromkeys((text, unbroken(text, _ROW))):
        try:
            return _rows(kind, variant.split())
        except MachineError as error:
            first = first or error
    assert first is not None
    raise first


def _rows(kind: str, words: list[str]) -> tuple[list[str], list[list[str]]]:
    labels: list[str] = []
    for word in words:
        if not re.fullmatch(r"GPU\d+", word) or word in labels:
            break
        labels.append(word)
    n, at = len(labels), len(labels)
    rows: list[list[str]] = []
    for label in labels:
        cells = words[at + 1 : at + 1 + n]
        if words[at : at + 1] != [label] or len(cells) < n or any(c.startswith("GPU") for c in cells):
            raise MachineError(
                f"{TOOL}: the table of {kind} lists {n} GPUs but its row {label} is missing or "
                f"has not {n} cells: "
                "truncated; paste it whole"
            )
        rows.append(cells)
        at += 1 + n
    if not labels:
        raise MachineError(
            f"{TOOL}: the table of {kind} does not begin with GPU0, GPU1 and so on; paste it whole"
        )
    return labels, rows


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
