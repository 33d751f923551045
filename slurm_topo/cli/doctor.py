"""``slurm-topo doctor``: is everything as it has to be?"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import click

from slurm_topo.cli.emit import emit

if TYPE_CHECKING:
    from slurm_topo.doctor.check import Checkup

FORMAT = "slurm-topo-doctor"
VERSION = 1


@click.command("doctor", short_help="Check Slurm's files and ours against the hardware.")
@click.option("--slurm-conf", metavar="FILE", help="Default: $SLURM_CONF, else /etc/slurm/slurm.conf.")
@click.option(
    "--hardware",
    metavar="FOLDER",
    help="NODE.xml files of `slurm-topo machine capture`, beside this machine.",
)
@click.option(
    "--probe", is_flag=True, help="Ask all nodes, in a job of a few seconds, whether they see our files."
)
@click.option("--offline", is_flag=True, help="Start no Slurm command.")
@click.option("--format", "format_", type=click.Choice(["table", "json"]), default="table", show_default=True)
@click.option("-o", "--output", metavar="FILE", help="Write there instead of standard output.")
@click.pass_context
def doctor(
    ctx: click.Context,
    slurm_conf: str | None,
    hardware: str | None,
    probe: bool,
    offline: bool,
    format_: str,
    output: str | None,
) -> None:
    """Check slurm.conf, gres.conf, topology.conf, cgroup.conf, plugstack.conf and job_submit.lua.

    They are held against the hardware that hwloc sees and against what slurm_topo needs. One line a finding:
    what it is, why it matters, what to write. Exit code: 0 all is well, 1 warnings, 2 errors. It changes
    nothing.
    """
    from slurm_topo.config import DEFAULT_FILE, load_settings
    from slurm_topo.doctor.check import check
    from slurm_topo.doctor.finding import exit_code
    from slurm_topo.slurm.command import run_command

    if probe and offline:
        raise click.UsageError("--probe starts a job; leave --offline out")
    file = (ctx.obj or {}).get("config_file")
    settings = load_settings(file)
    found = check(
        settings,
        slurm_conf,
        hardware,
        file or (str(DEFAULT_FILE) if DEFAULT_FILE.exists() else None),
        probe,
        None if offline else run_command,
    )
    emit(_as_json(found) if format_ == "json" else _as_table(found), output)
    sys.exit(exit_code(list(found.findings)))


def _as_json(found: Checkup) -> str:
    return (
        json.dumps(
            {
                "format": FORMAT,
                "version": VERSION,
                "slurm_conf": found.slurm_conf,
                "nodes": found.nodes,
                "hardware": list(found.seen),
                "findings": [finding.__dict__ for finding in found.findings],
            }
        )
        + "\n"
    )


def _as_table(found: Checkup) -> str:
    counts = {s: sum(f.severity == s for f in found.findings) for s in ("error", "warning", "note")}
    said = ", ".join(f"{n} {s}{'' if n == 1 else 's'}" for s, n in counts.items())
    base = f"hardware of {len(found.seen)} of {found.nodes} nodes known"
    lines = [finding.line() for finding in found.findings]
    return "\n".join([*lines, f"{found.slurm_conf}: {said}; {base}"]) + "\n"
