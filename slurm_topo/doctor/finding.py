"""What the check finds."""

from __future__ import annotations

from dataclasses import dataclass

# Worst last: the exit code for monitoring is the place in this list.
SEVERITIES = ("note", "warning", "error")


@dataclass(frozen=True)
class Finding:
    """One line of the check.

    Attributes
    ----------
    name : str
        The fault by its name (docs/doctor.md).
    severity : str
        ``error`` (slurm_topo cannot work, or Slurm is told something wrong), ``warning`` (it works less
        well) or ``note`` (nothing is wrong; no effect on the exit code).
    where : str
        File, node or setting.
    what, why, fix : str
        What is the matter, why it matters, and the line to write or the command to run.
    """

    name: str
    severity: str
    where: str
    what: str
    why: str
    fix: str

    def line(self) -> str:
        """All of it in one line."""
        return f"{self.severity}: {self.name}: {self.where}: {self.what}; {self.why}; {self.fix}"


def exit_code(findings: list[Finding]) -> int:
    """0: nothing, or notes only; 1: a warning; 2: an error."""
    return max((SEVERITIES.index(finding.severity) for finding in findings), default=0)
