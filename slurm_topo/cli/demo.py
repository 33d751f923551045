"""``slurm-topo demo``: the main job, end to end, in the lab.

The same unmodified batch scripts are submitted until their programs have been traced and placed; then the
report is shown. Everything is done by the commands that a person would type, each printed before it runs.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import click

from slurm_topo.cli.lab import folder_option
from slurm_topo.errors import LabError

SCRIPTS = ("halo3d.sh", "halo3d-mpi4py.sh")
_JOB_SECONDS = 300


@dataclass(frozen=True)
class Demo:
    """Where the demo works.

    Attributes
    ----------
    folder : Path
        The lab's folder.
    program : Path
        This command.
    """

    folder: Path
    program: Path

    @property
    def work(self) -> Path:
        """Folder of the programs, the batch scripts and their output."""
        return self.folder / "demo"

    @property
    def settings(self) -> Path:
        """Settings of the lab's slurm_topo."""
        return self.folder / "etc" / "slurm-topo.toml"

    def slurm_topo(self, *arguments: str) -> list[str]:
        """Command line of ours."""
        return [str(self.program), *arguments]

    def in_lab(self, *command: str) -> list[str]:
        """Command line that runs in the lab."""
        return self.slurm_topo("lab", "run", "--dir", str(self.folder), "--", *command)


@click.command()
@folder_option
@click.option(
    "--runs", default=4, show_default=True, type=click.IntRange(1, 20), help="Runs before and after."
)
def demo(folder: Path, runs: int) -> None:
    """Trace and place two programs in the lab, from unmodified batch scripts, and show what it was worth."""
    run = Demo(folder.absolute(), _own_command())
    start = time.monotonic()
    _title("1. A Slurm cluster: 4 nodes of 2 CPUs under 2 leaf switches, uplinks slower than node links")
    _show(run.slurm_topo("lab", "up", "--dir", str(run.folder)))
    _prepare(run)
    _title("2. The batch scripts, which nobody will change")
    for name in SCRIPTS:
        click.echo(f"--- {name}\n{(run.work / name).read_text(encoding='utf-8').rstrip()}")
    _title("3. sbatch: a program that is not known is traced, one that is known is placed")
    before = [_submit(run, name) for name in SCRIPTS for _ in range(runs)]
    _sync(run)
    after = before
    if any("traced" in line for line in before):
        _title("4. The same sbatch again")
        after = [_submit(run, name) for name in SCRIPTS for _ in range(runs)]
        _sync(run)
    _title("5. What it was worth: from Slurm's accounting, the traces and the plans")
    _show(run.slurm_topo("--config", str(run.settings), "report"))
    _finish(run, time.monotonic() - start)
    if not all("placed" in line for line in after):
        raise LabError(
            f"not every run was placed; the reasons are in {run.folder}/spool/{os.getuid()}/records "
            f"and {run.folder}/log/slurmctld.log"
        )


def _own_command() -> Path:
    """This command, or the one beside this Python when the demo was started as a module."""
    path = Path(shutil.which(sys.argv[0]) or sys.argv[0]).absolute()
    return path if path.name == "slurm-topo" else Path(sys.executable).parent / "slurm-topo"


def _typed(command: list[str]) -> str:
    """A command as a person in this folder would type it."""
    here = f"{Path.cwd()}/"
    return shlex.join(word.removeprefix(here) for word in command)


def _title(text: str) -> None:
    click.secho(f"\n{text}", bold=True)


def _show(
    command: list[str], capture: bool = False, env: dict[str, str] | None = None, cwd: Path | None = None
) -> str:
    """Print a command and run it; its output is shown, or returned."""
    click.echo(f"$ {_typed(command)}")
    sys.stdout.flush()
    done = subprocess.run(command, stdout=subprocess.PIPE if capture else None, text=True, env=env, cwd=cwd)
    if done.returncode:
        raise LabError(f"{_typed(command)}: ended with exit code {done.returncode}; its messages stand above")
    return done.stdout or ""


def _prepare(run: Demo) -> None:
    """Copy programs and scripts to the lab's folder; compile the C program."""
    run.work.mkdir(exist_ok=True)
    for name in ("halo3d.c", "halo3d.py", *SCRIPTS):
        text = (files("slurm_topo.lab") / "demo" / name).read_text(encoding="utf-8")
        if not (run.work / name).exists() or (run.work / name).read_text(encoding="utf-8") != text:
            (run.work / name).write_text(text, encoding="utf-8")
    if shutil.which("mpicc") is None:
        raise LabError("mpicc: not found; install it with: apt-get install libopenmpi-dev")
    binary = run.work / "halo3d"
    if not binary.exists() or binary.stat().st_mtime < (run.work / "halo3d.c").stat().st_mtime:
        _show(["mpicc", "-O2", "-o", str(binary), str(run.work / "halo3d.c"), "-lm"])


def _submit(run: Demo, script: str) -> str:
    """Submit a script, wait for it, and say in one line how it went."""
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    number = _show(
        run.in_lab("sbatch", "--parsable", script), capture=True, env=environment, cwd=run.work
    ).strip()
    job = number.split(";")[0]
    output = run.work / f"{script.removesuffix('.sh')}-{job}.out"
    state = _wait(run, job, output)
    if state != "COMPLETED":
        raise LabError(f"job {job} ended as {state}; see {output}")
    last = output.read_text(encoding="utf-8").strip().splitlines()[-1]
    line = f"job {job:>3} {_decision(run, job):>7}   {last}"
    click.echo(f"  {line}")
    return line


def _wait(run: Demo, job: str, output: Path) -> str:
    """Wait for a job to end; its state in Slurm."""
    end = time.monotonic() + _JOB_SECONDS
    while time.monotonic() < end:
        shown = _quiet(run, "scontrol", "show", "job", "-o", job)
        state = next(
            (w.removeprefix("JobState=") for w in shown.split() if w.startswith("JobState=")), "UNKNOWN"
        )
        if state not in ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING"):
            return state
        _progress(f"  job {job} {state.lower()}: {_last_line(output)}")
        time.sleep(0.5)
    raise LabError(f"job {job}: did not end within {_JOB_SECONDS} s; see {run.folder}/log/slurmctld.log")


def _quiet(run: Demo, *command: str) -> str:
    return subprocess.run(run.in_lab(*command), capture_output=True, text=True).stdout


def _last_line(output: Path) -> str:
    try:
        return output.read_text(encoding="utf-8").strip().splitlines()[-1]
    except (OSError, IndexError):
        return "..."


def _progress(text: str) -> None:
    """A line that the next one replaces, where somebody watches."""
    if sys.stdout.isatty():
        click.echo(f"\r\033[K{text[:100]}\r", nl=False)


def _decision(run: Demo, job: str) -> str:
    """What was done to a job: ``placed``, ``traced`` or ``as-is``, from what its launch left in the spool."""
    spool = run.folder / "spool" / str(os.getuid())
    records = [r.read_text(encoding="utf-8") for r in (spool / "records").glob(f"{job}.*.rec")]
    if any(
        '"where":"task"' in r.replace(" ", "") and '"decision":"place"' in r.replace(" ", "") for r in records
    ):
        return "placed"
    return "traced" if list((spool / "traces").glob(f"{job}.*.trace")) else "as-is"


def _sync(run: Demo) -> None:
    _show(run.in_lab(str(run.program), "--config", str(run.settings), "sync"))


def _finish(run: Demo, seconds: float) -> None:
    graphs = sorted((run.folder / "spool" / str(os.getuid()) / "graphs").glob("*.npz"))
    folder, settings = ["--dir", str(run.folder)], ["--config", str(run.settings)]
    click.secho("\nWhat to try next", bold=True)
    for command in (
        run.in_lab("sbatch", "--topo=off", "--chdir", str(run.work), str(run.work / "halo3d.sh")),
        run.slurm_topo("trace", "show", *[str(g) for g in graphs[:1]]),
        run.slurm_topo(*settings, "report", "--format", "html", "-o", str(run.folder / "report.html")),
    ):
        click.echo(f"  {_typed(command)}")
    click.echo(f"\nlogs      {run.folder}/log")
    click.echo(f"database  {run.folder}/history/history.sqlite")
    click.echo(f"stop      {_typed(run.slurm_topo('lab', 'down', *folder))}   (--purge deletes the folder)")
    click.echo(f"took      {seconds:.0f} s")
