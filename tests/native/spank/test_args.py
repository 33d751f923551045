"""The plugin's arguments in plugstack.conf."""

from __future__ import annotations

from collections.abc import Callable

import pytest

Drive = Callable[..., object]


def test_arguments_have_defaults(drive: Drive) -> None:
    assert drive("args").stdout == (
        "spool /var/spool/slurm-topo local_dir /dev/shm tracer - place - config - "
        "kill /etc/slurm-topo/disabled deadline 3000 collect 2000 memory 0 gpus 0 openmp 1\n"
    )


def test_arguments_are_read(drive: Drive) -> None:
    out = drive(
        "args", "spool=/s", "local_dir=/l", "tracer=/t.so", "place=/p", "config=/c", "kill_switch=/k",
        "deadline_ms=250", "collect_ms=60000", "memory=bind", "gpus=isolate", "openmp=none",
    ).stdout  # fmt: skip
    assert out == (
        "spool /s local_dir /l tracer /t.so place /p config /c "
        "kill /k deadline 250 collect 60000 memory 2 gpus 1 openmp 0\n"
    )


@pytest.mark.parametrize(
    "word",
    [
        "spol=/s",
        "spool",
        "spool=relative",
        "deadline_ms=fast",
        "deadline_ms=99999999",
        "collect_ms=99",
        "collect_ms=60001",
        "collect_ms=2s",
        "tracer=/a:b",
        "memory=x",
        "gpus=x",
        "openmp=x",
        "mpirun=x",
    ],
)
def test_wrong_argument_is_named(drive: Drive, word: str) -> None:
    assert drive("args", word).stdout.startswith(f"error plugstack.conf: argument {word} ")
