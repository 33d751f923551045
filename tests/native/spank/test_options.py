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


Table = tuple[str, dict[str, tuple[int, int]]]
# As those releases hand it to getopt_long: letters, then name, argument and value of each long option.
RECORDED = sorted((Path(__file__).parent / "options").glob("srun-*.txt"))


def parse_table(text: str) -> Table:
    letters, *rows = text.splitlines()
    options = {name: (int(argument), int(value)) for name, argument, value in map(str.split, rows)}
    return letters.removeprefix("letters ").removeprefix("+"), options


def installed_table(folder: Path) -> str:
    """What the installed srun hands to getopt_long."""
    if not shutil.which("srun") or not shutil.which("gcc"):
        pytest.skip("srun or gcc is missing")
    (folder / "shim.c").write_text(SHIM)
    (folder / "slurm.conf").write_text(CONF.format(folder))
    command = ["gcc", "-shared", "-fPIC", "-o", f"{folder}/shim.so", f"{folder}/shim.c"]
    subprocess.run(command, check=True, timeout=60)
    env = {**os.environ, "SLURM_CONF": f"{folder}/slurm.conf", "LD_PRELOAD": f"{folder}/shim.so"}
    return subprocess.run(["srun"], env=env, capture_output=True, text=True, timeout=60).stdout


@pytest.fixture(scope="module", params=["installed", *RECORDED], ids=lambda p: getattr(p, "stem", p))
def real(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Table:
    """Letters and long options of an srun."""
    if isinstance(request.param, Path):
        return parse_table(request.param.read_text())
    return parse_table(installed_table(tmp_path_factory.mktemp("srun")))


@pytest.fixture(scope="module")
def ours(project_root: Path) -> dict[str, tuple[str, int]]:
    """Name -> (letter, argument) of options.c."""
    text = (project_root / "spank" / "options.c").read_text()
    rows = re.findall(r'\{ "([\w-]+)", (0|\'.\'), (NO|NEED|MAY), ST_\w+ \}', text)
    return {name: (letter.strip("'"), ARGUMENTS[argument]) for name, letter, argument in rows}


def test_every_option_of_srun_is_known_with_its_argument(
    real: Table, ours: dict[str, tuple[str, int]]
) -> None:
    _, options = real
    assert len(options) > 100
    for name, (argument, _) in options.items():
        found = ours.get(name, ("", -1))[1]
        # An option that takes a value in some releases only: without one it is read alike.
        assert found == argument or (found, argument) == (2, 0), name


def test_every_letter_of_srun_is_known(real: Table, ours: dict[str, tuple[str, int]]) -> None:
    letters, options = real
    expected = {c: len(colons) for c, colons in re.findall(r"([A-Za-z])(:{0,2})", letters)}
    assert {letter: argument for letter, argument in ours.values() if letter != "0"} == expected
    by_value = {name: chr(value) for name, (_, value) in options.items() if value < 128}
    assert {name: ours[name][0] for name in by_value} == by_value
