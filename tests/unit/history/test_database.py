"""The database is made, migrated and refused as it should be."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
import threading
import time
from pathlib import Path

import pytest
from sqlalchemy import inspect, text

from slurm_topo.errors import HistoryError
from slurm_topo.history import database
from slurm_topo.history.database import Migration, open_engine, transaction
from slurm_topo.history.schema import metadata
from slurm_topo.history.store import open_history


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "history.sqlite")


def columns(inspector, table):
    return {(c["name"], str(c["type"]).split("(")[0], c["nullable"]) for c in inspector.get_columns(table)}


def test_migrations_make_exactly_the_schema(path):
    engine = open_engine(path)
    found = inspect(engine)
    assert set(found.get_table_names()) - {"schema_versions"} == set(metadata.tables)
    other = open_engine("sqlite://", create=True)
    other.dispose()
    fresh = open_engine(path + ".2")
    with transaction(fresh) as connection:
        for table in reversed(metadata.sorted_tables):
            connection.execute(text(f"DROP TABLE {table.name}"))
        metadata.create_all(connection)
    made = inspect(fresh)
    for name in metadata.tables:
        assert columns(found, name) == columns(made, name), name
        assert (
            found.get_pk_constraint(name)["constrained_columns"]
            == made.get_pk_constraint(name)["constrained_columns"]
        )
        keys = [
            sorted((f["referred_table"], tuple(f["constrained_columns"])) for f in i.get_foreign_keys(name))
            for i in (found, made)
        ]
        assert keys[0] == keys[1], name
        indexes = [
            sorted((i["name"], tuple(i["column_names"])) for i in side.get_indexes(name))
            for side in (found, made)
        ]
        assert indexes[0] == indexes[1], name
        unique = [
            sorted(tuple(u["column_names"]) for u in side.get_unique_constraints(name))
            for side in (found, made)
        ]
        assert unique[0] == unique[1], name


def test_migrations_are_numbered_without_gaps():
    assert [m.number for m in database.migrations()] == list(range(1, len(database.migrations()) + 1))


def test_database_is_used_with_wal_foreign_keys_and_patience(path):
    engine = open_engine(path)
    with engine.connect() as connection:
        pragmas = [connection.execute(text(f"PRAGMA {p}")).scalar() for p in ("journal_mode", "foreign_keys")]
        assert pragmas == ["wal", 1]
        assert connection.execute(text("PRAGMA busy_timeout")).scalar() == 30000


def test_opening_again_changes_nothing(path):
    open_engine(path, clock=lambda: 1).dispose()
    engine = open_engine(path, clock=lambda: 2)
    with engine.connect() as connection:
        found = connection.execute(text("SELECT number, applied FROM schema_versions")).all()
        assert found == [(m.number, 1) for m in database.migrations()]


def test_migration_that_fails_leaves_nothing(path, monkeypatch):
    broken = [
        *database.migrations(),
        Migration(
            len(database.migrations()) + 1, "broken", "CREATE TABLE extra (a INTEGER); SELECT nonsense"
        ),
    ]
    open_engine(path).dispose()
    monkeypatch.setattr(database, "migrations", lambda: broken)
    with pytest.raises(HistoryError, match="nonsense"):
        open_engine(path)
    monkeypatch.undo()
    engine = open_engine(path)
    assert "extra" not in inspect(engine).get_table_names()


def test_next_migration_is_applied_once(path, monkeypatch):
    number = len(database.migrations()) + 1
    more = [*database.migrations(), Migration(number, "more", "CREATE TABLE extra (a INTEGER)")]
    open_engine(path).dispose()
    monkeypatch.setattr(database, "migrations", lambda: more)
    open_engine(path).dispose()
    engine = open_engine(path)
    assert "extra" in inspect(engine).get_table_names()


def test_newer_schema_is_refused_in_one_line(path):
    engine = open_engine(path)
    with transaction(engine) as connection:
        connection.execute(text("INSERT INTO schema_versions VALUES (99, 'later', 0)"))
    with pytest.raises(HistoryError, match="schema 99 is newer than this release knows") as caught:
        open_engine(path)
    assert "\n" not in str(caught.value)


def test_reader_does_not_migrate(path):
    sqlite3.connect(path).close()
    with pytest.raises(HistoryError, match="run `slurm-topo sync` once"):
        open_history(path)
    assert inspect(open_engine(path + ".new")).get_table_names()


def test_reader_does_not_make_a_database(path, tmp_path):
    with pytest.raises(HistoryError, match="does not exist; run `slurm-topo sync` first"):
        open_history(path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"rubbish" * 1000, b"SQLite format 3\0" + b"\xff" * 5000])
def test_file_that_is_no_database(path, content):
    with open(path, "wb") as stream:
        stream.write(content)
    with pytest.raises(HistoryError, match=r"not a database|malformed") as caught:
        open_engine(path)
    assert "\n" not in str(caught.value)
    with open(path, "rb") as stream:
        assert stream.read() == content


def test_locked_database_is_named(path, monkeypatch):
    monkeypatch.setattr(database, "_BUSY_TIMEOUT_S", 0.05)
    open_engine(path).dispose()
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    engine = open_engine(path)
    with (
        pytest.raises(HistoryError, match="locked; another process writes it"),
        database.database_errors(path),
        transaction(engine),
    ):
        pass
    holder.rollback()


def test_writer_waits_for_another(path):
    engine = open_engine(path)
    holder = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    holder.execute("BEGIN IMMEDIATE")

    def release() -> None:
        time.sleep(0.2)
        holder.rollback()

    thread = threading.Thread(target=release)
    thread.start()
    with transaction(engine) as connection:
        connection.execute(text("INSERT INTO sync_state VALUES ('a', 'b')"))
    thread.join()


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("nonsense://x", "no URL that SQLAlchemy can use"),
        ("postgresql+nodriver://x/y", "no URL that SQLAlchemy can use"),
        ("sqlite:////proc/nothing/history.sqlite", "check the path and its rights"),
    ],
)
def test_bad_urls(url, words):
    with pytest.raises(HistoryError, match=words):
        open_engine(url)


def test_password_is_not_printed():
    with pytest.raises(HistoryError) as caught:
        open_engine("nonsense://ada:secret@host/name")
    assert "secret" not in str(caught.value)


def test_two_processes_may_migrate_at_once(path):
    errors = []

    def migrate() -> None:
        try:
            open_engine(path).dispose()
        except HistoryError as error:
            errors.append(error)

    threads = [threading.Thread(target=migrate) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_reader_who_may_not_write_the_folder_reads_all_the_same():
    # Below pytest's own folder, which is its user's alone.
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    path = folder / "histo ry.sqlite"
    user = os.geteuid()
    try:
        open_engine(str(path)).dispose()
        path.chmod(0o444)
        folder.chmod(0o555)
        if user == 0:
            os.seteuid(65534)
        engine = open_engine(str(path), create=False)
        with engine.connect() as connection:
            assert connection.execute(text("SELECT COUNT(*) FROM programs")).scalar() == 0
        engine.dispose()
        assert [p.name for p in folder.iterdir()] == [path.name]
    finally:
        os.seteuid(user)
        folder.chmod(0o755)
        shutil.rmtree(folder)


@pytest.mark.parametrize(
    "name", ["what?.sqlite", "a b#c", "50%.sqlite", "ä|;'\"", "x?mode=ro", "file:y", "sub/../z"]
)
def test_any_file_name_is_the_file_that_is_made_and_read_again(tmp_path, name):
    (tmp_path / "sub").mkdir()
    made = str(tmp_path / name)
    open_engine(made, clock=lambda: 7).dispose()
    assert os.path.isfile(made)
    assert {p.name.removesuffix("-wal").removesuffix("-shm") for p in tmp_path.iterdir()} == {
        "sub",
        os.path.basename(os.path.normpath(made)),
    }
    engine = open_engine(made, create=False)
    with engine.connect() as connection:
        assert connection.execute(text("SELECT MIN(applied) FROM schema_versions")).scalar() == 7
    engine.dispose()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_reader_without_rights_finds_a_file_of_any_name(tmp_path):
    for folder in (tmp_path, *tmp_path.parents):
        if folder != folder.parent:
            folder.chmod(folder.stat().st_mode | 0o055)
    made = str(tmp_path / "what? 50%#.sqlite")
    open_engine(made).dispose()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setuid(65534)
            open_engine(made, create=False).dispose()
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("setting", ["", "  "])
def test_an_empty_setting_says_what_to_write(setting):
    with pytest.raises(HistoryError, match=r"^database: is empty; set it to the path"):
        open_engine(setting)


def test_a_folder_is_no_database(tmp_path):
    with pytest.raises(HistoryError, match="is a folder; name a file in it"):
        open_engine(str(tmp_path))
