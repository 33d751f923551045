"""What is odd in real accounting, followed from Slurm's words through sync into report and comparison."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slurm_topo.cli.main import main
from slurm_topo.history.sync.run import import_accounting
from slurm_topo.slurm.fingerprint import fingerprint_keys
from slurm_topo.slurm.recorded import read_accounting_file
from slurm_topo.slurm.sacct import AccountingRow

Ask = Callable[..., dict[str, Any]]


@pytest.fixture
def ask(site, tmp_path, capsys) -> Ask:
    """Report and comparison of the site's history, and the raw records of the comparison by job."""

    def run(*argv: str) -> dict[str, Any]:
        found = {}
        for command in ("report", "compare"):
            folder = ["-o", str(tmp_path / "audit")] if command == "compare" else []
            with pytest.raises(SystemExit) as stop:
                main([command, "--database", site.settings.database, "--format", "json", *folder, *argv])
            assert not stop.value.code
            found[command] = json.loads(capsys.readouterr().out)
        with (tmp_path / "audit" / "records.csv").open(newline="", encoding="utf-8") as stream:
            found["records"] = {row["job"]: row for row in csv.DictReader(stream)}
        runs = found["compare"]["runs"]
        assert found["report"]["runs"] == runs["all"] == sum(found["report"]["fates"].values())
        assert runs["all"] == runs["before"] + runs["after"] + sum(runs["excluded"].values())
        return found

    return run


NO_JOULES = ["0", "", "4294967294", "4294967295", "18446744073709551614", "18446744073709551615", "-2"]
# What sacct says of a job: what the records of the comparison hold, and the fate there.
ODDITIES: dict[str, tuple[dict[str, str], dict[str, str], str]] = {
    **{f"energy {e or 'empty'}": ({"ConsumedEnergyRaw": e}, {"energy": ""}, "") for e in NO_JOULES},
    "energy": ({"ConsumedEnergyRaw": "4200"}, {"energy": "4200.0"}, ""),
    "no TRES": ({"AllocTRES": ""}, {"gpus": ""}, ""),
    "no GPUs": ({"AllocTRES": "billing=8,cpu=8,mem=10M,node=4"}, {"gpus": ""}, ""),
    "typed GPUs": ({"AllocTRES": "gres/gpu:a100=2,gres/gpu:volta=1"}, {"gpus": "3.0"}, ""),
    "both kinds of GPUs": ({"AllocTRES": "gres/gpu:a100=2,gres/gpu=2"}, {"gpus": "2.0"}, ""),
    "wrapped GPUs": ({"AllocTRES": "gres/gpu=18446744073709551614"}, {"gpus": ""}, ""),
    "nodes only in TRES": ({"NNodes": "", "AllocTRES": "cpu=8,node=4"}, {"nodes": "4.0"}, ""),
    "wrapped nodes": ({"NNodes": "4294967294"}, {"nodes": ""}, "part of the key is not known"),
    "wrapped CPUs": ({"NCPUS": "4294967295"}, {"cores": ""}, ""),
    "array": ({"JobID": "100_3"}, {}, ""),
    "heterogeneous": ({"JobID": "200+1"}, {}, ""),
    "cancelled": ({"State": "CANCELLED by 1000"}, {"state": "CANCELLED"}, "did not complete"),
    "out of memory": ({"State": "OUT_OF_MEMORY"}, {"state": "OUT_OF_MEMORY"}, "did not complete"),
    "node fail": ({"State": "NODE_FAIL"}, {"state": "NODE_FAIL"}, "did not complete"),
    "unknown state": ({"State": "FOO"}, {"state": "FOO"}, "did not complete"),
    "running": (
        {"State": "RUNNING", "End": "Unknown"},
        {"state": "RUNNING"},
        "did not complete",
    ),
    "pending": (
        {"State": "PENDING", "Start": "Unknown", "End": "Unknown", "NodeList": "None assigned"},
        {"state": "PENDING"},
        "did not complete",
    ),
    "name with pipes": ({"JobName": "a|b | c"}, {}, ""),
    "name with lines": ({"JobName": "a\nb\n\n1|2|COMPLETED"}, {}, ""),
    "name of other letters": ({"JobName": "aàb<script>&amp;\x1b[31m\u202e"}, {}, ""),
    "days": ({"TotalCPU": "1-02:03:04", "ElapsedRaw": "93784"}, {}, ""),
    "no CPU time": ({"TotalCPU": "INVALID", "AveCPU": "", "MaxRSS": ""}, {}, ""),
    "partition of several": (
        {"Partition": "batch,large"},
        {"partition": "batch,large"},
        "no run of the other side with the same key",
    ),
    "no account": ({"Account": ""}, {"account": ""}, ""),
}


def test_oddities_are_followed_to_the_end(site, ask: Ask) -> None:
    for job in (1, 2):
        site.add_job(job, arm="observe", seconds=60, end=site.now - 100 * job, UID="4242")
    for job, (told, _, _) in enumerate(ODDITIES.values(), 10):
        site.add_job(job, seconds=40, **told)
    for rows in site.jobs.values():
        rows[0]["AdminComment"] += " graph=" + "5" * 16
    result = site.sync()
    assert (result.error, result.outcome.warnings) == (None, [])
    found = ask()
    assert found["report"]["runs"] == len(ODDITIES) + 2
    records, wrong = found["records"], {}
    for job, (oddity, (_, expected, fate)) in enumerate(ODDITIES.items(), 10):
        record = records[str(job)]
        # The time is that of the numbered step, whatever .batch and .extern say.
        seen = {k: record[k] for k in expected} | {"fate": record["fate"], "elapsed": record["elapsed"]}
        if seen != expected | {"fate": fate or "used", "elapsed": "40.0"}:
            wrong[oddity] = seen
    assert wrong == {}


def test_a_time_that_is_not_known_has_no_saving(site, ask: Ask) -> None:
    site.add_job(1, arm="observe", ElapsedRaw="4294967295", steps=())
    site.add_job(2, ElapsedRaw="", steps=())
    site.sync()
    found = ask()
    assert {r["fate"] for r in found["records"].values()} == {"time is not known"}
    assert found["report"]["programs"][0]["time_before"]["value"] is None
    assert found["report"]["node_hours"]["value"] is None


def test_steps_of_batch_and_extern_are_no_time_of_the_program(site, ask: Ask) -> None:
    site.add_job(1, steps=("batch", "extern", "0", "1", "interactive"), seconds=500)
    for row, seconds in zip(site.jobs[1][1:], (500, 500, 30, 40, 90), strict=True):
        row["ElapsedRaw"] = str(seconds)
        row["ConsumedEnergyRaw"] = "18446744073709551614" if row["JobName"] == "extern" else "100"
    # The second step begins when the first has ended.
    start = site.jobs[1][3]["Start"]
    site.jobs[1][4]["Start"] = re.sub(r"\d\d$", lambda m: f"{int(m[0]) + 30:02d}", start)
    site.sync()
    (record,) = ask()["records"].values()
    assert float(record["elapsed"]) == 70
    # Slurm sums up the steps of a job nowhere: all that measured count, the one that did not is left out.
    assert float(record["energy"]) == 400


def marked(row: AccountingRow, arm: str) -> str:
    """What the submit hook would have left in the comment of a recorded job."""
    script = b"srun " + row.name.encode("utf-8", "replace")
    keys = fingerprint_keys(row.user or "x", "8x1", script, account=row.account.encode())
    return f"slurm-topo:1 arm={arm} keys={':'.join(keys)} graph={'5' * 16}"


HEADERS = {
    "sonar": "JobIDRaw|JobID|User|Account|State|Start|End|AveCPU|AveDiskRead|AveDiskWrite|AveRSS|AveVMSize|"
    "ElapsedRaw|ExitCode|Layout|MaxRSS|MaxVMSize|MinCPU|ReqCPUS|ReqMem|ReqNodes|Reservation|Submit|"
    "Suspended|SystemCPU|TimelimitRaw|UserCPU|NodeList|Partition|AllocTRES|Priority|JobName",
    "xdmod": "JobID|JobIDRaw|Cluster|Partition|QOS|Account|Group|GID|User|UID|Submit|Eligible|Start|End|"
    "ElapsedText|ExitCode|State|NNodes|NCPUS|ReqCPUS|ReqMem|ReqTRES|AllocTRES|Timelimit|NodeList|JobName",
}


def real_files(shared_data: Path) -> dict[str, list[Path]]:
    """Accounting of real clusters by kind."""
    folder = shared_data / "data" / "slurm"
    xdmod = sorted((folder / "xdmod").glob("unit_shredder_slurm_input_*.log"))
    return {
        "sonar": [folder / "sonar" / "tests_sacct_output.txt", folder / "sonar" / "src_sacct-output.txt"],
        "xdmod": xdmod,
        "json": sorted((folder / "slurm-web").glob("slurmrestd/*/*/slurmdb-job-*.json")),
        "swf": sorted((shared_data / "data" / "traces" / "alea").glob("*.swf")),
    }


def with_marks(kind: str, path: Path, target: Path) -> bool:
    """A copy of a recorded file whose jobs carry marks of the submit hook; False where it holds no job."""
    text = path.read_text(encoding="utf-8", errors="replace")
    if kind == "json":
        body = json.loads(text)
        rows = [row for row in read_accounting_file(path) if row.step == ""]
        for i, (job, row) in enumerate(zip(body.get("jobs", []), rows, strict=True)):
            job["comment"]["administrator"] = marked(row, ("observe", "enforce")[i % 2])
        target.write_text(json.dumps(body), encoding="utf-8")
        return bool(rows)
    lines = [HEADERS[kind] + "|AdminComment"]
    plain = target.with_suffix(".plain")
    jobs = 0
    for line in filter(None, text.splitlines()):
        plain.write_text(f"{HEADERS[kind]}\n{line}\n", encoding="utf-8")
        for row in read_accounting_file(plain):
            mark = "" if row.step else marked(row, ("observe", "enforce")[jobs % 2])
            jobs += not row.step
            lines.append(f"{line}|{mark}")
    plain.unlink()
    target.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return jobs > 0


@pytest.mark.parametrize("kind", ["sonar", "xdmod", "json"])
def test_every_recorded_job_of_real_clusters_gets_to_report_and_comparison(
    site, ask: Ask, tmp_path: Path, shared_data: Path, kind: str
) -> None:
    expected: dict[tuple[str, int, int | None], AccountingRow] = {}
    saved: list[str] = []
    for i, path in enumerate(real_files(shared_data)[kind]):
        target = tmp_path / f"{i}.saved"
        if with_marks(kind, path, target):
            saved.append(str(target))
            for row in read_accounting_file(target):
                if row.step == "" and row.submitted is not None:
                    expected[row.cluster, row.job, row.submitted] = row
    import_accounting(site.settings, saved)
    found = ask()
    assert found["report"]["runs"] == len(expected) > 3
    assert found["report"]["unknown"] == 0
    records = found["records"].values()
    for record in records:
        # No sentinel has become a number: 2^32 - 2 nodes, 584 billion joules.
        numbers = [float(record[k]) for k in ("elapsed", "nodes", "cores", "gpus", "energy") if record[k]]
        assert all(0 <= number < 1e9 for number in numbers), record
        assert record["state"].isupper()
        assert " " not in record["state"]
        assert (record["fate"] == "did not complete") == (record["state"] != "COMPLETED")
    nodes = {str(row.job): row.nodes for row in expected.values()}
    assert all(record["nodes"] == f"{nodes[record['job']]:.1f}" for record in records if record["nodes"])
    if kind == "sonar":
        assert any(record["gpus"] for record in records)
        assert any(record["nodes"] for record in records)


def test_a_workload_log_is_counted_in_the_report_and_compared_with_nothing(
    site, ask: Ask, shared_data: Path, tmp_path: Path
) -> None:
    for number, path in enumerate(real_files(shared_data)["swf"]):
        head = path.read_text(encoding="utf-8", errors="replace").splitlines()[:400]
        target = tmp_path / f"{number}.swf"
        target.write_text("\n".join(head) + "\n", encoding="utf-8")
        jobs = len(list(read_accounting_file(target)))
        before = ask()["report"]["unknown"] if number else 0
        assert import_accounting(site.settings, [str(target)]) == jobs > 100
        found = ask()
        assert found["report"]["unknown"] == before + jobs
        assert (found["report"]["runs"], found["records"]) == (0, {})
        assert found["compare"]["verdict"] == "inconclusive"
        # The same file again changes nothing.
        assert import_accounting(site.settings, [str(target)]) == 0
    with site.history() as history:
        runs = list(history.runs())
        assert sum(run.elapsed_s is not None and run.elapsed_s >= 0 for run in runs) > len(runs) / 2
        assert not any(run.energy_j for run in runs)
        assert all(run.cpus is None or run.cpus > 0 for run in runs)
