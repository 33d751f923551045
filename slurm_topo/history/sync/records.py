"""Records of launches (docs/formats.md) into decisions and bindings."""

from __future__ import annotations

import bisect
import functools
import hashlib
import itertools
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slurm_topo.config import VARIANTS
from slurm_topo.errors import InputError
from slurm_topo.history.sync.inbox import ReadFile
from slurm_topo.history.sync.ledger import Ledger
from slurm_topo.slurm import values
from slurm_topo.slurm.plan import Plan, parse_plan

# Who decides at launch: srun in the name of its step, mpirun inside the step of the batch script.
LAUNCHERS = ("srun", "mpirun")
_MAX_LINE = 8192
_STEP_SLACK_S = 120


@dataclass(frozen=True)
class Record:
    """One valid line: its values and the SHA-256 of its text."""

    values: Mapping[str, Any]
    digest: str


def parse_records(content: bytes) -> tuple[list[Record], int]:
    """The valid lines of a record file, and how many others there are.

    A last line without an end is left out: whoever wrote it was stopped.
    """
    found, wrong = [], 0
    for line in content.split(b"\n"):
        if not line.strip():
            continue
        try:
            if len(line) > _MAX_LINE:
                raise ValueError("longer than a record")
            record = json.loads(line)
            if record["format"] != "slurm-topo-record" or record["version"] != 1:
                raise ValueError("of another format")
            found.append(Record(record, hashlib.sha256(line).hexdigest()[:32]))
        except (ValueError, KeyError, TypeError, RecursionError):
            wrong += 1
    return found, wrong


def read_plans(reads: Sequence[ReadFile]) -> dict[str, tuple[Plan, str]]:
    """Plans and their texts by file name; what is no plan is left out."""
    found = {}
    for read in reads:
        text = read.content.decode("ascii", "replace")
        plan = plan_of_text(text) if read.file.name.endswith(".plan") else None
        if plan:
            found[read.file.name] = (plan, text)
    return found


@functools.lru_cache(maxsize=1024)
def plan_of_text(text: str) -> Plan | None:
    """The plan in a text, None where it is none."""
    try:
        return parse_plan(text)
    except (ValueError, KeyError, IndexError, InputError):
        return None


def store_records(
    ledger: Ledger, job_id: int, records: Sequence[Record], plans: Mapping[str, tuple[Plan, str]]
) -> None:
    """Decisions and bindings of a job; records that are there already are skipped."""
    before = {row["record_digest"]: row["step"] for row in ledger.decisions_of(job_id)}
    matcher = _StepMatcher(ledger.steps_of(job_id), set(before.values()))
    ordered = sorted(records, key=lambda r: values.number(r.values.get("time")) or 0.0)
    rows: dict[str, dict[str, Any]] = {}
    with_plan: set[str] = set()
    for record in ordered:
        if (
            record.values.get("where") in LAUNCHERS
            and record.digest not in before
            and record.digest not in rows
        ):
            row = _decision(record, plans, with_plan)
            rows[record.digest] = row | {"step": matcher.find(record.values)}
    ledger.add_decisions(job_id, rows.values())
    _store_bindings(ledger, job_id, [r.values for r in ordered if r.values.get("where") == "task"])
    _summarise(ledger, job_id)


def _decision(record: Record, plans: Mapping[str, tuple[Plan, str]], with_plan: set[str]) -> dict[str, Any]:
    """The columns of a decision, without job and step."""
    told = record.values
    path = _word(told, "plan", 4096)
    plan, text = plans.get(path.rsplit("/", 1)[-1], (None, ""))
    cost, baseline = values.number(told.get("cost")), values.number(told.get("baseline"))
    baseline_name = ""
    if plan:
        cost = cost if cost is not None else values.number(plan.cost)
        baseline_name = _cheapest(plan)
        if baseline_name:
            baseline = plan.baselines[baseline_name]
    # Once a plan: a job with a thousand equal steps has one text.
    text = text if path not in with_plan else ""
    with_plan.add(path)
    return {
        "decided": int(values.number(told.get("time")) or 0),
        "source": _word(told, "where", 16),
        "decision": _word(told, "decision", 32),
        "reason": _word(told, "reason", 1024),
        "arm": _word(told, "arm", 16),
        "ranks": values.count(told.get("ranks")),
        "cost": cost,
        "baseline": baseline,
        "baseline_name": baseline_name,
        "graph": _word(told, "graph", 64) or None,
        "machine": plan.machine if plan and plan.machine != "-" else None,
        "solver": plan.solver if plan and plan.solver != "-" else "",
        "seconds": values.number(told.get("seconds")),
        "plan_path": path,
        "plan": text,
        "variant": plan.variant if plan else _variant(told),
        "record_digest": record.digest,
        "search": _word(told, "search", 16),
    }


def _variant(told: Mapping[str, Any]) -> str:
    word = _word(told, "variant", 16)
    return word if word in VARIANTS else ""


def _cheapest(plan: Plan) -> str:
    """What Slurm alone would have done: block over the nodes, the cheaper of its two ways inside a node."""
    ours = {k: v for k, v in plan.baselines.items() if k in ("block:block", "block:cyclic")}
    return min(ours, key=lambda k: ours[k]) if ours else ""


class _StepMatcher:
    """Finds the step that a launch became: of as many tasks, begun nearest to it (srun knows no number)."""

    def __init__(self, steps: Iterable[Mapping[str, Any]], taken: set[str | None]) -> None:
        known = [row for row in steps if row["started"] is not None and row["step"] not in taken]
        self._steps = sorted(
            (row["started"], int(row["step"]), row["step"], row["tasks"])
            for row in known
            if row["step"].isdigit()
        )
        self._taken: set[str] = set()

    def find(self, told: Mapping[str, Any]) -> str | None:
        """The step of a record, None where none fits; each step is given once."""
        if told.get("where") == "mpirun":
            return "batch"
        ranks, time = values.count(told.get("ranks")), values.number(told.get("time")) or 0
        first = bisect.bisect_left(self._steps, (time - _STEP_SLACK_S,))
        fitting = []
        for started, number, step, tasks in itertools.islice(self._steps, first, None):
            if started > time + _STEP_SLACK_S:
                break
            if step not in self._taken and tasks in (None, ranks):
                fitting.append((abs(started - time), number, step))
        if not fitting:
            return None
        step = str(min(fitting)[2])
        self._taken.add(step)
        return step


def _word(told: Mapping[str, Any], name: str, limit: int) -> str:
    value = told.get(name)
    # Neither half surrogates nor NUL: a database takes no such text.
    text = "" if value is None else str(value).encode("utf-8", "replace").decode().replace("\0", "?")
    return " ".join(text.split())[:limit]


def _store_bindings(ledger: Ledger, job_id: int, told: Sequence[Mapping[str, Any]]) -> None:
    """Where the ranks of each step really were: what the step daemon saw after binding."""
    places: dict[str, dict[int, tuple[str, str]]] = defaultdict(dict)
    for record in told:
        rank, step = values.count(record.get("rank")), _word(record, "step", 32)
        if rank is not None and step:
            places[step][rank] = (_word(record, "node", 255), _word(record, "cpus", 512))
    for step, ranks in places.items():
        if max(ranks) > 8 * len(ranks) + 1024:
            # Ranks that cannot be: the file is not what the step daemon wrote.
            continue
        nodes = list(dict.fromkeys(node for _, (node, _) in sorted(ranks.items())))
        number = {node: i for i, node in enumerate(nodes)}
        listed: list[list[Any] | None] = [None] * (max(ranks) + 1)
        for rank, (node, cpus) in ranks.items():
            listed[rank] = [number[node], cpus]
        text = json.dumps({"nodes": nodes, "rank": listed}, separators=(",", ":"))
        ledger.set_step(ledger.step(job_id, step), bindings=text)


def _summarise(ledger: Ledger, job_id: int) -> None:
    """The last decision of a job, and whether a step was placed, into the job's own line."""
    rows = ledger.decisions_of(job_id)
    # mpirun starts its daemons by an srun that is left alone: what counts is mpirun's own decision.
    rows = [row for row in rows if not row["reason"].startswith("launcher: ")] or rows
    if not rows:
        return
    placed = [row for row in rows if row["decision"] == "place"]
    # A job that was placed once is a placed job, whatever its last small step was.
    told = placed[-1] if placed else rows[-1]
    # Where Slurm's own order was not beaten, the ranks lay as that has them: spread.
    left = [row for row in rows if (row["decision"], row["reason"]) == ("stand-down", "margin")]
    variants = {row["variant"] for row in placed or left}
    found = {
        "decision": told["decision"],
        "reason": told["reason"],
        "placed": int(bool(placed)),
        "variant": variants.pop() if len(variants) == 1 else "",
    }
    # The hook's own word is better, but a site may have written over it.
    if not ledger.jobs[job_id]["arm"]:
        found["arm"] = told["arm"]
    ledger.set_job(job_id, **found)
