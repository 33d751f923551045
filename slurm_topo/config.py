"""Settings: defaults < TOML file < SLURM_TOPO_* environment < flags. An unknown key is an error."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from slurm_topo.errors import ConfigError

DEFAULT_FILE = Path("/etc/slurm-topo/slurm-topo.toml")
ARMS = ("off", "observe", "advise", "enforce")
# How ranks that leave cores free lie over the memory domains of a node.
VARIANTS = ("spread", "packed")
# What a placement at launch minimises.
OBJECTIVES = ("sum", "load", "auto")
_WORDS = {
    "arm": ARMS,
    "packing": ("learn", *VARIANTS),
    "objective": OBJECTIVES,
    "accounting": ("sacct", "pyslurm"),
    "memory": ("preferred", "strict", "interleave", "hbm", "none"),
}
_PREFIX = "SLURM_TOPO_"
# Variables of the job path share the prefix and are no settings.
_NOT_SETTINGS = (
    "SLURM_TOPO_JOB_",
    "SLURM_TOPO_CONFIG",
    "SLURM_TOPO_SHARED",
    "SLURM_TOPO_LAB_DIR",
    "SLURM_TOPO_REQUIRE_LAB",
)


@dataclass(frozen=True)
class Settings:
    """What a site decides; every field is a key of the TOML file and a variable ``SLURM_TOPO_<KEY>``.

    Attributes
    ----------
    database : str
        SQLAlchemy URL of the history, or a path of a SQLite file.
    spool : str
        Directory visible on all nodes, mode 1777; one folder per numeric uid below it.
    advice_dir : str
        Directory of the advice files, readable by slurmctld.
    cluster : str
        Cluster description (docs/formats.md) that launches are placed on; empty: ``<spool>/cluster.json``.
    library_dir : str
        Where the tracer libraries are; empty: searched beside the package and in /usr/lib/slurm-topo.
    local_dir : str
        Node-local directory of the counters.
    kill_switch : str
        While this file exists every part stands down.
    arm : str
        The most that may be done to a job: off, observe, advise or enforce.
    holdout : float
        Share of the placeable jobs (0..1) that stay in ``observe`` so that the effect can be measured.
    packing : str
        Fewer ranks than cores: ``spread`` over the memory domains of a node, ``packed`` into few of them, or
        ``learn``: spread until the program's own times show that packed is faster.
    trial : float
        Share of the placed jobs (0..1) that try the other way while ``packing`` learns.
    memory : str
        Memory policy of placed ranks: ``preferred`` (the NUMA nodes of their cores first), ``strict`` (these
        only), ``interleave`` (page by page over these), ``hbm`` (the high-bandwidth memory next to them
        first) or ``none``.
    margin : float
        A placement is applied only if its cost is below (1 - margin) times the baseline's.
    scale_confidence : float
        A program that is new at its number of ranks is placed with a graph predicted from another one,
        where that is at least as sure as this (0..1); 1: never.
    budget_s : float
        Seconds that the search at launch may take.
    ahead_s : float
        Seconds of a pass of sync for placements ahead of time, at the lowest priority; 0: none.
    objective : str
        What a launch minimises: sum, load or auto (docs/placement.md).
    accounting : str
        What sync reads accounting with: sacct, or pyslurm where it is installed and of Slurm's release.
    """

    database: str = "/var/lib/slurm-topo/history.sqlite"
    spool: str = "/var/spool/slurm-topo"
    advice_dir: str = "/var/lib/slurm-topo/advice"
    cluster: str = ""
    library_dir: str = ""
    local_dir: str = "/dev/shm"
    kill_switch: str = "/etc/slurm-topo/disabled"
    arm: str = "observe"
    holdout: float = 0.1
    packing: str = "learn"
    trial: float = 0.1
    memory: str = "preferred"
    margin: float = 0.02
    scale_confidence: float = 0.8
    budget_s: float = 0.3
    ahead_s: float = 60.0
    objective: str = "auto"
    accounting: str = "sacct"

    @property
    def cluster_file(self) -> Path:
        """The cluster description that launches are placed on."""
        return Path(self.cluster) if self.cluster else Path(self.spool) / "cluster.json"

    def user_spool(self, uid: int) -> Path:
        """The user's own folder in the spool."""
        return Path(self.spool) / str(uid)


def load_settings(
    file: str | os.PathLike[str] | None = None,
    environ: Mapping[str, str] | None = None,
    **flags: Any,
) -> Settings:
    """Settings from all sources.

    Parameters
    ----------
    file
        TOML file; it must exist when given. None: the default file, if it is there.
    environ
        Environment, ``os.environ`` by default.
    flags
        Command line flags by key; None means not given.

    Raises
    ------
    ConfigError
        The file is missing or malformed, a key is unknown, a value has the wrong type or range.
    """
    settings = Settings()
    path = Path(file) if file else DEFAULT_FILE
    if file or path.exists():
        settings = _apply(settings, _read_toml(path), str(path))
    env = os.environ if environ is None else environ
    found = {
        name[len(_PREFIX) :].lower(): value
        for name, value in env.items()
        if name.startswith(_PREFIX) and not name.startswith(_NOT_SETTINGS)
    }
    settings = _apply(settings, found, "the environment")
    return _apply(settings, {k: v for k, v in flags.items() if v is not None}, "the command line")


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as stream:
            return tomllib.loads(stream.read().decode("utf-8-sig"))
    except OSError as error:
        raise ConfigError(
            f"{path}: cannot be read ({error.strerror}); give another file with --config"
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: is not valid TOML ({error}); correct that line") from error


def _apply(settings: Settings, values: Mapping[str, Any], origin: str) -> Settings:
    known = {f.name: f.type for f in fields(Settings)}
    for key, value in values.items():
        if key not in known:
            raise ConfigError(f"{origin}: unknown setting {key!r}; known are {', '.join(sorted(known))}")
        settings = replace(settings, **{key: _convert(key, value, str(known[key]), origin)})
    return settings


def _convert(key: str, value: Any, kind: str, origin: str) -> Any:
    if kind == "float":
        try:
            number = float(value)
        except (TypeError, ValueError):
            raise ConfigError(f"{origin}: {key} = {value!r} is not a number; write for example 0.1") from None
        top = 1.0 if key in ("holdout", "trial", "margin", "scale_confidence") else float("inf")
        if not 0.0 <= number <= top:
            raise ConfigError(f"{origin}: {key} = {value!r} is out of range; it lies between 0 and {top}")
        return number
    if not isinstance(value, str):
        raise ConfigError(f"{origin}: {key} = {value!r} is not a string; put it in quotes")
    if value not in _WORDS.get(key, (value,)):
        raise ConfigError(f"{origin}: {key} = {value!r} is unknown; it is one of {', '.join(_WORDS[key])}")
    return value
