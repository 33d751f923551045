"""A healthy site has no finding; each planted fault is found by its name, and nothing else is."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from slurm_topo.cli.main import cli
from slurm_topo.config import Settings
from slurm_topo.doctor.check import check
from slurm_topo.doctor.conf import read_slurm_conf
from slurm_topo.doctor.finding import Finding, exit_code
from slurm_topo.doctor.hardware import Hardware
from slurm_topo.doctor.node_checks import check_gres
from slurm_topo.doctor.site_checks import probe
from slurm_topo.errors import InputError, SlurmError
from slurm_topo.machine.shape import NodeClass

ROOT = Path(__file__).resolve().parents[3]
SLURM_CONF = """
ClusterName=test
SlurmctldHost=login
SlurmUser=root
JobSubmitPlugins=lua
PluginDir={folder}/plugins
PlugStackConfig={folder}/plugstack.conf
TaskPlugin=task/affinity,task/cgroup
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
AccountingStorageType=accounting_storage/slurmdbd
TopologyPlugin=topology/tree
TmpFS={folder}/tmp/%n
Include nodes.conf
PartitionName=all Nodes=ALL Default=YES
"""
NODES = """
NodeName=DEFAULT Sockets=2 CoresPerSocket=4 \\
  ThreadsPerCore=2   # as the firmware has it
NodeName=n[1-2] RealMemory=1000
NodeName=n[3-4] RealMemory=1000
"""
TOPOLOGY = "SwitchName=s1 Nodes=n[1-2]\nSwitchName=s2 Nodes=n[3-4]\nSwitchName=top Switches=s[1-2]\n"


@dataclass(frozen=True)
class Site:
    folder: Path
    settings: Settings

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)

    def edit(self, name: str, old: str, new: str) -> None:
        text = (self.folder / name).read_text()
        assert old in text
        self.write(name, text.replace(old, new))

    def names(self, **changes: str) -> list[str]:
        return [finding.name for finding in self.findings(**changes)]

    def findings(self, **changes: str) -> tuple[Finding, ...]:
        settings = replace(self.settings, **changes) if changes else self.settings
        return check(
            settings, str(self.folder / "slurm.conf"), str(self.folder / "hw"), run=scontrol
        ).findings


def scontrol(argv: object, **_: object) -> str:
    return "slurm-wlm 22.05.8\n"


def build_plugin(path: Path, major: int = 22, minor: int = 5) -> None:
    """A shared object that says for which Slurm it is, as a plugin does."""
    number = major << 16 | minor << 8 | 8
    source = path.with_suffix(".c")
    source.write_text(f"const unsigned int plugin_version = {number}u;\n")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(path), str(source)], check=True)


@pytest.fixture(scope="session")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What takes time to make: the plugin and the hwloc XML of a node."""
    folder = tmp_path_factory.mktemp("parts")
    build_plugin(folder / "slurm_topo.so")
    build_plugin(folder / "slurm_topo_23.so", 23, 2)
    for name, text in {
        "node": "package:2 core:4 pu:2",
        "single": "package:1 core:8 pu:2",
        "flat": "package:2 core:4 pu:1",
    }.items():
        command = [
            "lstopo-no-graphics",
            "--input",
            text,
            "--output-format",
            "xml",
            str(folder / f"{name}.xml"),
        ]
        subprocess.run(command, check=True)
    return folder


@pytest.fixture
def site(tmp_path: Path, parts: Path) -> Site:
    for name in ("plugins", "tmp", "hw", "advice", "spool", "bin"):
        (tmp_path / name).mkdir()
    (tmp_path / "spool").chmod(0o1777)
    (tmp_path / "advice").chmod(0o755)
    (tmp_path / "plugins" / "job_submit_lua.so").touch()
    for node in ("n1", "n3"):
        shutil.copy(parts / "node.xml", tmp_path / "hw" / f"{node}.xml")
    shutil.copy(parts / "slurm_topo.so", tmp_path)
    (tmp_path / "hook" / "job_submit").mkdir(parents=True)
    (tmp_path / "hook" / "slurm_topo.lua").touch()
    (tmp_path / "bin" / "slurm-topo").write_text("#!/bin/sh\n")
    (tmp_path / "bin" / "slurm-topo").chmod(0o755)
    (tmp_path / "libslurm_topo_trace.so").touch()
    (tmp_path / "slurm-topo.toml").touch()
    settings = Settings(
        spool=str(tmp_path / "spool"), advice_dir=str(tmp_path / "advice"), kill_switch=str(tmp_path / "off")
    )
    found = Site(tmp_path, settings)
    found.write("slurm.conf", SLURM_CONF.format(folder=tmp_path))
    found.write("nodes.conf", NODES)
    found.write("topology.conf", TOPOLOGY)
    found.write("cgroup.conf", "ConstrainCores=yes\n")
    found.write("job_submit.lua", f'-- ours\nlocal ok = pcall(dofile, "{tmp_path}/hook/slurm_topo.lua")\n')
    found.write(
        "plugstack.conf",
        f"optional {tmp_path}/slurm_topo.so spool={tmp_path}/spool place={tmp_path}/bin/slurm-topo "
        f"tracer={tmp_path}/libslurm_topo_trace.so config={tmp_path}/slurm-topo.toml "
        f"kill_switch={tmp_path}/off deadline_ms=3000\n",
    )
    return found


def test_a_healthy_site_has_no_finding(site: Site) -> None:
    found = [f for f in site.findings() if f.name != "spool-local"]
    assert found == []
    assert exit_code(list(site.findings())) == 0


def edit(name: str, old: str, new: str) -> Callable[[Site], None]:
    return lambda site: site.edit(name, old, new)


def remove(name: str) -> Callable[[Site], None]:
    return lambda site: (site.folder / name).unlink()


def hardware(xml: str) -> Callable[[Site], None]:
    """Another machine in the place of n1."""

    def plant(site: Site) -> None:
        parts = next(Path(site.folder).parent.glob("parts*"))
        shutil.copy(parts / xml, site.folder / "hw" / "n1.xml")

    return plant


def other_plugin(site: Site) -> None:
    build_plugin(site.folder / "slurm_topo.so", 23, 2)


def long_ago(site: Site) -> None:
    then = time.time() - 5 * 86_400
    os.utime(site.folder / "advice", (then, then))


FAULTS: dict[str, Callable[[Site], object]] = {
    "job-submit-lua-off": edit("slurm.conf", "JobSubmitPlugins=lua", "JobSubmitPlugins=throttle"),
    "lua-plugin-missing": remove("plugins/job_submit_lua.so"),
    "job-submit-missing": remove("job_submit.lua"),
    "hook-not-called": lambda site: site.write("job_submit.lua", "-- slurm_topo.lua is for later\n"),
    "hook-missing": remove("hook/slurm_topo.lua"),
    "hook-unprotected": edit("job_submit.lua", "pcall(dofile, ", "dofile("),
    "task-plugin": edit("slurm.conf", "task/affinity,", ""),
    "tmp-fs-missing": edit("slurm.conf", "/tmp/%n", "/gone/%n"),
    "select-type": edit("slurm.conf", "select/cons_tres", "select/linear"),
    "select-threads": edit("slurm.conf", "CR_Core_Memory", "CR_CPU_Memory"),
    "accounting-off": edit("slurm.conf", "accounting_storage/slurmdbd", "accounting_storage/none"),
    "threads-per-core": edit("nodes.conf", "ThreadsPerCore=2", "ThreadsPerCore=4"),
    "sockets": hardware("single.xml"),
    "cores-per-socket": edit("nodes.conf", "CoresPerSocket=4", "CoresPerSocket=8"),
    "real-memory": edit("nodes.conf", "n[1-2] RealMemory=1000", "n[1-2] RealMemory=900000"),
    "topology-missing": remove("topology.conf"),
    "topology-unreadable": edit("topology.conf", "SwitchName=s2", "SwitchNam=s2"),
    "topology-unknown-node": edit("topology.conf", "n[1-2]", "n[1-2],n9"),
    "topology-node-left-out": edit("topology.conf", "n[3-4]", "n3"),
    "cgroup-cores": edit("cgroup.conf", "yes", "no"),
    "plugin-not-loaded": lambda site: site.write("plugstack.conf", "# optional slurm_topo.so\n"),
    "plugin-twice": lambda site: site.write(
        "plugstack.conf", (site.folder / "plugstack.conf").read_text() * 2
    ),
    "plugin-required": edit("plugstack.conf", "optional", "required"),
    "plugin-missing": remove("slurm_topo.so"),
    "plugin-damaged": lambda site: site.write("slurm_topo.so", "\x7fELF"),
    "plugin-other-slurm": other_plugin,
    "plugin-argument": edit("plugstack.conf", "deadline_ms", "deadline"),
    "plugin-place": lambda site: (site.folder / "bin/slurm-topo").chmod(0o644),
    "plugin-tracer": remove("libslurm_topo_trace.so"),
    "spool-differs": lambda site: (
        (site.folder / "other").mkdir(),
        site.edit("plugstack.conf", f"{site.folder}/spool", f"{site.folder}/other"),
    ),
    "spool-mode": lambda site: (site.folder / "spool").chmod(0o755),
    "advice-missing": lambda site: (site.folder / "advice").rmdir(),
    "advice-writable": lambda site: (site.folder / "advice").chmod(0o777),
    "advice-mode": lambda site: (
        site.edit("slurm.conf", "SlurmUser=root", "SlurmUser=nobody"),
        (site.folder / "advice").chmod(0o700),
    ),
    "sync-stale": long_ago,
    "kill-switch-on": lambda site: (site.folder / "off").touch(),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found_and_nothing_else(site: Site, name: str) -> None:
    FAULTS[name](site)
    found = [f for f in site.findings() if f.name != "spool-local"]
    assert {f.name for f in found} == {name}
    assert exit_code(found) in (1, 2)
    for finding in found:
        line = finding.line()
        assert "\n" not in line
        assert all((finding.where, finding.what, finding.why, finding.fix))


def test_spool_that_is_not_there(site: Site) -> None:
    assert "spool-missing" in site.names(spool=str(site.folder / "gone"))


def test_changed_topology_and_hardware(site: Site) -> None:
    site.write(
        "cluster.json",
        json.dumps(
            {
                "format": "slurm-topo-cluster",
                "version": 1,
                "classes": {"a": {"synthetic": "package:2 core:4 pu:1"}},
                "nodes": [{"names": "n[1-4]", "class": "a"}],
                "switches": [
                    {"name": "s1", "nodes": "n[1-3]"},
                    {"name": "s2", "nodes": "n4"},
                    {"name": "top", "switches": "s[1-2]"},
                ],
            }
        ),
    )
    names = site.names(cluster=str(site.folder / "cluster.json"))
    assert "topology-changed" in names
    assert names.count("node-changed") == 2
    site.write("cluster.json", "{")
    assert "cluster-damaged" in site.names(cluster=str(site.folder / "cluster.json"))
    assert "cluster-missing" in site.names(cluster=str(site.folder / "gone.json"))


# A node of two packages with four cores each, numbered alternately by the operating system, and two GPUs.
REAL = Hardware(
    source="n1.xml",
    packages=2,
    cores=8,
    threads=1,
    pus=8,
    memory_bytes=2**30,
    shape=NodeClass(
        pus=tuple((pu,) for pu in (0, 2, 4, 6, 1, 3, 5, 7)),
        numa=(0,) * 4 + (1,) * 4,
        groups=(("package", (0,) * 4 + (1,) * 4),),
    ),
    gpus=((0, 1, 2, 3), (4, 5, 6, 7)),
)


@pytest.mark.parametrize(
    ("gres", "nodes", "names"),
    [
        (
            "NodeName=n1 Name=gpu File=/dev/g0 Cores=0-3\nNodeName=n1 Name=gpu File=/dev/g1 Cores=4-7",
            "gpu:2",
            set(),
        ),
        ("AutoDetect=nvml", "gpu:2", set()),
        (
            "NodeName=n1 Name=gpu File=/dev/g0 Cores=0,2,4,6\n"
            "NodeName=n1 Name=gpu File=/dev/g1 Cores=1,3,5,7",
            "gpu:2",
            {"gres-numbering"},
        ),
        (
            "NodeName=n1 Name=gpu File=/dev/g0 Cores=4-7\nNodeName=n1 Name=gpu File=/dev/g1 Cores=0-3",
            "gpu:2",
            {"gpu-across-socket"},
        ),
        ("NodeName=n1 Name=gpu File=/dev/g[0-1] Cores=0-15", "gpu:2", {"gres-cores-outside"}),
        ("NodeName=n1 Name=gpu File=/dev/g0 Cores=0-3", "gpu:2", {"gres-count"}),
        ("AutoDetect=nvml", "gpu:a100:4", {"gpu-count"}),
        ("NodeName=n1 Name=gpu File=/dev/g0 Cores=x-y", "gpu:2", {"gres-unreadable"}),
        (None, "gpu:2", {"gres-missing"}),
    ],
)
def test_gpus(site: Site, gres: str | None, nodes: str, names: set[str]) -> None:
    site.edit("nodes.conf", "n[1-2] RealMemory=1000", f"n[1-2] Gres={nodes}")
    if gres is not None:
        site.write("gres.conf", gres + "\n")
    conf = read_slurm_conf(site.folder / "slurm.conf")
    assert {f.name for f in check_gres(conf, {"n1": REAL})} == names


def test_devices_are_confined_where_there_are_gpus(site: Site) -> None:
    site.edit("nodes.conf", "n[1-2] RealMemory=1000", "n[1-2] Gres=gpu:1")
    site.write("gres.conf", "AutoDetect=nvml\n")
    assert "cgroup-devices" in site.names()


def test_nodes_are_asked_what_they_see(site: Site) -> None:
    def srun(argv: list[str], **_: object) -> str:
        # A node with a spool of its own.
        for marker in Path(site.settings.spool).iterdir():
            marker.unlink()
        done = subprocess.run(argv[argv.index("sh") :], capture_output=True, text=True, check=True)
        return done.stdout + "n2 seen\n"

    lines: list[object] = []
    found = list(probe(["n1", "n2", "n3"], site.settings, lines, srun))  # type: ignore[arg-type]
    assert [f.name for f in found] == ["spool-not-shared", "probe-incomplete"]
    assert "2 of 3 nodes" in found[1].what
    assert not list(Path(site.settings.spool).iterdir())


def test_a_job_that_cannot_run_is_a_warning(site: Site) -> None:
    def broken(argv: list[str], **_: object) -> str:
        if argv[0] == "srun":
            raise SlurmError("srun: no answer within 60 s; check slurmctld")
        return "slurm 22.05.8"

    found = check(site.settings, str(site.folder / "slurm.conf"), None, ask_nodes=True, run=broken)
    assert [f.name for f in found.findings] == ["probe-failed"]


def run(site: Site, *arguments: str) -> tuple[int, str]:
    config = site.folder / "slurm-topo.toml"
    config.write_text(
        f'spool = "{site.settings.spool}"\nadvice_dir = "{site.settings.advice_dir}"\n'
        f'kill_switch = "{site.settings.kill_switch}"\n'
    )
    conf = [
        "--slurm-conf",
        str(site.folder / "slurm.conf"),
        "--hardware",
        str(site.folder / "hw"),
        "--offline",
    ]
    result = CliRunner().invoke(cli, ["--config", str(config), "doctor", *conf, *arguments])
    return result.exit_code, result.stdout


def test_the_command_says_it_for_people_and_for_monitoring(site: Site) -> None:
    code, text = run(site)
    assert code == 0
    assert "0 errors, 0 warnings" in text
    assert "hardware of 2 of 4 nodes known" in text
    (site.folder / "off").touch()
    assert run(site)[0] == 1
    (site.folder / "job_submit.lua").unlink()
    code, text = run(site, "--format", "json")
    found = json.loads(text)
    assert code == 2
    assert [f["name"] for f in found["findings"] if f["severity"] != "note"] == [
        "job-submit-missing",
        "kill-switch-on",
    ]


def test_settings_that_anybody_may_write(site: Site) -> None:
    run(site)
    (site.folder / "slurm-topo.toml").chmod(0o666)
    assert "settings-mode" in run(site)[1]


def test_no_slurm_conf_is_one_line(site: Site) -> None:
    (site.folder / "slurm.conf").unlink()
    with pytest.raises(InputError, match=r"slurm\.conf: cannot be read"):
        site.findings()


def test_every_finding_is_documented() -> None:
    page = (ROOT / "docs" / "doctor.md").read_text(encoding="utf-8")
    folder = ROOT / "slurm_topo" / "doctor"

    code = "".join(file.read_text(encoding="utf-8") for file in folder.glob("*.py"))
    names = set(re.findall(r'\*\("([a-z-]+)", "(?:error|warning|note)"', code))
    assert len(names) > 40
    assert [name for name in sorted(names) if f"`{name}`" not in page] == []
