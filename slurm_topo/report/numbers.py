"""The figures of a report, as plain frozen dataclasses that every renderer reads."""

from __future__ import annotations

from dataclasses import dataclass

from slurm_topo.report.values import Value

FORMAT, VERSION = "slurm-topo-report", 1


@dataclass(frozen=True)
class ArmFigures:
    """Runs and times of one program in one arm.

    Attributes
    ----------
    arm : str
        off, observe, advise, enforce; "-" for runs that the submit hook did not see.
    runs, completed, placed : int
        All runs; those that ended well; those that ran where we put them.
    time : Value
        Median seconds of the completed runs; the interval holds their quartiles.
    """

    arm: str
    runs: int
    completed: int
    placed: int
    time: Value


@dataclass(frozen=True)
class VariantFigures:
    """Runs of one program whose ranks left cores free and lay in one of the two ways on their nodes.

    Attributes
    ----------
    variant : str
        spread or packed.
    runs, completed : int
        All of them; those that ended well.
    time : Value
        Median seconds of the completed runs; the interval holds their quartiles.
    """

    variant: str
    runs: int
    completed: int
    time: Value


@dataclass(frozen=True)
class LevelFigures:
    """Bytes of one run that have their lowest common level here.

    Attributes
    ----------
    level : str
        Name of the level (``core`` .. ``switch2``).
    depth : int
        0 is the innermost.
    before, after : Value
        Bytes under the baseline and as the ranks ran.
    """

    level: str
    depth: int
    before: Value
    after: Value


@dataclass(frozen=True)
class ProgramFigures:
    """One program.

    Attributes
    ----------
    program : int
        Its number in the history.
    name, user, account : str
        What it is called and whose it is.
    ranks : int
        MPI ranks (0: not known).
    runs : int
        Runs in the window.
    fates : tuple of (str, int)
        What became of them; the counts add up to ``runs``.
    arms : tuple of ArmFigures
        In the order off, observe, advise, enforce.
    levels : tuple of LevelFigures
        Innermost first.
    cost_before, cost_after : Value
        Predicted seconds of communication, Slurm alone and placed (as it would be, where no run was placed).
    time_before, time_after : Value
        Median seconds of completed runs, not placed and placed; the interval holds their quartiles.
    saving : Value
        1 - time after / time before (ratio), with its confidence interval.
    node_hours : Value
        Node-hours of all runs.
    saved : Value
        Node-hours saved by the runs that were placed.
    stood_down : tuple of (str, int)
        Reasons why runs were left alone, most frequent first.
    switched_back : str
        Why placing was ended for this program; empty: it was not.
    variants : tuple of VariantFigures
        Runs whose ranks could be spread or packed; empty: every core has a rank.
    variant, variant_reason : str
        The way in use (spread, packed) and why; empty where there is no choice.
    """

    program: int
    name: str
    user: str
    account: str
    ranks: int
    runs: int
    fates: tuple[tuple[str, int], ...]
    arms: tuple[ArmFigures, ...]
    levels: tuple[LevelFigures, ...]
    cost_before: Value
    cost_after: Value
    time_before: Value
    time_after: Value
    saving: Value
    node_hours: Value
    saved: Value
    stood_down: tuple[tuple[str, int], ...]
    switched_back: str
    variants: tuple[VariantFigures, ...] = ()
    variant: str = ""
    variant_reason: str = ""


@dataclass(frozen=True)
class GroupFigures:
    """A user, an account, a partition or a week.

    Attributes
    ----------
    name : str
        Its name; a week by its ISO number (``2026-W49``).
    runs, placed : int
        Runs, and those that ran where we put them.
    node_hours, saved : Value
        Node-hours of all runs, and those saved.
    """

    name: str
    runs: int
    placed: int
    node_hours: Value
    saved: Value


@dataclass(frozen=True)
class Notice:
    """A program worth a look.

    Attributes
    ----------
    program : int
        Its number.
    name, user : str
        What it is called and whose it is.
    node_hours : Value
        Node-hours of all its runs.
    why : str
        What there is to see.
    """

    program: int
    name: str
    user: str
    node_hours: Value
    why: str


@dataclass(frozen=True)
class Report:
    """Everything that a report says.

    Attributes
    ----------
    since, until : float
        Start of the first and the last run, seconds since the epoch (0 when there is none).
    filters : tuple of (str, str)
        What was asked for.
    runs, completed, placed, traced, users, all_programs : int
        Counts.
    fates : tuple of (str, int)
        What became of the runs (:mod:`slurm_topo.report.fates`); the counts add up to ``runs``.
    unknown : int
        Jobs in the window that belong to no program (the submit hook did not see them, or left them alone).
    node_hours, saved, overhead : Value
        Node-hours of all runs, node-hours saved, node-hours that our own part took at launch.
    programs : tuple of ProgramFigures
        Most node-hours saved first, then most node-hours used; not always all of them.
    notices : tuple of Notice
        Programs worth a look, most node-hours first, at most ten.
    levels : tuple of LevelFigures
        Bytes by level, all programs together.
    level_costs : tuple of (str, str)
        Where the cost of each level comes from: ``assumed``, ``measured`` or ``given``.
    stood_down : tuple of (str, int)
        Every reason why runs, and jobs of no known program, were left alone, most frequent first.
    left_alone : tuple of (str, int)
        The reasons of the runs only; the counts add up to those of the fate ``left alone``.
    unknown_left_alone : tuple of (str, int)
        The reasons of the jobs of no known program; of the others of ``unknown`` nothing is known.
    groups : tuple of (str, tuple of GroupFigures)
        Savings by user, account, partition and week.
    series : (str, tuple of GroupFigures)
        ``week``, ``day`` or ``hour``, whatever suits the window, and each of them, also those without runs.
    """

    since: float
    until: float
    filters: tuple[tuple[str, str], ...]
    runs: int
    completed: int
    placed: int
    traced: int
    users: int
    all_programs: int
    fates: tuple[tuple[str, int], ...]
    unknown: int
    node_hours: Value
    saved: Value
    overhead: Value
    programs: tuple[ProgramFigures, ...]
    notices: tuple[Notice, ...]
    levels: tuple[LevelFigures, ...]
    level_costs: tuple[tuple[str, str], ...]
    stood_down: tuple[tuple[str, int], ...]
    left_alone: tuple[tuple[str, int], ...]
    unknown_left_alone: tuple[tuple[str, int], ...]
    groups: tuple[tuple[str, tuple[GroupFigures, ...]], ...]
    series: tuple[str, tuple[GroupFigures, ...]]
