"""The order of visible GPUs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

Drive = Callable[..., object]


@pytest.mark.parametrize(
    ("visible", "known", "gpus", "isolate", "list_"),
    [
        ("0,1,2,3", "-", "2", "0", "2,0,1,3"),
        ("0,1,2,3", "-", "2-3", "0", "2,3,0,1"),
        ("0,1,2,3", "-", "2-3", "1", "2,3"),
        # ConstrainDevices: Slurm's 4..7 are seen as 0..3.
        ("0,1,2,3", "4,5,6,7", "6", "0", "2,0,1,3"),
        ("GPU-aa,GPU-bb", "0,1", "1", "0", "GPU-bb,GPU-aa"),
        ("0", "-", "0", "0", "0"),
        ("0,1", "-", "5", "0", "refused"),
        ("0,1", "0,1,2", "1", "0", "refused"),
        ("GPU-aa,GPU-bb", "-", "1", "0", "refused"),
        ("0,,1", "-", "1", "0", "refused"),
        ("", "-", "1", "0", "refused"),
        (",".join(f"GPU-{i:032}" for i in range(4)), "0,1,2,3", "1", "0", "refused"),
    ],
)
def test_devices_of_the_rank_come_first(
    drive: Drive, visible: str, known: str, gpus: str, isolate: str, list_: str
) -> None:
    assert drive("devices", visible, known, gpus, isolate).stdout == list_ + "\n"
