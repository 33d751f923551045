"""Mutated XML: never a crash, never a Python error, never a message of two lines; what loads is consistent.

``SLURM_TOPO_FUZZ=5000`` runs longer.
"""

from __future__ import annotations

import os
import random
import re

from slurm_topo.errors import MachineError
from slurm_topo.hwloc import reader
from slurm_topo.machine.build import build_machine
from slurm_topo.machine.describe import describe
from slurm_topo.machine.local import node_class
from slurm_topo.machine.table import node_table

COUNT = int(os.environ.get("SLURM_TOPO_FUZZ", "80"))
VALUES = (
    *("", "0", "-1", "99999999999999999999", "4294967295", "abc", "1 2 3", "2.0", "1-1", "0-0"),
    *("0x0", "0xffffffff", "0xf...f", "0x00000001", "0000:00:00.0", "0000:ff:1f.7"),
    *("PU", "Core", "NUMANode", "Bridge", "OSDev", "Misc", "Group", "Machine"),
)


def spans(pattern: str, text: str, group: int = 0) -> list[tuple[int, int]]:
    return [match.span(group) for match in re.finditer(pattern, text)]


def replaced(text: str, span: tuple[int, int], value: str) -> str:
    return text[: span[0]] + value + text[span[1] :]


def mutated(text: str, rng: random.Random) -> str:
    """One change: a value, attribute, type, line or element is replaced, swapped, doubled or removed."""
    values = spans(r'="([^"]*)"', text, 1)
    way = rng.randrange(7)
    if way == 0:
        return replaced(text, rng.choice(values), rng.choice(VALUES))
    if way == 1:
        start, end = rng.choice(values)
        return replaced(text, rng.choice(values), text[start:end])
    if way in (2, 3):
        lines = text.split("\n")
        at = rng.randrange(len(lines))
        if way == 2:
            del lines[at]
        else:
            lines.insert(at, rng.choice(lines))
        return "\n".join(lines)
    if way == 4:
        return replaced(text, rng.choice(spans(r' \w+="[^"]*"', text)), "")
    if way == 5:
        elements = spans(r"<(?:info|indexes|u64values|page_type|cpukind|memattr_value|support)[^>]*/?>", text)
        return replaced(text, rng.choice(elements), "") if elements else text
    types = spans(r'type="(\w+)"', text, 1)
    start, end = rng.choice(types)
    return replaced(text, rng.choice(types), text[start:end])


def test_mutated_files_are_refused_or_load_consistently(shared_data):
    paths = sorted((shared_data / "data" / "hwloc").glob("*.xml"), key=lambda p: p.stat().st_size)
    texts = [path.read_text() for path in paths if "openmpi-hwloc__" not in path.name][:14]
    rng = random.Random(2026)
    loaded = refused = 0
    for _ in range(COUNT):
        text = rng.choice(texts)
        for _ in range(rng.choice([1, 1, 2, 4, 10])):
            text = mutated(text, rng)
        try:
            topology = reader.load_xml_bytes(text.encode(), "mutated.xml")
            build_machine([""], [node_class(topology)], [], {})
        except MachineError as error:
            refused += 1
            message = str(error)
        else:
            loaded += 1
            message = ""
            describe(topology)
            node_table(topology)
            assert len(topology.of_kind("PU")) == len({o.os_index for o in topology.of_kind("PU")})
        assert "\n" not in message
    assert loaded > COUNT // 10
    assert refused > COUNT // 10
