"""What the history hands out: plain dataclasses, no SQL, no connection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Filter:
    """Which jobs are meant; None means all.

    Attributes
    ----------
    since, until : int or None
        Seconds since the epoch, UTC; compared with the end of a job (its submission where it has no end yet):
        ``since <= time < until``.
    user, account, partition, cluster : str or None
        Exact names.
    program : int or None
        Number of a program.
    """

    since: int | None = None
    until: int | None = None
    user: str | None = None
    account: str | None = None
    partition: str | None = None
    cluster: str | None = None
    program: int | None = None


@dataclass(frozen=True)
class Run:
    """One job of the history.

    Attributes
    ----------
    id : int
        Number of the job in the history (Slurm reuses its own numbers).
    job : int
        Slurm's raw job id.
    program : int or None
        Number of the program, None where the submit hook did not see the job.
    arm : str
        Arm drawn at submission: ``off``, ``observe``, ``advise``, ``enforce``, or empty (not seen).
    placed : bool
        At least one step ran where a plan put it.
    decision, reason : str
        The last decision at launch (``place``, ``stand-down``, ``trace``, ``none``, or empty); why.
    variant : str
        How the ranks of its placed steps lay on their nodes: ``spread``, ``packed``, or empty (one way only).
    state : str
        Slurm's state in capitals, without the "by" part of a cancellation.
    submitted, started, ended : int or None
        Seconds since the epoch, UTC.
    elapsed_s : float or None
        Wall time of the job, seconds.
    run_s : float or None
        Wall time of its srun steps, seconds: what placing can change.
    cpu_s, energy_j : float or None
        CPU time; energy in joules, None where Slurm does not measure it.
    """

    id: int
    cluster: str
    job: int
    program: int | None
    user: str
    account: str
    partition: str
    name: str
    arm: str
    placed: bool
    decision: str
    reason: str
    variant: str
    state: str
    submitted: int
    started: int | None
    ended: int | None
    elapsed_s: float | None
    run_s: float | None
    nodes: int | None
    cpus: int | None
    tasks: int | None
    gpus: int | None
    cpu_s: float | None
    energy_j: float | None

    @property
    def completed(self) -> bool:
        """It ended well, so that its time says something."""
        return self.state == "COMPLETED"

    @property
    def seconds(self) -> float | None:
        """The time to compare: of the steps, of the whole job where it had none."""
        return self.run_s if self.run_s is not None else self.elapsed_s


@dataclass(frozen=True)
class ArmSummary:
    """The runs of one program in one arm.

    Attributes
    ----------
    arm : str
        ``off``, ``observe``, ``advise``, ``enforce`` or empty.
    placed : bool
        The runs were placed (a run in ``enforce`` may have stood down).
    runs : int
        All runs that have ended.
    seconds : tuple of float
        Times (``Run.seconds``) of the completed ones, in order of their end.
    energy_j : tuple of float
        Energies of the completed ones where measured.
    """

    arm: str
    placed: bool
    runs: int
    seconds: tuple[float, ...]
    energy_j: tuple[float, ...] = ()

    @property
    def median_s(self) -> float | None:
        """Median time of the completed runs, seconds."""
        if not self.seconds:
            return None
        ordered = sorted(self.seconds)
        middle = len(ordered) // 2
        return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


@dataclass(frozen=True)
class LevelBytes:
    """Bytes between ranks that meet at one level of the machine; depth 0 is the innermost."""

    depth: int
    level: str
    nbytes: float


@dataclass(frozen=True)
class ProgramSummary:
    """One program and what was measured of it.

    Attributes
    ----------
    id : int
        Number of the program.
    keys : tuple of str
        All fingerprint keys that lead to it.
    ranks, cpus_per_task : int or None
        Its shape.
    graph : str or None
        Digest of the graph that its runs are placed with.
    arm, arm_reason : str or None, str
        Set where it was switched back by its measurements.
    variant, variant_reason : str or None, str
        How its ranks lie on their nodes (``spread``, ``packed``), set by its measurements.
    arms : tuple of ArmSummary
        Its ended runs by arm.
    before, after : tuple of LevelBytes
        Bytes by level of one run: without us, and placed. From the newest step that has them; empty: unknown.
    cost_before, cost_after : float or None
        The objective of the same step, seconds.
    machine : str or None
        Digest of the machine of that step.
    reasons : mapping of str to int
        How often each ``decision: reason`` was recorded at launch or submission.
    """

    id: int
    user: str
    account: str
    name: str
    keys: tuple[str, ...]
    ranks: int | None
    cpus_per_task: int | None
    first_seen: int
    last_seen: int
    graph: str | None
    arm: str | None
    arm_reason: str
    variant: str | None
    variant_reason: str
    arms: tuple[ArmSummary, ...]
    before: tuple[LevelBytes, ...]
    after: tuple[LevelBytes, ...]
    cost_before: float | None
    cost_after: float | None
    machine: str | None
    reasons: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class ReasonCount:
    """How many jobs ended with this decision for this reason.

    Attributes
    ----------
    where : str
        ``submit`` (the hook left the job alone) or ``launch``.
    """

    where: str
    arm: str
    decision: str
    reason: str
    jobs: int


@dataclass(frozen=True)
class StepRow:
    """One step of a job: what Slurm measured and where its ranks were.

    Attributes
    ----------
    bindings : str
        JSON ``{"nodes": [...], "rank": [[node, "cpus"], ...]}`` of the real binding, or empty.
    before, after : tuple of LevelBytes
        Bytes by level without us and placed.
    """

    id: int
    job_id: int
    step: str
    name: str
    state: str
    started: int | None
    ended: int | None
    elapsed_s: float | None
    nodes: int | None
    cpus: int | None
    tasks: int | None
    node_list: str
    cpu_s: float | None
    average_cpu_s: float | None
    max_rss: float | None
    energy_j: float | None
    usage_text: str
    graph: str | None
    graph_complete: bool
    machine: str | None
    cost_before: float | None
    cost_after: float | None
    bindings: str
    before: tuple[LevelBytes, ...] = ()
    after: tuple[LevelBytes, ...] = ()


@dataclass(frozen=True)
class DecisionRow:
    """One decision as it was recorded at launch, with the plan's text where there was one."""

    job_id: int
    step: str | None
    decided: int
    source: str
    decision: str
    reason: str
    arm: str
    ranks: int | None
    cost: float | None
    baseline: float | None
    baseline_name: str
    graph: str | None
    machine: str | None
    solver: str
    seconds: float | None
    plan_path: str
    plan: str
    variant: str
    search: str


@dataclass(frozen=True)
class GraphRow:
    """A stored communication graph; ``content`` is its ``.npz`` (docs/formats.md)."""

    digest: str
    ranks: int
    edges: int
    nbytes: float
    messages: float
    meta: str
    first_seen: int
    content: bytes


@dataclass(frozen=True)
class MachineRow:
    """A machine that steps ran on; ``description`` is the cluster description as JSON."""

    digest: str
    cores: int
    nodes: int
    description: str
    first_seen: int
