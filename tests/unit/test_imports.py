"""Imports run one way (docs/architecture.md): a part knows only the parts below it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2] / "slurm_topo"

# Each part may import those in earlier rows; parts of one row never import each other.
LAYERS = (
    ("errors",),
    ("units", "model", "config", "output"),
    ("trace", "hwloc"),
    ("machine",),
    ("placement", "judge"),
    ("slurm",),
    ("history", "doctor"),
    ("report", "campaign"),
    ("lab",),
    ("cli",),
)
RANK = {part: i for i, layer in enumerate(LAYERS) for part in layer}
# Decided by the design beside the order: these never meet although the order would allow it.
FORBIDDEN = {("machine", "trace"), ("report", "placement.solve"), ("history", "placement.solve")}


def part_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imports_of(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return {n.removeprefix("slurm_topo.") for n in names if n.startswith("slurm_topo.")}


def breaches(path: Path, imported: set[str]) -> list[str]:
    part = part_of(path)
    if part in ("__init__", "_build"):
        return []
    found = []
    for name in sorted(imported):
        other = name.split(".")[0]
        if other == part or other not in RANK:
            continue
        upward = RANK[other] >= RANK[part]
        forbidden = any(part == a and (name == b or name.startswith(b + ".")) for a, b in FORBIDDEN)
        if upward or forbidden:
            found.append(f"{path.relative_to(ROOT)} imports {name}")
    return found


def test_imports_run_one_way() -> None:
    files = sorted(ROOT.rglob("*.py"))
    assert len(files) > 10
    assert [b for f in files for b in breaches(f, imports_of(f))] == []


def test_every_part_has_a_layer() -> None:
    parts = {part_of(f) for f in ROOT.rglob("*.py")} - {"__init__", "native"}
    assert parts <= set(RANK)


@pytest.mark.parametrize(
    ("part", "name"),
    [
        ("trace/reader.py", "machine"),
        ("history/store.py", "cli.sync"),
        ("report/numbers.py", "placement.solve"),
    ],
)
def test_a_breach_is_found(part: str, name: str) -> None:
    assert breaches(ROOT / part, {name})
