"""How a lab's Slurm is told about slurm_topo: plugstack.conf, job_submit.lua, the settings file."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from slurm_topo.config import Settings
from slurm_topo.lab.layout import Layout
from slurm_topo.trace.library import LIBRARY_DIRS

PLUGIN = "slurm_topo.so"
_CHECKOUT = Path(__file__).resolve().parent.parent.parent
_LUA_DIRS = (
    _CHECKOUT / "job_submit",
    Path("/usr/share/slurm-topo/job_submit"),
    Path("/usr/local/share/slurm-topo/job_submit"),
)
# The search itself may take Settings.budget_s; the rest is the start of Python on busy cores.
_DEADLINE_MS = 10_000


def library_dir(asked: str) -> Path:
    """Where the plugin and the tracer are, or will be once they are built."""
    if asked:
        return Path(asked).absolute()
    return next((path for path in LIBRARY_DIRS if (path / PLUGIN).exists()), LIBRARY_DIRS[0])


def lua_dir() -> Path:
    """Where the modules of job_submit are."""
    return next((path for path in _LUA_DIRS if path.is_dir()), _LUA_DIRS[0])


def command() -> str:
    """Absolute path of ``slurm-topo``."""
    beside = Path(sys.executable).with_name("slurm-topo")
    return str(beside) if beside.exists() else shutil.which("slurm-topo") or str(beside)


def kill_switch(layout: Layout) -> Path:
    """The file that switches slurm_topo off in this lab."""
    return layout.etc("disabled")


def settings_toml(layout: Layout) -> str:
    """Text of the settings file: everything in the lab's folder, every job that can be placed is placed."""
    values = {
        "database": str(layout.history),
        "spool": str(layout.spool),
        "advice_dir": str(layout.advice),
        "library_dir": str(library_dir(layout.options.library_dir)),
        "local_dir": Settings.local_dir,
        "kill_switch": str(kill_switch(layout)),
        "arm": "enforce",
        "holdout": 0.0,
    }
    return "".join(
        f'{key} = "{value}"\n' if isinstance(value, str) else f"{key} = {value}\n"
        for key, value in values.items()
    )


def plugstack_conf(layout: Layout) -> str:
    """Text of plugstack.conf; nothing but a comment for a bare Slurm or without a built plugin."""
    if not layout.options.integrate:
        return "# A bare Slurm: no plugin.\n"
    libraries = library_dir(layout.options.library_dir)
    if not (libraries / PLUGIN).exists():
        # Slurm would say so at every srun.
        return f"# {libraries / PLUGIN} is not built; `slurm-topo lab up` looks again.\n"
    arguments = {
        "spool": layout.spool,
        "local_dir": Settings.local_dir,
        "tracer": libraries,
        "place": command(),
        "config": layout.etc("slurm-topo.toml"),
        "kill_switch": kill_switch(layout),
        "deadline_ms": _DEADLINE_MS,
    }
    words = " ".join(f"{name}={value}" for name, value in arguments.items())
    return f"optional {libraries / PLUGIN} {words}\n"


def missing_parts(layout: Layout) -> list[str]:
    """One line for each part of slurm_topo that has not been built."""
    if not layout.options.integrate:
        return []
    plugin = library_dir(layout.options.library_dir) / PLUGIN
    if plugin.exists():
        return []
    return [f"{plugin}: is not built, so jobs run without it; run `make native`, then `lab up` again"]
