"""GPUs in a real Slurm: its GRES, the plan of a real placement, and what each rank sees of them."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from slurm_topo.lab.cluster import Lab
from slurm_topo.lab.integrate import command
from slurm_topo.lab.options import LabOptions
from slurm_topo.machine import read_cluster
from slurm_topo.model import CommGraph
from slurm_topo.slurm.plan import Plan, read_plan
from slurm_topo.trace import graph_digest, write_graph

SHOW = (
    "srun --mpi=none {options} sh -c 'echo rank $SLURM_PROCID $SLURMD_NODENAME "
    "$(grep Cpus_allowed_list: /proc/self/status | cut -f2) $CUDA_VISIBLE_DEVICES $ROCR_VISIBLE_DEVICES'"
)


@dataclass(frozen=True)
class Seen:
    """What a rank saw."""

    node: str
    cpus: str
    cuda: str
    rocr: str


class GpuSite:
    """A lab of two nodes with two CPUs and two GPUs each, GPU 0 next to CPU 1."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.lab, self.folder = lab, folder
        self.spool = lab.layout.spool / "0"
        # Ranks that Slurm puts on different nodes exchange all.
        graph = CommGraph(
            4,
            np.array([0, 1, 2, 3], dtype=np.int32),
            np.array([2, 3, 0, 1], dtype=np.int32),
            np.full(4, 1e9),
            np.full(4, 100.0),
            np.zeros(4),
        )
        self.digest = graph_digest(graph)
        graphs = self.spool / "graphs"
        graphs.mkdir(parents=True)
        self.spool.chmod(0o700)
        write_graph(graph, graphs / f"{self.digest}.npz")

    def run(self, *options: str, srun: str = "", arm: str = "enforce") -> tuple[dict[int, Seen], Plan | None]:
        """One step in one job: what its ranks saw, and its plan."""
        work = self.folder / f"job{len(list(self.folder.glob('job*')))}"
        work.mkdir()
        exports = {"SLURM_TOPO_JOB_ARM": arm, "SLURM_TOPO_JOB_GRAPH": self.digest}
        lines = ["#!/bin/bash", "unset ${!SLURM_TOPO_JOB_*}"]
        lines += [f"export {name}={shlex.quote(value)}" for name, value in exports.items()]
        (work / "job.sh").write_text("\n".join([*lines, SHOW.format(options=srun), ""]))
        argv = ["sbatch", "--wait", "--parsable", "-N2", "-n4", f"--output={work}/out", *options]
        result = self.lab.run([*argv, str(work / "job.sh")], cwd=str(work), timeout=120)
        assert result.returncode == 0, (result.stderr, (work / "out").read_text())
        rows = re.findall(r"^rank (\d+) (\S+) (\S+) ?(\S*) ?(\S*)$", (work / "out").read_text(), re.MULTILINE)
        assert len(rows) == 4
        job = result.stdout.strip().split(";")[0]
        plans = list((self.spool / "plans").glob(f"{job}-*.plan"))
        seen = {int(r): Seen(node, cpus, cuda, rocr) for r, node, cpus, cuda, rocr in rows}
        return seen, read_plan(plans[0]) if plans else None


@pytest.fixture(scope="module")
def gpus(lab_folder: Path) -> Iterator[GpuSite]:
    """The lab, its nodes known from slurmctld and gres.conf."""
    folder = lab_folder.with_name(lab_folder.name + "-gpu")
    work = lab_folder.with_name(lab_folder.name + "-gpujobs")
    lab = Lab(folder)
    try:
        lab.up(LabOptions(nodes=2, switches=1, cpus=2, gpus=2))
        if not os.path.exists(
            re.findall(r"^optional (\S+) ", _plugstack(lab).read_text() + "optional - ")[0]
        ):
            pytest.fail("the plugin is not built; run `make native`")
        sync = lab.run([command(), "--config", str(lab.layout.etc("slurm-topo.toml")), "sync"])
        assert sync.returncode == 0, sync.stderr
        work.mkdir()
        yield GpuSite(lab, work)
    finally:
        shutil.rmtree(work, ignore_errors=True)
        if folder.exists():
            lab.down(purge=True)


def _plugstack(lab: Lab) -> Path:
    return lab.layout.etc("plugstack.conf")


@contextmanager
def plugin_with(lab: Lab, argument: str) -> Iterator[None]:
    """The plugin with one more argument."""
    before = _plugstack(lab).read_text()
    _plugstack(lab).write_text(before.rstrip("\n") + f" {argument}\n")
    try:
        yield
    finally:
        _plugstack(lab).write_text(before)


def near(seen: Seen) -> str:
    """The GPU next to the CPU that a rank runs on: the lab numbers them against the cores."""
    return {"0": "1", "1": "0"}[seen.cpus]


def assert_placed(seen: Mapping[int, Seen], plan: Plan | None) -> Plan:
    assert plan is not None
    assert plan.decision == "place"
    for rank, place in enumerate(plan.places):
        assert (seen[rank].node, seen[rank].cpus) == (plan.nodes[place.node], str(place.cpus[0]))
        assert place.gpus == (int(near(seen[rank])),)
    return plan


def test_sync_knows_the_cores_next_to_each_gpu(gpus: GpuSite) -> None:
    known = read_cluster(gpus.lab.layout.spool / "cluster.json").gpus("n2")
    assert known is not None
    assert known.pus == ((1,), (0,))


def test_nearest_gpu_comes_first_and_all_stay_visible(gpus: GpuSite) -> None:
    seen, plan = gpus.run("--gres=gpu:2")
    assert_placed(seen, plan)
    for rank in seen.values():
        other = "0" if near(rank) == "1" else "1"
        assert rank.cuda == rank.rocr == f"{near(rank)},{other}"


def test_isolated_rank_sees_its_own_gpu_alone(gpus: GpuSite) -> None:
    with plugin_with(gpus.lab, "gpus=isolate"):
        seen, plan = gpus.run("--gpus-per-node=2")
    assert_placed(seen, plan)
    assert {rank.cuda for rank in seen.values()} == {"0", "1"}
    assert all(rank.cuda == near(rank) for rank in seen.values())


def test_explicit_gpu_binding_is_left_alone(gpus: GpuSite) -> None:
    placed, plan = gpus.run("--gres=gpu:2", srun="--gpu-bind=map_gpu:0,1")
    alone, _ = gpus.run("--gres=gpu:2", srun="--gpu-bind=map_gpu:0,1", arm="off")
    assert plan is None
    assert placed == alone
    # Local task 0 has GPU 0, though GPU 1 is the one next to its CPU.
    assert {rank: seen.cuda for rank, seen in placed.items()} == {0: "0", 1: "1", 2: "0", 3: "1"}


@pytest.mark.parametrize(("job", "step"), [("--gres=gpu:2", "--gpus-per-task=1"), ("--gpus=4", "")])
def test_step_whose_gpus_are_uncertain_is_left_alone(gpus: GpuSite, job: str, step: str) -> None:
    seen, plan = gpus.run(job, srun=step)
    assert plan is None
    assert seen == gpus.run(job, srun=step, arm="off")[0]


@pytest.mark.parametrize("options", [[], ["--gres=gpu:1"]])
def test_without_a_choice_of_gpus_slurms_view_stays(gpus: GpuSite, options: list[str]) -> None:
    seen, plan = gpus.run(*options)
    assert plan is not None
    assert plan.decision == "place"
    assert all(place.gpus == () for place in plan.places)
    # Slurm gives the one GPU of a node that it likes; nobody makes it another.
    assert all(("," not in rank.cuda) and bool(rank.cuda) == bool(options) for rank in seen.values())
