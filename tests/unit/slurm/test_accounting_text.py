"""sacct's text is read whatever stands in it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_topo.errors import SlurmError
from slurm_topo.slurm.sacct import FIELDS, parse_sacct, read_accounting

NOTHING = dict.fromkeys(FIELDS, "")
JOB = NOTHING | {
    "JobIDRaw": "12",
    "JobID": "12",
    "JobName": "halo",
    "User": "ada",
    "UID": "1000",
    "Account": "physics",
    "Partition": "batch",
    "Cluster": "lab",
    "Submit": "2026-12-01T04:00:00",
    "Start": "2026-12-01T04:00:10",
    "End": "2026-12-01T04:01:10",
    "State": "COMPLETED",
    "ExitCode": "0:0",
    "NNodes": "4",
    "NCPUS": "8",
    "AllocTRES": "billing=8,cpu=8,gres/gpu:a100=2,gres/gpu=2,node=4",
    "ConsumedEnergyRaw": "1500",
    "TotalCPU": "07:59.500",
    "AdminComment": "slurm-topo:1 arm=off reason=tasks",
    "ElapsedRaw": "60",
}


def line(delimiter: str = "|", **values: str) -> str:
    return delimiter.join((JOB | values)[field] for field in FIELDS) + "\n"


def one(**values: str):
    (row,) = parse_sacct(line(**values))
    return row


def test_job_is_read_in_utc_and_si_units():
    row = one()
    assert (row.job, row.step, row.user, row.uid, row.nodes, row.cpus, row.gpus) == (
        12,
        "",
        "ada",
        1000,
        4,
        8,
        2,
    )
    assert row.submitted == 1796097600
    assert (row.started, row.ended) == (1796097610, 1796097670)
    assert (row.elapsed_s, row.cpu_s, row.energy_j) == (60.0, 479.5, 1500.0)
    assert row.final


@pytest.mark.parametrize(
    ("identity", "job", "step"),
    [
        ("12.batch", 12, "batch"),
        ("12.extern", 12, "extern"),
        ("12.0", 12, "0"),
        ("12.interactive", 12, "interactive"),
        ("12+0.4", 12, "4"),
    ],
)
def test_steps_are_told_apart(identity, job, step):
    row = one(JobIDRaw=identity)
    assert (row.job, row.step) == (job, step)


def test_array_and_heterogeneous_ids():
    array = one(JobIDRaw="103", JobID="100_3")
    assert (array.job, array.array_job, array.array_task, array.het_job) == (103, 100, 3, None)
    het = one(JobIDRaw="201", JobID="200+1")
    assert (het.job, het.het_job, het.het_offset, het.array_job) == (201, 200, 1, None)


@pytest.mark.parametrize(
    "energy", ["0", "", "4294967294", "18446744073709551614", "18446744073709551615", "-2"]
)
def test_sentinels_are_no_energy(energy):
    assert one(ConsumedEnergyRaw=energy).energy_j is None


@pytest.mark.parametrize(
    ("tres", "gpus"),
    [
        ("", None),
        ("billing=1,cpu=1,mem=1000M,node=1", None),
        ("gres/gpu:volta=2,mem=125G,node=1", 2),
        ("gres/gpu:a=2,gres/gpu:b=3", 5),
        ("gres/gpu:a100=4,gres/gpu=4", 4),
        ("gres/gpu=4294967294", None),
        ("rubbish", None),
    ],
)
def test_gpus_typed_and_untyped(tres, gpus):
    assert one(AllocTRES=tres).gpus == gpus


@pytest.mark.parametrize(
    ("text", "state", "final"),
    [("CANCELLED by 1000", "CANCELLED", True), ("RUNNING", "RUNNING", False), ("TIMEOUT", "TIMEOUT", True)],
)
def test_states(text, state, final):
    row = one(State=text)
    assert (row.state, row.final) == (state, final)


def test_times_that_are_not_known():
    row = one(Start="Unknown", End="Unknown", ElapsedRaw="", TotalCPU="INVALID", NodeList="None assigned")
    assert (row.started, row.ended, row.elapsed_s, row.cpu_s, row.node_list) == (None, None, None, None, "")
    assert not row.final


def test_elapsed_of_65534_seconds_is_a_time():
    assert one(ElapsedRaw="65534").elapsed_s == 65534


def test_line_breaks_in_a_name_do_not_end_the_record():
    text = line(JobName="a\nb\n\nc") + line(JobIDRaw="13")
    rows = list(parse_sacct(text))
    assert [row.name for row in rows] == ["a\nb\n\nc", "halo"]


def test_delimiter_in_a_name_of_recorded_output():
    (row,) = parse_sacct(line(JobName="a|b|c"))
    assert (row.name, row.user) == ("a|b|c", "ada")


@given(st.text(alphabet=st.characters(exclude_categories=("Cs",)), max_size=30))
def test_any_name_survives(name):
    (row,) = parse_sacct(line("\x1fzz\x1f", JobName=name), FIELDS, "\x1fzz\x1f")
    assert (row.name, row.account, row.elapsed_s) == (name, "physics", 60.0)


def test_truncated_output_is_an_error():
    with pytest.raises(SlurmError, match="a record of 3 fields where 27 were asked for"):
        list(parse_sacct("12|12|halo"))


def test_pending_array_without_raw_id_is_left_out():
    assert list(parse_sacct(line(JobIDRaw="100_[1-3]"))) == []


class FakeSacct:
    """Answers like sacct: knows its fields, uses the delimiter that it is given."""

    def __init__(self, missing: tuple[str, ...] = ()) -> None:
        self.calls: list[list[str]] = []
        self.missing = missing

    def __call__(self, argv):
        self.calls.append(list(argv))
        options = dict(word.split("=", 1) for word in argv if "=" in word)
        fields = options["--format"].split(",")
        for field in self.missing:
            if field in fields:
                raise SlurmError(f'sacct: failed (Invalid field requested: "{field}"); try it by hand')
        return options["--delimiter"].join(JOB[field] for field in fields) + "\n"


def test_unknown_field_of_another_release_is_left_out():
    sacct = FakeSacct(missing=("AdminComment", "UID"))
    (row,) = read_accounting(0, 100, run=sacct)
    assert (row.name, row.uid, row.admin_comment) == ("halo", None, "")
    assert len(sacct.calls) == 3


def test_delimiter_cannot_be_guessed():
    sacct = FakeSacct()
    list(read_accounting(0, run=sacct))
    list(read_accounting(0, run=sacct))
    first, second = ([w for w in call if w.startswith("--delimiter")] for call in sacct.calls)
    assert first != second


def test_window_is_asked_for_in_utc():
    sacct = FakeSacct()
    list(read_accounting(1796097600, 1796097660, run=sacct))
    (call,) = sacct.calls
    assert call[call.index("--starttime") + 1] == "2026-12-01T04:00:00"
    assert call[call.index("--endtime") + 1] == "2026-12-01T04:01:00"


def test_many_ids_are_asked_for_in_parts():
    sacct = FakeSacct()
    list(read_accounting(jobs=range(1, 1001), run=sacct))
    assert len(sacct.calls) == 3
    assert all("--starttime" in call for call in sacct.calls)


def test_other_failures_are_not_hidden():
    def fail(argv):
        raise SlurmError("sacct: failed (Slurm accounting storage is disabled); try it by hand")

    with pytest.raises(SlurmError, match="disabled"):
        list(read_accounting(0, run=fail))
