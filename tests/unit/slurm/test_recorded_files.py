"""Accounting that was saved to files: text, JSON, Standard Workload Format."""

from __future__ import annotations

import itertools

import pytest

from slurm_topo.errors import InputError
from slurm_topo.slurm.recorded import read_accounting_file

SWF = """\
; Version: 2.2
; Computer: Seth
; UnixStartTime: 1000000
;
1 10 5 100 4 90.5 2048 4 200 -1 1 7 3 12 1 2 -1 -1
2 20 -1 -1 -1 -1 -1 8 200 -1 5 7 3 -1 1 -1 -1 -1 {extra} columns
0 30 0 3 1 1 -1 1 -1 -1 0 -1 -1 -1 -1 -1 -1 -1
"""


def read(tmp_path, text: str | bytes, name: str = "log"):
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return list(read_accounting_file(path))


def test_workload_format(tmp_path):
    first, second, third = read(tmp_path, SWF)
    assert (first.job, first.cluster, first.user, first.account, first.name, first.partition) == (
        1,
        "Seth",
        "7",
        "3",
        "12",
        "2",
    )
    assert (first.submitted, first.started, first.ended) == (1000010, 1000015, 1000115)
    assert (first.elapsed_s, first.cpus, first.cpu_s, first.max_rss, first.state) == (
        100,
        4,
        362.0,
        2097152,
        "COMPLETED",
    )
    assert (second.started, second.elapsed_s, second.cpus, second.state, second.partition) == (
        None,
        None,
        8,
        "CANCELLED",
        "1",
    )
    assert (third.job, third.user, third.state) == (0, "", "FAILED")
    assert all(row.final for row in (first, second, third))


def test_table_with_another_delimiter_and_names(tmp_path):
    day = "2026-12-01T"
    text = (
        "JobIDRaw;JobName;Submit;Start;End;State;AllocCPUS\r\n"
        f"5;a;{day}00:00:00;{day}00:00:10;{day}00:01:10;COMPLETED;8\r\n"
    )
    (row,) = read(tmp_path, text)
    assert (row.job, row.name, row.cpus, row.elapsed_s, row.state) == (5, "a", 8, 60.0, "COMPLETED")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "names no columns"),
        ("hello world\n", "names no columns"),
        ("JobIDRaw|JobName\n1|a\n", "has no column Submit"),
        ("JobIDRaw|Submit|State\n1|x\n", "a record of 2 fields"),
        ("{", "cannot be understood"),
        ('{"jobs": [{"job_id": 1}]}', "cannot be understood"),
        ("; Version: 2.2\n1 2 3\n", "line 2 has not 18 numbers"),
        (b"\xff\xfe\x00", "names no columns"),
    ],
)
def test_rubbish_is_named_in_one_line(tmp_path, text, said):
    with pytest.raises(InputError, match=said) as caught:
        read(tmp_path, text)
    assert "\n" not in str(caught.value)
    assert str(tmp_path) in str(caught.value)


def test_missing_file(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        list(read_accounting_file(tmp_path / "no"))


def test_real_logs(shared_data):
    folder = shared_data / "data" / "traces" / "alea"
    for name, count in (("Alea_data-set_hpc2n.swf", 1000), ("Alea_data-set_wagap-2013.swf", 1000)):
        rows = list(itertools.islice(read_accounting_file(folder / name), count))
        assert len(rows) == count
        assert all(row.submitted > 1_000_000_000 for row in rows)
        assert sum(row.elapsed_s is not None for row in rows) > 900


def test_real_json(shared_data):
    folder = shared_data / "data" / "slurm" / "slurm-web" / "slurmrestd" / "25.11" / "0.0.44"
    (job, *steps) = read_accounting_file(folder / "slurmdb-job-completed.json")
    assert (job.step, job.state) == ("", "COMPLETED")
    assert steps
