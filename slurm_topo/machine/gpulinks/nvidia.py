"""``nvidia-smi topo -m``, as people paste it: coloured, wrapped, glued, misaligned, cut off."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from slurm_topo.errors import MachineError
from slurm_topo.machine.gpulinks.clean import clean, unbroken
from slurm_topo.machine.gpulinks.matrix import LinkDevice, LinkMatrix, check_symmetric
from slurm_topo.units import expand_ints

TOOL = "nvidia-smi topo -m"
# PSB and SOC are what old drivers print for PIX and SYS.
_OLD_CODES = {"PSB": "PIX", "SOC": "SYS"}
_COLUMNS = ("cpus", "numa", "gpu_numa")
_TOKEN = re.compile(
    r"(?P<column>CPU\s*Affinity|NUMA\s*Affinity|GPU\s*NUMA\s*ID)"
    r"|(?P<label>GPU\d+|NIC\d+|[a-z][a-z0-9]*(?:_[a-z]+)*_?\d+(?![\w-]))"
    r"|(?P<code>NV\d{1,2}|NODE|SYS|PHB|PXB|PIX|PSB|SOC|C2C|X)"
    r"|(?P<none>N/A)"
    r"|(?P<list>\d[\d,-]*)"
    r"|(?P<rubbish>\S+)",
)
_ROW = re.compile(
    r"^\s*(?:GPU\d+|NIC\d+|[a-z][a-z0-9]*_\w*\d+)\s+(?:NV\d|NODE|SYS|PHB|PXB|PIX|PSB|SOC|C2C|X\b|N/A)"
)
_LEGEND = re.compile(r"^\s*(?:NIC\s+)?Legend\b", re.IGNORECASE | re.MULTILINE)
_NIC_NAME = re.compile(r"^\s*(NIC\d+)\s*:\s*(\S+)", re.MULTILINE)
_MOST_LINKS = 18


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    line: int
    column: int


@dataclass
class _Row:
    label: str
    tokens: list[_Token]


def is_topo_matrix(text: str) -> bool:
    """True for text that looks like ``nvidia-smi topo -m``."""
    return bool(
        re.search(
            r"GPU0[^\n]*Affinity|GPU\d+\s+X\s|GPU\d+[^\n]*\b(?:NV\d+|SYS|PHB|NODE|PIX|PXB)\b", clean(text)
        )
    )


def parse_topo_matrix(text: str) -> LinkMatrix:
    """The matrix of ``nvidia-smi topo -m``.

    Raises
    ------
    MachineError
        There is no such matrix, rows or cells are missing (the text is truncated), a code is unknown, or the
        matrix contradicts itself.
    """
    plain = clean(text)
    legend = _LEGEND.search(plain)
    body = _from_header(plain[: legend.start()] if legend else plain)
    names = dict(_NIC_NAME.findall(plain))
    first: MachineError | None = None
    # A terminal may have broken lines at its width, also inside a word, and what was copied may lack the
    # blanks there.
    for variant in dict.fromkeys((body, unbroken(body, _ROW), _rejoined(body))):
        try:
            return _parse(variant, names)
        except MachineError as error:
            first = first or error
    assert first is not None
    raise first


def _from_header(text: str) -> str:
    """The text from the line that lists the devices."""
    offset = 0
    for line in text.split("\n"):
        kinds = [m.lastgroup for m in _TOKEN.finditer(line)]
        if "label" in kinds and re.match(r"^\s*GPU\d+", line) and "code" not in kinds:
            # The names of the columns may be wrapped too.
            words = re.sub(r"(CPU|NUMA)\s+(Affinity|ID)", r"\1 \2", text[offset:])
            return re.sub(r"GPU\s+NUMA ID", "GPU NUMA ID", words)
        offset += len(line) + 1
    raise MachineError(
        f"{TOOL}: no line that lists GPU0, GPU1 and so on; paste the output from its first line"
    )


def _rejoined(text: str) -> str:
    lines: list[str] = []
    for line in text.split("\n"):
        if lines and line.strip() and not re.match(r"^\s*(?:GPU|NIC|[a-z]+\d*_)\d*", line):
            lines[-1] += line.lstrip()
        else:
            lines.append(line)
    return "\n".join(lines)


def _tokens(text: str) -> list[_Token]:
    found = []
    for number, line in enumerate(text.split("\n")):
        for match in _TOKEN.finditer(line):
            found.append(_Token(match.lastgroup or "", match[0], number, match.start()))
    return found


def _parse(body: str, names: dict[str, str]) -> LinkMatrix:
    tokens = _tokens(body)
    labels, columns, start = _header(tokens)
    rows = _rows(tokens[start:], labels)
    missing = [label for label in labels if label not in {row.label for row in rows}]
    if missing:
        raise MachineError(
            f"{TOOL}: lists {len(labels)} devices but has {len(rows)} rows, {missing[0]} is "
            "missing: the text is "
            "truncated; paste it whole"
        )
    parts = [_split(row, labels) for row in rows]
    codes = [cells for cells, _ in parts]
    most = max((len(rest) for _, rest in parts[:-1]), default=len(columns))
    if rows[-1].label.startswith("GPU") and len(parts[-1][1]) < most:
        raise MachineError(
            f"{TOOL}: row {rows[-1].label} lacks its affinity: the text is truncated; paste it whole"
        )
    devices = [_device(row, rest, columns, names) for row, (_, rest) in zip(rows, parts, strict=True)]
    check_symmetric(TOOL, labels, codes)
    return LinkMatrix(TOOL, tuple(devices), tuple(tuple(row) for row in codes), notes=_notes(devices))


def _header(tokens: Sequence[_Token]) -> tuple[list[str], list[_Token], int]:
    """Device labels, affinity columns, and where the first row begins: where a label comes again."""
    labels: list[str] = []
    columns: list[_Token] = []
    for i, token in enumerate(tokens):
        if token.kind == "label":
            if token.text in labels or (columns and labels):
                return labels, columns, i
            labels.append(token.text)
        elif token.kind == "column":
            columns.append(token)
        elif token.kind in ("code", "rubbish"):
            raise MachineError(f"{TOOL}: {token.text} among the names of the devices; paste it again whole")
    raise MachineError(
        f"{TOOL}: has {len(labels)} devices but no rows: the text is truncated; paste it whole"
    )


def _rows(tokens: Sequence[_Token], labels: Sequence[str]) -> list[_Row]:
    rows: list[_Row] = []
    seen: set[str] = set()
    for token in tokens:
        if token.kind == "label" and token.text in labels:
            if len(seen) == len(labels):
                break
            if token.text in seen or token.text != labels[len(seen)]:
                expected = labels[len(seen)]
                raise MachineError(
                    f"{TOOL}: row {token.text} where {expected} should be; paste it again whole"
                )
            seen.add(token.text)
            rows.append(_Row(token.text, []))
        elif rows:
            rows[-1].tokens.append(token)
    return rows


def _split(row: _Row, labels: Sequence[str]) -> tuple[list[str], list[_Token]]:
    """The cells of a row, one a device, and the tokens of its affinity columns."""
    cells: list[str] = []
    for token in row.tokens[: len(labels)]:
        if token.kind not in ("code", "none"):
            break
        cells.append(_OLD_CODES.get(token.text, token.text))
    if len(cells) < len(labels):
        stopped = row.tokens[len(cells)] if len(cells) < len(row.tokens) else None
        if stopped and stopped.kind == "rubbish" and "..." not in stopped.text:
            raise MachineError(
                f"{TOOL}: row {row.label} holds {stopped.text[:20]!r}; known are X, NV#, PIX, "
                "PXB, PHB, NODE, SYS, C2C"
            )
        raise MachineError(
            f"{TOOL}: row {row.label} has {len(cells)} of {len(labels)} cells: the text is "
            "truncated; paste it whole"
        )
    for cell in cells:
        if cell.startswith("NV") and int(cell[2:]) > _MOST_LINKS:
            raise MachineError(
                f"{TOOL}: row {row.label} holds {cell}, more links than any GPU; paste it again whole"
            )
    rest = row.tokens[len(labels) :]
    if rest and rest[0].kind == "code":
        raise MachineError(
            f"{TOOL}: row {row.label} has more cells than there are devices; paste it again whole"
        )
    return cells, _affinity(row, labels)


def _affinity(row: _Row, labels: Sequence[str]) -> list[_Token]:
    """Tokens after the cells; only behind the last row may there be other words, such as a prompt."""
    rest = row.tokens[len(labels) :]
    line = row.tokens[len(labels) - 1].line
    strange = [t for t in rest if t.kind in ("rubbish", "label")]
    if row.label == labels[-1]:
        strange = [t for t in strange if t.line == line or re.match(r"[,/]|-?\d", t.text)]
    if strange:
        word = "is truncated at" if "..." in strange[0].text else "holds"
        raise MachineError(f"{TOOL}: row {row.label} {word} {strange[0].text[:20]!r}; paste it again whole")
    return [t for t in rest if t.line <= line + 2 and t.kind in ("list", "none")]


def _device(row: _Row, rest: list[_Token], columns: list[_Token], names: dict[str, str]) -> LinkDevice:
    kind = "gpu" if row.label.startswith("GPU") else "nic"
    name = names.get(row.label, "" if row.label.startswith(("GPU", "NIC")) else row.label)
    if kind == "nic" or not columns:
        return LinkDevice(row.label, kind, name)
    values = dict.fromkeys(_COLUMNS[: len(columns)], "N/A")
    for column, text in zip(_assigned(row, rest, columns), _texts(rest, columns), strict=True):
        values[_COLUMNS[column]] = text
    cpus, numa, own = (_ints(values.get(c, "N/A"), row.label) for c in _COLUMNS)
    return LinkDevice(row.label, kind, name, cpus, numa, own[0] if own else None)


def _texts(rest: list[_Token], columns: list[_Token]) -> list[str]:
    texts = [t.text for t in rest]
    # Glued columns: 0-55,112-1670 is 0-55,112-167 and 0.
    if len(texts) == len(columns) - 1 and texts and "-" in texts[0] and texts[0].count("-") > 1:
        cut = _cut(texts[0])
        if cut:
            return [*cut, *texts[1:]]
    return texts


def _cut(text: str) -> tuple[str, str] | None:
    """Cut where all ranges come out equally long."""
    for length in range(1, 3):
        head, tail = text[:-length], text[-length:]
        widths = set()
        for part in head.split(","):
            low, dash, high = part.partition("-")
            if not dash or not low.isdigit() or not high.isdigit():
                return None
            widths.add(int(high) - int(low))
        if len(widths) == 1:
            return head, tail
    return None


def _assigned(row: _Row, rest: list[_Token], columns: list[_Token]) -> list[int]:
    """Column of each affinity token: in order where all are there, else by where it stands on the screen."""
    count = len(_texts(rest, columns))
    if count > len(columns):
        raise MachineError(
            f"{TOOL}: row {row.label} has {count} affinities for {len(columns)} columns; paste it again whole"
        )
    if count == len(columns) or all(t.kind == "none" for t in rest):
        return list(range(count))
    starts = [c.column for c in columns]
    return [max(sum(start <= token.column + 3 for start in starts) - 1, 0) for token in rest]


def _ints(text: str, label: str) -> tuple[int, ...] | None:
    if text == "N/A":
        return None
    try:
        return tuple(expand_ints(text))
    except Exception as error:
        raise MachineError(
            f"{TOOL}: row {label}: {text!r} is no list of numbers; paste it again whole"
        ) from error


def _notes(devices: Sequence[LinkDevice]) -> tuple[str, ...]:
    gpus = [d for d in devices if d.kind == "gpu"]
    notes = []
    if (
        len(gpus) > 1
        and all(d.cpus is not None and len(d.cpus) == 1 for d in gpus)
        and len({d.cpus for d in gpus}) == 1
    ):
        notes.append("all GPUs name the same single CPU: a virtual machine that hides the real affinity")
    return tuple(notes)
