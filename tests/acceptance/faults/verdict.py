"""What the run shows: violations, stand-downs by reason, and the control."""

from __future__ import annotations

import re
from collections import Counter

from tests.acceptance.faults.campaign import LOST, Result
from tests.acceptance.faults.jobs import Job
from tests.acceptance.faults.table import EVENT, JOB, SITE, USER

# Slurm does these to any job: what is lost by them is held against the control.
SLURMS_OWN = {fault.name for fault in EVENT if fault.part == "Slurm"}
# Without our plugin in srun, or without the hook in slurmctld, nothing of ours can speak: Slurm's log does.
SPEECHLESS = {"plugin missing", "plugin no library"}
# Faults under which the hook can mark nothing; slurmctld's log has a line of it.
HOOKS = {fault.name for fault in SITE if fault.part in ("hook", "advice")}
UNMARKED = "no mark: slurmctld's log says why"
_GOOD = ("COMPLETED",)


def trouble(job: Job) -> str:
    """What is wrong with a job, empty where nothing is."""
    if not job.number:
        return f"rejected: {job.rejected[-120:]}"
    if job.hung:
        return "hung"
    if not job.states:
        return "lost: accounting does not know it"
    bad = [
        f"{name} {state} {code}" for name, state, code in job.states if state not in _GOOD or code != "0:0"
    ]
    if bad:
        return f"failed: {bad[0].split(' ', 1)[1]}"
    if not job.complete:
        return "lost: its output is not whole"
    return ""


def reasons(job: Job) -> list[str]:
    """Why it was not placed, as often as it was told: records first, else what was printed."""
    found = [
        str(r.get("reason"))
        for r in job.records
        if r.get("decision") in ("stand-down", "none", "trace") and r.get("where") in ("srun", "mpirun")
    ]
    tasks = {
        f"(task) {r.get('reason')}"
        for r in job.records
        if r.get("where") == "task" and r.get("decision") == "stand-down"
    }
    printed = [why for what, why in job.said if what == "stood down"]
    return [*found, *tasks] or printed or [f"not recorded: {why}" for what, why in job.said]


def placed(job: Job) -> bool:
    return any(r.get("decision") == "place" and r.get("where") in ("srun", "mpirun") for r in job.records)


def silent(job: Job) -> bool:
    """A marked launch that was not placed, and nobody said why."""
    if job.kind in ("batch", "array") or job.marked not in ("observe", "advise", "enforce"):
        return False
    spoken = job.records or job.said
    return not spoken and not SPEECHLESS & set(job.faults)


def unmarked(job: Job) -> str:
    """Why the hook left it alone: its word, or that only slurmctld's log has it."""
    found = re.search(r"slurm-topo:1 arm=off reason=(\S+)", job.comment)
    if found:
        return found[1]
    return "" if "slurm-topo:1" in job.comment else UNMARKED


def general(reason: str) -> str:
    """The reason without what differs from job to job."""
    reason = re.sub(r"/\S*/", "…/", reason)
    reason = re.sub(r"\b\d+-\d+x\d+-[0-9a-f]+\S*|\b[0-9a-f]{16}\b", "…", reason)
    return re.sub(r"\d+", "N", reason)[:100]


def table(title: str, counts: Counter[str]) -> str:
    lines = [f"\n{title} ({sum(counts.values())})"]
    lines += [f"  {number:7d}  {what}" for what, number in counts.most_common()]
    return "\n".join(lines)


def report(result: Result) -> tuple[str, list[str]]:
    """Text of the report, and what speaks against us."""
    ours: list[str] = []
    apart: Counter[str] = Counter()
    stood: Counter[str] = Counter()
    hook: Counter[str] = Counter()
    count: Counter[str] = Counter()
    for job in result.jobs:
        wrong = trouble(job)
        own = SLURMS_OWN & set(job.faults)
        if wrong and own:
            apart[f"{'+'.join(sorted(own))}: {general(wrong)}"] += job.size
        elif wrong:
            ours.append(f"job {job.number} ({job.kind}; {', '.join(job.faults) or 'no fault'}): {wrong}")
        count["jobs"] += job.size
        count["sbatch was repeated while slurmctld was away"] += job.tries - 1
        if placed(job):
            count["placed"] += 1
        elif job.kind not in ("batch", "array") and not wrong:
            for reason in reasons(job):
                stood[general(reason)] += 1
        if silent(job) and not wrong:
            ours.append(
                f"job {job.number} ({job.kind}; {', '.join(job.faults)}): not placed, and no reason recorded"
            )
        if job.number and unmarked(job):
            hook[unmarked(job)] += job.size
        if unmarked(job) == UNMARKED and not {*HOOKS} & set(job.faults):
            ours.append(f"job {job.number} ({job.kind}; {', '.join(job.faults)}): no mark of the hook")
    ours += result.syncs.unclean
    ours += [
        f"node {name} is {state}"
        for name, state in result.nodes.items()
        if re.search("drain|down|fail", state)
    ]
    control: Counter[str] = Counter()
    for job in result.control:
        control[f"{'+'.join(job.faults)}, {job.kind}: {general(trouble(job)) or 'fine'}"] += job.size
    own_in_control = {(name, job.kind) for job in result.control for name in job.faults if trouble(job)}
    ours = _without(ours, result, own_in_control)
    everything = [*USER, *JOB, *SITE, *EVENT]
    lost = sum(job.size for job in result.jobs if trouble(job) and set(LOST) & set(job.faults))
    text = [
        f"{len(result.jobs)} submissions ({count['jobs']} jobs) in {result.seconds:.0f} s, "
        f"{result.epochs} epochs",
        f"faults alone: {len(result.alone)} of {len(everything)}; pairs: {len(result.pairs)}",
        f"placed: {count['placed']}; sbatch repeated while slurmctld was away: "
        f"{count['sbatch was repeated while slurmctld was away']}; lost with a node: {lost}",
        table("launches that were not placed, by reason", stood),
        table("jobs that the hook left alone, by reason", hook),
        table("lines of slurmctld's log", result.log_lines),
        table("passes of sync", result.syncs.ends),
        table("events", result.events),
        table("not whole under faults that are Slurm's own (counted apart)", apart),
        table("control: the same Slurm without slurm_topo", control),
        f"\nrejected, failed, hung, lost or silent because of us: {len(ours)}",
        *(f"  {line}" for line in ours[:60]),
    ]
    return "\n".join(text), ours


def _without(ours: list[str], result: Result, known: set[tuple[str, str]]) -> list[str]:
    """Jobs that break themselves in a way that breaks them without us as well are not ours."""
    numbers = {
        str(job.number) for job in result.jobs if any((name, job.kind) in known for name in job.faults)
    }
    return [line for line in ours if not (line.startswith("job ") and line.split()[1] in numbers)]
