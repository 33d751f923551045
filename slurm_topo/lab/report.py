"""What a lab says about itself: status, notes, logs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from slurm_topo.errors import LabError
from slurm_topo.lab import daemons, integrate, slurmconf, state
from slurm_topo.lab.cluster import Lab
from slurm_topo.lab.host import host_facts
from slurm_topo.lab.layout import LOGIN, TOP_SWITCH, Layout
from slurm_topo.lab.processes import members

FORMAT = "slurm-topo-lab-status"
VERSION = 1


def notes(lab: Lab) -> list[str]:
    """What the user should know about a lab that has come up."""
    layout, host = lab.layout, host_facts()
    found = integrate.missing_parts(layout)
    if slurmconf.task_plugin(layout, host) == "task/none":
        found.append(
            f"--cpus {layout.options.cpus} is more than this machine's {host.cpus}: Slurm binds no task here"
        )
    closed = closed_to_others(lab.folder)
    if closed:
        found.append(
            f"{closed}: other users cannot enter it, so only root can run jobs here; try another --dir"
        )
    return found


def closed_to_others(folder: Path) -> Path | None:
    """The first directory on the way to a folder that other users cannot enter."""
    ways = [*reversed(folder.parents), folder]
    return next((path for path in ways if path.exists() and not path.stat().st_mode & 0o001), None)


def hints(lab: Lab) -> str:
    """What to type next."""
    flag = "" if lab.folder == Path("lab").absolute() else f" --dir {lab.folder}"
    return (
        f"try:  slurm-topo lab run{flag} -- srun -N{lab.layout.options.nodes} hostname\n"
        f"logs: {lab.folder}/log   stop: slurm-topo lab down{flag}"
    )


def status(lab: Lab) -> dict[str, Any]:
    """State of the lab as JSON values.

    Raises
    ------
    LabError
        There is no lab in the folder.
    """
    layout, keeper, found = lab.layout, lab.keeper, state.read(lab.folder)
    processes = members(keeper) if keeper else []
    running = []
    for daemon in daemons.daemons(layout):
        process = daemons.find(daemon, processes)
        pid = process.pid if process else None
        running.append({"name": daemon.role, "host": daemon.host, "pid": pid, "log": str(daemon.log)})
    complete = keeper is not None and found is not None and found.complete
    alive = complete and all(daemon["pid"] for daemon in running)
    # Without one of these, sinfo only waits for half a minute.
    answers = all(daemon["pid"] for daemon in running if daemon["name"] in ("munged", "slurmctld"))
    states = lab.node_states(keeper) if keeper and complete and answers else {}
    return {
        "format": FORMAT,
        "version": VERSION,
        "folder": str(lab.folder),
        "state": "up" if alive else "broken" if keeper else "down",
        "network": layout.network,
        "options": layout.options.to_json(),
        "daemons": running,
        "nodes": [
            {"name": n.name, "address": n.address, "switch": n.switch, "cpus": layout.options.cpus}
            | {"state": states.get(n.name, "unknown")}
            for n in layout.nodes
        ],
        "links": links(layout),
        "paths": paths(layout),
    }


def links(layout: Layout) -> list[dict[str, str]]:
    """The links of the lab with their speeds."""
    options = layout.options
    found = [{"from": n.name, "to": n.switch, "speed": options.link_speed} for n in layout.nodes]
    uplink = options.uplink_speed if len(layout.switches) > 1 else "unlimited"
    found += [{"from": switch, "to": TOP_SWITCH, "speed": uplink} for switch in layout.switches]
    return [*found, {"from": LOGIN, "to": TOP_SWITCH, "speed": "unlimited"}]


def paths(layout: Layout) -> dict[str, str]:
    """Where things of the lab are."""
    found = {
        "logs": str(layout.folder / "log"),
        "slurm.conf": str(layout.etc("slurm.conf")),
        "accounting database": str(layout.folder / "db"),
    }
    if layout.options.integrate:
        found |= {
            "settings": str(layout.etc("slurm-topo.toml")),
            "history": str(layout.history),
            "spool": str(layout.spool),
            "advice": str(layout.advice),
            "kill switch": str(integrate.kill_switch(layout)),
        }
    return found


def _columns(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def table(values: dict[str, Any]) -> str:
    """The status for people."""
    options = values["options"]
    kind = "with slurm_topo" if options["integrate"] else "bare Slurm"
    daemon_rows: list[tuple[str, ...]] = [
        ("DAEMON", "PID"),
        *((d["name"], str(d["pid"] or "dead")) for d in values["daemons"]),
    ]
    node_rows = [("NODE", "ADDRESS", "SWITCH", "CPUS", "STATE")]
    node_rows += [(n["name"], n["address"], n["switch"], str(n["cpus"]), n["state"]) for n in values["nodes"]]
    link_rows = [("LINK", "", "SPEED"), *((x["from"], x["to"], x["speed"]) for x in values["links"])]
    path_rows = [("WHERE", ""), *values["paths"].items()]
    lines = [f"lab {values['folder']} is {values['state']} ({kind}, network {values['network']})"]
    for rows in (daemon_rows, node_rows, link_rows, path_rows):  # type: Sequence[tuple[str, ...]]
        lines += ["", *_columns(rows)]
    return "\n".join(lines)


def logs(lab: Lab, name: str | None, lines: int) -> str:
    """The list of logs, or the end of one.

    Raises
    ------
    LabError
        There is no such log.
    """
    folder = lab.layout.folder / "log"
    known = sorted(path.name.removesuffix(".log") for path in folder.glob("*.log"))
    if name is None:
        return "\n".join(
            _columns([("LOG", "BYTES", "FILE"), *(_log_row(folder / f"{n}.log") for n in known)])
        )
    if name not in known:
        raise LabError(f"log {name!r}: not there; known are {', '.join(known) or 'none'}")
    text = (folder / f"{name}.log").read_text(errors="replace").splitlines()
    return "\n".join(text[-lines:] if lines > 0 else text)


def _log_row(path: Path) -> tuple[str, str, str]:
    return path.name.removesuffix(".log"), str(os.path.getsize(path)), str(path)
