"""The plugin's table of srun's options against the one that the installed srun hands to getopt."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

SHIM = r"""
#define _GNU_SOURCE
#include <getopt.h>
#include <stdio.h>
#include <unistd.h>
int getopt_long(int argc, char *const argv[], const char *letters, const struct option *option, int *index)
{
    (void)argc; (void)argv; (void)index;
    printf("letters %s\n", letters);
    for (; option->name; option++)
        printf("%s %d %d\n", option->name, option->has_arg, option->val);
    fflush(stdout);
    _exit(0);
}
"""
CONF = """ClusterName=none
SlurmctldHost=localhost
NodeName=localhost
PartitionName=none Nodes=localhost
PlugStackConfig={}/none
"""
ARGUMENTS = {"NO": 0, "NEED": 1, "MAY": 2}


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, tuple[int, int]]]:
    """Letters and long options of the installed srun."""
    if not shutil.which("srun") or not shutil.which("gcc"):
        pytest.skip("srun or gcc is missing")
    folder = tmp_path_factory.mktemp("srun")
    (folder / "shim.c").write_text(SHIM)
    (folder / "slurm.conf").write_text(CONF.format(folder))
    command = ["gcc", "-shared", "-fPIC", "-o", f"{folder}/shim.so", f"{folder}/shim.c"]
    subprocess.run(command, check=True, timeout=60)
    env = {**os.environ, "SLURM_CONF": f"{folder}/slurm.conf", "LD_PRELOAD": f"{folder}/shim.so"}
    shown = subprocess.run(["srun"], env=env, capture_output=True, text=True, timeout=60).stdout
    if not shown.startswith("letters "):
        pytest.skip("this srun does not read its options with getopt_long")
    letters, *rows = shown.splitlines()
    options = {name: (int(argument), int(value)) for name, argument, value in map(str.split, rows)}
    return letters.removeprefix("letters +"), options


@pytest.fixture(scope="module")
def ours(project_root: Path) -> dict[str, tuple[str, int]]:
    """Name -> (letter, argument) of options.c."""
    text = (project_root / "spank" / "options.c").read_text()
    rows = re.findall(r'\{ "([\w-]+)", (0|\'.\'), (NO|NEED|MAY), ST_\w+ \}', text)
    return {name: (letter.strip("'"), ARGUMENTS[argument]) for name, letter, argument in rows}


def test_every_option_of_srun_is_known_with_its_argument(
    real: tuple[str, dict[str, tuple[int, int]]], ours: dict[str, tuple[str, int]]
) -> None:
    _, options = real
    assert len(options) > 100
    assert {name: ours.get(name, ("", -1))[1] for name in options} == {n: a for n, (a, _) in options.items()}


def test_every_letter_of_srun_is_known(
    real: tuple[str, dict[str, tuple[int, int]]], ours: dict[str, tuple[str, int]]
) -> None:
    letters, options = real
    expected = {c: len(colons) for c, colons in re.findall(r"([A-Za-z])(:{0,2})", letters)}
    assert {letter: argument for letter, argument in ours.values() if letter != "0"} == expected
    by_value = {name: chr(value) for name, (_, value) in options.items() if value < 128}
    assert {name: ours[name][0] for name in by_value} == by_value
