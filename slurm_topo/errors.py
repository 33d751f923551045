"""The errors of slurm_topo: one small tree, one exit code each.

A message names the thing, the reason and the next step, in one line. Only :mod:`slurm_topo.cli` prints them.
"""

from __future__ import annotations


class SlurmTopoError(Exception):
    """Base of all errors that a caller can do something about."""

    exit_code = 1


class ConfigError(SlurmTopoError):
    """A setting is unknown, malformed or contradictory."""

    exit_code = 3


class InputError(SlurmTopoError):
    """A file or an argument is missing, unreadable, truncated or not of a known format.

    Also of every command: a file that it was told to write cannot be written.
    """

    exit_code = 4


class GraphError(InputError):
    """A communication graph cannot be read or is not one."""

    exit_code = 5


class MachineError(InputError):
    """A machine description cannot be read or describes no machine."""

    exit_code = 6


class PlacementError(SlurmTopoError):
    """Graph and machine do not fit together (for example more ranks than cores)."""

    exit_code = 7


class SlurmError(SlurmTopoError):
    """A Slurm command is missing, failed, timed out or printed what cannot be understood."""

    exit_code = 8


class HistoryError(SlurmTopoError):
    """The history database cannot be opened, is locked, corrupt or of a newer version."""

    exit_code = 9


class LabError(SlurmTopoError):
    """The lab cluster could not be started, used or taken down."""

    exit_code = 10


class LaunchError(SlurmTopoError):
    """A traced launch could not be started, or a native library is missing."""

    exit_code = 11
