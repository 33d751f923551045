"""Keys are the same in every Lua and in Python."""

from __future__ import annotations

import importlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_topo.slurm.fingerprint import digest, fingerprint_keys, normalise

VERSIONS = ("lua51", "lua53", "lua54")
TEXT = st.one_of(
    st.binary(max_size=300),
    st.text(alphabet=" \t\r\nab\xe4", max_size=200).map(lambda t: t.encode()),
    st.tuples(st.binary(min_size=1, max_size=9), st.integers(7000, 16000)).map(lambda p: p[0] * p[1]),
)


@pytest.fixture(scope="module", params=VERSIONS)
def lua(request, project_root):
    runtime = importlib.import_module(f"lupa.{request.param}").LuaRuntime(encoding=None)
    module = runtime.execute((project_root / "job_submit" / "slurm_topo" / "fingerprint.lua").read_bytes())
    return runtime, module


@settings(max_examples=150, deadline=None)
@given(content=TEXT)
def test_digest_and_normalisation_agree(lua, content):
    _, module = lua
    script = content.replace(b"\0", b"")
    assert module[b"digest"](content) == digest(content).encode()
    assert module[b"normalise"](script) == normalise(script)


@settings(max_examples=50, deadline=None)
@given(
    script=TEXT,
    name=st.binary(max_size=40) | st.sampled_from([b"run12", b"wrap", b"2026-12-01"]),
    account=st.binary(max_size=10),
    executable=st.none()
    | st.binary(max_size=30)
    | st.sampled_from([b"", b"./a.out", b"$HOME/bin/halo", b"/x/python3 /y/halo.py", b"/"]),
)
def test_keys_agree(lua, script, name, account, executable):
    runtime, module = lua
    fields = {b"user": b"1000", b"shape": b"8x1", b"script": script, b"name": name, b"account": account}
    if executable is not None:
        fields[b"executable"] = executable
    keys, joined = module[b"keys"](runtime.table_from(fields))
    expected = fingerprint_keys("1000", "8x1", script, name, account, executable)
    assert [k.decode() for k in keys.values()] == expected
    assert joined.decode() == ":".join(expected)


@pytest.mark.parametrize("byte", [0, 255])
def test_longest_input_stays_exact(lua, byte):
    _, module = lua
    content = bytes([byte]) * 65536
    assert module[b"digest"](content) == digest(content).encode()


def test_line_ends_do_not_change_the_key(lua):
    _, module = lua
    unix, dos = b"#!/bin/sh\nsrun ./a\n", b"#!/bin/sh \r\nsrun ./a\t\r\n"
    assert module[b"normalise"](unix) == module[b"normalise"](dos)
    assert fingerprint_keys("1", "8x1", unix) == fingerprint_keys("1", "8x1", dos)


def test_long_runs_of_blanks_cost_their_length(lua):
    # A pattern that tries every start would take the square of their length, under slurmctld's locks.
    _, module = lua
    content = (b" " * 8191) + b"x"
    assert module[b"normalise"](content) == content
    assert module[b"normalise"](b"\n" + b" " * 8191) == b""


def test_middle_of_a_long_script_does_not_count(lua):
    _, module = lua
    head, tail = b"#!/bin/sh\n" + b"e" * 4085 + b"\n", b"f" * 4086 + b"\nsrun ./a\n"
    first, second = head + b"x = 1\n" * 20000 + tail, head + b"x = 2\n" * 3 + tail
    assert module[b"normalise"](first) == module[b"normalise"](second) == head[10:] + tail[-4096:-1]


def test_comments_and_options_of_sbatch_do_not_change_the_key(lua):
    _, module = lua
    bare, full = b"srun ./a", b"#!/bin/sh\n#SBATCH -t 10\n  # why\n\nsrun ./a\n"
    assert module[b"normalise"](full) == module[b"normalise"](bare) == bare
    exported = b"#SBATCH --export=APP=b\nsrun $APP"
    assert module[b"normalise"](exported) == exported


@pytest.mark.parametrize("executable", [b"a.out", b"./bin/main", b"python3 train.py"])
def test_names_that_anybody_has_are_no_key_of_their_own(lua, executable):
    kinds = [k[0] for k in fingerprint_keys("1", "8x1", b"srun x", b"case7", b"acc", executable)]
    assert kinds == ["s", "n"]
    one, two = (fingerprint_keys("1", "8x1", b"", n, b"acc", executable) for n in (b"case7", b"case8"))
    assert set(one).isdisjoint(two)


@pytest.mark.parametrize(
    ("fields", "shape"),
    [
        ({"num_tasks": 8.0}, "8x1"),
        ({"num_tasks": 8.0, "cpus_per_task": 4.0}, "8x4"),
        ({"num_tasks": 8.0, "cpus_per_task": 65534.0}, "8x1"),
        ({"num_tasks": 8.0, "cpus_per_task": 65535.0}, "8x1"),
        ({"num_tasks": 254.0}, "254x1"),
        ({"num_tasks": 4294967294.0, "min_nodes": 2.0, "ntasks_per_node": 4.0}, "8x1"),
        ({"num_tasks": 4294967294.0, "min_nodes": 4.0}, "0n4x1"),
        ({"num_tasks": 4294967294.0, "shared": 0.0}, "0x1"),
    ],
)
def test_shape_of_a_job(start, fields, shape):
    controller = start()
    keys = controller.keys(**fields)
    script = b"#!/bin/sh\n#SBATCH -n 8\nsrun ./halo 40\n"
    assert keys == fingerprint_keys("1000", shape, script, b"halo", b"physics", b"./halo")
