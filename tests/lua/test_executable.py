"""The program of a batch script is the command of its last launch line."""

from __future__ import annotations

import importlib

import pytest


@pytest.fixture(scope="module", params=["lua51", "lua54"])
def of_script(request, project_root):
    runtime = importlib.import_module(f"lupa.{request.param}").LuaRuntime()
    return runtime.execute(
        (project_root / "job_submit" / "slurm_topo" / "executable.lua").read_text()
    ).of_script


@pytest.mark.parametrize(
    ("line", "program"),
    [
        ("srun ./halo 40", "./halo"),
        ("srun -n 8 -N2 --cpu-bind=cores ./halo", "./halo"),
        ("srun --ntasks 8 --mpi pmix -l ./halo", "./halo"),
        ("srun -n8 -- ./halo", "./halo"),
        ("srun --exclusive --multi-prog conf", "conf"),
        ("/usr/bin/srun -K ./halo", "./halo"),
        ("mpirun -np 8 --map-by core --mca btl tcp,self -x OMP_NUM_THREADS ./halo", "./halo"),
        ("mpirun --bind-to none -H n1:4,n2:4 ./halo", "./halo"),
        ("mpiexec.hydra -ppn 4 -genv OMP_NUM_THREADS 2 -env A B ./halo x", "./halo"),
        ("mpiexec -n 4 ./ocean : -n 4 ./air", "./ocean"),
        ("time OMP_NUM_THREADS=2 srun ./halo", "./halo"),
        ("if true; then srun ./halo; fi", "./halo"),
        ("cd run && srun ./halo > out.txt 2>&1", "./halo"),
        ("(srun ./halo &)", "./halo"),
        ("srun 'my prog' -x", "my prog"),
        ("srun my\\ prog", "my prog"),
        ("srun \\\n  -n 8 \\\n  ./halo", "./halo"),
        ("srun python3 -u halo.py 40", "python3 halo.py"),
        ("srun /opt/py/bin/python3.11 halo.py", "python3.11 halo.py"),
        ("srun python3 -m pkg.halo", "python3 -m pkg.halo"),
        ("srun apptainer exec a.sif ./halo", "apptainer exec a.sif ./halo"),
        ("srun ./first\nsrun ./second\necho done", "./second"),
        ("srun ./halo\n# srun ./other\necho srun ./third", "./halo"),
        ("srun ./halo # srun ./other", "./halo"),
        ('srun "$HOME/bin/halo"', "$HOME/bin/halo"),
        ("APP=./halo\nsrun $APP 40", "./halo"),
        ('export APP="./halo"\nsrun "${APP}" 40', "./halo"),
        ("BIN=/opt/v2\nAPP=$BIN/halo\nsrun $APP", "/opt/v2/halo"),
        ("PY=python3\nsrun $PY halo.py", "python3 halo.py"),
        ("RUN='python3 -u halo.py'\nsrun $RUN 40", "python3 halo.py"),
        ("srun python3 -m pkg.halo in.dat", "python3 -m pkg.halo"),
        ("srun numactl -m 0 --cpunodebind=0 ./halo in.dat", "./halo"),
        ("srun env A=1 B=2 time nice -n 5 ./halo", "./halo"),
        ("srun taskset -c 0-3 ./halo", "./halo"),
        ("APP=halo\nMYAPP=fft\nsrun ./$APP", "./halo"),
    ],
)
def test_program_is_found(of_script, line, program):
    assert of_script(f"#!/bin/sh\n{line}\n") == program


@pytest.mark.parametrize(
    "line",
    [
        "./halo",
        "srun $APP",
        'srun "$HOME/bin/$NAME"',
        "srun `which halo`",
        "srun $(which halo)",
        "APP=./halo\nAPP=./fft\nsrun $APP",
        "APP=./halo\n[ -n x ] && APP=./fft\nsrun $APP",
        "for APP in ./halo ./fft; do\n srun $APP\ndone",
        "APP=./halo\nread APP < choice\nsrun $APP",
        "APP=${1:-./halo}\nsrun $APP",
        "APP=./halo srun $APP",
        "srun",
        "srun -n 8",
        "echo 'srun ./a",
        "# srun ./a",
        "run `x`",
    ],
)
def test_no_program_is_better_than_a_wrong_one(of_script, line):
    assert of_script(f"#!/bin/sh\n{line}\n") is None


def test_last_line_without_program_does_not_hide_an_earlier_one(of_script):
    assert of_script("srun ./halo\nsrun $CLEANUP\n") == "./halo"


def test_megabytes_of_rubbish_are_read_in_bounded_time(of_script):
    assert of_script("srun " * 13000) is None
    assert of_script("srun '\n" * 9000) is None


@pytest.mark.parametrize("lines", [1, 100, 500])
def test_last_launch_is_found_wherever_it_is_in_a_long_script(of_script, lines):
    """Also beyond the part that is looked at first, and where that part begins in its midst."""
    filler = "# a line of a job script, as long as such lines are\n"
    script = f"srun ./first\n{filler * lines}srun -n 8 \\\n  --mpi=pmix \\\n  ./halo\n{filler * 3}"
    assert of_script(script) == "./halo"
    for behind in range(4000, 4200):
        assert of_script(f"srun ./first\nsrun ./halo 40\n{'x' * behind}\n") == "./halo"
