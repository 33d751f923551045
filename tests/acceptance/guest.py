"""One run of the emulated machine: boot, start Slurm, run cases one after another, read what they left."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.acceptance.image import GUEST, build_image, run
from tests.acceptance.shape import Shape

WORK_MIB = 64
# Ten minutes on two free cores, many times that on busy ones; a machine that is not done by then is ended.
LIMIT_S = 3600
# So many times its limit may a case take on busy cores: a second in the machine is one outside.
BUSY = 4
JOB_SCRIPTS = ("ring.sh", "crowd.sh")


@dataclass(frozen=True)
class Case:
    """A shell script that runs in the machine as root; ``limit_s`` seconds at most, on free cores."""

    name: str
    script: str
    limit_s: int = 60


@dataclass(frozen=True)
class Outcome:
    """What a case said."""

    code: int
    stdout: str
    stderr: str


@dataclass(frozen=True)
class Results:
    """What a run left: outcomes by case, and the folder of files that the cases wrote to /media/work/out."""

    outcomes: Mapping[str, Outcome]
    out: Path


def run_guest(
    shape: Shape, config: Mapping[str, str], cases: Sequence[Case], folder: Path, limit_s: int = LIMIT_S
) -> Results:
    """Boot a machine, run the cases in their order, and power it off.

    Parameters
    ----------
    config
        Files below /etc by their path there.
    folder
        Where the disk, the console's log and the results go; what was there is lost.
    limit_s
        Seconds until the machine is ended whatever it does; its results so far are read all the same.

    Raises
    ------
    RuntimeError
        The machine did not come up; with the end of its console.
    """
    image, kernel = build_image()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    disk = _work_disk(folder, config, cases)
    console = folder / "console.log"
    argv = _command(shape, image, kernel, disk)
    with console.open("wb") as log:
        machine = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        try:
            machine.wait(timeout=limit_s)
        except subprocess.TimeoutExpired:
            log.write(f"\nended from outside after {limit_s} s\n".encode())
        finally:
            machine.kill()
            machine.wait()
    return _results(folder, disk, cases, console)


def _work_disk(folder: Path, config: Mapping[str, str], cases: Sequence[Case]) -> Path:
    tree, disk = folder / "in", folder / "work.ext4"
    (tree / "cases").mkdir(parents=True)
    for name, text in config.items():
        (tree / "etc" / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / "etc" / name).write_text(text)
    for script in ("start.sh", "library.sh"):
        shutil.copyfile(GUEST / script, tree / script)
    (tree / "jobs").mkdir()
    for script in JOB_SCRIPTS:
        shutil.copyfile(GUEST / script, tree / "jobs" / script)
    for case in cases:
        (tree / "cases" / f"{case.name}.sh").write_text(case.script)
        (tree / "cases" / f"{case.name}.limit").write_text(str(BUSY * case.limit_s))
    run("mke2fs", "-q", "-F", "-t", "ext4", "-O", "^has_journal", "-d", tree, disk, f"{WORK_MIB}M")
    return disk


def _command(shape: Shape, image: Path, kernel: Path, disk: Path) -> list[str]:
    # One host thread: virtual processors that spin give way to each other.
    head = "nice -n 5 qemu-system-x86_64 -accel tcg,thread=single -nic none -nographic -no-reboot"
    # By itself this processor is an old AMD one, in which the kernel looks for no hardware threads.
    head += " -cpu max,vendor=GenuineIntel,family=6,model=106,stepping=6"
    kernel_arguments = "root=/dev/nvme0n1 rw console=ttyS0 quiet panic=-1 init=/init.sh"
    # What emulation makes dear and nobody needs here.
    kernel_arguments += " mitigations=off tsc=reliable nowatchdog"
    command = [*head.split(), *shape.qemu_arguments(), "-kernel", str(kernel), "-append", kernel_arguments]
    for name, file, extra in (("root", image, ",snapshot=on"), ("work", disk, "")):
        command += ["-drive", f"file={file},format=raw,if=none,id={name}{extra}"]
        command += ["-device", f"nvme,drive={name},serial={name}"]
    return command


def _results(folder: Path, disk: Path, cases: Sequence[Case], console: Path) -> Results:
    out = folder / "out"
    run("debugfs", "-R", f"rdump /out {folder}", disk)
    if not (out / "start.rc").exists() or (out / "start.rc").read_text().strip() != "0":
        said = console.read_text(errors="replace")[-2000:]
        started = (
            (out / "start.log").read_text(errors="replace")[-2000:] if (out / "start.log").exists() else ""
        )
        raise RuntimeError(f"{folder}: the machine did not come up\n{said}\n{started}")
    outcomes = {}
    for case in cases:
        code = out / f"{case.name}.rc"
        texts = [out / f"{case.name}.{stream}" for stream in ("stdout", "stderr")]
        said_ = [t.read_text(errors="replace") if t.exists() else "" for t in texts]
        # A case that never ended has no code; 124 is what `timeout` says.
        outcomes[case.name] = Outcome(int(code.read_text()) if code.exists() else 124, said_[0], said_[1])
    return Results(outcomes, out)
