"""The part of YAML that topology.yaml needs: mappings, lists, scalars, flow lists, comments."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from slurm_topo.errors import MachineError

_KEY = re.compile(r"""^("[^"]*"|'[^']*'|[^\s:#\[\]{},"'][^:#]*?)\s*:(?:\s+(.*))?$""")
_MOST_LINES = 200_000


@dataclass
class _Line:
    number: int
    indent: int
    text: str


class _Reader:
    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.lines = self._split(text)
        self.at = 0

    def fail(self, line: _Line, reason: str) -> MachineError:
        return MachineError(f"{self.name}, line {line.number}: {reason}; correct that line")

    def _split(self, text: str) -> list[_Line]:
        found: list[_Line] = []
        for number, raw in enumerate(text.split("\n"), 1):
            plain = _without_comment(raw).rstrip()
            body = plain.lstrip(" ")
            line = _Line(number, len(plain) - len(body), body)
            if not body or (body == "---" and not found):
                continue
            if body.startswith("\t"):
                raise self.fail(line, "a tab indents it, YAML wants blanks")
            if body in ("---", "..."):
                break
            found.append(line)
        if len(found) > _MOST_LINES:
            raise MachineError(
                f"{self.name}: has {len(found)} lines, more than any topology; name another file"
            )
        return found

    def block(self, indent: int) -> Any:
        line = self.lines[self.at]
        return self._list(indent) if line.text == "-" or line.text.startswith("- ") else self._mapping(indent)

    def _list(self, indent: int) -> list[Any]:
        values: list[Any] = []
        while self.at < len(self.lines):
            line = self.lines[self.at]
            if line.indent < indent or not (line.text == "-" or line.text.startswith("- ")):
                break
            if line.indent > indent:
                raise self.fail(line, "is indented differently from its neighbours")
            rest = line.text[1:].lstrip(" ")
            if not rest:
                self.at += 1
                values.append(self._nested(line, indent))
            elif _KEY.match(rest) or rest.startswith("- "):
                # The item begins on this line: read it as a block that is indented to here.
                line.indent += len(line.text) - len(rest)
                line.text = rest
                values.append(self.block(line.indent))
            else:
                self.at += 1
                values.append(self._scalar(line, rest))
        return values

    def _mapping(self, indent: int) -> dict[str, Any]:
        values: dict[str, Any] = {}
        while self.at < len(self.lines):
            line = self.lines[self.at]
            if line.indent < indent or line.text == "-" or line.text.startswith("- "):
                break
            match = _KEY.match(line.text)
            if line.indent > indent or not match:
                raise self.fail(line, f"{line.text[:40]!r} is no 'key: value' at this depth")
            key = str(_unquoted(match[1]))
            if key in values:
                raise self.fail(line, f"key {key!r} comes twice")
            self.at += 1
            values[key] = self._scalar(line, match[2]) if match[2] else self._nested(line, indent, True)
        return values

    def _nested(self, line: _Line, indent: int, in_mapping: bool = False) -> Any:
        if self.at == len(self.lines):
            return None
        following = self.lines[self.at]
        # A list may stand at the indent of its key.
        same = in_mapping and following.indent == indent and following.text.startswith("-")
        if following.indent > indent or same:
            if following.indent - indent > 200:
                raise self.fail(line, "is nested too deeply")
            return self.block(following.indent)
        return None

    def _scalar(self, line: _Line, text: str) -> Any:
        if text[0] in "&*!|>{%@`":
            raise self.fail(line, f"{text[:20]!r} is YAML that topology.yaml does not need")
        if text.startswith("["):
            if not text.endswith("]"):
                raise self.fail(line, f"the list {text[:20]!r} is not closed on its line")
            return [_unquoted(part) for part in _flow(text[1:-1])]
        return _unquoted(text)


def _flow(text: str) -> list[str]:
    """Items of a flow list; commas inside quotes and brackets stay."""
    parts, depth, quote, current = [], 0, "", ""
    for char in text:
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        depth += (char == "[") - (char == "]") if not quote else 0
        if char == "," and not depth and not quote:
            parts.append(current)
            current = ""
        else:
            current += char
    return [*parts, current] if current.strip() else parts


def _unquoted(text: str) -> Any:
    text = text.strip()
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "\"'":
        return text[1:-1]
    if re.fullmatch(r"-?\d+", text) and (text == "0" or not text.lstrip("-").startswith("0")):
        return int(text)
    words = {"true": True, "yes": True, "false": False, "no": False, "null": None, "~": None}
    return words.get(text.lower(), text)


def _without_comment(line: str) -> str:
    quote = ""
    for i, char in enumerate(line):
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        elif char == "#" and (i == 0 or line[i - 1] in " \t"):
            return line[:i]
    return line


def load_yaml(text: str, name: str) -> Any:
    """Lists, mappings and scalars of a YAML text.

    Raises
    ------
    MachineError
        The text is empty, malformed, or uses YAML beyond what topology.yaml needs (anchors, tags, folded
        text).

    Examples
    --------
    >>> load_yaml("- topology: a\\n  sizes: [4, 16]\\n", "x")
    [{'topology': 'a', 'sizes': [4, 16]}]
    """
    reader = _Reader(name, text.replace("\r\n", "\n").replace("\ufeff", ""))
    if not reader.lines:
        raise MachineError(f"{name}: is empty; name a topology.yaml")
    try:
        value = reader.block(reader.lines[0].indent)
    except RecursionError as error:
        raise MachineError(f"{name}: is nested too deeply; name a topology.yaml") from error
    if reader.at < len(reader.lines):
        raise reader.fail(reader.lines[reader.at], "is indented differently from what is above it")
    return value
