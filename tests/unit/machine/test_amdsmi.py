"""``amd-smi topology``: links by PCI address."""

from __future__ import annotations

import pytest

from slurm_topo.errors import MachineError
from slurm_topo.machine.gpulinks import is_rocm_topo, parse_rocm_topo, paths_of
from slurm_topo.machine.importing import kind_of_text

ADDRESSES = [f"0000:{bus}:00.0" for bus in ("0c", "22", "9f", "af")]


def table(title: str, own: str, cell) -> str:
    """A table as the tool prints it: own on the diagonal, cell(i, j) elsewhere."""
    lines = [f"{title} TABLE:", " " * 13 + " ".join(ADDRESSES)]
    for i, address in enumerate(ADDRESSES):
        cells = [own if i == j else str(cell(i, j)) for j in range(len(ADDRESSES))]
        lines.append(" ".join([address, *(c.ljust(12) for c in cells)]))
    return "\n".join(lines)


def near(i: int, j: int) -> bool:
    return i // 2 == j // 2


TEXT = "\n\n".join(
    [
        table("ACCESS", "ENABLED", lambda i, j: "ENABLED"),
        table("WEIGHT", "0", lambda i, j: 15 if near(i, j) else 72),
        table("HOPS", "0", lambda i, j: 1 if near(i, j) else 3),
        table("LINK TYPE", "SELF", lambda i, j: "XGMI" if near(i, j) else "PCIE"),
        table("NUMA BW", "N/A", lambda i, j: "50000-100000" if near(i, j) else "N/A"),
        table("DMA", "SELF", lambda i, j: "T"),
        "Legend:\n SELF = Current GPU\n ENABLED / DISABLED = Link is enabled or disabled\n",
    ]
)


def test_types_hops_weights_and_bandwidths_are_read():
    matrix = parse_rocm_topo(TEXT)
    assert matrix.tool == "amd-smi topology"
    assert matrix.codes[0] == ("X", "XGMI", "PCIE", "PCIE")
    assert (matrix.hops[0], matrix.weights[3]) == ((0, 1, 3, 3), (72, 72, 15, 0))
    assert matrix.bandwidth_gbs[2] == (0.0, 0.0, 0.0, 100.0)
    path = paths_of(matrix)[0][1]
    assert (path.kind, path.hops, path.bandwidth_gbs) == ("xgmi", 1, 100.0)
    assert paths_of(matrix)[0][2].kind == "socket-link"


def test_text_is_recognised_in_colours_and_quotes():
    pasted = "\n".join(f"> \x1b[1m{line}\x1b[0m" for line in TEXT.split("\n"))
    assert is_rocm_topo(pasted)
    assert kind_of_text(pasted) == "rocm-smi"
    assert parse_rocm_topo(pasted) == parse_rocm_topo(TEXT)


def test_text_cut_at_any_line_is_refused_or_right():
    lines = TEXT.split("\n")
    for length in range(lines.index("LINK TYPE TABLE:") + 1, len(lines)):
        text, end = "\n".join(lines[:length]), lines[length - 1]
        if end.strip() and not end.startswith(ADDRESSES[-1]) and length <= lines.index("DMA TABLE:"):
            # Inside a table: a row is missing.
            with pytest.raises(MachineError, match="paste it"):
                parse_rocm_topo(text)
        else:
            assert parse_rocm_topo(text).codes == parse_rocm_topo(TEXT).codes


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("XGMI", "WIFI", "no type of link"),
        ("72", "many", "no number"),
        ("0000:22:00.0 XGMI", "0000:22:00.0 PCIE", "but back it is"),
        ("0000:22:00.0 15", "0000:23:00.0 15", "truncated"),
    ],
)
def test_damaged_tables_are_errors_that_say_why(old, new, words):
    with pytest.raises(MachineError, match=words):
        parse_rocm_topo(TEXT.replace(old, new, 1))
