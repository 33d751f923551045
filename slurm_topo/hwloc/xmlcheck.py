"""Look at a file before libhwloc does, so that what it cannot read gets one clear line."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from xml.parsers import expat

from slurm_topo.errors import MachineError
from slurm_topo.hwloc.files import read_bounded

LARGEST_BYTES = 64 * 1024 * 1024


class _RefusedError(Exception):
    """The document is refused for the reason given."""


def read_xml(path: str | os.PathLike[str], major: int) -> bytes:
    """Bytes of a hwloc XML file that a libhwloc of this major version can read.

    Raises
    ------
    MachineError
        Missing, unreadable, empty, larger than 64 MiB, not XML, truncated, not hwloc's, or of a newer format.
    """
    file = Path(path)
    instead = "name a hwloc XML file, or a synthetic string with --synthetic"
    data = read_bounded(file, LARGEST_BYTES, "topology", instead)
    version = check_xml(data, str(file)).version
    if _major(version) > major:
        raise MachineError(
            f"{file}: hwloc XML of format {version}, which hwloc {_major(version)} reads "
            f"and the {major}.x here cannot; "
            f"install hwloc {_major(version)}, or export it there with `lstopo --export-xml-flags v{major}`"
        )
    return data


def _major(version: str) -> int:
    digits = version.partition(".")[0]
    return int(digits) if digits.isdecimal() else 1


@dataclass(frozen=True)
class Outline:
    """What the XML alone shows: version of the format (``1``, ``2.0``, ``3.0``) and number of PUs."""

    version: str
    pus: int


def check_xml(data: bytes, name: str) -> Outline:
    """Outline of hwloc XML.

    Raises
    ------
    MachineError
        The bytes are not a complete hwloc XML document.
    """
    if not data.strip(b" \t\r\n\0"):
        raise MachineError(f"{name}: is empty; write it with `lstopo file.xml`")
    found: dict[str, str] = {}
    seen = {"objects": 0, "pus": 0, "depth": 0}

    def start(tag: str, attributes: dict[str, str]) -> None:
        if seen["depth"] == 0:
            if tag not in ("topology", "root"):
                raise _RefusedError(f"XML of <{tag}>, not hwloc's <topology>")
            found["version"] = attributes.get("version", "1")
        seen["depth"] += 1
        seen["objects"] += tag == "object"
        seen["pus"] += tag == "object" and attributes.get("type") == "PU"

    def end(_tag: str) -> None:
        seen["depth"] -= 1

    def entity(*_args: object) -> None:
        raise _RefusedError("an XML entity is declared, which hwloc never writes")

    parser = expat.ParserCreate()
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.EntityDeclHandler = entity
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        reason = "truncated" if seen["depth"] and _at_end(error, data) else "not well-formed XML"
        raise MachineError(f"{name}: {reason} ({error}); write it again with `lstopo file.xml`") from error
    except (_RefusedError, ValueError, LookupError) as error:
        raise MachineError(f"{name}: {error}; name a file written by `lstopo file.xml`") from error
    if not seen["objects"]:
        raise MachineError(f"{name}: holds no object; write it again with `lstopo file.xml`")
    return Outline(found["version"], seen["pus"])


def _at_end(error: expat.ExpatError, data: bytes) -> bool:
    """True when the parser ran out of input rather than into rubbish."""
    return error.code in (3, 5) or error.lineno > data.count(b"\n")
