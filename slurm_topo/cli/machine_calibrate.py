"""``slurm-topo machine calibrate``: run the ping-pong on the nodes and store what the levels cost."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import click

from slurm_topo.errors import InputError, LaunchError
from slurm_topo.machine import Cluster, read_cluster, read_machine, write_cluster
from slurm_topo.machine.build import build_machine
from slurm_topo.machine.calibrate import (
    CalibrationPlan,
    LevelFit,
    choose_pairs,
    fit_levels,
    parse_results,
    plan_text,
)
from slurm_topo.machine.calibrate.fit import measured_levels, oddities
from slurm_topo.machine.read import kind_of
from slurm_topo.model import Machine
from slurm_topo.output import check_output
from slurm_topo.units import expand_hostlist, format_rate

_SOURCE = Path(__file__).resolve().parent.parent / "machine" / "calibrate" / "pingpong.c"


@dataclass(frozen=True)
class CalibrateOptions:
    """What the command line asks for."""

    source: str
    nodes: str
    pairs: int
    launch: str
    compiler: str
    work: str
    output: str
    timeout: float
    form: str


def run_calibrate(options: CalibrateOptions) -> None:
    """Measure, print the table or JSON, and write the description where one is asked for."""
    cluster = (
        read_cluster(options.source) if options.source and kind_of(options.source) == "cluster" else None
    )
    if options.output and cluster is None:
        raise InputError(f"{options.output}: only a cluster description keeps costs; name one as SOURCE")
    if options.output:
        check_output(options.output)
    host = socket.gethostname().partition(".")[0]
    machine = _machine(options, cluster)
    plan = choose_pairs(machine, options.pairs, host)
    times, unbound = parse_results(_run(options, plan, plan_text(plan, machine, host)))
    fits = fit_levels(plan, times)
    _print(options, plan, fits, unbound)
    if options.output and cluster is not None:
        write_cluster(_with_levels(cluster, plan, fits), options.output)
        click.echo(f"{options.output}: costs of {len(fits)} levels are measured now", err=True)


def _machine(options: CalibrateOptions, cluster: Cluster | None) -> Machine:
    if cluster is not None:
        return cluster.machine(expand_hostlist(options.nodes) if options.nodes else None)
    if options.source:
        return read_machine(options.source)
    from slurm_topo.hwloc import reader
    from slurm_topo.machine.local import node_class

    return build_machine([""], [node_class(reader.load_this_machine())], [], {})


def _run(options: CalibrateOptions, plan: CalibrationPlan, text: str) -> str:
    """Output of the ping-pong on the nodes of the plan."""
    # Several nodes must see the folder; the present one is the best guess.
    base = options.work or (os.getcwd() if len(plan.hosts) > 1 else None)
    try:
        folder = Path(tempfile.mkdtemp(prefix=".slurm-topo-calibrate-", dir=base))
    except OSError as error:
        raise InputError(
            f"{base}: cannot be written ({error.strerror}); choose another folder with --work"
        ) from error
    try:
        program = _compile(options.compiler, folder)
        (folder / "plan").write_text(text, encoding="ascii")
        command = [*_launcher(options, plan), str(program), str(folder / "plan")]
        return _output(command, options.timeout)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _compile(compiler: str, folder: Path) -> Path:
    program = folder / "pingpong"
    _output([*shlex.split(compiler), "-std=c11", "-O2", "-o", str(program), str(_SOURCE)], 120.0)
    return program


def _launcher(options: CalibrateOptions, plan: CalibrationPlan) -> list[str]:
    """What starts the ranks: as many on every node as the busiest needs."""
    nodes, ranks = len(plan.hosts), len(plan.hosts) * plan.per_node
    words = {"nodes": nodes, "ranks": ranks, "per_node": plan.per_node, "hosts": ",".join(plan.hosts)}
    if options.launch:
        try:
            return [part.format(**words) for part in shlex.split(options.launch)]
        except (KeyError, IndexError, ValueError) as error:
            raise InputError(
                f"--launch {options.launch!r}: {error}; known are {{nodes}} {{ranks}} {{per_node}} {{hosts}}"
            ) from error
    if nodes > 1 or os.environ.get("SLURM_JOB_ID"):
        shape = [f"--nodes={nodes}", f"--ntasks={ranks}", f"--ntasks-per-node={plan.per_node}"]
        return ["srun", *shape, f"--nodelist={','.join(plan.hosts)}", "--cpu-bind=none"]
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    return ["mpirun", *root, "--oversubscribe", "--bind-to", "none", "-n", str(ranks)]


def _output(command: list[str], seconds: float) -> str:
    """Standard output of a command.

    Raises
    ------
    LaunchError
        It is missing, fails, or takes too long; the message holds the last line of its stderr.
    """
    environment = {**os.environ, "SLURM_TOPO": "off"}
    try:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            start_new_session=True,
        )
    except OSError as error:
        raise LaunchError(
            f"{command[0]}: cannot be started ({error.strerror}); install it, or see --launch and --compiler"
        ) from error
    try:
        output, messages = child.communicate(timeout=seconds)
    except subprocess.TimeoutExpired as error:
        raise LaunchError(f"{command[0]}: took longer than {seconds:.0f} s; raise --timeout") from error
    finally:
        _end(child)
    if child.returncode:
        last = (messages.strip().splitlines() or ["no message"])[-1]
        raise LaunchError(
            f"{shlex.join(command)[:120]}: failed with {child.returncode} ({last[:200]}); run it by hand"
        )
    return output


def _end(child: subprocess.Popen[str]) -> None:
    """End the launcher and what it started; a launcher that is asked first cleans up its other nodes."""
    for number, seconds in ((signal.SIGTERM, 5.0), (signal.SIGKILL, None)):
        if child.poll() is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(seconds)


def _method(plan: CalibrationPlan) -> str:
    return f"MPI ping-pong, {len(plan.ranks)} ranks on {len(plan.hosts)} nodes"


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).replace(microsecond=0).isoformat()


def _with_levels(cluster: Cluster, plan: CalibrationPlan, fits: list[LevelFit]) -> Cluster:
    """The cluster with measured levels in place of those of the same name."""
    measured = measured_levels(fits, _now(), _method(plan))
    names = {level.name for level in measured}
    kept = [level for level in cluster.levels if level.name not in names]
    return replace(cluster, levels=(*kept, *measured))


def _print(options: CalibrateOptions, plan: CalibrationPlan, fits: list[LevelFit], unbound: int) -> None:
    notes = oddities(fits)
    if unbound:
        notes.append(
            f"{unbound} ranks could not be bound to their core; levels inside a node are not told apart"
        )
    if options.form == "json":
        document = {
            "format": "slurm-topo-calibration",
            "version": 1,
            "date": _now(),
            "method": _method(plan),
            "hosts": list(plan.hosts),
            "levels": [asdict(fit) for fit in fits],
            "skipped": list(plan.skipped),
            "notes": notes,
        }
        click.echo(json.dumps(document, indent=1))
        return
    click.echo(_table(fits))
    for note in notes:
        click.echo(f"slurm-topo: note: {note}", err=True)


def _table(fits: list[LevelFit]) -> str:
    rows = [["level", "latency", "one pair", "pairs", "share of a pair", "together", "spread"]]
    for fit in fits:
        rates = [format_rate(value) for value in (fit.one_pair, fit.share, fit.total)]
        times = [fit.name, f"{fit.latency_s * 1e6:.2f} us", rates[0], str(fit.pairs)]
        rows.append([*times, rates[1], rates[2], f"{100 * fit.spread:.0f} %"])
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join("  ".join(c.ljust(w) for c, w in zip(r, widths, strict=True)).rstrip() for r in rows)
