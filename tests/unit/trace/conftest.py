"""Trace files made of nothing: the layout of docs/formats-trace.md, written down a second time."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

Slot = Sequence[int]


def record(
    rank: int,
    size: int,
    slots: Mapping[int, Slot],
    *,
    world: str = "w1",
    host: str = "n1",
    start_s: float = 1000.0,
    end_s: float = 1010.0,
    state: int = 2,
    flags: int = 0,
    wait_s: tuple[float, float] = (1.0, 0.5),
    phase_s: float = 2.0,
    cpus: Sequence[int] = (0,),
    script: str = "",
    reason: str = "",
    bins: Mapping[int, int] | None = None,
) -> bytes:
    """One rank: peer -> up to 14 numbers (p2p, coll, out, in: messages and bytes; then bytes by phase)."""
    start, end = int(start_s * 1e9), int(end_s * 1e9)
    numbers = [
        *(start, end, int(wait_s[0] * 2e9), int(wait_s[1] * 2e9)),
        *(0, 20_000_000_000, start, start + 10_000_000_000),  # two ticks a nanosecond
        *(int(phase_s * 1e9), 6, 3, 33, 0, 7, 0),
        *[0] * 7,
        *[(bins or {}).get(b, 0) for b in range(48)],
    ]
    mask = bytearray(256)
    for cpu in cpus:
        mask[cpu // 8] |= 1 << cpu % 8
    head = struct.pack(
        "<8s4I2i2IiI", b"STCOUNT\n", 1, 2048, 128, len(slots), rank, size, 1000 + rank, state, 0, flags
    )
    head += struct.pack("<70Q", *numbers) + bytes(mask)
    texts = (
        (host, 64),
        (world, 64),
        ("Open MPI v4.1.4", 128),
        ("/opt/app", 256),
        (script, 256),
        (reason, 128),
    )
    head += b"".join(text.encode().ljust(width, b"\0") for text, width in texts)
    body = b"".join(
        struct.pack("<2I15Q", peer, 0, *values, *[0] * (15 - len(values))) for peer, values in slots.items()
    )
    return head.ljust(2048, b"\0") + body


def trace_bytes(records: Sequence[bytes], *, node: str = "n1", nodes: int = 1, version: int = 1) -> bytes:
    """A trace file of the records."""
    body = b"".join(records)
    total = partial = 0
    for (word,) in struct.iter_unpack("<Q", body):
        total = (total + word) % 2**64
        partial = (partial + total) % 2**64
    head = struct.pack(
        "<8s4I3Q2q2I",
        b"STTRACE\n",
        version,
        2048,
        len(records),
        nodes,
        2048 + len(body),
        total,
        partial,
        999_000_000_000,
        1_020_000_000_000,
        0,
        0,
    )
    texts = (("77", 32), ("0", 32), (node, 256), ("sa:nb", 128), ("/plan", 1024), ("", 128))
    head += b"".join(text.encode().ljust(width, b"\0") for text, width in texts)
    return head.ljust(2048, b"\0") + body


@pytest.fixture
def make_trace(tmp_path: Path) -> Callable[..., Path]:
    """Write a trace file of records; a second one of the same step gets another name."""

    def make(records: Sequence[bytes], name: str = "77.0.n1.trace", **head: object) -> Path:
        path = tmp_path / name
        path.write_bytes(trace_bytes(records, **head))  # type: ignore[arg-type]
        return path

    return make


@pytest.fixture
def make_record() -> Callable[..., bytes]:
    """The record of one rank."""
    return record
