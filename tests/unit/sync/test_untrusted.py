"""Users' files are the users': rubbish in them harms nobody, and root never follows them anywhere."""

from __future__ import annotations

import json
import os

import pytest

from slurm_topo.history.sync import spool as spool_module
from slurm_topo.history.sync.files import SpoolError
from slurm_topo.history.sync.spool import open_spool, spool_users

NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
BAD_LINES = [
    b"{",
    b"[]",
    b'"text"',
    b"\xff\xfe\x00",
    b'{"format": "slurm-topo-record", "version": 2}',
    b'{"format": "other", "version": 1}',
    b"[" * 5000,
    b'{"format": "slurm-topo-record", "version": 1, "job": 99, "where": "srun"}',
]


@pytest.mark.parametrize("line", BAD_LINES)
def test_lines_that_are_no_records_are_set_aside_and_the_others_count(site, line):
    site.add_job(1)
    site.record(1, "place", "cost")
    path = site.user_spool / "records" / "1.4711.n1.rec"
    site.write("records", path.name, line + b"\n" + path.read_bytes())
    result = site.sync()
    assert result.outcome.records == 1
    assert len(result.outcome.rejected) == 1
    assert site.spool_files() == ["rejected/1.4711.n1.rec"]
    with site.history() as history:
        (run,) = history.runs()
        assert run.decision == "place"
        assert len(history.rejected_files()) == 1
    assert site.sync().outcome.rejected == []


@pytest.mark.parametrize(
    "values",
    [
        {"ranks": "many", "cost": "cheap", "time": None, "reason": {"a": 1}},
        {"ranks": 10**40, "cost": float("inf"), "seconds": -1},
        {"reason": "a\u0000b\ud800c", "decision": "x" * 5000, "graph": ["no"]},
        {"plan": "../../../../etc/passwd"},
    ],
)
def test_values_of_any_kind_are_stored_or_dropped(site, values):
    site.add_job(1)
    told = {
        "format": "slurm-topo-record",
        "version": 1,
        "time": 5,
        "where": "srun",
        "job": 1,
        "ranks": 8,
        "decision": "none",
    }
    site.write("records", "1.1.n1.rec", json.dumps(told | values) + "\n")
    site.sync()
    with site.history() as history:
        (run,) = history.runs()
        assert len(history.decisions(run.id)) == 1


def test_bindings_of_impossible_ranks_are_dropped(site):
    site.add_job(1)
    told = {"format": "slurm-topo-record", "version": 1, "where": "task", "job": 1, "step": "0", "node": "n1"}
    site.write("records", "1.0.n1.rec", json.dumps(told | {"rank": 99999999}) + "\n")
    site.sync()
    with site.history() as history:
        (run,) = history.runs()
        assert all(s.bindings == "" for s in history.steps(run.id))


def damaged(content: bytes) -> list[bytes]:
    flipped = bytearray(content)
    flipped[3000] ^= 1
    return [
        b"",
        b"x",
        content[:-1],
        content[:2100],
        content + b"\0" * 8,
        bytes(flipped),
        b"\xff" * len(content),
    ]


@pytest.mark.parametrize("which", range(7))
def test_damaged_trace_is_set_aside_with_its_reason(site, which):
    keys = site.add_job(1, arm="observe")
    site.trace(1, keys)
    path = site.user_spool / "traces" / "1.0.n2.trace"
    content = damaged(path.read_bytes())[which]
    site.write("traces", path.name, content)
    result = site.sync()
    assert len(result.outcome.rejected) == 1
    assert site.spool_files() == ["rejected/1.0.n2.trace"]
    assert (site.user_spool / "rejected" / "1.0.n2.trace").read_bytes() == content
    with site.history() as history:
        ((name, reason),) = history.rejected_files()
        assert name.endswith("traces/1.0.n2.trace")
        assert reason
        assert "/tmp" not in reason
        (program,) = history.programs()
        assert program.graph is None
    assert site.sync().outcome.rejected == []


def test_trace_of_another_job_is_set_aside(site):
    site.add_job(1, arm="observe")
    site.trace(1)
    site.write("traces", "1.1.n1.trace", (site.user_spool / "traces" / "1.0.n1.trace").read_bytes())
    result = site.sync()
    assert "is the trace of step 1.0" in result.outcome.rejected[0]


def test_trace_of_impossibly_many_ranks_is_set_aside(site):
    site.add_job(1, arm="observe")
    site.trace(1, size=2**31 - 1, nodes=["n1"])
    result = site.sync()
    assert "tells of 2147483647 ranks" in result.outcome.rejected[0]


def test_rejected_files_of_one_name_are_all_kept(site):
    site.add_job(1, arm="observe")
    for content in (b"first", b"second"):
        site.write("traces", "1.0.n1.trace", content)
        site.sync()
    folder = site.user_spool / "rejected"
    assert (folder / "1.0.n1.trace").read_bytes() == b"first"
    assert (folder / "1.0.n1.trace.1").read_bytes() == b"second"


def test_names_cannot_command_a_terminal(site):
    site.add_job(1, name="\x1b[2J\nhalo")
    site.sync()
    with site.history() as history:
        (program,) = history.programs()
    assert program.name == "?[2J?halo"


def test_links_devices_and_pipes_are_left_alone(site, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("secret")
    site.add_job(1)
    site.write("records", "1.1.n1.rec", "")
    folder = site.user_spool / "records"
    (folder / "1.2.n1.rec").symlink_to(secret)
    os.mkfifo(folder / "1.3.n1.rec")
    (folder / "1.4.n1.rec").mkdir()
    site.sync()
    assert secret.read_text() == "secret"
    assert (folder / "1.2.n1.rec").is_symlink()


def test_folder_that_is_a_link_is_not_entered(site, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    (elsewhere / "1.0.n1.trace").write_text("x")
    (site.user_spool / "traces").symlink_to(elsewhere)
    site.add_job(1)
    result = site.sync()
    assert (elsewhere / "1.0.n1.trace").exists()
    assert "cannot be used" in result.outcome.warnings[0]


def test_spool_folder_that_others_can_write_is_not_used(site):
    site.add_job(1)
    site.trace(1)
    site.user_spool.chmod(0o777)
    result = site.sync()
    assert "can be written by others" in result.outcome.warnings[0]
    assert len(site.spool_files()) == 4


def test_only_numbers_are_users(site):
    for name in ("abc", "12x", "-1", "٣"):
        (site.user_spool.parent / name).mkdir()
    (site.user_spool.parent / "77").symlink_to("/")
    (site.user_spool.parent / "78").write_text("")
    assert spool_users(site.settings.spool) == [site.uid]


def test_oversized_file_stays(site, monkeypatch):
    from slurm_topo.history.sync import inbox

    monkeypatch.setitem(inbox._LIMITS, "records", 100)
    site.add_job(1)
    site.write("records", "1.1.n1.rec", "x" * 101)
    result = site.sync()
    assert "is larger than 100 bytes" in result.outcome.warnings[0]
    assert site.spool_files() == ["records/1.1.n1.rec"]


def test_job_with_too_many_bytes_stays(site, monkeypatch):
    from slurm_topo.history.sync import jobfiles

    monkeypatch.setattr(jobfiles, "MAX_JOB_BYTES", 1000)
    site.trace(1, site.add_job(1))
    result = site.sync()
    assert "more than is read" in result.outcome.warnings[0]
    assert len(site.spool_files()) == 4


def test_folders_of_others_are_named_once(site, monkeypatch):
    from slurm_topo.history.sync import run
    from slurm_topo.history.sync.files import SpoolDeniedError

    def deny(spool, uid):
        raise SpoolDeniedError("Permission denied")

    monkeypatch.setattr(run, "open_spool", deny)
    (site.user_spool.parent / "4242").mkdir()
    site.add_job(1)
    result = site.sync()
    assert result.outcome.warnings == [
        f"{site.settings.spool}: folders of 2 other users cannot be read; "
        "run sync as root for their traces and graphs"
    ]
    assert result.jobs == 1


def test_cluster_description_of_a_user_is_replaced(site):
    path = site.user_spool.parent / "cluster.json"
    if os.geteuid() == 0:
        path.write_text("{}")
        os.chown(path, NOBODY, NOBODY)
    else:
        path.symlink_to("/etc/passwd")
    result = site.sync()
    assert result.outcome.warnings == []
    assert path.stat().st_uid == os.geteuid()
    assert '"slurm-topo-cluster"' in path.read_text()


def test_folder_in_place_of_the_cluster_description_is_moved_aside(site):
    path = site.user_spool.parent / "cluster.json"
    (path / "inside").mkdir(parents=True)
    result = site.sync()
    assert result.outcome.warnings == []
    assert '"slurm-topo-cluster"' in path.read_text()
    assert (path.with_name("cluster.json.0") / "inside").is_dir()


@as_root
class TestAsRoot:
    """Root reads and writes a user's folder in a child that has become the user."""

    @pytest.fixture
    def site(self, make_site, tmp_path):
        for folder in (tmp_path, *tmp_path.parents):
            if folder.stat().st_uid == 0 and folder.is_relative_to("/tmp") and str(folder) != "/tmp":
                folder.chmod(0o755)
        site = make_site("root", uid=NOBODY)
        os.chown(site.user_spool, NOBODY, NOBODY)
        return site

    def test_files_are_read_and_written_as_the_user(self, site):
        keys = site.add_job(1, arm="observe")
        site.trace(1, keys)
        result = site.sync()
        assert (result.outcome.traces, result.outcome.warnings) == (1, [])
        # The traced one, and those predicted from it.
        found = [graph.stat() for graph in (site.user_spool / "graphs").iterdir()]
        assert found
        assert {(about.st_uid, about.st_mode & 0o777) for about in found} == {(NOBODY, 0o600)}
        assert site.spool_files() == []

    def test_child_has_the_users_identity_for_good(self, site, monkeypatch):
        def confess(files, requests, answers):
            spool_module._send(answers, {"ids": [os.getresuid(), os.getresgid(), os.getgroups()]}, b"")

        monkeypatch.setattr(spool_module, "_answer_all", confess)
        seen = []
        original = spool_module._receive

        def receive(handle):
            head, content = original(handle)
            seen.append(head)
            return head, content

        monkeypatch.setattr(spool_module, "_receive", receive)
        with open_spool(site.settings.spool, NOBODY):
            pass
        users, groups, others = seen[0]["ids"]
        assert users == [NOBODY] * 3
        assert 0 not in groups
        assert 0 not in others

    def test_link_to_roots_file_is_not_readable(self, site, tmp_path):
        secret = tmp_path / "secret"
        secret.write_text("secret")
        secret.chmod(0o600)
        (site.user_spool / "records").mkdir(mode=0o700)
        os.chown(site.user_spool / "records", NOBODY, NOBODY)
        (site.user_spool / "records" / "1.1.n1.rec").symlink_to(secret)
        os.link(secret, site.user_spool / "records" / "1.2.n1.rec")
        with open_spool(site.settings.spool, NOBODY) as spool:
            assert spool.list("records") == []
            for name in ("1.1.n1.rec", "1.2.n1.rec"):
                with pytest.raises(SpoolError):
                    spool.read("records", name, 100)

    def test_folder_of_another_user_is_refused(self, site):
        os.chown(site.user_spool, 4242, 4242)
        with pytest.raises(SpoolError), open_spool(site.settings.spool, NOBODY):
            pass

    @pytest.mark.parametrize("name", ["../x", "a/b", "", ".", "..", "a\0b"])
    def test_names_cannot_leave_the_folder(self, site, name):
        with open_spool(site.settings.spool, NOBODY) as spool:
            for call in (spool.remove, spool.set_aside):
                with pytest.raises(SpoolError):
                    call("records", name)

    def test_child_that_dies_is_an_error_of_this_folder_only(self, site, monkeypatch):
        def die(files, requests, answers):
            os._exit(3)

        monkeypatch.setattr(spool_module, "_answer_all", die)
        site.add_job(1)
        result = site.sync()
        assert "its reader has ended" in result.outcome.warnings[0]
        assert result.jobs == 1

    def test_answers_are_not_trusted(self, site, monkeypatch):
        def lie(files, requests, answers):
            spool_module._send(answers, {"ready": True}, b"")
            spool_module._receive(requests)
            spool_module._send(answers, {"files": [["x"], 5]}, b"")

        monkeypatch.setattr(spool_module, "_answer_all", lie)
        with (
            open_spool(site.settings.spool, NOBODY) as spool,
            pytest.raises(SpoolError, match="wrong answer"),
        ):
            spool.list("records")
