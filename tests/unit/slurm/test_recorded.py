"""Outputs recorded from real clusters, where they are present."""

from __future__ import annotations

import json

import pytest

from slurm_topo.slurm.sacct import parse_sacct, parse_sacct_json
from slurm_topo.slurm.scontrol import parse_jobs
from slurm_topo.slurm.values import gpus

SONAR = """
JobIDRaw JobID User Account State Start End AveCPU AveDiskRead AveDiskWrite AveRSS AveVMSize ElapsedRaw
ExitCode
Layout MaxRSS MaxVMSize MinCPU ReqCPUS ReqMem ReqNodes Reservation Submit Suspended SystemCPU TimelimitRaw
UserCPU NodeList Partition AllocTRES Priority JobName
"""
XDMOD = """
JobID JobIDRaw Cluster Partition QOS Account Group GID User UID Submit Eligible Start End ElapsedText ExitCode
State NNodes NCPUS ReqCPUS ReqMem ReqTRES AllocTRES Timelimit NodeList JobName
"""


def read(path, fields):
    return list(parse_sacct(path.read_text(encoding="utf-8"), fields.split(), "|"))


def test_every_line_of_a_real_cluster_is_read(shared_data):
    path = shared_data / "data" / "slurm" / "sonar" / "tests_sacct_output.txt"
    rows = read(path, SONAR)
    assert len(rows) == len(path.read_text().splitlines())
    assert {r.step for r in rows if not r.step.isdigit()} >= {"", "batch", "extern"}
    assert any(r.gpus for r in rows)
    assert all(r.submitted for r in rows)
    assert all(r.elapsed_s is not None and r.elapsed_s >= 0 for r in rows)
    open_ones = [r for r in rows if r.ended is None]
    assert open_ones
    assert not any(r.final for r in open_ones)


def test_arrays_of_a_real_cluster(shared_data):
    folder = shared_data / "data" / "slurm" / "xdmod"
    rows = read(folder / "unit_shredder_slurm_input_accounting-logs-with-job-arrays.log", XDMOD)
    assert (rows[0].array_job, rows[0].array_task, rows[0].cpus) == (4103947, 100, 256)
    names = [r.name for r in read(folder / "unit_shredder_slurm_input_utf8-multibyte-chars.log", XDMOD)]
    assert names == ["aàb"]
    states = [r.state for r in read(folder / "unit_shredder_slurm_input_non-ended-job-state.log", XDMOD)]
    assert states == ["RUNNING", "PENDING"]


def test_gpu_counts_of_a_real_parser(shared_data):
    path = shared_data / "data" / "slurm" / "xdmod" / "unit_slurm-resource-parser_alloc-tres-gpu-count.json"
    for tres, count in json.loads(path.read_text()):
        assert (gpus(tres) or 0) == count, tres


@pytest.mark.parametrize("release", ["24.05", "24.11", "25.05", "25.11"])
def test_json_of_every_release(shared_data, release):
    folder = shared_data / "data" / "slurm" / "slurm-web" / "slurmrestd" / release
    count = 0
    for path in sorted(folder.glob("*/slurmdb-job-*.json")):
        if path.stem.endswith(("pending", "unfound")):
            continue
        rows = list(parse_sacct_json(path.read_text(encoding="utf-8")))
        job = rows[0]
        assert job.step == ""
        assert job.submitted > 1_600_000_000
        # Without an energy plugin the count is -2: no energy.
        assert job.energy_j is None
        # This cluster does not account GPUs (AccountingStorageTRES): their number is not known, not 0.
        assert job.gpus is None
        assert job.final == (job.state not in ("RUNNING", "PENDING"))
        for step in rows[1:]:
            assert step.step in ("batch", "extern") or step.step.isdigit()
            assert step.job == job.job
        count += 1
    assert count >= 10


def test_jobs_of_slurmctld(shared_data):
    path = shared_data / "data" / "slurm" / "sonar" / "tests_scontrol_resource1.txt"
    jobs = list(parse_jobs(path.read_text(encoding="utf-8")))
    assert [j.job for j in jobs][:2] == [1879824, 1903070]
    assert jobs[2].fields["JobName"] == "OOD Code Server"
    assert jobs[0].nodes == ()


def test_steps_of_json_as_each_release_names_them():
    """21.08 in a dictionary, 22.05 alone, later releases with the job."""
    when = {"start": 100, "end": 110, "elapsed": 10}
    names = [{"job_id": 5, "step_id": "batch"}, "batch", 0, "5.batch", "5.0", "0"]
    steps = [{"step": {"id": name, "name": "x"}, "time": when, "state": "COMPLETED"} for name in names]
    job = {"job_id": 5, "time": when | {"submission": 90}, "state": {"current": "COMPLETED"}, "steps": steps}
    _, *rows = parse_sacct_json(json.dumps({"jobs": [job]}))
    assert [row.step for row in rows] == ["batch", "batch", "0", "batch", "0", "0"]
