"""mpirun's command line and parameters, and lists of LD_PRELOAD."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

Drive = Callable[..., object]

JOB = {"SLURM_JOB_ID": "77", "SLURM_NTASKS": "4", "SLURM_JOB_NUM_NODES": "2"}


@pytest.mark.parametrize(
    "arguments",
    [
        ("./app",),
        ("-n", "4", "./app", "--map-by", "node"),
        ("--np", "4", "-x", "HOME", "-mca", "btl", "tcp,self", "--mca", "pml", "ob1", "-q", "./app"),
        ("--wdir", "/tmp", "-report-bindings", "--tag-output", "./app", "-n", "9"),
    ],
)
def test_shape_of_mpirun_is_certain(drive: Drive, arguments: tuple[str, ...]) -> None:
    out = drive("mpirun-shape", *arguments, env=JOB, name="mpi").stdout.splitlines()
    assert out[0] == "0 certain"
    assert out[1].startswith("ntasks 4 cpus 1 nodes 2 ")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("-n", "2", "./app"), "shape: ntasks differs from the job's"),
        (("--map-by", "node", "./app"), "shape: mpirun option --map-by"),
        (("-bind-to", "none", "./app"), "shape: mpirun option -bind-to"),
        (("--hostfile", "x", "./app"), "shape: mpirun option --hostfile"),
        (("--oversubscribe", "./app"), "shape: mpirun option --oversubscribe"),
        (("-H", "n1", "./app"), "shape: mpirun option -H"),
        (("-mca", "rmaps_base_mapping_policy", "node", "./app"), "user: rmaps_base_mapping_policy"),
        (("-mca", "hwloc_base_binding_policy", "none", "./app"), "user: hwloc_base_binding_policy"),
        (("-mca", "btl"), "shape: mpirun option -mca has no value"),
        (("-n", "4", "./app", ":", "./b"), "shape: heterogeneous step"),
    ],
)
def test_uncertain_mpirun_stands_down(drive: Drive, arguments: tuple[str, ...], reason: str) -> None:
    assert drive("mpirun-shape", *arguments, env=JOB, name="mpi").stdout.splitlines()[0] == f"-1 {reason}"


def test_word_on_mapping_is_found_in_parameters(drive: Drive, tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path)}
    assert drive("mpirun-wish", env={**home, "OMPI_MCA_btl": "tcp"}).stdout == "none\n"
    named = {**home, "OMPI_MCA_rmaps_base_oversubscribe": "1"}
    assert drive("mpirun-wish", env=named).stdout == "user: OMPI_MCA_rmaps_base_oversubscribe\n"
    (tmp_path / ".openmpi").mkdir()
    file = tmp_path / ".openmpi" / "mca-params.conf"
    file.write_text("# rmaps_base_mapping_policy = node\nbtl = tcp\n")
    assert drive("mpirun-wish", env=home).stdout == "none\n"
    file.write_text("btl = tcp\n  hwloc_base_binding_policy = none")
    assert drive("mpirun-wish", env=home).stdout == f"user: hwloc_base_binding_policy in {file}\n"


@pytest.mark.parametrize(
    ("before", "room", "after"),
    [
        ("/a/libx.so", 50, "1 "),
        ("/a/libx.so:/b/liby.so", 50, "1 /b/liby.so"),
        ("/b/liby.so /a/libx.so:libx.so::/c/mylibx.so", 50, "1 /b/liby.so:/c/mylibx.so"),
        ("/b/liby.so", 11, "1 /b/liby.so"),
        ("/b/liby.so", 10, "0 "),
        ("a:b", 4, "1 a:b"),
        ("a:b", 3, "0 a"),
    ],
)
def test_library_is_taken_out_of_a_list(drive: Drive, before: str, room: int, after: str) -> None:
    assert drive("preload", before, "libx.so", str(room)).stdout == after + "\n"
