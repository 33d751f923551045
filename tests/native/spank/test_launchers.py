"""Command lines and parameters of each family's mpirun, and lists of LD_PRELOAD."""

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


FAMILIES = [
    # family, arguments, reason
    ("prrte", ("-n", "4", "--prtemca", "plm", "slurm", "--output", "tag", "./app"), ""),
    ("prrte", ("--map-by", "node", "./app"), "shape: mpirun option --map-by"),
    ("prrte", ("--hostfile", "x", "./app"), "shape: mpirun option --hostfile"),
    ("prrte", ("--prtemca", "rmaps_default_mapping_policy", "node", "./app"), "user: rmaps_default_mapping"),
    ("prrte", ("--mca", "hwloc_base_binding_policy", "none", "./app"), "user: hwloc_base_binding_policy"),
    ("prrte", ("-x", "LD_PRELOAD=/mine.so", "./app"), "user: LD_PRELOAD"),
    ("hydra", ("-np", "4", "-genv", "A", "b", "-l", "-iface", "eth0", "./app", "-ppn", "1"), ""),
    ("hydra", ("-n", "2", "./app"), "shape: ntasks differs"),
    ("hydra", ("-ppn", "2", "./app"), "shape: mpiexec option -ppn"),
    ("hydra", ("-bind-to", "core", "./app"), "shape: mpiexec option -bind-to"),
    ("hydra", ("-f", "hosts", "./app"), "shape: mpiexec option -f"),
    ("hydra", ("-rankmap", "0,1", "./app"), "shape: mpiexec option -rankmap"),
    ("hydra", ("-genvnone", "./app"), "shape: mpiexec option -genvnone"),
    ("hydra", ("-genv", "LD_PRELOAD", "x", "./app"), "user: LD_PRELOAD"),
    ("hydra", ("-n", "2", "./a", ":", "-n", "2", "./b"), "shape: heterogeneous step"),
    ("intel", ("-n", "4", "-print-rank-map", "-genv", "I_MPI_DEBUG", "3", "./app"), ""),
    ("intel", ("-genv", "I_MPI_PIN_DOMAIN", "node", "./app"), "user: I_MPI_PIN_DOMAIN"),
    ("intel", ("-hosts", "n1", "./app"), "shape: mpiexec option -hosts"),
]


@pytest.mark.parametrize(("family", "arguments", "reason"), FAMILIES)
def test_each_family_has_its_options(
    drive: Drive, family: str, arguments: tuple[str, ...], reason: str
) -> None:
    said = drive("mpirun-shape", *arguments, env={**JOB, "FAMILY": family}, name="mpi").stdout.splitlines()[0]
    assert said.startswith(f"-1 {reason}" if reason else "0 certain")


WISHES = [
    ("prrte", "PRTE_MCA_rmaps_default_mapping_policy", "x", True),
    ("prrte", "PRTE_MCA_prte_default_hostfile", "x", True),
    ("prrte", "OMPI_MCA_hwloc_base_binding_policy", "x", True),
    ("prrte", "PRTE_MCA_plm", "slurm", False),
    ("hydra", "HYDRA_HOST_FILE", "x", True),
    ("hydra", "HYDRA_BINDING", "core", True),
    ("hydra", "HYDRA_LAUNCHER", "ssh", True),
    ("hydra", "HYDRA_LAUNCHER", "slurm", False),
    ("hydra", "HYDRA_LAUNCHER_EXTRA_ARGS", "--mpi=none", False),
    ("intel", "I_MPI_PIN_PROCESSOR_LIST", "0", True),
    ("intel", "I_MPI_PERHOST", "1", True),
    ("intel", "I_MPI_HYDRA_BOOTSTRAP", "ssh", True),
    ("intel", "I_MPI_HYDRA_BOOTSTRAP", "slurm", False),
    ("intel", "I_MPI_FABRICS", "ofi", False),
]


@pytest.mark.parametrize(("family", "name", "value", "is_wish"), WISHES)
def test_each_family_has_its_variables(
    drive: Drive, tmp_path: Path, family: str, name: str, value: str, is_wish: bool
) -> None:
    said = drive("mpirun-wish", env={"HOME": str(tmp_path), "FAMILY": family, name: value}).stdout
    assert said == (f"user: {name}\n" if is_wish else "none\n")


@pytest.mark.parametrize(
    ("family", "name", "text"),
    [
        ("prrte", ".prte/mca-params.conf", "rmaps_default_mapping_policy = node"),
        ("hydra", ".mpiexec.hydra.conf", "-bind-to core"),
        ("intel", ".mpiexec.conf", "-ppn 1"),
    ],
)
def test_each_family_has_its_files(drive: Drive, tmp_path: Path, family: str, name: str, text: str) -> None:
    env = {"HOME": str(tmp_path), "FAMILY": family}
    assert drive("mpirun-wish", env=env).stdout == "none\n"
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(text + "\n")
    assert drive("mpirun-wish", env=env).stdout.startswith("user: ")


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
