"""What is fixed before anything is compared: the method, as a file with a hash."""

from __future__ import annotations

import hashlib
import json
import tomllib
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from slurm_topo.errors import InputError

KEYS = ("program", "user", "account", "partition", "nodes", "ranks", "size")
COVARIATES = ("hour", "load", "size", "input", "clock")
ESTIMANDS = ("assigned", "placed", "calendar")
INFERENCES = ("programs", "runs")


@dataclass(frozen=True)
class Method:
    """The method of a comparison; every field is a key of the TOML file of ``--method``.

    Attributes
    ----------
    estimand : str
        ``assigned``: runs as their arm was drawn (those that stood down count as placed); ``placed``: only
        runs that really ran where a plan put them; ``calendar``: placed runs against all that were not,
        whether a graph was known or not (not drawn at random: a weaker design).
    key : tuple of str
        Runs are paired only where all of these are equal.
    adjust : tuple of str
        What the baseline model adjusts for, where it is known for every run.
    inference : str
        ``programs``: the programs are a sample of all (clusters are resampled); ``runs``: the claim is about
        these programs only.
    level : float
        Level of the confidence intervals.
    repetitions : int
        Bootstrap samples.
    seed : int
        Seed of the random generator.
    cv_rmse_limit, nmbe_limit : float
        The baseline model is accepted up to these (ASHRAE Guideline 14 for hourly data: 0.30 and 0.10).
    fewest_pairs, fewest_clusters : int
        Below these the verdict is "inconclusive".
    material : float
        A change of the time within plus or minus this is no material difference.
    target : float
        The saving for which the power is stated.
    shortest_s : float
        Shorter runs are left out (accounting counts whole seconds).
    exclude_traced : bool
        Leave runs out that carried the tracer.
    """

    estimand: str = "assigned"
    key: tuple[str, ...] = ("program", "user", "partition", "nodes", "ranks")
    adjust: tuple[str, ...] = COVARIATES
    inference: str = "programs"
    level: float = 0.95
    repetitions: int = 2000
    seed: int = 1
    cv_rmse_limit: float = 0.30
    nmbe_limit: float = 0.10
    fewest_pairs: int = 30
    fewest_clusters: int = 5
    material: float = 0.01
    target: float = 0.05
    shortest_s: float = 0.0
    exclude_traced: bool = True

    def text(self) -> str:
        """The method as canonical JSON."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))

    @property
    def digest(self) -> str:
        """SHA-256 of :meth:`text`."""
        return hashlib.sha256(self.text().encode()).hexdigest()


def read_method(path: str | Path) -> Method:
    """The method in a TOML file; a key that is not given has its default.

    Raises
    ------
    InputError
        The file cannot be read, a key is unknown or a value is out of range.
    """
    return make_method(read_toml(path), str(path))


def read_toml(path: str | Path) -> dict[str, Any]:
    """The keys of a TOML file.

    Raises
    ------
    InputError
        It cannot be read or is no TOML.
    """
    try:
        with Path(path).open("rb") as stream:
            return tomllib.load(stream)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); give another file") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: is not valid TOML ({error}); correct that line") from error


def make_method(values: dict[str, Any], origin: str) -> Method:
    """A method of these values, checked.

    Raises
    ------
    InputError
        A key is unknown, or a value has the wrong type or range.
    """
    known = {f.name: f for f in fields(Method)}
    made: dict[str, Any] = {}
    for key, value in values.items():
        if key not in known:
            raise InputError(f"{origin}: unknown key {key!r}; known are {', '.join(known)}")
        made[key] = _converted(key, value, known[key].default, origin)
    method = Method(**made)
    for key, value, allowed in (
        ("estimand", (method.estimand,), ESTIMANDS),
        ("inference", (method.inference,), INFERENCES),
        ("key", method.key, KEYS),
        ("adjust", method.adjust, COVARIATES),
    ):
        wrong = [v for v in value if v not in allowed]
        if wrong:
            raise InputError(f"{origin}: {key} = {wrong[0]!r} is unknown; allowed are {', '.join(allowed)}")
    if not 0.5 <= method.level < 1 or method.repetitions < 200 or not method.key:
        raise InputError(f"{origin}: level lies in 0.5 .. 1, repetitions is at least 200, key names a column")
    if not {"program", "user"} <= set(method.key):
        raise InputError(f"{origin}: key must hold program and user; runs of others are never comparable")
    return method


def _converted(key: str, value: Any, default: Any, origin: str) -> Any:
    if isinstance(default, tuple):
        if isinstance(value, list) and all(isinstance(v, str) for v in value):
            return tuple(value)
        raise InputError(
            f'{origin}: {key} = {value!r} is no list of words; write for example ["hour", "load"]'
        )
    if isinstance(default, bool) or isinstance(value, bool):
        good = isinstance(default, bool) and isinstance(value, bool)
    elif isinstance(default, float):
        good = isinstance(value, int | float) and 0 <= value < float("inf")
        value = float(value) if good else value
    elif isinstance(default, int):
        good = isinstance(value, int) and value >= 0
    else:
        good = isinstance(value, str)
    if not good:
        raise InputError(f"{origin}: {key} = {value!r} is not possible; write for example {default!r}")
    return value
