"""What is published: advice files, the site file, and graphs in the spool folders of their users."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from sqlalchemy import Connection, func, select

from slurm_topo.config import ARMS, Settings
from slurm_topo.errors import HistoryError
from slurm_topo.history.schema import graphs, jobs, program_keys, programs
from slurm_topo.history.sync import packing
from slurm_topo.history.sync.scaled import Scaled, scaled_advice
from slurm_topo.output import write_whole

# Programs that nobody ran for this long have no advice; a graph as old is traced again.
FORGET_S = 180 * 86400
_FOLDER = re.compile(r"^[0-9a-f]{2}$")
_KEY = re.compile(r"^[snux][0-9a-f]{22}$")
# A program that was traced so often and showed no MPI traffic is not traced for a month.
_TRIES, _PAUSE_S = 3, 30 * 86400


@dataclass(frozen=True)
class Advice:
    """One advice file (docs/formats.md)."""

    key: str
    program: int
    graph: str | None
    ranks: int | None
    arm: str
    holdout: float
    trace: bool
    variant: str = ""
    trial: float = 0.0


def format_advice(advice: Advice) -> str:
    """Text of an advice file."""
    lines = ["slurm-topo-advice 1", f"key {advice.key}", f"program {advice.program}"]
    if advice.graph:
        lines.append(f"graph {advice.graph}")
    if advice.ranks:
        lines.append(f"ranks {advice.ranks}")
    if advice.variant:
        lines += [f"variant {advice.variant}", f"trial {format_share(advice.trial)}"]
    lines += [f"arm {advice.arm}", f"holdout {format_share(advice.holdout)}"]
    lines += [f"trace {int(advice.trace)}", "end"]
    return "\n".join(lines) + "\n"


def format_site(settings: Settings) -> str:
    """Text of the file for programs without advice."""
    lines = [
        "slurm-topo-advice 1",
        f"arm {settings.arm}",
        f"holdout {format_share(settings.holdout)}",
        "trace 1",
        "end",
    ]
    return "\n".join(lines) + "\n"


def format_share(value: float) -> str:
    return f"{value:.6f}".rstrip("0").rstrip(".") or "0"


def make_advice(connection: Connection, settings: Settings, now: int) -> list[Advice]:
    """Advice for every key that was seen lately: of the newest program behind it.

    The key of an executable belongs to the account: its graph is the newest that any user of the account
    has, and a run that only this key recognises is traced as well.
    """
    rows = connection.execute(
        select(program_keys.c.fingerprint, program_keys.c.last_seen, programs)
        .join(programs, programs.c.id == program_keys.c.program_id)
        .where(program_keys.c.last_seen >= now - FORGET_S)
        .order_by(program_keys.c.last_seen, programs.c.id)
    ).mappings()
    choice = packing.with_choice(connection) if settings.packing == "learn" else set()
    stale, silent = _stale_programs(connection, now), _silent_programs(connection, now)
    ranks = {row.digest: row.ranks for row in connection.execute(select(graphs.c.digest, graphs.c.ranks))}
    chosen: dict[str, Advice] = {}
    arms: dict[int, str | None] = {}
    for row in rows:
        arms[row["id"]] = row["arm"]
        key, graph = row["fingerprint"], row["graph"]
        loose = key.startswith("x")
        if loose and key in chosen and chosen[key].graph and not graph:
            continue
        chosen[key] = Advice(
            key=key,
            program=row["id"],
            graph=graph,
            ranks=ranks.get(graph) if graph else row["ranks"],
            arm=_lowest(settings.arm, row["arm"]),
            holdout=settings.holdout,
            trace=row["id"] not in silent and (loose or graph is None or row["id"] in stale),
            variant=(row["variant"] or packing.DEFAULT) if row["id"] in choice else "",
            trial=settings.trial,
        )
    for found in scaled_advice(connection, settings, now - FORGET_S):
        _advise_scaled(chosen, found, settings, arms.get(found.program))
    return sorted(chosen.values(), key=lambda a: a.key)


def _advise_scaled(chosen: dict[str, Advice], found: Scaled, settings: Settings, arm: str | None) -> None:
    """A predicted graph, for as long as the program has no traced one at that number of ranks."""
    known = chosen.get(found.key)
    if known and known.graph:
        return
    # All keys of the program that has run there without being traced to its end.
    same = [a for a in chosen.values() if known and a.program == known.program and a.key[0] != "x"]
    for advice in same:
        chosen[advice.key] = replace(advice, graph=found.graph, ranks=found.ranks, trace=True)
    if not known:
        chosen[found.key] = Advice(
            key=found.key,
            program=found.program,
            graph=found.graph,
            ranks=found.ranks,
            arm=_lowest(settings.arm, arm),
            holdout=settings.holdout,
            trace=True,
            trial=settings.trial,
        )


def _lowest(site: str, program: str | None) -> str:
    return min(site, program or site, key=ARMS.index)


def _stale_programs(connection: Connection, now: int) -> set[int]:
    """Programs whose newest placeable run stood down because the graph did not fit, or whose graph is old."""
    newest = (
        select(jobs.c.program_id, func.max(jobs.c.submitted).label("submitted"))
        .where(jobs.c.decision.in_(("place", "stand-down")), jobs.c.program_id.is_not(None))
        .group_by(jobs.c.program_id)
        .subquery()
    )
    misfit = (
        select(jobs.c.program_id)
        .join(newest, (newest.c.program_id == jobs.c.program_id) & (newest.c.submitted == jobs.c.submitted))
        .where(
            jobs.c.decision == "stand-down", (jobs.c.reason == "ranks") | jobs.c.reason.startswith("graph")
        )
    )
    old = (
        select(programs.c.id)
        .join(graphs, graphs.c.digest == programs.c.graph)
        .where(graphs.c.first_seen < now - FORGET_S)
    )
    return {*connection.execute(misfit).scalars(), *connection.execute(old).scalars()}


def _silent_programs(connection: Connection, now: int) -> set[int]:
    """Programs that were traced to their end again and again without a graph: no MPI, or nothing sent."""
    query = (
        select(jobs.c.program_id)
        .join(programs, programs.c.id == jobs.c.program_id)
        .where(programs.c.graph.is_(None), jobs.c.decision == "trace", jobs.c.state == "COMPLETED")
        .where(jobs.c.final == 1, jobs.c.submitted >= now - _PAUSE_S)
        .group_by(jobs.c.program_id)
        .having(func.count() >= _TRIES)
    )
    return set(connection.execute(query).scalars())


def wanted_graphs(connection: Connection, settings: Settings, now: int) -> dict[int, set[str]]:
    """Digests of the graphs that each user's spool should hold.

    These are the graphs of the own programs, and those that an executable's key may name to the users of its
    account.
    """
    found: dict[int, set[str]] = defaultdict(set)
    recent = programs.c.last_seen >= now - FORGET_S
    own = select(programs.c.uid, programs.c.graph).where(
        programs.c.uid.is_not(None), programs.c.graph.is_not(None), recent
    )
    for uid, graph in connection.execute(own):
        found[uid].add(graph)
    members = (
        select(jobs.c.account, jobs.c.uid)
        .where(jobs.c.uid.is_not(None), jobs.c.account != "", jobs.c.submitted >= now - FORGET_S)
        .distinct()
    )
    users: dict[str, set[int]] = defaultdict(set)
    for account, uid in connection.execute(members):
        users[account].add(uid)
    loose = (
        select(programs.c.account, programs.c.graph)
        .join(program_keys, program_keys.c.program_id == programs.c.id)
        .where(program_keys.c.fingerprint.startswith("x"), programs.c.graph.is_not(None), recent)
        .distinct()
    )
    for account, graph in connection.execute(loose):
        for uid in users.get(account, ()):
            found[uid].add(graph)
    for predicted in scaled_advice(connection, settings, now - FORGET_S):
        found[predicted.uid].add(predicted.graph)
    return found


def publish(directory: Path, advice: Mapping[str, str], site: str) -> tuple[int, int]:
    """Make the advice directory hold exactly these files; returns how many were written and removed.

    Each file is renamed into place: whoever reads sees the old or the new one.

    Raises
    ------
    HistoryError
        The directory cannot be written.
    """
    try:
        _make_folder(directory)
        wanted = {Path(key[1:3]) / key: text for key, text in advice.items()}
        written = sum(_write_if_new(directory / path, text) for path, text in sorted(wanted.items()))
        # Last: before it is there, nothing is placed.
        written += _write_if_new(directory / "site", site)
        return written, _remove_others(directory, set(wanted))
    except OSError as error:
        raise HistoryError(
            f"{directory}: advice cannot be written ({error.strerror}); check its owner and space"
        ) from error


def _write_if_new(path: Path, text: str) -> bool:
    content = text.encode("ascii")
    try:
        if path.read_bytes() == content:
            return False
    except (FileNotFoundError, NotADirectoryError):
        pass
    _make_folder(path.parent)
    write_whole(path, content, mode=0o644, plain=True)
    return True


def _make_folder(folder: Path) -> None:
    """A folder that slurmctld's user can enter, whatever the umask of sync is."""
    if not folder.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755)


def _remove_others(directory: Path, wanted: set[Path]) -> int:
    """Remove advice that does not hold any more, and temporary files of a sync that was killed."""
    removed = 0
    for folder in directory.iterdir():
        if folder.name.startswith(".site."):
            folder.unlink()
        if not _FOLDER.match(folder.name) or folder.is_symlink() or not folder.is_dir():
            continue
        for file in folder.iterdir():
            ours = _KEY.match(file.name) and Path(folder.name) / file.name not in wanted
            if ours or file.name.startswith("."):
                file.unlink()
                removed += 1
    return removed
