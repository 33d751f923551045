"""``amd-smi topology``: the tables of rocm-smi with PCI addresses instead of numbers."""

from __future__ import annotations

import re

from slurm_topo.errors import MachineError
from slurm_topo.machine.gpulinks.clean import clean
from slurm_topo.machine.gpulinks.matrix import LinkDevice, LinkMatrix, check_symmetric

TOOL = "amd-smi topology"
_TITLE = re.compile(r"^\s*([A-Z][A-Z -]*) TABLE:\s*$")
_ADDRESS = re.compile(r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]")
_TYPES = {"SELF": "X", "XGMI": "XGMI", "PCIE": "PCIE", "UNKNOWN": "N/A", "N/A": "N/A"}
# Words of a table, by what it is called; the others say nothing of paths.
_KEPT = ("LINK TYPE", "HOPS", "WEIGHT", "NUMA BW")


def is_amd_topo(text: str) -> bool:
    """True for text that looks like ``amd-smi topology``."""
    return bool(re.search(r"LINK TYPE TABLE:", text))


def parse_amd_topo(text: str) -> LinkMatrix:
    """The links of ``amd-smi topology``; GPUs are numbered in the order of the tables.

    Raises
    ------
    MachineError
        The table of types is missing, a table is truncated or contradicts itself, a value is unknown.
    """
    tables = _tables(clean(text))
    if "LINK TYPE" not in tables:
        raise MachineError(f"{TOOL}: has no rows below LINK TYPE TABLE; paste it whole")
    addresses, cells = tables["LINK TYPE"]
    codes = [[_type(cell) for cell in row] for row in cells]
    check_symmetric(TOOL, addresses, codes)
    return LinkMatrix(
        TOOL,
        tuple(LinkDevice(f"GPU{i}", "gpu") for i in range(len(addresses))),
        tuple(tuple(row) for row in codes),
        hops=_numbers(tables, "HOPS", addresses),
        weights=_numbers(tables, "WEIGHT", addresses),
        bandwidth_gbs=_bandwidths(tables, addresses),
        notes=("the NUMA nodes of the GPUs are not known",),
    )


def _tables(text: str) -> dict[str, tuple[list[str], list[list[str]]]]:
    sections: dict[str, list[str]] = {}
    title = ""
    for line in text.split("\n"):
        match = _TITLE.match(line)
        if match:
            title = match[1]
            sections[title] = []
        elif re.match(r"^\s*Legend", line):
            title = ""
        elif title:
            sections[title] += line.split()
    return {title: _table(title, words) for title, words in sections.items() if title in _KEPT}


def _table(title: str, words: list[str]) -> tuple[list[str], list[list[str]]]:
    addresses: list[str] = []
    for word in words:
        if not _ADDRESS.fullmatch(word) or word in addresses:
            break
        addresses.append(word)
    n = len(addresses)
    rows = []
    for i, address in enumerate(addresses):
        row = words[n + i * (n + 1) : n + (i + 1) * (n + 1)]
        if len(row) <= n or row[0] != address or any(_ADDRESS.fullmatch(cell) for cell in row[1:]):
            raise MachineError(
                f"{TOOL}: {title} TABLE lists {n} GPUs but the row of {address} is missing or has not {n} "
                "cells: truncated; paste it whole"
            )
        rows.append(row[1:])
    if not rows:
        raise MachineError(f"{TOOL}: {title} TABLE lists no PCI address; paste it whole")
    return addresses, rows


def _type(cell: str) -> str:
    if cell.upper() not in _TYPES:
        raise MachineError(f"{TOOL}: {cell!r} is no type of link; known are {', '.join(_TYPES)}")
    return _TYPES[cell.upper()]


def _numbers(
    tables: dict[str, tuple[list[str], list[list[str]]]], title: str, addresses: list[str]
) -> tuple[tuple[int, ...], ...]:
    if title not in tables:
        return ()
    if tables[title][0] != addresses:
        raise MachineError(f"{TOOL}: {title} TABLE lists other GPUs than that of types; paste one output")
    rows = tables[title][1]
    if any(not cell.isdecimal() and cell != "N/A" for row in rows for cell in row):
        raise MachineError(f"{TOOL}: {title} TABLE holds what is no number; paste it again whole")
    return tuple(tuple(0 if cell == "N/A" else int(cell) for cell in row) for row in rows)


def _bandwidths(
    tables: dict[str, tuple[list[str], list[list[str]]]], addresses: list[str]
) -> tuple[tuple[float, ...], ...]:
    """Highest of ``min-max`` in MB/s as GB/s; 0 for N/A."""
    if tables.get("NUMA BW", ([], []))[0] != addresses:
        return ()
    return tuple(
        tuple(int(n[-1]) / 1000.0 if (n := re.findall(r"\d+", cell)) else 0.0 for cell in row)
        for row in tables["NUMA BW"][1]
    )
