"""A file that a command was told to write and that cannot be written: one rule for all commands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import click
import numpy as np
import pytest

from slurm_topo.cli.main import cli, main
from slurm_topo.errors import InputError
from slurm_topo.history.database import open_engine
from slurm_topo.machine import NodeShape, build_cluster, write_cluster
from slurm_topo.trace import build_graph
from slurm_topo.trace.graph_io import write_graph

OPTIONS = ("--output", "--plan", "--plot", "--export")
NODE = "NodeName=n1 CoresPerSocket=2 Sockets=1 ThreadsPerCore=1\n"
MATRIX = "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tNV4\t0-3\t0\nGPU1\tNV4\t X \t0-3\t0\n"
JOB = {
    "SLURM_JOB_ID": "7",
    "SLURM_JOB_NODELIST": "n1",
    "SLURM_TASKS_PER_NODE": "2",
    "SLURM_JOB_CPUS_PER_NODE": "2",
    "SLURM_NTASKS": "2",
    "SLURM_CPUS_PER_TASK": "1",
}


class Site:
    """Everything that the commands read."""

    def __init__(self, folder: Path) -> None:
        one = np.ones(16)
        ring = np.arange(16)
        for name, ranks in (("pair", 2), ("ring", 16)):
            graph = build_graph(ranks, ring[:ranks], (ring[:ranks] + 1) % ranks, one[:ranks], one[:ranks])
            write_graph(graph, folder / f"{name}.npz")
        self.graph, self.ring = str(folder / "pair.npz"), str(folder / "ring.npz")
        self.cluster = folder / "cluster.json"
        write_cluster(build_cluster([NodeShape("n1", cores_per_socket=2)]), self.cluster)
        (folder / "nodes.txt").write_text(NODE)
        (folder / "matrix.txt").write_text(MATRIX)
        self.nodes, self.matrix = str(folder / "nodes.txt"), str(folder / "matrix.txt")
        self.database = str(folder / "history.sqlite")
        # What has been simulated is kept there, whatever becomes of the result.
        self.elsewhere = str(folder.with_name(folder.name + "-campaign"))
        open_engine(self.database).dispose()


# Command and option: what else stands on the command line.
CASES: dict[str, Callable[[Site], list[str]]] = {
    "campaign --output": lambda s: ["--jobs", "10", "--no-sensitivity", "--folder", s.elsewhere],
    "compare --output": lambda s: ["--database", s.database],
    "doctor --output": lambda s: ["--offline", "--slurm-conf", s.nodes],
    "judge --output": lambda s: ["--graph", s.graph, "--machine", "tree:2/1"],
    "machine calibrate --output": lambda s: [str(s.cluster)],
    "machine capture --output": lambda s: [],
    "machine draw --output": lambda s: ["--synthetic", "core:2 pu:1"],
    "machine import --output": lambda s: [s.nodes],
    "place --output": lambda s: ["--graph", s.graph, "--machine", "tree:2/1"],
    "place --plan": lambda s: ["--graph", s.graph, "--allocation", "slurm"],
    "report --output": lambda s: ["--database", s.database],
    "trace import --output": lambda s: [s.graph],
    "trace run --output": lambda s: ["--", "true"],
    "trace scale --output": lambda s: ["-n", "32", s.ring],
    "trace show --export": lambda s: [s.graph],
    "trace show --plot": lambda s: [s.graph],
}
SUFFIX = {"trace show --plot": ".svg", "trace run --output": ".trace", "place --plan": ".plan"}


def options_of(command: click.Command, words: tuple[str, ...] = ()) -> Iterator[str]:
    """Every command with an option that names a file to write."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from options_of(below, (*words, name))
        return
    for parameter in command.params:
        yield from (" ".join((*words, o)) for o in parameter.opts if o in OPTIONS)


def test_every_command_that_writes_a_file_is_tried() -> None:
    assert sorted(options_of(cli)) == sorted(CASES)


@pytest.mark.parametrize("place", ["file as folder", "folder"])
@pytest.mark.parametrize("case", CASES)
def test_one_line_one_exit_code_and_nothing_left(
    case: str, place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if case == "trace show --plot":
        pytest.importorskip("matplotlib")
    site = Site(tmp_path)
    for name, value in JOB.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("SLURM_TOPO_CLUSTER", str(site.cluster))
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "scontrol").write_text("#!/bin/sh\necho 'JobId=7 Nodes=n1 CPU_IDs=0-1 Mem=0 GRES='\n")
    (tools / "scontrol").chmod(0o755)
    monkeypatch.setenv("PATH", str(tools), prepend=":")
    name = "target" + SUFFIX.get(case, ".npz")
    (tmp_path / "plain").write_text("untouched")
    target = tmp_path / "plain" / name if place == "file as folder" else tmp_path / name
    if place == "folder":
        target.mkdir()
        (target / "kept").write_text("untouched")
    before = sorted(tmp_path.rglob("*"))
    *command, option = case.split()
    with pytest.raises(SystemExit) as stop:
        main([*command, option, str(target), *CASES[case](site)])
    error = capsys.readouterr().err.splitlines()
    assert stop.value.code == InputError.exit_code, error
    assert len(error) == 1
    assert error[0].startswith(f"slurm-topo: {target}: ")
    assert sorted(tmp_path.rglob("*")) == before
    assert (tmp_path / "plain").read_text() == "untouched"
