"""How people vary their job scripts, and which keys recognise the program all the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SCRIPT = """\
#!/bin/bash
#SBATCH --job-name=halo_2026-12-01
#SBATCH --ntasks=8
#SBATCH --time=01:00:00
#SBATCH --account=physics
module load openmpi/4.1
cd $SLURM_SUBMIT_DIR
srun ./halo input_a.dat
"""
BASE: dict[str, Any] = {"script": SCRIPT, "name": "halo_2026-12-01"}

Job = dict[str, Any]


def edited(old: str, new: str, **fields: Any) -> Job:
    assert old in SCRIPT
    return {**BASE, "script": SCRIPT.replace(old, new), **fields}


VARIATIONS: dict[str, Job] = {
    "nothing": BASE,
    "another input file": edited("input_a.dat", "input_b.dat --steps 100"),
    "another date in the job name": edited("12-01", "12-02", name="halo_2026-12-02"),
    "another number in the job name, on the command line": {**BASE, "name": "halo_17"},
    "another job name": edited("halo_2026-12-01", "tuesday", name="tuesday"),
    "a module line added": edited("module load", "module load fftw\nmodule load"),
    "another path of the program": edited("./halo", "/home/ada/v2/halo"),
    "a path in an unknown folder": edited("./halo", '"$HOME/bin/halo"'),
    "another time limit": edited("01:00:00", "12:00:00"),
    "another account": edited("physics", "chemistry", account="chemistry"),
    "comments and empty lines": edited("cd ", "\n# where we are\n\ncd "),
    "line ends of another system": {**BASE, "script": SCRIPT.replace("\n", "\r\n")},
    "the program in a variable": edited("srun ./halo", "APP=./halo\nsrun $APP"),
    "mpirun instead of srun": edited("srun", "mpirun -np 8"),
    "options of the launcher": edited("srun", "srun --mpi=pmix -l"),
    "an array, its index as input": edited("input_a.dat", "case_${SLURM_ARRAY_TASK_ID}.dat"),
    "redirected output": edited("input_a.dat", "input_a.dat > log.$SLURM_JOB_ID"),
    "numactl in front": edited("srun", "srun numactl -l"),
    "a container around it": edited("srun", "srun apptainer exec halo.sif"),
    "another number of tasks": {**BASE, "num_tasks": 16.0},
    "a colleague, same account and path": {**BASE, "user_id": 1001.0, "user_name": "bob"},
}
# Known limits: the graph depends on the number of tasks, and in a container anything may run.
NOT_THE_SAME = {"another number of tasks", "a container around it"}
# Kept apart by every key, whatever they share.
OTHERS: dict[str, tuple[Job, Job]] = {
    "another program under the same name": (BASE, edited("./halo", "./fft")),
    "a program that everybody's is called, of two cases": (
        edited("./halo", "./a.out", name="case1"),
        edited("./halo input_a", "./a.out input_b", name="case2"),
    ),
    "programs chosen by a variable of the job": (
        edited("./halo", "$1", name="run"),
        edited("./halo input_a.dat", "$1 input_b.dat", name="run"),
    ),
    "modules of one Python": (
        edited("./halo", "python3 -m pkg.halo"),
        edited("./halo", "python3 -m pkg.fft"),
    ),
    "scripts of one Python": (edited("./halo", "python3 halo.py"), edited("./halo", "python3 fft.py")),
    "the environment chosen by an option": (
        edited("#SBATCH --ntasks", "#SBATCH --export=APP=a\n#SBATCH --ntasks", name="run").copy(),
        edited("#SBATCH --ntasks", "#SBATCH --export=APP=b\n#SBATCH --ntasks", name="run").copy(),
    ),
}
for _job in OTHERS["the environment chosen by an option"]:
    _job["script"] = _job["script"].replace("./halo", "$APP")
KINDS = "snux"


def matching(start: Callable[..., Any], one: Job, other: Job) -> str:
    """Kinds of the keys that two jobs share."""
    controller = start()
    shared = set(controller.keys(**one)) & set(controller.keys(**other))
    return "".join(kind for kind in KINDS if any(key[0] == kind for key in shared))


def table(start: Callable[..., Any]) -> list[str]:
    """The rows of docs/job_submit.md."""
    rows = []
    for name, job in VARIATIONS.items():
        found = matching(start, BASE, job)
        cells = " | ".join("x" if kind in found else "" for kind in KINDS)
        rows.append(f"| {name} | {cells} |".replace("|  |", "| |").replace("|  |", "| |"))
    return rows


def test_the_table_of_the_document_is_what_happens(start: Callable[..., Any], project_root: Path) -> None:
    document = (project_root / "docs" / "job_submit.md").read_text().splitlines()
    head = document.index("| what changed | s | n | u | x |")
    end = document.index("", head)
    assert document[head + 2 : end] == table(start)


@pytest.mark.parametrize("name", sorted(set(VARIATIONS) - NOT_THE_SAME))
def test_the_program_is_recognised(start: Callable[..., Any], name: str) -> None:
    assert matching(start, BASE, VARIATIONS[name])


@pytest.mark.parametrize("name", OTHERS)
def test_different_programs_are_kept_apart(start: Callable[..., Any], name: str) -> None:
    assert matching(start, *OTHERS[name]) == ""
