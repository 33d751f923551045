"""Records: one JSON object on one short line."""

from __future__ import annotations

import json
import os
from collections.abc import Callable

Drive = Callable[..., object]


def test_record_is_json_of_at_most_a_thousand_bytes(drive: Drive) -> None:
    odd = 'quote " back \\ tab \t line \n umlaut ü'
    out = drive(
        "record", "reason", odd, "long", "x" * 5000, "b", "ü" * 500, "c", "y" * 400, "d", "z" * 400
    ).stdout
    assert out.endswith("}\n")
    assert out.count("\n") == 1
    assert len(out.encode()) <= 1000
    record = json.loads(out)
    assert record["format"] == "slurm-topo-record"
    assert record["version"] == 1
    assert record["where"] == "srun"
    assert record["reason"] == odd
    assert set(record["b"]) == {"ü"}
    assert "left_out" not in record


def test_record_replaces_what_is_no_utf8(drive: Drive) -> None:
    out = drive("record", "reason", os.fsdecode(b"a\xff\xc0\xafb\xed\xa0\x80c\xf8")).stdout
    assert json.loads(out)["reason"] == "a???b???c?"
